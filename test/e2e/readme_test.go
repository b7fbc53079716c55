package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first sale of the README, as it stands there. Only the port is another,
// and the script waits for the order where a person would look again.
func TestReadmeFirstSale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	script := firstSale(t, "README.md")
	for _, change := range []struct{ from, to string }{
		{"go build -o sluice ./cmd/sluice\n", ""}, // it is built
		{"./sluice serve &\n", `./sluice serve & server=$!
trap 'kill $server; wait $server' EXIT
`},
		{"./sluice order list", `until ./sluice order list --sale phone | grep -q alice; do sleep 0.01; done
./sluice order list`},
		{"127.0.0.1:8080", addr},
	} {
		if !strings.Contains(script, change.from) {
			t.Fatalf("the README does not have %q", change.from)
		}
		script = strings.ReplaceAll(script, change.from, change.to)
	}
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SLUICE_LISTEN=" + addr, "SLUICE_URL=http://" + addr}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`{"order_id":"phone.`, `"sale_id":"phone","quantity":1,"status":"queued"}`, "pending", "Everything adds up.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %s:\n%s", want, out)
		}
	}
}

// The Chinese README has the same commands, but for what buyers read.
func TestReadmesAgree(t *testing.T) {
	title := regexp.MustCompile(`--title "[^"]*"`)
	english := title.ReplaceAllString(firstSale(t, "README.md"), "--title T")
	chinese := title.ReplaceAllString(firstSale(t, "README.zh-CN.md"), "--title T")
	if english != chinese {
		t.Errorf("README.md:\n%s\nREADME.zh-CN.md:\n%s", english, chinese)
	}
}

// firstSale returns the commands of the first sale, without comments: the
// first block of sh that begins by building the binary.
func firstSale(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```sh\ngo build")
	block, _, ended := strings.Cut("go build"+rest, "```")
	if !found || !ended {
		t.Fatalf("%s has no first sale", file)
	}
	var commands strings.Builder
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, " #")
		commands.WriteString(strings.TrimSpace(line) + "\n")
	}
	return commands.String()
}

// curl is as much of that program as the README and the scripts need, for
// machines that lack it: -X METHOD, -H HEADER, -d BODY, -i and the URL.
func curl() {
	request, err := http.NewRequest("GET", "", nil)
	if err != nil {
		panic(err)
	}
	var body, target string
	show := false
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		switch option := args[0]; option {
		case "-i":
			show = true
			continue
		case "-X", "-H", "-d":
			args = args[1:]
			switch option {
			case "-X":
				request.Method = args[0]
			case "-H":
				name, value, _ := strings.Cut(args[0], ": ")
				request.Header.Set(name, value)
			case "-d":
				body = args[0]
			}
		default:
			target = option
		}
	}
	if err := fetch(request, target, body, show); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(7)
	}
}

func fetch(request *http.Request, target, body string, show bool) (err error) {
	if request.URL, err = request.URL.Parse(target); err != nil {
		return err
	}
	if body != "" {
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext} // no proxy
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if show {
		fmt.Println(answer.Proto, answer.Status)
		if err := answer.Header.Write(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
