// crossvet FOLDER SYSTEM... runs the checks of go vet over the module in a folder
// as it is built for other systems (values of GOOS), tests included.
//
// go vet first compiles every dependency for each system, among them SQLite, a
// million lines: minutes on a machine whose caches are empty. crossvet reads
// types from source, and of dependencies only the declarations.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crossvet FOLDER SYSTEM...")
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
			if file != nil && !ours(name) {
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
	graph, err := checker.Analyze(vet.Suite, all, nil)
	if err != nil {
		return nil, err
	}
	for act := range graph.All() {
		if act.Err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s: %v", act.Package.PkgPath, act.Analyzer.Name, act.Err))
		}
		for _, d := range act.Diagnostics {
			if act.IsRoot {
				problems = append(problems, fmt.Sprintf("%s: %s", act.Package.Fset.Position(d.Pos), d.Message))
			}
		}
	}
	return problems, nil
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
