package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice/bench/machine"
)

// TestMain lets the test binary be the server process that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		main()
	}
	os.Exit(m.Run())
}

func TestCrowdIsDistinctAndTheSameForEverySide(t *testing.T) {
	const n = 200_000
	buyers, keys := map[string]bool{}, map[string]bool{}
	a, again, other := newCrowd(7), newCrowd(7), newCrowd(8)
	for i := range int64(n) {
		buyer, key := a.attempt(i)
		if err := buyer.Validate(); err != nil || len(buyer) != buyerLen {
			t.Fatalf("buyer %q: %v", buyer, err)
		}
		if err := key.Validate(); err != nil || len(key) != keyLen {
			t.Fatalf("key %q: %v", key, err)
		}
		if string(a.appendBuyer(nil, i)) != string(buyer) {
			t.Fatal("the sides would not have the same buyers")
		}
		if b, k := again.attempt(i); b != buyer || k != key {
			t.Fatal("the same seed gives another crowd")
		}
		buyers[string(buyer)], keys[string(key)] = true, true
	}
	if len(buyers) != n || len(keys) != n {
		t.Errorf("%d buyers and %d keys, want %d of each", len(buyers), len(keys), n)
	}
	if b, _ := other.attempt(0); buyers[string(b)] {
		t.Error("another seed gives the same crowd")
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"--quick", "--rounds", "2", "--only", "http,redis", "--seed", "9"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 2 || o.long != time.Second || o.seed != 9 || len(o.only) != 2 {
		t.Errorf("options: %+v", o)
	}
	for _, args := range [][]string{
		{"--only", "redis,lock"},
		{"extra"},
		{"--rounds", "0"},
		{"--for", "-1s"},
		{"--callers", "0"},
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
		!strings.Contains(help.String(), "-profile folder") {
		t.Errorf("help: %v\n%s", err, help.String())
	}
}

func TestGoalsNameSidesThatExist(t *testing.T) {
	names := map[string]bool{}
	for _, open := range groups[:2] {
		sides, _, err := open.open(t.Context(), &options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sides {
			names[s.name] = true
		}
	}
	for _, name := range []string{
		bareRefusalName, soldOutName, firstVisitName, bareOrderName, acceptedName,
		bareSaleName, readName, bareSameName, unchangedName,
		bareRowsName, bareArraysName, drainEachName, drainManyName,
	} {
		names[name] = true
	}
	for _, g := range goals {
		if !names[g.side] || !names[g.against] {
			t.Errorf("goal %q compares %q with %q", g.name, g.side, g.against)
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
	for _, s := range []struct {
		name   string
		rounds []float64
	}{
		{eachName("no"), []float64{50_000, 64_000, 60_000}},
		{pipelinedName("no"), []float64{200_000, 210_000, 150_000}},
		{batchedName("no"), []float64{300_000, 256_000, 240_000}},
	} {
		r := result{Name: s.name}
		for _, f := range s.rounds {
			r.add(figure{perSecond: f, also: map[string]float64{"p50_ms": f / 1e5}})
		}
		r.settle()
		rep.Sides = append(rep.Sides, r)
	}
	rep.judge()
	want := []verdict{
		{goals[0].name, batchedName("no"), eachName("no"), 4, 4, 6, 4, true},
		{goals[1].name, batchedName("no"), pipelinedName("no"), 1.5, 256.0 / 210, 1.6, 1.4, true},
	}
	if diff := cmp.Diff(want, rep.Goals); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	rep.Goals[1].Met = false
	var text bytes.Buffer
	if err := rep.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a processor, 2 cores, 24 GB memory", "Redis 7.0.15, PostgreSQL unknown, wrk unknown", "WARNING",
		"\nS2 script per request, no fsync     60,000   50,000   64,000  p50 ms 0.6\n",
		"  4.00x  4.00x  6.00x  >= 4.00x  met\n", ">= 1.40x  MISSED\n", "1 of 2 goals MISSED.",
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
	if code := run(t.Context(), []string{"--only", "redis"}, io.Discard, &stderr); code != 1 ||
		!strings.Contains(stderr.String(), "redis-server is not installed") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// One turn of every side of the first group, through the front door.
func TestRunRedis(t *testing.T) {
	needs(t, "redis-server")
	var stdout, stderr bytes.Buffer
	args := []string{
		"--json", "--only", "redis", "--rounds", "1", "--warm", "100ms", "--for", "400ms", "--dir",
		t.TempDir(),
	}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var rep report
	if err := json.Unmarshal(stdout.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Sides) != 4 || len(rep.Goals) != 3 || rep.Seed != 1 || rep.Machine.Cores == 0 || rep.Versions.Redis == "" {
		t.Errorf("report: %s", stdout.Bytes())
	}
	for _, s := range rep.Sides {
		if s.Median <= 0 || s.Does == "" || len(s.Rounds) != 1 {
			t.Errorf("side: %+v", s)
		}
	}
}

// One turn of the two sides that Sluice's orders are judged by.
func TestRunHTTP(t *testing.T) {
	if testing.Short() {
		t.Skip("wrk takes whole seconds")
	}
	needs(t, "wrk")
	o := &options{rounds: 1, warm: time.Second, long: time.Second, pool: 100_000, seed: 1, dir: t.TempDir()}
	sides, done, err := openHTTPGroup(t.Context(), o)
	if done != nil {
		defer done()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sides {
		if s.name != bareOrderName && s.name != acceptedName && s.name != firstVisitName {
			continue
		}
		f, err := s.turn(t.Context(), o, 0, "")
		if err != nil || f.perSecond <= 0 {
			t.Errorf("%s: %+v, %v", s.name, f, err)
		}
	}
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("needs " + program)
	}
}
