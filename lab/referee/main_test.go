package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/referee"
)

// Most of a test is waiting for orders to stand still, so many run at a time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// judge runs the command and returns its report and its exit code.
func judge(t *testing.T, args ...string) (*referee.Report, int) {
	t.Helper()
	var out, said bytes.Buffer
	out.Grow(1 << 16)
	code := run(t.Context(), append([]string{"-json", "-dir", t.TempDir()}, args...), &out, &said)
	r := &referee.Report{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out.String(), said.String())
	}
	return r, code
}

// The sample does wrong in known numbers, and the referee finds exactly these.
func TestFaulty(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for _, planted := range []map[string]int{
		{},
		{"oversell": 7, "twice": 3},
		{"undersell": 4, "lose": 6},
		{"lose": 25, "unasked": 2, "change": 3},
		{"oversell": 1, "lose": 2, "twice": 3, "change": 4, "unasked": 5},
	} {
		for seed := range seeds {
			t.Run(fmt.Sprint(strings.Trim(fmt.Sprint(planted), "map[]"), " seed:", seed), func(t *testing.T) {
				t.Parallel()
				findPlanted(t, seed, planted)
			})
		}
	}
}

func findPlanted(t *testing.T, seed uint64, planted map[string]int) {
	t.Helper()
	args := []string{"-seed", fmt.Sprint(seed), "-buyers", "600", "-units", "60"}
	for _, fault := range []string{"oversell", "undersell", "lose", "twice", "change", "unasked"} {
		args = append(args, "-set", fmt.Sprintf("%s=%d", fault, planted[fault]))
	}
	r, code := judge(t, append(args, "../../examples/faulty/referee.json")...)
	v := r.Rounds[0].Verdict
	if want := min(len(planted), 1); code != want || v == nil {
		t.Fatalf("exit %d, want %d: %+v", code, want, r)
	}
	for fault, found := range map[string]referee.Finding{
		"oversell": v.Oversold, "undersell": v.Undersold, "lose": v.Lost,
		"twice": v.Twice, "change": v.Changed, "unasked": v.Unasked,
	} {
		if found.Count != planted[fault] {
			t.Errorf("%s: found %d, planted %d: %q", fault, found.Count, planted[fault], found.Evidence)
		}
	}
}

// Sluice is clean while its parts are killed. The files are those of the
// documentation.
func TestSluice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, needs string }{{"sluice.json", ""}, {"sluice-redis.json", "redis-server"}} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.needs); err != nil && c.needs != "" {
				servertest.Unavailable(t, "redis", err.Error())
			}
			r, code := judge(t, "-buyers", "1500", "-units", "100", "../../examples/referee/"+c.file)
			if v := r.Rounds[0].Verdict; code != clean || v == nil || v.Orders != 100 || v.Undecided > 0 || len(v.Faults) < 5 {
				text, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("exit %d: %s", code, text)
			}
		})
	}
}

// What cannot be judged ends with its own exit code and says why.
func TestNotJudged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "adapter.json")
	text := must.Get(os.ReadFile("../../examples/faulty/referee.json"))(t)
	root := must.Get(filepath.Abs("../.."))(t)
	text = bytes.Replace(text, []byte(`"folder": "../.."`), fmt.Appendf(nil, `"folder": %q`, root), 1)
	for _, c := range []struct {
		old, with string
		args      []string
		want      string
	}{
		{"", "", nil, "Usage: go run -C lab ./referee [flags] ADAPTER.json"},
		{"", "", []string{"-set", "oversell", file}, "want NAME=VALUE"},
		{"", "", []string{"-set", "oversel=1", file}, `"set" has no "oversel"; it has: change, lose`},
		{"", "", []string{"gone.json"}, "gone.json: no such file"},
		{`"means": "promise"`, `"means": "yes"`, []string{"-check", file}, `adapter.json: answers[0].means: "yes": want unknown, promise`},
		{`"folder": "`, `"folder": "/gone`, []string{"-check", file}, `adapter.json: folder: /gone`},
		{`["go", "build"`, `["sh", "-c", "echo no compiler >&2; exit 1"`, []string{file}, "referee: build: "},
		{`"{build}/faulty", "-listen"`, `"{build}/gone", "-listen"`, []string{file}, "Not judged: the shop does not start: shop: fork/exec"},
	} {
		must.Succeed(t, os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.with, 1)), 0o600))
		var out bytes.Buffer
		if code := run(t.Context(), c.args, &out, &out); code != notJudged || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: exit %d, want %q:\n%s", c.args, code, c.want, out.String())
		}
	}
}
