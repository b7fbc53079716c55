package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Documents of a shop's people are tested by what they say: these read their code.

// snippet is a block of code in a document.
type snippet struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```")

// snippets are the blocks of code of a document, in order.
func snippets(t *testing.T, file string) (all []snippet) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", file)))(t)
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		all = append(all, snippet{block[1], block[2]})
	}
	return all
}

// taken has the snippets that a test took to run them.
var taken sync.Map

// take is the code of a snippet, for a test that runs it.
func (s snippet) take() string {
	taken.Store(s.text, true)
	return s.text
}

// elsewhere are the snippets that no test here runs, by something that each has.
var elsewhere = map[string]string{
	"cmd/sluice demo":         "TestDemo, and make test",
	"go get github.com":       "test/embed; and before the first release there is nothing to get",
	"pgstore\"      // Store": "test/embed",
	"@sluice/client":          "test/clients",
	"clients/typescript":      "test/clients: the same folder, linked",
	"import sluice.Sluice":    "test/clients",
	"sluice-client":           "test/clients compares it with the pom",
	"mvn -f clients/java":     "needs Maven and its plugins",
	"org.apache.rocketmq":     "needs RocketMQ's library, as the page says",
	"ToRocketMQ.java":         "the same; TestGuideFeedsAQueue has another producer",
	"<sluice-button":          "test/browser",
	"docker compose":          "TestCompose: the same processes, without Docker",
	"apt install":             "test/install installs the packages",
	"LoadCredential":          "systemd's own",
	"go install":              "test/install, of this tree",
	"sha256sum":               "there are no releases yet",
	"git clone":               "test/install makes the release of this tree",
	"sluicetest.Open":         "sluicetest, which compares it",
	"make referee":            "long; the tests of internal/referee run it in short",
}

// untaken are the snippets of English documents that nobody runs.
func untaken(root string) (all []string) {
	files, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, ".zh-CN.md") {
			continue
		}
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			_, ran := taken.Load(block[2])
			for has := range elsewhere {
				ran = ran || strings.Contains(block[2], has)
			}
			if !ran && block[1] != "json" && block[1] != "mermaid" {
				all = append(all, file+":\n"+block[2])
			}
		}
	}
	return all
}

// next takes the next snippet of a language, which must have this text, from the list.
func next(t *testing.T, from *[]snippet, language, with string) string {
	t.Helper()
	for len(*from) > 0 {
		s := (*from)[0]
		*from = (*from)[1:]
		if s.language == language && strings.Contains(s.text, with) {
			return s.take()
		}
	}
	t.Fatalf("there is no (further) snippet of %s with %q", language, with)
	return ""
}

// sh runs commands of a document in a folder, with these variables alone, and returns
// what they print.
func sh(t *testing.T, dir, commands string, env ...string) string {
	t.Helper()
	cmd := exec.Command("sh", "-eu", "-c", commands)
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s%s", err, commands, &out, &problems)
	}
	return out.String()
}

// walk is a document whose commands run as they stand there, one block after the other.
type walk struct {
	page  string
	has   []string // what tells its blocks from the page's others
	edits []string // for replaceAll: where a person waits or looks, and what this machine has instead
	wants []string // in what they print
}

// serving is what follows a server that a walk starts.
const serving = "& server=$!\ntrap 'kill $server; wait $server' EXIT\n" +
	"until curl -s $SLUICE_URL/readyz; do sleep 0.1; done\n"

// run runs the walk in a folder and at a port of its own, and returns what it prints.
func (w walk) run(t *testing.T) string {
	t.Helper()
	dir, addr := t.TempDir(), freeAddr(t)
	must.Succeed(t, os.Symlink(binary, filepath.Join(dir, "sluice")))
	page, script := snippets(t, w.page), ""
	for _, has := range w.has {
		script += next(t, &page, "sh", has)
	}
	script = strings.ReplaceAll(replaceAll(t, script, w.edits...), "127.0.0.1:8080", addr)
	out := sh(t, dir, script, append(pathOf(dir), "SLUICE_LISTEN="+addr, "SLUICE_URL=http://"+addr)...)
	for _, want := range w.wants {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %s:\n%s", want, out)
		}
	}
	return out
}

// First sales as documents show them. A script waits for an order where a person would look again.
func TestWalks(t *testing.T) {
	t.Parallel()
	servertest.Program(t, "redis", "redis-cli")
	redis := servertest.StartRedis(t)
	const until = "until ./sluice order list --sale "
	for _, w := range []walk{
		{
			page: "README.md", has: []string{"go build", "kill"},
			edits: []string{
				"kill $SERVER\n", "", // the trap does
				"go build -o sluice ./cmd/sluice\n", "", "./sluice serve &", "./sluice serve " + serving,
				"./sluice order list", until + "phone | grep -q alice; do sleep 0.01; done\n./sluice order list",
			},
			wants: []string{
				`{"order_id":"phone.`, `"sale_id":"phone","quantity":1,"status":"queued"}`, "pending", "Everything adds up.",
			},
		},
		{
			page: "docs/integrate.md", has: []string{"curl -X POST"},
			edits: []string{
				"URL=http://127.0.0.1:8080", "URL=$SLUICE_URL\n./sluice serve " + serving,
				"\nORDER=", "\n" + until + "mug | grep -q alice; do sleep 0.01; done\nORDER=",
			},
			wants: []string{`"state":"open"`, `"status":"queued"`, `"status":"paid"`, `"action":"pay"`, `"ok":true`},
		},
		{ // what its figures were measured with, and what measures others
			page: "docs/sizing.md", has: []string{"INFO memory", "sluice load"},
			edits: []string{
				"redis://127.0.0.1:6379 &\n", redis.URL() + " " + serving, "redis-cli", "redis-cli -u " + redis.URL(),
				"kill $SERVER\n", "", "100000", "1000", "--connections 1000", "--connections 20", "100ms", "1m",
			},
			wants: []string{"got one              1,000  accepted", "used_memory:", "rehearsal"},
		},
		articles,
	} {
		t.Run(w.page, func(t *testing.T) {
			t.Parallel()
			out := w.run(t)
			if w.page == articles.page {
				ids := regexp.MustCompile(`"order_id":"mug\.[0-9a-f]+"`).FindAllString(out, -1)
				if len(ids) != 4 || ids[0] != ids[1] {
					t.Errorf("orders %q: want alice's twice, bob's, carol's", ids)
				}
			}
		})
	}
}

// A page that starts something by its commands keeps its process id, and stops it at the end. What they
// write into a clone of the repository is ignored by git.
func TestWalksLeaveNothingBehind(t *testing.T) {
	started := regexp.MustCompile(`(?m)^[^#\n]* &(?: *#.*)?\n(?:([A-Z]+)=\$!)?`)
	const options = `--promises|--to|--data-dir|--config|-o|mkdir|mv \S+`
	written := regexp.MustCompile(`(?: > ?|(?:^|[ \n])(?:` + options + `) )([\w.-]*\w\.?\w*)`)
	named := regexp.MustCompile(`^(?:// |<!doctype html>\n<!-- )([\w.]+):`)
	inClone := regexp.MustCompile(`(?m)go build -o sluice |go run -C lab |\./sluice |^cd deploy$`)
	patterns := strings.Fields(read(t, "../../.gitignore"))
	ignored := func(file string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			match, err := filepath.Match(strings.Trim(pattern, "/"), file)
			return match && err == nil
		})
	}
	pages := must.Get(filepath.Glob("../../docs/*.md"))(t)
	for _, file := range append(pages, "../../README.md", "../../README.zh-CN.md") {
		page := strings.TrimPrefix(file, "../../")
		all := snippets(t, page)
		clone := slices.ContainsFunc(all, func(s snippet) bool { return inClone.MatchString(s.text) })
		var commands string
		for _, s := range all {
			var files [][]string
			if s.language == "sh" {
				commands += s.text
				files = written.FindAllStringSubmatch(s.text, -1)
			} else if name := named.FindStringSubmatch(s.text); name != nil {
				files = [][]string{name}
			}
			for _, name := range files {
				written := name[1]
				if strings.HasPrefix(s.text, "cd deploy\n") {
					written = "deploy/" + written
				}
				if clone && !ignored(written) {
					t.Errorf("%s writes %s, which .gitignore does not have", page, written)
				}
			}
		}
		for _, start := range started.FindAllStringSubmatch(commands, -1) {
			ends := regexp.MustCompile(`(?m)^(?:kill|wait)(?: -\d)?.* ?\$` + start[1] + `\b`)
			if start[1] == "" || !ends.MatchString(commands) {
				t.Errorf("%s does not stop what it starts: %s", page, start[0])
			}
		}
	}
}

// articles goes through all steps of the articles.
var articles = walk{
	page: "docs/articles.md", has: []string{"go build"},
	edits: []string{
		"kill $SERVER\n", "", "go build -o sluice ./cmd/sluice\n", "", "./sluice serve &", "./sluice serve " + serving,
		"curl -sI", "curl -i", "curl -si", "curl -i", // of what our own curl knows
		"curl -sN --max-time 1 $URL/v1/sales/mug/events || true", "",
		"sleep 1\n", "until ./sluice order list --sale mug | grep -q bob; do sleep 0.01; done\n",
		"sleep 2\n", "until curl -s $URL/v1/sales/mug | grep -q '\"available\":2'; do sleep 0.01; done\nsleep 1\n",
	},
	wants: []string{
		"opens in ", "state      open", `"code":"buyer_limit"`, `"code":"sold_out"`, "pending", "cancelled",
		"Cache-Control: public, max-age=60", "10 tries in 1s, over all servers", "in step", "Everything adds up.",
	},
}

// The Chinese pages have the same code as the English ones, but for comments and titles,
// and as many headings and rows of tables at least.
func TestChineseSnippetsAgree(t *testing.T) {
	comment := regexp.MustCompile(`(?m)[ \t]*(?:#|//) .*$`)
	title := regexp.MustCompile(`--title "[^"]*"`)
	// Of a page for customers: what stands between tags, its language, and the words of codes.
	words := regexp.MustCompile(`>[^<>{}\n]+<|<!-- .*-->|lang="[\w-]+"|(\w+): "[^"{}]*"`)
	pages, err := filepath.Glob("../../docs/*.zh-CN.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, file := range append(pages, "../../README.zh-CN.md") {
		page := strings.TrimPrefix(strings.TrimSuffix(file, ".zh-CN.md"), "../../")
		code := func(file string) (all []snippet) {
			for _, s := range snippets(t, file) {
				s.text = title.ReplaceAllString(comment.ReplaceAllString(s.text, ""), "--title T")
				if whole := strings.HasPrefix(s.text, "<!doctype html>"); whole {
					if chinese := strings.Contains(s.text, `<html lang="zh-CN">`); chinese != strings.Contains(file, ".zh-CN.") {
						t.Errorf("%s has a page in another language", file)
					}
					s.text = words.ReplaceAllString(s.text, "$1")
				}
				all = append(all, s)
			}
			return all
		}
		english, chinese := code(page+".md"), code(page+".zh-CN.md")
		parts := func(file string) int {
			prose := fenced.ReplaceAllString(read(t, filepath.Join("..", "..", file)), "")
			return len(regexp.MustCompile(`(?m)^(?:#+ |\|)`).FindAllString(prose, -1))
		}
		if here, there := parts(page+".zh-CN.md"), parts(page+".md"); here < there {
			t.Errorf("%s: %d headings and rows in English, %d in Chinese", page, there, here)
		}
		if len(english) != len(chinese) {
			t.Errorf("%s: %d snippets in English, %d in Chinese", page, len(english), len(chinese))
		}
		for i := range min(len(english), len(chinese)) {
			if english[i] != chinese[i] {
				t.Errorf("%s.md:\n%v\n%s.zh-CN.md:\n%v", page, english[i], page, chinese[i])
			}
		}
	}
}
