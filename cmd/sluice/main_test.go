package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/internal/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with testdata/name.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		must.Succeed(t, os.MkdirAll("testdata", 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; -update rewrites it:\n%s", path, d)
	}
}

// safeBuffer is read while a command still writes to it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// outcome is what a command leaves behind.
type outcome struct {
	code        int
	out, stderr string
}

// command runs a command line to its end.
func command(t *testing.T, environ []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr safeBuffer
	code := run(ctx, args, strings.NewReader(""), &stdout, &stderr, environ)
	if strings.Contains(stderr.String(), "goroutine ") {
		t.Errorf("%v: a stack trace: %s", args, stderr.String())
	}
	return outcome{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed, and returns its output.
func ok(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	got := command(t, environ, args...)
	if got.code != exitOK {
		t.Fatalf("sluice %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.stderr)
	}
	return got.out
}

// okJSON is ok with --json, decoded.
func okJSON[T any](t *testing.T, environ []string, args ...string) T {
	t.Helper()
	out := ok(t, environ, append(args, "--json")...)
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("sluice %s: want one JSON object on one line, have %v: %s", strings.Join(args, " "), err, out)
	}
	return v
}

func TestHelp(t *testing.T) {
	var all strings.Builder
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		help := ok(t, nil, append(path, "--help")...)
		for line := range strings.Lines(help) {
			if lipgloss.Width(line) > usualColumns {
				t.Errorf("%s: %d cells: %s", cmd.CommandPath(), lipgloss.Width(line), line)
			}
		}
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		if !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		all.WriteString("$ " + strings.Join(append([]string{"sluice"}, path...), " ") + " --help\n")
		all.WriteString(help + "\n")
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit((&app{stdout: io.Discard, stderr: io.Discard}).root())
	golden(t, "help", all.String())
}

func TestUsageIsExit1(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	good := []string{
		"sale", "create", "--title", "T", "--price", "1", "--total", "1", "--admin-key", "k", "--url",
		"http://127.0.0.1:1",
	}
	with := func(more ...string) []string { return append(append([]string{}, good...), more...) }
	for _, tc := range []struct {
		args []string
		env  string
		want string
	}{
		{[]string{"slae"}, "", `sluice: unknown command "slae"; did you mean sale?`},
		{[]string{"frobnicate"}, "", `unknown command "frobnicate"; want admin, audit, backup, buyer, completion, config, dead-letter, demo`},
		{[]string{"sale", "opn"}, "", `sluice: sale: unknown command "opn"; did you mean open?`},
		{[]string{"config", "prnt"}, "", `did you mean print?`},
		{[]string{"doctor", "--help"}, "", `sluice: unknown command "doctor"; want admin, audit`},
		{[]string{"sale", "opn", "-h"}, "", `sluice: sale: unknown command "opn"; did you mean open?`},
		{[]string{"help", "slae"}, "", `sluice: unknown command "slae"; did you mean sale?`},
		{[]string{"serve", "--lisen", "x"}, "", "unknown flag: --lisen; did you mean --listen?"},
		{[]string{"--jsn"}, "", "unknown flag: --jsn; did you mean --json?"},
		{[]string{"serve", "--buyer-secret", "x"}, "", "unknown flag: --buyer-secret"},
		{[]string{"serve", "now"}, "", `sluice: serve: unexpected argument "now"`},
		{[]string{"sale", "--jsno", "--json", "show"}, "", `unknown flag: --jsno; did you mean --json?`},
		{[]string{"sale", "show"}, "", `sluice: sale show: SALE is missing`},
		{[]string{"sale", "show", "Not A Sale"}, "", `sale id "Not A Sale"`},
		{[]string{"order", "show", "x"}, "", `order "x": want <sale>.<32 hex digits>`},
		{[]string{"version"}, "SLUICE_LEDGR=x", "unknown variable SLUICE_LEDGR; did you mean SLUICE_LEDGER?"},
		{[]string{"config", "init"}, "SLUICE_LEDGR=x", "unknown variable SLUICE_LEDGR"},
		{[]string{"demo"}, "SLUICE_LEDGR=x", "unknown variable SLUICE_LEDGR"},
		{[]string{"serve"}, "SLUICE_STORE=oracle://h", `store "oracle://h" (from SLUICE_STORE): want sqlite:PATH`},
		{[]string{"serve", "--config", "/nowhere.yaml"}, "", "config file /nowhere.yaml: no such file"},
		{[]string{"serve"}, "SLUICE_CONFIG=/nowhere.yaml", "config file /nowhere.yaml: no such file"},
		{
			[]string{"serve", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"},
			"",
			`tls_cert "/nowhere" (from --tls-cert): cannot be read`,
		},
		{
			[]string{"sale", "list", "--url", "http://example.invalid"},
			"",
			"no admin key: give --admin-key or SLUICE_ADMIN_KEY",
		},
		{[]string{"sale", "list", "--url", "example.invalid"}, "", `url "example.invalid" (from --url)`},
		{[]string{"order", "list", "--limit", "0"}, "", "--limit: want 1 to 1000"},
		{[]string{"order", "list", "--status", "lost"}, "", `--status "lost": want one of queued, pending`},
		{[]string{"order", "list", "--sale", "S!"}, "", `--sale: sale id "S!"`},
		{[]string{"order", "pay", "x", "--payment-id", "p"}, "", `order "x": want <sale>.<32 hex digits>`},
		{[]string{"order", "pay", string(sampleOrder.OrderID)}, "", "--payment-id is missing"},
		{
			[]string{"order", "pay", string(sampleOrder.OrderID), "--payment-id", "p", "--currency", "CNY"},
			"",
			"--currency: goes with --amount",
		},
		{[]string{"order", "reject", string(sampleOrder.OrderID)}, "", "--reason is missing"},
		{[]string{"order", "cancel"}, "", "sluice: order cancel: ORDER is missing"},
		{[]string{"order", "history", "x"}, "", `order "x"`},
		{[]string{"order", "export", "--format", "xlsx"}, "", `--format "xlsx": want ndjson or csv`},
		{[]string{"order", "export", "--format", "csv", "--json"}, "", "--json and --format csv: want one or the other"},
		{[]string{"order", "export", "--status", "lost"}, "", `--status "lost": want one of queued, pending`},
		{[]string{"dead-letter", "list", "--sale", "S!"}, "", `--sale: sale id "S!"`},
		{[]string{"dead-letter", "replay", "seven"}, "", `dead letter "seven": want its number`},
		{[]string{"dead-letter", "show"}, "", "sluice: dead-letter show: ID is missing"},
		{[]string{"sale", "restock", "phone"}, "", "--delta: want a number of units, not 0"},
		{[]string{"sale", "restock", "S!", "--delta", "1"}, "", `sale id "S!"`},
		{[]string{"load"}, "", "SALE is missing; see"},
		{[]string{"dead-letter", "lst"}, "", "did you mean list?"},
		{[]string{"token", "--buyer", "b", "--data-dir", "/nowhere"}, "", "no buyer secret: set SLUICE_BUYER_SECRET"},
		{[]string{"token"}, "SLUICE_BUYER_SECRET=s", "sluice: --buyer is missing\n"},
		{[]string{"token", "--buyer", "b", "--ttl", "-1s"}, "SLUICE_BUYER_SECRET=s", "--ttl: want a time to live above 0"},
		{[]string{"load"}, "SLUICE_BUYER_SECRET=s", "SALE is missing; see"},
		{[]string{"token", "--buyer", ""}, "SLUICE_BUYER_SECRET=s", "--buyer: buyer id of 0 bytes"},
		{[]string{"load", "--sale", "S"}, "SLUICE_BUYER_SECRET=s", `--sale: sale id "S"`},
		{[]string{"load", "--sale", "s", "--tokens", "/nowhere"}, "", "/nowhere: no such file"},
		{[]string{"load", "--sale", "s", "--data-dir", "/nowhere"}, "", "no buyers' tokens: set SLUICE_BUYER_SECRET"},
		{[]string{"demo", "--stock", "-1"}, "", "--stock: want 0 to"},
		{[]string{"demo", "--buyers", "0"}, "", "--buyers: want at least 1"},
		{[]string{"demo", "--buyers", "many"}, "", `sluice: --buyers "many": want a whole number` + "\n"},
		{[]string{"load", "--buyers", "abc"}, "", `sluice: --buyers "abc": want a whole number` + "\n"},
		{[]string{"load", "--buyers", "99999999999999999999"}, "", "want a whole number that is smaller\n"},
		{[]string{"load", "--seed", "-1"}, "", `--seed "-1": want a whole number, 0 or more`},
		{[]string{"load", "--again", "half"}, "", `--again "half": want a number like 0.5`},
		{[]string{"load", "--duration", "30"}, "", `--duration "30": the unit is missing (write 30s, 30m or 30h)`},
		{[]string{"load", "--invited=perhaps"}, "", `--invited "perhaps": want true or false`},
		{
			[]string{"token", "--buyer", "b", "--ttl", "1d"},
			"",
			`--ttl "1d": there is no unit d (write 24h); want a duration like 250ms, 90s, 10m or 24h` + "\n",
		},
		{[]string{"token", "--buyer", "b", "--ttl", "long"}, "", `--ttl "long": want a duration`},
		{
			[]string{"serve", "--retention", "7d"},
			"",
			`retention "7d" (from --retention): there is no unit d (write 168h); want`,
		},
		{[]string{"demo", "--ledger", "foo:bar"}, "", `ledger "foo:bar" (from --ledger): want sqlite:PATH`},
		{[]string{"demo", "--payment-window", "3s"}, "", "--payment-window: goes with --lifecycle"},
		{[]string{"demo", "--lifecycle", "--payment-window", "1500ms"}, "", "--payment-window: want whole seconds"},
		{[]string{"demo", "--lifecycle", "--payment-window", "0s"}, "", "--payment-window: want whole seconds"},
		{[]string{"audit", "--sale", ""}, "", "--sale: sale id"},
		{[]string{"audit", "A sale"}, "", `sale id "A sale"`},
		{[]string{"audit", "a", "b"}, "", `unexpected argument "b"`},
		{[]string{"reconcile", "a", "--sale", "b"}, "", "want SALE or --sale, not both"},
		{good[:6], "", "--total is missing"},
		{with("--total", "-1"), "", "total: want 0 or more"},
		{with("--total", "x"), "", `--total: "x": want a whole number, or none`},
		{with("--price", "-1"), "", "price: amount -1"},
		{with("--price", "999.00"), "", `sluice: --price "999.00": want minor units, a whole number: 99900 for 999.00` +
			"\n"},
		{with("--price", "0.5"), "", "50 for 0.50\n"},
		{with("--list-price", "9,99"), "", `--list-price "9,99": want minor units, a whole number: 19900 for 199.00`},
		{
			[]string{"sale", "patch", "phone", "--list-price", "12.5", "--currency", "CNY"},
			"",
			`--list-price "12.5": want minor units, a whole number: 1250 for 12.50; or none`,
		},
		{with("--max-per-buyer", "0"), "", "max_per_buyer 0: want 1 to 1000000000000"},
		{with("--opens-at", "tomorrow"), "", `--opens-at "tomorrow": want a time`},
		{with("--opens-at", "none"), "", `--opens-at "none": want a time`},
		{
			with("--opens-at", "2099-11-22T12:00:00"), "",
			`the time zone is missing (add Z for UTC, or an offset like +08:00); want a time like `,
		},
		{with("--opens-at", "2099-13-22T12:00:00"), "", `there is no month 13; want`},
		{with("--opens-at", "2099-02-29T12:00:00Z"), "", `February 2099 has no day 29; want`},
		{with("--opens-at", "2099-02-28T24:00:00Z"), "", `there is no hour 24; want`},
		{with("--opens-at", "2099-02-28T23:60:00Z"), "", `there is no minute 60; want`},
		{with("--opens-at", "2099-02-28T23:59:60Z"), "", `there is no second 60; want`},
		{with("--opens-at", "2099-02-28"), "", `the time of day is missing (add T12:00:00Z); want`},
		{with("--opens-at", "2099-02-28T12:00Z"), "", `the seconds are missing (add :00); want`},
		{with("--opens-at", "2099-02-28 12:00:00Z"), "", `there is a space where T belongs; want`},
		{with("--opens-at", "2099-2-28T12:00:00Z"), "", `a digit is missing (write 05 for 5); want`},
		{with("--opens-at", "2099-02-28T12:00:00+0800"), "", `the time zone lacks its colon (write +08:00); want`},
		{with("--opens-at", "+1d"), "", `--opens-at "+1d": there is no unit d (write 24h); want a time like `},
		{with("--opens-at", "+10"), "", `the unit is missing (write 10s, 10m or 10h); want`},
		{with("--closes-at", "2099-11-22T12:00:00"), "", `--closes-at "2099-11-22T12:00:00": the time zone is missing`},
		{
			[]string{"sale", "patch", "phone", "--opens-at", "2099-11-22T12:00:00"},
			"",
			`--opens-at "2099-11-22T12:00:00": the time zone is missing`,
		},
		{[]string{"sale", "patch", "phone", "--opens-at", "none"}, "", `--opens-at "none": want a time`},
		{[]string{"sale", "patch", "phone", "--closes-at", "+1d"}, "", `--closes-at "+1d": there is no unit d (write 24h)`},
		{with("--opens-at", "+2h", "--closes-at", "+1h"), "", "closes_at: want a time after opens_at"},
		{with("--payment-window", "1500ms"), "", "--payment-window 1.5s: want whole seconds"},
		{with("--file", "x.json"), "", "--file and --price: want one or the other"},
		{with("--free"), "", "free: want a price of 0 with it, have 1 CNY"},
		{with("--title", "a\nb"), "", "title: want no control characters"},
		{with("--currency", "eur"), "", `currency "eur": did you mean EUR?`},
		{
			[]string{"sale", "create", "--file", "x.json", "--payment-window", "1m"},
			"",
			"--file and --payment-window: want one or the other",
		},
		{[]string{"sale", "create", "--file", "/nowhere.json"}, "", "/nowhere.json: no such file"},
		{[]string{"serve", "--data-dir", folder, "--ledger", "store"}, "", "want a store in PostgreSQL"},
	} {
		got := command(t, []string{tc.env}, tc.args...)
		if slices.Contains(tc.args, "--json") {
			var e failure
			if err := json.Unmarshal([]byte(got.stderr), &e); err != nil || e.ExitCode != exitUsage {
				t.Errorf("sluice %s: %s, %v", strings.Join(tc.args, " "), got.stderr, err)
			}
			got.stderr = e.Error + "\n"
		}
		if got.code != exitUsage || !strings.Contains(got.stderr, tc.want) || got.out != "" ||
			strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s sluice %s: exit %d\nhave %s%s\nwant %s", tc.env, strings.Join(tc.args, " "), got.code, got.out,
				got.stderr, tc.want)
		}
	}
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a server that does not start has made its folder: %v", err)
	}
}

func TestFailuresAreExit2(t *testing.T) {
	dir := t.TempDir()
	notDB := filepath.Join(dir, "not.db")
	must.Succeed(t, os.WriteFile(notDB, []byte(strings.Repeat("this is no database. ", 100)), 0o600))
	for name, args := range map[string][]string{
		"no listener": {"sale", "list", "--admin-key", "k", "--url", "http://127.0.0.1:1"},
		"no Redis":    {"serve", "--data-dir", dir, "--ledger", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0"},
		"no PostgreSQL": {
			"serve", "--data-dir", dir, "--store", "postgres://u:geheim@127.0.0.1:1/d", "--listen",
			"127.0.0.1:0",
		},
		"no database":      {"serve", "--data-dir", dir, "--store", "sqlite:" + notDB, "--listen", "127.0.0.1:0"},
		"folder is a file": {"serve", "--data-dir", notDB, "--listen", "127.0.0.1:0"},
		"nothing to audit": {"audit", "--data-dir", filepath.Join(dir, "nowhere")},
		"foreign address":  {"serve", "--data-dir", dir, "--listen", "192.0.2.1:1"},
		"ready file nowhere": {
			"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--ready-file",
			filepath.Join(dir, "no", "where"),
		},
		"load without server": {"load", "--sale", "s", "--url", "http://127.0.0.1:1"},
	} {
		got := command(t, []string{"SLUICE_BUYER_SECRET=0123456789abcdef0123456789abcdef"}, args...)
		if got.code != exitFailed || !strings.HasPrefix(got.stderr, "sluice: ") {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.stderr)
		}
		if strings.Count(got.stderr, "\n") > 1 || strings.Contains(got.stderr, "geheim") {
			t.Errorf("%s: want one sentence without secrets: %s", name, got.stderr)
		}
	}
}

type panicky struct{}

func (panicky) Write([]byte) (int, error) { panic("a bug") }

func TestABugIsOneSentence(t *testing.T) {
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"version"}, nil, panicky{}, &stderr, nil)
	if code != exitFailed || stderr.String() != "sluice: unexpected error, please report it: a bug\n" {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}

// A command that finds its arguments wrong before it runs exits 1, as the parser of flags does.
func TestOnlyWhatRanHasFailed(t *testing.T) {
	for _, tc := range []struct {
		want   int
		change func(*cobra.Command)
	}{
		{exitFailed, func(cmd *cobra.Command) {
			cmd.RunE = func(*cobra.Command, []string) error { return errors.New("x") }
		}},
		{exitUsage, func(cmd *cobra.Command) { cmd.MarkFlagsOneRequired("json") }},
		{exitUsage, func(cmd *cobra.Command) {
			cmd.PreRunE = func(*cobra.Command, []string) error { return errors.New("x") }
		}},
	} {
		cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return nil }}
		cmd.Flags().Bool("json", false, "")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(nil)
		tc.change(cmd)
		strict(cmd)
		if err := cmd.Execute(); err == nil || exitOf(err) != tc.want {
			t.Errorf("%v: exit %d, want %d", err, exitOf(err), tc.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	for want, err := range map[int]error{
		exitFailed:   errors.New("x"),
		exitUsage:    usage(errors.New("x")),
		exitMissed:   (&goals{errors: 0, p99: 1}).missed(&sampleResult),
		exitViolated: errors.Join(errors.New("x"), &exitError{exitViolated, errors.New("y")}),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	v := okJSON[versionInfo](t, nil, "version")
	if v.Version == "" || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("%+v", v)
	}
	out := ok(t, nil, "version")
	if !strings.HasPrefix(out, "sluice  ") {
		t.Error(out)
	}
	if flag := ok(t, nil, "--version"); flag != out {
		t.Errorf("--version: %s, want %s", flag, out)
	}
	if flag := okJSON[versionInfo](t, nil, "--version"); flag != v {
		t.Errorf("--version --json: %+v, want %+v", flag, v)
	}
}

func TestConfigCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if got := command(t, nil, "config", "init", "--config", file); got.code != exitOK || got.out != "wrote "+file+"\n" ||
		!strings.Contains(got.stderr, "sluice serve --config "+file) {
		t.Errorf("%+v", got)
	}
	if again := command(t, nil, "config", "init", "--config", file); again.code != exitUsage ||
		!strings.Contains(again.stderr, "exists already") {
		t.Errorf("%+v", again)
	}
	if out := ok(t, nil, "config", "check", "--config", file); out != "the settings are right (file: "+file+")\n" {
		t.Error(out)
	}
	must.Succeed(t, os.WriteFile(file, []byte("listen: 127.0.0.1:1\nadmin_key: geheim\nstore: postgres://u:geheim@h/d\n"),
		0o600))
	env := []string{"SLUICE_NODE=n1"}
	out := ok(t, env, "config", "print", "--config", file, "--log-level", "warn")
	golden(t, "config-print", strings.ReplaceAll(out, file, "FILE"))
	if strings.Contains(out, "geheim") {
		t.Error("a secret is printed")
	}
	type printed struct {
		Settings []struct{ Key, Value, Origin string }
	}
	rows := okJSON[printed](t, env, "config", "print", "--config", file)
	if len(rows.Settings) < 15 || rows.Settings[0].Key != "data_dir" {
		t.Errorf("%+v", rows)
	}
}

// A file counts only when it is named; the check says so.
func TestConfigCheckTellsTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if out := ok(t, nil, "config", "check"); out != "the settings are right (file: none)\n" {
		t.Error(out)
	}
	must.Succeed(t, os.WriteFile(usualFile, []byte("lisen: :1\n"), 0o600))
	if out := ok(t, nil, "config", "check"); out !=
		"the settings are right (file: none; ./sluice.yaml is not used without --config)\n" {
		t.Error(out)
	}
	if got := command(t, nil, "config", "print"); got.code != exitOK ||
		!strings.Contains(got.stderr, "./sluice.yaml is not used without --config") {
		t.Errorf("%+v", got)
	}
	if got := command(t, nil, "config", "check", "--config", usualFile); got.code != exitUsage ||
		!strings.Contains(got.stderr, "did you mean listen?") {
		t.Errorf("%+v", got)
	}
}

// What the engine warns of at the start, the check does before.
func TestConfigCheckWarnsOfShortKeys(t *testing.T) {
	long := strings.Repeat("k", 32)
	kept := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(kept, adminKeyFile), []byte("geheim\n"), 0o600))
	for _, tc := range []struct {
		env  []string
		want []string
	}{
		{nil, nil},
		{[]string{"SLUICE_ADMIN_KEY=" + long[:16], "SLUICE_BUYER_SECRET=" + long}, nil},
		{
			[]string{"SLUICE_ADMIN_KEY=geheim", "SLUICE_BUYER_SECRET=" + long},
			[]string{"admin_key (from SLUICE_ADMIN_KEY) is short"},
		},
		{
			[]string{"SLUICE_ADMIN_KEY=" + long, "SLUICE_BUYER_SECRET=geheim"},
			[]string{"buyer_secret (from SLUICE_BUYER_SECRET) is short"},
		},
		{[]string{"SLUICE_DATA_DIR=" + kept}, []string{"admin_key (from " + filepath.Join(kept, adminKeyFile) +
			") is short"}},
	} {
		env := append([]string{"SLUICE_DATA_DIR=" + t.TempDir()}, tc.env...)
		if len(tc.env) == 1 {
			env = tc.env
		}
		got := command(t, env, "config", "check")
		if got.code != exitOK || !strings.HasPrefix(got.out, "the settings are right") ||
			strings.Count(got.stderr, "\n") != len(tc.want) || strings.Contains(got.stderr, "geheim") {
			t.Errorf("%v: %+v", tc.env, got)
		}
		for _, w := range tc.want {
			if !strings.Contains(got.stderr, "warning: "+w) {
				t.Errorf("%v: have %s, want %s", tc.env, got.stderr, w)
			}
		}
		type checked struct {
			OK       bool
			Warnings []string
		}
		if v := okJSON[checked](t, env, "config", "check"); !v.OK || len(v.Warnings) != len(tc.want) {
			t.Errorf("%v: %+v", tc.env, v)
		}
	}
}
