package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// Every warning and error that a server logs is in the runbook, so that an operator
// who searches for the line finds what to do. Looked for is what stands before the
// first colon, comma or semicolon.
func TestLogLinesAreInTheRunbook(t *testing.T) {
	runbook := must.Get(os.ReadFile("../../docs/operating.md"))(t)
	lines := map[string]token.Position{}
	for _, folder := range []string{"engine", "internal", "ledger", "store", "cmd", "api"} {
		must.Succeed(t, logLines(filepath.Join("../..", folder), lines))
	}
	if len(lines) < 50 {
		t.Errorf("only %d lines are found: this test reads the code wrongly", len(lines))
	}
	for text, at := range lines {
		if !strings.Contains(string(runbook), text) {
			t.Errorf("%s: docs/operating.md says nothing of the log line %q", at, text)
		}
	}
}

// logLines adds what the packages below a folder log as warnings and errors: what
// loggers get, helpers called warn and tell, and loop.Trouble.
func logLines(folder string, lines map[string]token.Position) error {
	set, constants, found := token.NewFileSet(), map[string]ast.Expr{}, []ast.Expr{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{
			"demo", "servertest", "storetest", "ledgertest", "world", "testdata",
		}, entry.Name()) {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						constants[name.Name] = n.Values[i]
					}
				}
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && logs(called) {
					found = append(found, n.Args[0])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Begins" {
					found = append(found, n.Value)
				}
			}
			return true
		})
		return nil
	})
	for _, message := range found {
		if text := firstClause(literal(message, constants)); text != "" {
			lines[text] = set.Position(message.Pos())
		}
	}
	return err
}

// logs reports whether this is a logger's Warn or Error, or a helper's warn or tell.
func logs(called *ast.SelectorExpr) bool {
	switch called.Sel.Name {
	case "warn", "tell":
		return true
	case "Warn", "Error":
		switch on := called.X.(type) {
		case *ast.Ident:
			return strings.EqualFold(on.Name, "log")
		case *ast.SelectorExpr:
			return strings.EqualFold(on.Sel.Name, "log")
		}
	}
	return false
}

// literal is the text of an expression as far as it is written in the code.
func literal(e ast.Expr, constants map[string]ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X, constants) + literal(e.Y, constants)
	case *ast.Ident:
		if value, known := constants[e.Name].(*ast.BasicLit); known {
			return literal(value, nil)
		}
	}
	return ""
}

func firstClause(text string) string {
	if i := strings.IndexAny(text, ":;,"); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}
