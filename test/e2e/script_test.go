package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/text/width"
)

// TestScripts runs scripts/*.txtar: what a user types, and what comes back.
// Besides testscript's own commands there are these:
//
//	exits CODE PROGRAM...  like exec, and the exit code must be CODE
//	ready FILE             waits for a server's ready file, and sets SLUICE_URL
//	save NAME              sets a variable to the last standard output
//	json PATH=VALUE...     the last standard output is one JSON object with
//	                       these values; a step of a path is a field, an index,
//	                       or len for the length
//	sql FILE STATEMENT     edits an SQLite file; one row must change
//	until TEXT PROGRAM...  runs the program until its output has the text
//	fits N                 no line of the last output to the terminal takes
//	                       more than N of its cells
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "scripts",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": scriptExits, "ready": scriptReady, "save": scriptSave,
			"json": scriptJSON, "sql": scriptSQL, "until": scriptUntil, "fits": scriptFits,
		},
	})
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}

func scriptReady(ts *testscript.TestScript, _ bool, args []string) {
	scriptAwait(ts, "a ready server", func() bool {
		url, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Setenv("SLUICE_URL", strings.TrimSpace(string(url)))
		return err == nil
	})
}

func scriptSave(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func scriptUntil(ts *testscript.TestScript, _ bool, args []string) {
	scriptAwait(ts, "the output "+args[0], func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && strings.Contains(ts.ReadFile("stdout"), args[0])
	})
}

func scriptSQL(ts *testscript.TestScript, _ bool, args []string) {
	n, err := editSQLite(ts.MkAbs(args[0]), args[1])
	ts.Check(err)
	if n != 1 {
		ts.Fatalf("%d rows changed, want 1", n)
	}
}

func scriptFits(ts *testscript.TestScript, _ bool, args []string) {
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	for line := range strings.FieldsFuncSeq(ts.ReadFile("ttyout"), func(r rune) bool { return r == '\r' || r == '\n' }) {
		cells := 0
		for _, r := range line {
			cells++
			if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
				cells++
			}
		}
		if cells > most {
			ts.Fatalf("%d cells: %s", cells, line)
		}
	}
}

func scriptJSON(ts *testscript.TestScript, _ bool, args []string) {
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	decoder.UseNumber() // 1000 stays 1000
	ts.Check(decoder.Decode(&object))
	if decoder.More() {
		ts.Fatalf("more than one JSON value")
	}
	for _, arg := range args {
		path, want, _ := strings.Cut(arg, "=")
		if got := lookUp(object, path); got != want {
			ts.Fatalf("%s is %s, want %s", path, got, want)
		}
	}
}

// lookUp returns what stands at a path, as text; what is not there is "absent".
func lookUp(value any, path string) string {
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			found, ok := v[step]
			if !ok {
				return "absent"
			}
			value = found
		case []any:
			if step == "len" {
				return strconv.Itoa(len(v))
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return "absent"
			}
			value = v[i]
		default:
			return "absent"
		}
	}
	return fmt.Sprint(value)
}

// fatal lets await end a script, which has no testing.TB.
type fatal struct {
	testing.TB
	ts *testscript.TestScript
}

func (f fatal) Helper()                           {}
func (f fatal) Fatalf(format string, args ...any) { f.ts.Fatalf(format, args...) }

func scriptAwait(ts *testscript.TestScript, what string, holds func() bool) {
	await(fatal{ts: ts}, what, holds)
}
