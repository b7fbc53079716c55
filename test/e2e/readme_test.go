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

	"github.com/sluicehq/sluice/internal/must"
)

// The first sale of the README: the script waits for the order where a person would
// look again.
func TestReadmeFirstSale(t *testing.T) {
	t.Parallel()
	runWalk(t, "README.md", []change{
		{"./sluice order list", `until ./sluice order list --sale phone | grep -q alice; do sleep 0.01; done
./sluice order list`},
	}, `{"order_id":"phone.`, `"sale_id":"phone","quantity":1,"status":"queued"}`, "pending", "Everything adds up.")
}

// The README's lines for a program with Sluice in it compile.
func TestReadmeEmbeds(t *testing.T) {
	t.Parallel()
	page, file := snippets(t, "README.md"), filepath.Join(t.TempDir(), "main.go")
	write(t, file, `package main

import (
	"context"
	"log"
	"net/http"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
)

func visitor(*http.Request) (sluice.BuyerID, error) { return "ann", nil }

func main() {
	ctx := context.Background()
`+next(t, &page, "go", "engine.Open")+"}\n")
	vet := exec.Command("go", "vet", file)
	vet.Dir = filepath.Join("..", "..")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// change is what a test does where a person does something else.
type change struct{ from, to string }

// runWalk runs the commands of a document as they stand there, but for its changes and
// the port. It returns what they print, which has all that is wanted.
func runWalk(t *testing.T, file string, changes []change, wants ...string) string {
	t.Helper()
	dir, addr := t.TempDir(), freeAddr(t)
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))
	script := firstSale(t, file)
	for _, c := range append(changes,
		change{"go build -o sluice ./cmd/sluice\n", ""}, // it is built
		change{"./sluice serve &\n", "./sluice serve & server=$!\ntrap 'kill $server; wait $server' EXIT\n"},
		change{"127.0.0.1:8080", addr},
	) {
		if !strings.Contains(script, c.from) {
			t.Fatalf("%s does not have %q", file, c.from)
		}
		script = strings.ReplaceAll(script, c.from, c.to)
	}
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SLUICE_LISTEN=" + addr, "SLUICE_URL=http://" + addr}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range wants {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %s:\n%s", want, out)
		}
	}
	return string(out)
}

// The Chinese pages have the same commands, but for what buyers read.
func TestChineseCommandsAgree(t *testing.T) {
	title := regexp.MustCompile(`--title "[^"]*"`)
	for _, page := range []string{"README", "docs/articles"} {
		english := title.ReplaceAllString(firstSale(t, page+".md"), "--title T")
		chinese := title.ReplaceAllString(firstSale(t, page+".zh-CN.md"), "--title T")
		if english != chinese {
			t.Errorf("%s.md:\n%s\n%s.zh-CN.md:\n%s", page, english, page, chinese)
		}
	}
}

// firstSale returns the commands of the first sale, without comments: the
// first block of sh that begins by building the binary.
func firstSale(t *testing.T, file string) string {
	t.Helper()
	page := snippets(t, file)
	var commands strings.Builder
	for line := range strings.Lines(next(t, &page, "sh", "go build")) {
		line, _, _ = strings.Cut(line, " #")
		if !strings.HasPrefix(line, "#") {
			commands.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return commands.String()
}

// curl is as much of that program as the README and the scripts need, for
// machines that lack it: -X METHOD, -H HEADER, -d BODY, -o FILE, -i and the URL.
func curl() {
	request, err := http.NewRequest("GET", "", nil)
	if err != nil {
		panic(err)
	}
	var body, target string
	show, out := false, os.Stdout
	for args := os.Args[1:]; len(args) > 0; args = args[1:] {
		switch option := args[0]; option {
		case "-i":
			show = true
			continue
		case "-X", "-H", "-d", "-o":
			args = args[1:]
			switch option {
			case "-X":
				request.Method = args[0]
			case "-H":
				name, value, _ := strings.Cut(args[0], ": ")
				request.Header.Set(name, value)
			case "-d":
				body = args[0]
			case "-o":
				if out, err = os.Create(args[0]); err != nil {
					panic(err)
				}
			}
		default:
			target = option
		}
	}
	if err := fetch(request, target, body, out, show); err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		os.Exit(7)
	}
}

func fetch(request *http.Request, target, body string, out io.Writer, show bool) (err error) {
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
		fmt.Fprintln(out, answer.Proto, answer.Status)
		if err := answer.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	_, err = io.Copy(out, answer.Body)
	return err
}
