// linter FOLDER SYSTEM... runs the checks of go vet over the module in a folder as
// it is built for some systems (values of GOOS), tests included; for this system
// also those of staticcheck that are on by default.
//
// go vet and staticcheck first compile every dependency, and then look into each of
// them, among them SQLite, a million lines: two minutes of processor time where
// caches are empty. linter reads types from source: for other systems it reads
// only the declarations of dependencies, for this one all but generated code that
// says nothing about ours.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: linter FOLDER SYSTEM...")
		os.Exit(2)
	}
	root, err := filepath.Abs(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := false
	for _, system := range os.Args[2:] {
		problems, err := check(root, system)
		if err != nil {
			problems = append(problems, err.Error())
		}
		for _, p := range problems {
			fmt.Fprintf(os.Stderr, "%s: %s\n", system, p)
		}
		failed = failed || len(problems) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check returns what is wrong with the packages of the module in the folder root,
// on a system.
func check(root, system string) (problems []string, err error) {
	ours := func(file string) bool { return strings.HasPrefix(file, root+string(os.PathSeparator)) }
	all, err := packages.Load(&packages.Config{
		Dir:  root,
		Mode: packages.LoadAllSyntax | packages.NeedModule, Tests: true,
		Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
			if file != nil && !ours(name) && (system != runtime.GOOS || generated(name)) {
				dropBodies(file)
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return nil, err
	}
	packages.Visit(all, nil, func(p *packages.Package) {
		own := len(p.GoFiles) > 0 && ours(p.GoFiles[0])
		if !own {
			p.Errors = nil // without bodies, imports are unused
		}
		p.IllTyped = len(p.Errors) > 0
		for _, e := range p.Errors {
			problems = append(problems, e.Error())
		}
	})
	if len(problems) > 0 {
		return problems, nil
	}
	analyzers := vet.Suite
	if system == runtime.GOOS {
		analyzers = slices.Concat(analyzers, defaults())
	}
	graph, err := checker.Analyze(analyzers, all, nil)
	if err != nil {
		return nil, err
	}
	ignored := ignores(all)
	// A package is analyzed with its tests and without: what one of them uses is used.
	used, idle := map[token.Position]bool{}, map[token.Position]string{}
	for act := range graph.All() {
		if act.Err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s: %v", act.Package.PkgPath, act.Analyzer.Name, act.Err))
		}
		if !act.IsRoot {
			continue
		}
		for _, d := range act.Diagnostics {
			at := act.Package.Fset.Position(d.Pos)
			if !ignored[place{at.Filename, at.Line, act.Analyzer.Name}] {
				problems = append(problems, fmt.Sprintf("%s: %s (%s)", at, d.Message, act.Analyzer.Name))
			}
		}
		if result, ok := act.Result.(unused.Result); ok {
			for _, o := range result.Used {
				used[o.Position] = true
			}
			for _, o := range result.Unused {
				idle[o.Position] = fmt.Sprintf("%s: %s %s is unused (U1000)", o.DisplayPosition, o.Kind, o.Name)
			}
		}
	}
	for at, problem := range idle {
		if !used[at] {
			problems = append(problems, problem)
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems), nil
}

// defaults are the analyzers that staticcheck runs if it is not configured.
func defaults() (all []*analysis.Analyzer) {
	for _, a := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers,
		[]*lint.Analyzer{unused.Analyzer}) {
		if !a.Doc.NonDefault {
			all = append(all, a.Analyzer)
		}
	}
	return all
}

// place is a line where a check finds something.
type place struct {
	file  string
	line  int
	check string
}

// ignores are the lines below comments like "lint:ignore SA2001 why", and those
// that end with one.
func ignores(all []*packages.Package) map[place]bool {
	found := map[place]bool{}
	for _, p := range all {
		for _, file := range p.Syntax {
			for _, group := range file.Comments {
				for _, c := range group.List {
					words := strings.Fields(strings.TrimPrefix(c.Text, "//lint:ignore "))
					if len(words) < 2 || !strings.HasPrefix(c.Text, "//lint:ignore ") {
						continue
					}
					at := p.Fset.Position(c.Pos())
					for check := range strings.SplitSeq(words[0], ",") {
						found[place{at.Filename, at.Line, check}] = true
						found[place{at.Filename, at.Line + 1, check}] = true
					}
				}
			}
		}
	}
	return found
}

// generated reports whether a file of a dependency was written by a program: SQLite,
// Redis's commands, the browser's protocol. What the analyzers learn of functions,
// such as that one does not return, matters for none of these.
func generated(file string) bool {
	return slices.ContainsFunc([]string{"/modernc.org/", "/internal/cmds/", "/cdproto@"}, func(module string) bool {
		return strings.Contains(filepath.ToSlash(file), module)
	})
}

// dropBodies leaves the declarations of a file. Generic functions and init must
// have bodies.
func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Type.TypeParams == nil && f.Name.Name != "init" && !generic(f.Recv) {
			f.Body = nil
		}
	}
}

// generic reports whether a receiver may be of a generic type.
func generic(receiver *ast.FieldList) bool {
	found := false
	if receiver != nil {
		ast.Inspect(receiver, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.IndexExpr, *ast.IndexListExpr:
				found = true
			}
			return !found
		})
	}
	return found
}
