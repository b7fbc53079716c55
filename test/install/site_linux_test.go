package install

import (
	"html"
	"io/fs"
	neturl "net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// TestSite makes the web site of the documents as `make site` does: each document is a
// page, each link of a page leads somewhere, and no page loads anything from another host.
func TestSite(t *testing.T) {
	top, dir := filepath.Join("..", ".."), t.TempDir()
	tool := filepath.Join(dir, "tool")
	run(t, top, "go", "-C", "lab", "build", "-o", tool, "./site")
	run(t, top, tool, ".", filepath.Join(dir, "site"))

	pages := map[string]string{} // what is in the site, by path; of pages their text
	root := os.DirFS(filepath.Join(dir, "site"))
	must.Succeed(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		pages[name] = string(text)
		return err
	}))
	documents, _ := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	for _, document := range documents {
		if name := "docs/" + strings.TrimSuffix(filepath.Base(document), ".md") + ".html"; pages[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	links := 0
	for name, text := range pages {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, link := range regexp.MustCompile(`(href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			u, err := neturl.Parse(html.UnescapeString(link[2]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" {
				if link[1] == "src" {
					t.Errorf("%s loads %s", name, link[2])
				}
				continue
			}
			links++
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			target, ok := pages[to]
			if !ok || u.Fragment != "" && !strings.Contains(target, ` id="`+u.Fragment+`"`) {
				t.Errorf("%s: %s leads nowhere", name, link[2])
			}
		}
		for _, word := range []string{"<script", "@import", "url("} {
			if strings.Contains(text, word) && !strings.Contains(text, "&lt;"+word[1:]) {
				t.Errorf("%s has %s", name, word)
			}
		}
	}
	if links < 1000 {
		t.Errorf("%d links", links)
	}
	if chinese := pages["docs/tutorial.zh-CN.html"]; !strings.Contains(chinese, `href="../docs/tutorial.html">English`) ||
		!strings.Contains(chinese, `href="../docs/faq.zh-CN.html"`) {
		t.Error("a Chinese page does not lead to its English one and to Chinese ones")
	}

	broken := t.TempDir()
	for _, text := range []string{"[b](gone.md)", "[b](#gone)", "![b](https://example.com/a.png)"} {
		must.Succeed(t, os.WriteFile(filepath.Join(broken, "README.md"), []byte("# A\n\n"+text+"\n"), 0o600))
		if out, err := exec.Command(tool, broken, filepath.Join(dir, "broken")).CombinedOutput(); err == nil {
			t.Errorf("%q: no problem: %s", text, out)
		}
	}
}
