package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
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
		if len(english) > 0 {
			t.Errorf("%s lacks snippets:\n%q", translation, english)
		}
	}
}

// A Chinese document has each name of code that the English one has: what was written in
// English alone is missed.
func TestTranslationsHaveTheSameNames(t *testing.T) {
	fenced, span := regexp.MustCompile("(?ms)^ *```.*?^ *```"), regexp.MustCompile("`([^`]+)`")
	own := []string{"Idempotency-Key", "icr:order:<date>", "2026-11-27T18:00:00+01:00"} // and said otherwise there
	names := func(path string) (all []string) {
		text := must.Get(os.ReadFile(path))(t)
		for _, name := range span.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			all = append(all, strings.Join(strings.Fields(name[1]), " "))
		}
		return all
	}
	chinese := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", "*.zh-CN.md")))(t)
	for _, translation := range chinese {
		there := names(translation)
		for _, name := range names(strings.Replace(translation, ".zh-CN", "", 1)) {
			if !slices.Contains(there, name) && !slices.Contains(own, name) {
				t.Errorf("%s does not have `%s`", translation, name)
			}
		}
	}
}

var (
	remark   = regexp.MustCompile(`(^|\s+)(#|//|--|\{#) .*$`)
	language = regexp.MustCompile(`<html lang="[\w-]+"`) // of a page for customers
	notASCII = regexp.MustCompile(`[^\x00-\x7f].*$`)
)

// sameLine compares as much as has no word in Chinese.
func sameLine(a, b string) bool {
	b = strings.Replace(b, `<html lang="en">`, `<html lang="zh-CN">`, 1)
	aHead, bHead := notASCII.ReplaceAllString(a, ""), notASCII.ReplaceAllString(b, "")
	if aHead == a && bHead == b {
		return a == b
	}
	return strings.HasPrefix(a, bHead) || strings.HasPrefix(b, aHead)
}

// snippets are the lines of each snippet of a document, without comments; the list of folders is none.
func snippets(t *testing.T, path string) (all [][]string) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
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
		line = language.ReplaceAllString(line, "<html")
		line = strings.Join(strings.Fields(remark.ReplaceAllString(strings.TrimRight(line, "\n"), "")), " ")
		if inside && line != "" {
			snippet = append(snippet, line)
		}
	}
	return all
}
