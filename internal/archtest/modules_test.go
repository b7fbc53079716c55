package archtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

const (
	// maxRequired bounds the modules that the product's go.mod asks for directly.
	maxRequired = 31
	// maxLinked bounds the modules of others in a program that embeds the engine with every backend.
	maxLinked = 39
)

// embedded are the packages that a program may import: the engine with every backend,
// and the client.
var embedded = []string{
	"./engine", "./client", "./lock/redislock", "./ledger/redisledger", "./store/pgstore", "./store/mysqlstore",
}

// What only tests and the lab need stands in the go.mod of their modules, and
// `go install MODULE@version` refuses a go.mod that replaces or excludes.
func TestModulesThatTheProductRequires(t *testing.T) {
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace, Exclude []any
	}
	must.Succeed(t, json.Unmarshal(goCommand(t, "mod", "edit", "-json"), &file))
	var direct []string
	for _, m := range file.Require {
		if !m.Indirect {
			direct = append(direct, m.Path)
		}
	}
	if len(direct) == 0 || len(direct) > maxRequired {
		t.Errorf("go.mod requires %d modules directly, want 1 to %d: %q", len(direct), maxRequired, direct)
	}
	if len(file.Replace)+len(file.Exclude) > 0 {
		t.Errorf("go.mod replaces %v and excludes %v", file.Replace, file.Exclude)
	}
}

// A program that embeds the engine links nothing that is for tests or the lab.
func TestModulesThatAnEmbedderLinks(t *testing.T) {
	args := append([]string{"list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}"}, embedded...)
	var modules []string
	for line := range strings.Lines(string(goCommand(t, args...))) {
		imported, from, _ := strings.Cut(strings.TrimSpace(line), " ")
		own, ours := within(imported)
		switch {
		case from == "": // the standard library
		case ours:
			if matchesAny(append(testPackages, "internal/loadgen"), own) || besideProduct(own) != "" {
				t.Errorf("an embedder links %s", imported)
			}
		case slices.ContainsFunc(testLibs, func(lib string) bool { return hasPrefix(imported, lib) }):
			t.Errorf("an embedder links %s, which is for tests only", imported)
		default:
			modules = append(modules, from)
		}
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	if len(modules) == 0 || len(modules) > maxLinked {
		t.Errorf("an embedder links %d modules, want 1 to %d: %q", len(modules), maxLinked, modules)
	}
}

// goCommand runs go in the product's module.
func goCommand(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return out
}
