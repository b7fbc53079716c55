package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The walk through all steps of docs/articles.md, as it stands there.
func TestArticlesWalk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	script := walk(t, "docs/articles.md")
	for _, change := range []struct{ from, to string }{
		{"go build -o sluice ./cmd/sluice\n", ""}, // it is built
		{"./sluice serve &", "./sluice serve & server=$!\ntrap 'kill $server; wait $server' EXIT\n"},
		{"curl -sI", "curl -i"}, // of what our own curl knows
		{"curl -si", "curl -i"},
		{"curl -sN --max-time 1 $URL/v1/sales/mug/events || true\n", ""},
		{"sleep 1\n", "until ./sluice order list --sale mug | grep -q bob; do sleep 0.01; done\n"},
		{"sleep 2\n", "until curl -s $URL/v1/sales/mug | grep -q '\"available\":2'; do sleep 0.01; done\nsleep 1\n"},
	} {
		if !strings.Contains(script, change.from) {
			t.Fatalf("the walk does not have %q", change.from)
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
	ids := regexp.MustCompile(`"order_id":"mug\.[0-9a-f]+"`).FindAllString(string(out), -1)
	if len(ids) != 4 || ids[0] != ids[1] {
		t.Errorf("orders %q: want alice's twice, bob's, carol's", ids)
	}
	for _, want := range []string{
		"opens in 1h0m0s", "state      open", `"code":"buyer_limit"`, `"code":"sold_out"`, "pending", "cancelled",
		"Cache-Control: public, max-age=60", "10 tries in 1s, over all servers", "in step", "Everything adds up.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output does not have %s:\n%s", want, out)
		}
	}
}

// The Chinese page has the same commands, but for what buyers read.
func TestArticlesAgree(t *testing.T) {
	title := regexp.MustCompile(`--title "[^"]*"`)
	english := title.ReplaceAllString(walk(t, "docs/articles.md"), "--title T")
	chinese := title.ReplaceAllString(walk(t, "docs/articles.zh-CN.md"), "--title T")
	if english != chinese {
		t.Errorf("docs/articles.md:\n%s\nits Chinese page:\n%s", english, chinese)
	}
}

// walk returns the commands of the walk, without comments.
func walk(t *testing.T, file string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(firstSale(t, file), "")
}
