package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluicehq/sluice/internal/must"
)

// maxColumns is the width of documents, of Go and of Lua. A tab counts as one column.
const maxColumns = 120

// TestStyle checks the documents: their width, their titles, and that the files,
// headings and tests they name exist. Files that comments of Go files name must
// exist, too; and Go and Lua have the same width.
func TestStyle(t *testing.T) {
	files := map[string]string{} // by path
	top := filepath.Join("..", "..")
	must.Succeed(t, filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files[rel] = ""
		if d.IsDir() && rel != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if slices.Contains([]string{".md", ".go", ".lua"}, path.Ext(rel)) {
			text, err := os.ReadFile(file)
			files[rel] = string(text)
			return err
		}
		return nil
	}))
	docs := 0
	for name, text := range files {
		if path.Ext(name) == ".md" {
			docs++
		}
		for _, fault := range faults(files, name, text) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	if docs < 10 {
		t.Errorf("%d documents found", docs)
	}
}

// faults returns what is wrong with the style of one of the files.
func faults(files map[string]string, name, text string) []string {
	var all []string
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, n := range wideLines(name, text) {
		fault("line %d has more than %d columns", n, maxColumns)
	}
	switch path.Ext(name) {
	case ".md":
		prose := fence.ReplaceAllString(text, "")
		if !strings.HasPrefix(prose, "# ") || len(headings(prose)[1]) != 1 {
			fault("a document begins with its title, \"# ...\", and has no other heading of that level")
		}
		if shown := argument.FindString(text); shown != "" {
			fault("%q: every user of the machine sees it; want passwords in the environment or a file", shown)
		}
		for _, span := range code.FindAllStringSubmatch(prose, -1) {
			if isPath(files, span[1]) && !exists(files, span[1]) {
				fault("`%s` does not exist", span[1])
			}
			if test.MatchString(span[1]) && !declared(files, span[1]) {
				fault("there is no test `%s`", span[1])
			}
		}
		for _, link := range link.FindAllStringSubmatch(prose, -1) {
			if why := follow(files, name, link[1]); why != "" {
				fault("%s: %s", link[1], why)
			}
		}
	case ".go":
		if name == "internal/archtest/style_test.go" {
			break // it names files of its own test
		}
		for _, comment := range comment.FindAllString(text, -1) {
			for _, file := range named.FindAllString(comment, -1) {
				if file = strings.TrimRight(file, "."); !exists(files, file) && !exists(files, file+"-*") {
					fault("a comment names %s, which does not exist", file)
				}
			}
		}
	}
	return all
}

// wideLines returns the numbers of lines that are too wide and can be broken. A
// tab and a narrow character take one column, a Chinese character takes two. In
// documents, code blocks, tables and images cannot be broken; in Go, raw strings.
// Nor can words without a space.
func wideLines(name, text string) []int {
	var wide []int
	inCode := false
	raw := rawLines(name, text)
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if path.Ext(name) == ".md" {
			if strings.HasPrefix(trimmed, "```") {
				inCode = !inCode
			}
			if inCode || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "![") ||
				strings.HasPrefix(trimmed, "<img") {
				continue
			}
		}
		if raw[i+1] {
			continue
		}
		columns := utf8.RuneCountInString(line)
		for _, r := range line {
			if r >= 0x2e80 {
				columns++
			}
		}
		if columns > maxColumns && strings.Contains(trimmed, " ") {
			wide = append(wide, i+1)
		}
	}
	return wide
}

// rawLines are the lines of a Go file that hold part of a raw string, which
// cannot be wrapped: by line number.
func rawLines(name, text string) map[int]bool {
	lines := map[int]bool{}
	if path.Ext(name) != ".go" {
		return lines
	}
	fset := token.NewFileSet()
	file := fset.AddFile(name, fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && lit[0] == '`' {
			first := file.Line(pos)
			for n := range strings.Count(lit, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```[^\n]*\n")
	code    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^(#+) +(.*)$`)
	slugged = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	comment = regexp.MustCompile(`(?m)(?:^|\s)//.*$`)
	named   = regexp.MustCompile(`\bdocs/[A-Za-z0-9/_.-]+|\b[A-Za-z0-9_/-]+\.(?:go|lua|sql|md)\b`)
	test    = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]\w*$`)
	// argument is a URL with a password in a command.
	argument = regexp.MustCompile(`--(?:store|ledger)[ =]\S+://[^/\s]*:[^/\s@]+@`)
	asPath   = regexp.MustCompile(`^[A-Za-z0-9_*-][A-Za-z0-9_./*-]*$`)
	sources  = []string{".go", ".md", ".lua", ".sql", ".js", ".sh", ".html", ".css", ".txtar"}
)

// isPath reports whether code in a document names a file or a folder of this
// module: it has the suffix of a source file, or begins with a folder.
func isPath(files map[string]string, span string) bool {
	first, _, isLong := strings.Cut(span, "/")
	_, isFolder := files[first]
	return asPath.MatchString(span) && (slices.Contains(sources, path.Ext(span)) || isLong && isFolder)
}

// exists reports whether a pattern matches a file or a folder: by its path from
// the module's root, or by its name alone.
func exists(files map[string]string, pattern string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	for file := range files {
		if !strings.Contains(pattern, "/") && file != root {
			if ok, _ := path.Match(pattern, path.Base(file)); ok {
				return true
			}
		}
		if ok, _ := path.Match(pattern, file); ok {
			return true
		}
	}
	return false
}

// declared reports whether a test file has the test.
func declared(files map[string]string, test string) bool {
	for name, text := range files {
		if strings.HasSuffix(name, "_test.go") && strings.Contains(text, "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}

// headings returns the headings of a document by their level.
func headings(prose string) map[int][]string {
	all := map[int][]string{}
	for _, h := range heading.FindAllStringSubmatch(prose, -1) {
		all[len(h[1])] = append(all[len(h[1])], h[2])
	}
	return all
}

// follow says why a link leads nowhere, or nothing. It makes the anchors of
// headings as GitHub does.
func follow(files map[string]string, from, to string) string {
	if strings.Contains(to, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	text, ok := files[target]
	if !ok {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	for _, level := range headings(fence.ReplaceAllString(text, "")) {
		for _, h := range level {
			slug := strings.ReplaceAll(slugged.ReplaceAllString(strings.ToLower(h), ""), " ", "-")
			if slug == anchor {
				return ""
			}
		}
	}
	return "there is no such heading"
}

// TestFaults keeps the test above able to fail.
func TestFaults(t *testing.T) {
	long := strings.Repeat("word ", 25)
	files := map[string]string{
		root: "", "docs": "", "docs/a.md": "# A\n\n## Sales & co.\n", "docs/adr": "", "docs/adr/0007-torn.md": "# T\n",
		"engine": "", "engine/engine.go": "", "order.go": "",
		"order_test.go": "package x\n\nfunc TestSteps(t *testing.T) {}\n",
	}
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"docs/b.md", "# B\n\nShort.\n", true},
		{"docs/b.md", "# B\n\n" + long + "\n", false},
		{"docs/b.md", "# B\n\n" + strings.Repeat("长", 55) + " " + strings.Repeat("长", 10) + "\n", false},
		{"docs/b.md", "# B\n\n| " + long + "|\n\n```\n" + long + "\n```\n", true},
		{"docs/b.md", "# B\n\n" + strings.ReplaceAll(long, " ", "-") + "\n", true},
		{"docs/b.md", "Text without a title.\n", false},
		{"docs/b.md", "# B\n\n# C\n", false},
		{"docs/b.md", "# B\n\n```sh\n# not a heading\n```\n", true},
		{"docs/b.md", "# B\n\n`engine/engine.go`, `engine/`, `engine/*.go`, `docs/*`, `order.go`, `engine.go`, " +
			"`text/plain`, `POST /v1`\n", true},
		{"docs/b.md", "# B\n\n`engine/gone.go`\n", false},
		{"docs/b.md", "# B\n\n`gone/engine.go`\n", false},
		{"docs/b.md", "# B\n\n`engine/gone`\n", false},
		{"docs/b.md", "# B\n\n`gone.go`\n", false},
		{"docs/b.md", "# B\n\n`TestSteps`\n", true},
		{"docs/b.md", "# B\n\n`TestGone`\n", false},
		{"docs/b.md", "# B\n\n[a](a.md), [a](a.md#sales--co), [b](#b), [o](../order.go), [e](https://example.com/a)\n", true},
		{"docs/b.md", "# B\n\n[a](gone.md)\n", false},
		{"docs/b.md", "# B\n\n```sh\nsluice serve --store postgres://s:secret@h/s\n```\n", false},
		{"docs/b.md", "# B\n\n`--ledger redis://:secret@h`\n", false},
		{"docs/b.md", "# B\n\n`--store postgres://s@h:1/s`, `SLUICE_STORE=postgres://s:secret@h/s`\n", true},
		{"docs/b.md", "# B\n\n[a](a.md#gone)\n", false},
		{"engine/x.go", "package x // see docs/a.md, docs/adr/0007.\n", true},
		{"engine/x.go", "package x // see docs/gone.md.\n", false},
		{"engine/x.go", "// See engine.go, engine/engine.go and docs/adr/0007.\npackage x\n", true},
		{"engine/x.go", "// See gone.go.\npackage x\n", false},
		{"lua/x.lua", "-- Short.\n", true},
		{"lua/x.lua", "-- " + long + "\n", false},
	} {
		files["docs/b.md"] = c.text
		if got := faults(files, c.name, c.text); (len(got) == 0) != c.ok {
			t.Errorf("%s, %q: got %q, want ok %v", c.name, c.text, got, c.ok)
		}
	}
}
