package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What is typed, run or read is the same in both languages, so the tests that run the English snippets (test/e2e,
// test/clients, test/embed) have run the Chinese ones. Comments are a language's own, and so is the rest of a line
// after a word in Chinese.
func TestTranslationsHaveTheSameSnippets(t *testing.T) {
	root := filepath.Join("..", "..")
	chinese, err := filepath.Glob(filepath.Join(root, "docs", "*.zh-CN.md"))
	if err != nil || len(chinese) == 0 {
		t.Fatal("no translations: ", err)
	}
	short := []string{"referee.zh-CN.md"} // leaves some out
	for _, translation := range append(chinese, filepath.Join(root, "README.zh-CN.md")) {
		english := snippets(t, strings.Replace(translation, ".zh-CN", "", 1))
		for _, snippet := range snippets(t, translation) {
			i := slices.IndexFunc(english, func(other []string) bool { return slices.EqualFunc(snippet, other, sameLine) })
			if i < 0 {
				t.Errorf("%s: the English document has no such snippet:\n%s", translation, strings.Join(snippet, "\n"))
			} else {
				english = slices.Delete(english, i, i+1)
			}
		}
		if len(english) > 0 && !slices.Contains(short, filepath.Base(translation)) {
			t.Errorf("%s lacks snippets:\n%q", translation, english)
		}
	}
}

var (
	remark   = regexp.MustCompile(`(^|\s+)(#|//|--|\{#) .*$`)
	notASCII = regexp.MustCompile(`[^\x00-\x7f].*$`)
)

// sameLine compares as much as has no word in Chinese.
func sameLine(a, b string) bool {
	aHead, bHead := notASCII.ReplaceAllString(a, ""), notASCII.ReplaceAllString(b, "")
	if aHead == a && bHead == b {
		return a == b
	}
	return strings.HasPrefix(a, bHead) || strings.HasPrefix(b, aHead)
}

// snippets are the lines of each snippet of a document, without comments; the list of folders is none.
func snippets(t *testing.T, path string) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var snippet []string
	inside := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			if inside && len(snippet) > 0 && !strings.HasPrefix(snippet[0], "*.go ") {
				all = append(all, snippet)
			}
			inside, snippet = !inside, nil
			continue
		}
		line = strings.Join(strings.Fields(remark.ReplaceAllString(strings.TrimRight(line, "\n"), "")), " ")
		if inside && line != "" {
			snippet = append(snippet, line)
		}
	}
	return all
}
