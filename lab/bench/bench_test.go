package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/machine"
)

// TestMain lets the test binary be the server process that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{serveCommand, rushCommand}, os.Args[1]) {
		main()
	}
	os.Exit(m.Run())
}

func TestOptions(t *testing.T) {
	o := must.Get(parseOptions([]string{"--quick", "--rounds", "2", "--only", "http,redis", "--seed", "9"}, io.Discard))(t)
	if o.rounds != 2 || o.long != time.Second || o.seed != 9 || len(o.only) != 2 {
		t.Errorf("options: %+v", o)
	}
	for _, args := range [][]string{
		{"--only", "redis,lock"},
		{"extra"},
		{"--rounds", "0"},
		{"--pool", "10"},
		{"--orders", "0"},
		{"--nonsense"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	var help bytes.Buffer
	if _, err := parseOptions([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) ||
		!strings.Contains(help.String(), "-dir folder") {
		t.Errorf("help: %v\n%s", err, help.String())
	}
}

func TestGoalsNameSidesThatExist(t *testing.T) {
	names := []string{
		"", batchedName, writerName, sqliteName, rememberingName, verifyingName, soldOutName, firstVisitName, readName,
		unchangedName, limitedName, limitedSame, unwatchedName, watchedName,
		repeatedName, bareRowsName, drainEachName, drainManyName, startName, idleName,
	}
	for _, b := range backends {
		names = append(names, acceptedName(b), latencyName(b.name))
		if b.postgres {
			names = append(names, bareAcceptedName(b), bareStoreName(b.name))
		}
	}
	for _, l := range grownLedgers {
		names = append(names, growthName(l.name))
	}
	for _, g := range goals() {
		known := g.side != "" && slices.Contains(names, g.side) && slices.Contains(names, g.against)
		if !known || (g.atLeast > 0) == (g.atMost > 0) {
			t.Errorf("goal %+v", g)
		}
	}
}

func TestReport(t *testing.T) {
	rep := &report{Rounds: 3, Started: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)}
	rep.Machine = machine.Machine{
		CPU: "a processor", Cores: 2, MemoryGB: 24, OS: "Linux 6", Filesystem: "tmpfs", FsyncMS: 0.25,
		Load: 0.1,
	}
	rep.Versions = machine.Versions{Go: "go1.26", Redis: "7.0.15"}
	for name, rounds := range map[string][]float64{
		batchedName: {300_000, 256_000, 240_000},
		writerName:  {400_000, 320_000, 300_000},
		sqliteName:  {270_000, 256_000, 264_000},
	} {
		r := result{Name: name, Does: "what it does"}
		for _, f := range rounds {
			r.add(figure{perSecond: f, also: map[string]float64{"redis_cpu_us": 1e6 / f}})
		}
		r.settle()
		rep.Sides = append(rep.Sides, r)
	}
	slices.SortFunc(rep.Sides, func(a, b result) int { return strings.Compare(a.Name, b.Name) })
	rep.judge()
	all := goals()
	want := []verdict{
		{all[0].name, batchedName, "", writerName, 0.8, 0.75, 0.8, 0.9, false, false},
		{all[1].name, batchedName, "redis_cpu_us", writerName, 1.25, 1.25, 4 / 3.0, 1.2, true, false},
		{all[3].name, sqliteName, "", batchedName, 1, 0.9, 1.1, 0.8, false, true},
	}
	if diff := cmp.Diff(want, rep.Goals, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	rep.Sides = append(rep.Sides, result{Name: idleName, Also: map[string]float64{"empty_MB": 30}})
	var text bytes.Buffer
	must.Succeed(t, rep.write(&text))
	for _, want := range []string{
		"a processor, 2 cores, 24 GB memory", "Redis 7.0.15, PostgreSQL unknown, wrk unknown", "WARNING",
		"\nRedis ledger, batched, no fsync" + strings.Repeat(" ", 23) + "256,000  240,000  300,000  redis cpu us 3.906\n",
		"\nRedis ledger, batched, no fsync: what it does.\n", "  empty MB 30\n",
		"  0.80x  0.75x  0.80x  >= 0.90x  MISSED\n", "  1.00x  0.90x  1.10x  >= 0.80x  met\n", "1 of 3 goals met.",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
}

func TestParseWrk(t *testing.T) {
	text := "Running 1s test\n\nbench: " +
		`{"requests":60000,"duration_us":2000000,"not_2xx_3xx":7,"socket_errors":0,"p50_us":3000,"p99_us":9000}` + "\n"
	r, err := parseWrk([]byte(text))
	if err != nil || r.perSecond() != 30_000 || r.Not2xx3xx != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{
		"", "unable to connect", "\nbench: {",
		strings.Replace(text, `_errors":0`, `_errors":1`, 1), strings.Replace(text, "60000", "0", 1),
	} {
		if _, err := parseWrk([]byte(bad)); err == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--only", "redis"}, io.Discard, &stderr); code != 2 ||
		!strings.Contains(stderr.String(), "redis-server is not installed") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// One turn of every side of the first group, through the front door.
func TestRunRedis(t *testing.T) {
	servertest.Program(t, "redis", "redis-server")
	var stdout, stderr bytes.Buffer
	args := []string{"--json", "--quick", "--only", "redis", "--rounds", "1", "--dir", t.TempDir()}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var rep report
	must.Succeed(t, json.Unmarshal(stdout.Bytes(), &rep))
	if len(rep.Sides) != 3 || len(rep.Goals) != 4 || rep.Seed != 1 || rep.Machine.Cores == 0 || rep.Versions.Redis == "" {
		t.Errorf("report: %s", stdout.Bytes())
	}
	for _, s := range rep.Sides {
		if s.Median <= 0 || s.Does == "" || len(s.Rounds) != 1 {
			t.Errorf("side: %+v", s)
		}
	}
}

// small is a run of the long groups that takes seconds.
func small(t *testing.T) *options {
	return &options{
		rounds: 1, warm: 200 * time.Millisecond, long: 400 * time.Millisecond, pool: 150_000, seed: 1, dir: publicDir(t),
		durable: time.Second, buyers: 20_000, idle: 400 * time.Millisecond,
	}
}

// publicDir is a folder that the user postgres can reach, unlike the test's own.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-bench-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sub := filepath.Join(dir, "run")
	must.Succeed(t, os.Mkdir(sub, 0o755))
	return sub
}

// turns runs one turn of a group's sides and returns their results.
func turns(t *testing.T, name string, o *options) *report {
	t.Helper()
	g := groups[slices.IndexFunc(groups, func(g group) bool { return g.name == name })]
	if program := g.lack(); program != "" {
		servertest.Unavailable(t, strings.TrimSuffix(program, "-server"), program+" is not installed")
	}
	rep := &report{}
	must.Succeed(t, g.measure(t.Context(), o, newProgress(nil), rep))
	rep.judge()
	for _, s := range rep.Sides {
		t.Logf("%s: %.0f, %v", s.Name, s.Median, s.Also)
	}
	return rep
}

// Sides that begin are measured in turns while all of them run, and then checked.
func TestInTurns(t *testing.T) {
	var did []string
	note := func(what, name string) { did = append(did, what+" "+name) }
	wrong := errors.New("a wrong count")
	fake := func(name string, checked error) side {
		return side{name: name, begin: func(context.Context, *round) (*running, error) {
			note("begin", name)
			return &running{
				measure: func(_ context.Context, turn int) (figure, error) {
					note(strconv.Itoa(turn), name)
					return figure{perSecond: float64(turn + 1)}, nil
				},
				check: func(context.Context) error {
					note("check", name)
					return checked
				},
				stop: func() { note("stop", name) },
			}, nil
		}}
	}
	measured := func(checked error) (*report, error) {
		did = nil
		g := group{name: "a group", open: func(context.Context, *options) ([]side, func(), error) {
			return []side{fake("a", nil), fake("b", checked)}, func() {}, nil
		}}
		rep := &report{}
		return rep, g.measure(t.Context(), small(t), newProgress(nil), rep)
	}
	rep, err := measured(nil)
	want := []string{
		"begin a", "begin b", "-1 a", "-1 b", "0 a", "0 b", "1 a", "1 b", "2 a", "2 b", "3 a", "3 b",
		"check a", "check b", "stop b", "stop a",
	}
	if err != nil || !slices.Equal(did, want) || !slices.Equal(rep.side("b").Rounds, []float64{1, 2, 3, 4}) {
		t.Errorf("%v; did %q, want %q; %+v", err, did, want, rep.side("b"))
	}
	if _, err := measured(wrong); !errors.Is(err, wrong) || did[len(did)-1] != "stop a" {
		t.Errorf("with a wrong count: %v; in the end it did %q", err, did)
	}
	g := group{name: "a group", open: func(context.Context, *options) ([]side, func(), error) {
		fails := side{name: "b", begin: func(context.Context, *round) (*running, error) { return nil, wrong }}
		return []side{fake("a", nil), fails}, func() {}, nil
	}}
	did = nil
	err = g.measure(t.Context(), small(t), newProgress(nil), &report{})
	if want := []string{"begin a", "stop a"}; !errors.Is(err, wrong) || !slices.Equal(did, want) {
		t.Errorf("b does not begin: %v; did %q, want %q", err, did, want)
	}
}

// One turn of refusals over HTTP; those of read sales are made alike.
func TestRunHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("wrk takes whole seconds")
	}
	servertest.Program(t, "wrk", "wrk")
	o := small(t)
	o.pool = 750_000 // new buyers come once: 150,000 for a second
	sides, done, err := openHTTPGroup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for _, s := range sides {
		if s.name == soldOutName {
			continue // as firstVisitName, with fewer requests
		}
		if f, err := s.turn(t.Context(), o, 0); err != nil || f.perSecond <= 0 {
			t.Errorf("%s: %+v, %v", s.name, f, err)
		}
	}
}

// One turn of a rush beside open consoles.
func TestConsoles(t *testing.T) {
	if testing.Short() {
		t.Skip("wrk takes whole seconds")
	}
	servertest.Program(t, "wrk", "wrk")
	sides, done, err := openConsoleGroup(t.Context(), small(t))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	watched := sides[slices.IndexFunc(sides, func(s side) bool { return s.name == watchedName })]
	if f, err := watched.turn(t.Context(), small(t), 0); err != nil || f.perSecond <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// One turn of the sides that Sluice's orders are judged by.
func TestDurable(t *testing.T) {
	if testing.Short() {
		t.Skip("wrk takes whole seconds")
	}
	all := backends
	backends = []backend{servers} // the others' rounds are the same
	rep := turns(t, "durable", small(t))
	backends = all
	if s := rep.side(acceptedName(servers)); len(rep.Goals) != 1 || s.Median <= 0 || s.Also["disk_B_per_order"] < 100 {
		t.Errorf("%+v of %+v", s, rep.Goals)
	}
}

func TestLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("the search for the highest rate takes a while")
	}
	o := small(t)
	o.long = 100 * time.Millisecond
	rep := turns(t, "latency", o)
	for _, b := range backends {
		s := rep.side(latencyName(b.name))
		// Beside other work no rate may keep to the limit: then the highest is 0.
		if s.Also[p99At(1000)] <= 0 || s.Also[p99At(5000)] <= 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some hundred thousand claims")
	}
	rep := turns(t, "growth", small(t))
	if len(rep.Goals) != len(grownLedgers) {
		t.Errorf("want a goal for each ledger: %+v", rep.Goals)
	}
}
