// Package archtest holds rules of the product's module, and of lab and test beside
// it, as tests: the style of documents, and the import table:
//
//	domain <- ports <- policy <- adapters <- engine <- cmd
//
// A package that is not in the table fails. Change the table on purpose, and
// say why in the commit.
package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

const module = "github.com/sluicehq/sluice"

// root stands for the domain, the package in the module's root folder.
const root = "."

// A row says what the packages that match may import, outside of tests, besides
// the standard library. Patterns are folders; "x/..." is x and everything
// under it.
type row struct {
	packages string
	may      []string // packages of this module
	libs     []string // modules of others; "*" is any that is not reserved
}

// The first row that matches decides.
var table = []row{
	// Domain, and locks, which know nothing of it.
	{root, nil, nil},
	{"lock", nil, nil},

	// The JSON of the HTTP API, and helpers that no layer owns.
	{"api", []string{root}, nil},
	{"internal/archtest", nil, nil},
	{"internal/content", nil, nil},
	{"internal/disk", nil, nil},
	{"internal/figures", nil, nil},
	{"internal/garbage", nil, nil},
	{"internal/ordercsv", []string{"api"}, nil},
	{"internal/loglimit", nil, nil},
	{"internal/loop", nil, nil},
	{"internal/meters", []string{root}, nil},
	{"internal/metrics", []string{root, "internal/port"}, []string{"*"}},
	{"internal/must", nil, nil},
	{"internal/outbound", nil, nil},
	{"internal/servertest", nil, []string{"*"}},

	// Ports: what ledgers and stores do.
	{"internal/port", []string{root}, nil},

	// Policy.
	{
		"internal/admission",
		[]string{root, "internal/port", "internal/loop", "internal/meters"},
		[]string{"github.com/google/uuid", "github.com/puzpuzpuz/xsync/v4"},
	},
	{"internal/pipeline", []string{root, "internal/port", "internal/loop"}, nil},
	{"internal/settle", []string{root, "internal/port", "internal/audit", "internal/loop", "lock"}, nil},
	{"internal/audit", []string{root, "internal/port"}, nil},
	{"internal/notify", []string{root, "internal/port", "internal/loop", "internal/outbound", "lock"}, nil},
	{"internal/tickets", []string{root, "internal/outbound"}, nil},

	// Who asks. It knows buyers by their ids, and nothing else of the domain.
	{"internal/auth", []string{root}, []string{
		"github.com/go-jose/go-jose/v4", "github.com/maypok86/otter/v2", "golang.org/x/text",
	}},

	// Adapters. They never import each other.
	{"internal/ledgertest", []string{root, "internal/port"}, []string{"*"}},
	{"ledger/redisledger", []string{root, "internal/port"}, []string{"*"}},
	{"ledger/sqliteledger", []string{
		root, "internal/port", "internal/meters", "internal/disk", "internal/loop",
	}, []string{"*"}},
	{"internal/locktest", []string{"lock", "internal/must", "internal/servertest"}, nil},
	{"lock/redislock", []string{"lock"}, []string{"*"}},
	{"lock/storelock", []string{"internal/port", "lock"}, nil},
	{"internal/storetest", []string{root, "internal/port", "internal/must", "internal/servertest"}, []string{"*"}},
	{"internal/sqlcore", []string{root, "internal/port"}, []string{"*"}},
	{"store/sqlitestore", []string{root, "internal/port", "internal/sqlcore", "internal/disk"}, []string{"*"}},
	{"store/pgstore", []string{root, "internal/port", "internal/sqlcore"}, []string{"*"}},
	{"store/mysqlstore", []string{root, "internal/port", "internal/sqlcore"}, []string{"*"}},
	{"internal/curve", []string{root, "internal/port"}, nil},
	{"internal/condition", []string{root, "internal/figures"}, nil},
	{"internal/httpapi", []string{
		root, "internal/port", "api", "internal/admission", "internal/settle", "internal/auth", "internal/condition",
		"internal/curve", "internal/tickets", "internal/content", "internal/loglimit", "internal/meters", "internal/picture",
	}, nil},
	{"internal/picture", []string{root}, []string{"golang.org/x/image"}},
	{"internal/web", []string{root, "api", "clients/typescript", "internal/content", "internal/figures"}, []string{
		"github.com/maypok86/otter", "github.com/microcosm-cc/bluemonday", "github.com/yuin/goldmark",
	}},

	// Who talks to a server.
	{"internal/console", []string{
		root, "api", "client", "internal/auth", "internal/condition", "internal/content", "internal/figures",
		"internal/ordercsv",
	}, nil},
	{"clients/typescript", nil, nil},
	{"client", []string{root, "api", "internal/tickets"}, nil},
	{"internal/loadgen", []string{root, "api", "internal/auth", "internal/tickets"}, []string{"*"}},

	// Composition.
	{"internal/config", []string{root, "engine", "internal/auth", "internal/httpapi"}, []string{"*"}},
	{"engine", []string{
		// SQLite alone is always linked; the other drivers are the program's to import.
		root, "internal/port", "api", "ledger/sqliteledger", "store/sqlitestore",
		"internal/admission", "internal/pipeline", "internal/settle", "internal/audit", "internal/notify", "internal/tickets",
		"internal/auth", "internal/httpapi", "internal/web", "internal/console", "internal/disk", "internal/loglimit",
		"internal/loop", "internal/metrics", "internal/condition", "internal/curve",
	}, []string{"*"}},

	// For the tests of shops.
	{"sluicetest", []string{"engine"}, nil},

	// Whole shops in simulated time.
	{"internal/world", []string{
		root, "engine", "client", "api", "internal/port", "ledger/sqliteledger", "store/sqlitestore",
	}, nil},

	// OpenTelemetry's messages, for the binary alone.
	{"internal/otlp", []string{"engine", "internal/loop"}, []string{"*"}},
	{"internal/demo", []string{
		root, "engine", "client", "api", "internal/auth", "internal/figures", "internal/loadgen",
	}, nil},

	// Programs.
	{"cmd/sluice", []string{
		root, "engine", "client", "api", "internal/...", "ledger/redisledger", "store/pgstore", "store/mysqlstore",
	}, []string{"*"}},
	{"examples/...", []string{root, "engine"}, nil},

	// The modules beside the product: it imports nothing of them.
	{"lab/bench", []string{
		root, "api", "client", "engine", "ledger/...", "store/...", "internal/...", "lab/internal/...",
	}, []string{"*"}},
	{"lab/articles", []string{
		"lab/internal/...", "internal/figures", "internal/servertest",
	}, []string{"*"}},
	{"lab/cast", nil, []string{"*"}},
	{"lab/compare", []string{"internal/figures", "lab/internal/table"}, nil},
	{"lab/handler", nil, nil}, // tests and benchmarks
	{"lab/referee", []string{"lab/internal/referee"}, nil},
	{"lab/release", nil, []string{"*"}},
	{"lab/site", nil, []string{"*"}},
	{"lab/internal/crowd", []string{root}, nil},
	{"lab/internal/floor", []string{
		root, "internal/port", "internal/admission", "internal/loop", "lab/internal/crowd", "store/pgstore",
	}, []string{"*"}},
	{"lab/internal/machine", []string{"internal/servertest"}, nil},
	{"lab/internal/table", nil, nil},
	{"lab/internal/method", []string{
		root, "api", "engine", "internal/loadgen", "ledger/redisledger", "store/pgstore",
	}, []string{"*"}},
	{"lab/internal/plot", []string{"internal/figures"}, nil},
	{"lab/internal/referee", nil, nil}, // judges any shop, so it shares no line with this one
	{"test/...", nil, nil},
}

// The modules beside the product that are judged with it.
var modules = []string{"lab", "test"}

// Reserved libraries, and the packages that alone may import them, tests
// included.
var reserved = []row{
	{"github.com/spf13/cobra", []string{"cmd/..."}, nil},
	{"charm.land/fang/v2", []string{"cmd/..."}, nil},
	{"charm.land/lipgloss/v2", []string{"cmd/..."}, nil},
	{"charm.land/bubbletea/v2", []string{"cmd/..."}, nil},
	{"charm.land/bubbles/v2", []string{"cmd/..."}, nil},
	{"go.opentelemetry.io", []string{"internal/otlp"}, nil},
}

// For tests only: imported by test files and by each other, by nothing else.
var (
	testPackages = []string{
		"internal/ledgertest", "internal/locktest", "internal/storetest", "internal/must", "internal/servertest",
		"internal/world", "sluicetest",
	}
	testLibs = []string{
		"testing", "github.com/google/go-cmp", "github.com/anishathalye/porcupine",
		"go.uber.org/goleak", "github.com/rogpeppe/go-internal", "github.com/standard-webhooks/standard-webhooks",
		"github.com/getkin/kin-openapi", "github.com/golang-jwt/jwt", "golang.org/x/mod",
	}
)

// Programs that start real servers, like a test.
var startsServers = []string{"lab/articles", "lab/bench", "lab/internal/machine"}

func TestImportTable(t *testing.T) {
	imports := must.Get(imports(filepath.Join("..", "..")))(t)
	if len(imports) == 0 {
		t.Fatal("no Go files found")
	}
	used := map[*string]bool{}
	for _, imp := range imports {
		if why := judge(imp); why != "" {
			t.Errorf("%s imports %s: %s", imp.file, imp.path, why)
		}
		markUsed(used, imp)
	}
	for i, r := range table {
		for j := range r.may {
			if !used[&table[i].may[j]] {
				t.Errorf("%s may import %s of this module, and does not: take it out of the table", r.packages, r.may[j])
			}
		}
		for j := range r.libs {
			if !used[&table[i].libs[j]] {
				t.Errorf("%s may import %s, and does not: take it out of the table", r.packages, r.libs[j])
			}
		}
	}
}

// markUsed marks the allowances that an import outside of tests needs.
func markUsed(used map[*string]bool, imp imported) {
	pkg := path.Dir(imp.file)
	rule := find(table, pkg)
	if rule == nil || strings.HasSuffix(imp.file, "_test.go") {
		return
	}
	own, ours := within(imp.path)
	first, _, _ := strings.Cut(imp.path, "/")
	for j := range rule.may {
		if ours && matches(rule.may[j], own) {
			used[&rule.may[j]] = true
		}
	}
	for j, lib := range rule.libs {
		if !ours && (hasPrefix(imp.path, lib) || lib == "*" && strings.Contains(first, ".")) {
			used[&rule.libs[j]] = true
		}
	}
}

// An imported path, and who imports it.
type imported struct {
	file string // relative to the module's root
	path string // as in the import declaration
}

// judge says what is wrong with an import, or nothing.
func judge(imp imported) string {
	pkg := path.Dir(imp.file)
	isTest := strings.HasSuffix(imp.file, "_test.go") || matchesAny(testPackages, pkg)
	rule := find(table, pkg)
	if rule == nil {
		return "the package is not in the import table"
	}
	if own, ok := within(imp.path); ok {
		switch {
		case matches("cmd/...", own) && !matches("cmd/...", pkg):
			return "nothing imports cmd"
		case besideProduct(own) != "" && besideProduct(own) != besideProduct(pkg):
			return "the product, and other modules, import nothing of " + besideProduct(own)
		case isTest:
			return ""
		case matchesAny(testPackages, own) && !matchesAny(startsServers, pkg):
			return "it is for tests only"
		case !matchesAny(rule.may, own):
			return fmt.Sprintf("%s may import of this module: %v", rule.packages, rule.may)
		}
		return ""
	}
	for _, r := range reserved {
		if hasPrefix(imp.path, r.packages) && !matchesAny(r.may, pkg) {
			return fmt.Sprintf("only %v may", r.may)
		}
	}
	if isTest {
		return ""
	}
	for _, lib := range testLibs {
		if hasPrefix(imp.path, lib) {
			return "it is for tests only"
		}
	}
	if first, _, _ := strings.Cut(imp.path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, lib := range rule.libs {
		if lib == "*" || hasPrefix(imp.path, lib) {
			return ""
		}
	}
	return fmt.Sprintf("%s may import of others: %v", rule.packages, rule.libs)
}

// within returns the folder of a package of this module.
func within(importPath string) (string, bool) {
	if importPath == module {
		return root, true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// besideProduct returns the module beside the product that has a package, or nothing.
func besideProduct(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	if slices.Contains(modules, first) {
		return first
	}
	return ""
}

func find(rows []row, pkg string) *row {
	for i := range rows {
		if matches(rows[i].packages, pkg) {
			return &rows[i]
		}
	}
	return nil
}

func matchesAny(patterns []string, pkg string) bool {
	for _, p := range patterns {
		if matches(p, pkg) {
			return true
		}
	}
	return false
}

func matches(pattern, pkg string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return hasPrefix(pkg, folder)
	}
	return pkg == pattern
}

// hasPrefix reports whether the path is prefix or below it.
func hasPrefix(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

// imports reads the import declarations of every Go file of these modules, for
// all build tags.
func imports(top string) ([]imported, error) {
	var all []imported
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(file, rel, d.Name())
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, imported{file: filepath.ToSlash(rel), path: p})
		}
		return nil
	})
	return all, err
}

// enter skips folders that hold no packages of the modules that are judged.
func enter(folder, rel, name string) error {
	if rel == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil && !slices.Contains(modules, rel) {
		return filepath.SkipDir
	}
	return nil
}

// TestJudge keeps the test above able to fail.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		file, path string
		ok         bool
	}{
		{"sale.go", "time", true},
		{"sale.go", "github.com/google/uuid", false},
		{"sale.go", module + "/internal/admission", false},
		{"sale_test.go", "github.com/google/go-cmp/cmp", true},
		{"internal/admission/batcher.go", module, true},
		{"internal/admission/batcher.go", module + "/internal/pipeline", false},
		{"internal/admission/batcher.go", "github.com/redis/rueidis", false},
		{"internal/audit/audit.go", "github.com/google/uuid", false},
		{"ledger/redisledger/claim.go", "github.com/redis/rueidis", true},
		{"ledger/redisledger/claim.go", module + "/internal/meters", false},
		{"ledger/redisledger/claim.go", module + "/ledger/sqliteledger", false},
		{"ledger/redisledger/claim.go", module + "/internal/ledgertest", false},
		{"ledger/redisledger/claim_test.go", module + "/internal/ledgertest", true},
		{"ledger/redisledger/claim.go", "testing", false},
		{"internal/ledgertest/model.go", "testing", true},
		{"store/pgstore/insert.go", module + "/store/sqlitestore", false},
		{"api/order.go", module + "/internal/httpapi", false},
		{"internal/httpapi/server.go", module + "/engine", false},
		{"client/client.go", module + "/internal/httpapi", false},
		{"engine/engine.go", module + "/store/sqlitestore", true},
		{"engine/engine.go", module + "/store/pgstore", false},
		{"engine/engine.go", module + "/cmd/sluice", false},
		{"engine/engine_test.go", module + "/cmd/sluice", false},
		{"engine/engine.go", "github.com/spf13/cobra", false},
		{"cmd/sluice/main.go", "github.com/spf13/cobra", true},
		{"cmd/sluice/main.go", module + "/ledger/redisledger", true},
		{"cmd/sluice/main.go", module + "/ledger/sqliteledger", false},
		{"cmd/sluice/main.go", module + "/internal/servertest", false},
		{"internal/loadgen/crowd.go", module + "/engine", false},
		{"internal/demo/demo.go", module + "/lab/internal/plot", false},
		{"internal/demo/demo_test.go", module + "/lab/internal/plot", false},
		{"lab/articles/report.go", module + "/lab/internal/plot", true},
		{"lab/referee/main.go", module + "/engine", false},
		{"test/e2e/main_test.go", module + "/lab/internal/plot", false},
		{"util/strings.go", "strings", false}, // not in the table
	} {
		if why := judge(imported{c.file, c.path}); (why == "") != c.ok {
			t.Errorf("%s imports %s: got %q, want ok %v", c.file, c.path, why, c.ok)
		}
	}
}
