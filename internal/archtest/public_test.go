package archtest

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// maxSymbols is how many lines `go doc -short` may have of the root package.
const maxSymbols = 130

// backends are the packages that a program imports for their drivers. They export what
// tests, the engine and the lab open them with, and nothing else.
var backends = map[string]string{
	"ledger/redisledger":  "Ledger Open Options",
	"ledger/sqliteledger": "Copied Copy Ledger Open Options",
	"store/mysqlstore":    "Open Options Store",
	"store/pgstore":       "Open Options Store",
	"store/sqlitestore":   "Copied Copy Open Options Store",
}

func TestSymbolsOfTheDomain(t *testing.T) {
	symbols := bytes.Count(goCommand(t, "doc", "-short", "."), []byte("\n"))
	if symbols == 0 || symbols > maxSymbols {
		t.Errorf("the root package has %d symbols, want 1 to %d: what users do not meet is internal", symbols, maxSymbols)
	}
}

// Whoever uses a public package can name every type in its signatures. A backend shows
// the ports to the packages of this repository, but has a list of what it exports.
func TestPublicPackages(t *testing.T) {
	files := map[string]string{} // of what the compiler knows of a package, by its path
	var public []string
	packages := goCommand(t, "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	for line := range strings.Lines(string(packages)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
		if own, ours := within(path); ours && !isInternal(own) && !matchesAny([]string{"cmd/...", "examples/..."}, own) {
			public = append(public, path)
		}
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	checked := 0
	for _, path := range public {
		pkg := must.Get(from.Import(path))(t)
		exported := slices.DeleteFunc(pkg.Scope().Names(), func(name string) bool { return !token.IsExported(name) })
		own, _ := within(path)
		if want, ok := backends[own]; ok {
			checked++
			if got := strings.Join(exported, " "); got != want {
				t.Errorf("%s exports %s; want %s", own, got, want)
			}
			continue
		}
		for _, name := range exported {
			for _, shown := range internalTypes(pkg.Scope().Lookup(name)) {
				t.Errorf("%s.%s shows %s, which users of the package cannot name", own, name, shown)
			}
		}
	}
	if checked != len(backends) || len(public) < checked+4 {
		t.Errorf("%d backends of %d found, among %v", checked, len(backends), public)
	}
}

// internalTypes returns the internal types in what an exported name shows: its type, and
// the exported fields and methods of one that it declares.
func internalTypes(shown types.Object) (found []string) {
	seen := map[types.Type]bool{}
	var look func(t types.Type)
	fieldsAndMethods := func(t types.Type) {
		methods := types.NewMethodSet(types.NewPointer(t))
		for method := range methods.Methods() {
			if method.Obj().Exported() {
				look(method.Type())
			}
		}
		look(t.Underlying())
	}
	look = func(t types.Type) {
		if t = types.Unalias(t); seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Named:
			if pkg := t.Obj().Pkg(); pkg != nil {
				if own, ours := within(pkg.Path()); ours && isInternal(own) {
					found = append(found, t.String())
				}
			}
			for arg := range t.TypeArgs().Types() {
				look(arg)
			}
		case *types.Struct:
			for field := range t.Fields() {
				switch {
				case field.Exported():
					look(field.Type())
				case field.Embedded(): // its fields are promoted
					look(field.Type().Underlying())
				}
			}
		case *types.Interface:
			for method := range t.Methods() {
				look(method.Type())
			}
			for embedded := range t.EmbeddedTypes() {
				look(embedded)
			}
		case *types.Signature:
			look(t.Params())
			look(t.Results())
			for param := range t.TypeParams().TypeParams() {
				look(param.Constraint())
			}
		case *types.Tuple:
			for v := range t.Variables() {
				look(v.Type())
			}
		case *types.Map:
			look(t.Key())
			look(t.Elem())
		case *types.Union:
			for term := range t.Terms() {
				look(term.Type())
			}
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			look(t.Elem())
		}
	}
	look(shown.Type())
	if _, ok := shown.(*types.TypeName); ok {
		fieldsAndMethods(types.Unalias(shown.Type()))
	}
	return found
}

// isInternal reports whether Go lets only this repository import a package.
func isInternal(own string) bool { return slices.Contains(strings.Split(own, "/"), "internal") }
