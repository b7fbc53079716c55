package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/method"
	"github.com/sluicehq/sluice/lab/internal/referee"
)

// needServers skips the test where a server's program is missing.
func needServers(t *testing.T) {
	t.Helper()
	servertest.Redis(t)
	servertest.Postgres(t)
}

// TestRushes has three methods sell to a small crowd, and reads what was written.
func TestRushes(t *testing.T) {
	needServers(t)
	out := t.TempDir()
	crowd := rush{400, 20}
	o := options{seed: 7, rounds: 1, callers: 50, out: out, dir: servertestDir(t), crowds: []rush{crowd}}
	for _, name := range []string{"s2", "s3", "sluice-redis"} {
		m := must.Get(method.Find(name))(t)
		o.methods = append(o.methods, m)
	}
	must.Succeed(t, o.rushes(t.Context()))
	var rep report
	must.Succeed(t, json.Unmarshal([]byte(read(t, out, "articles-results.json")), &rep))
	if len(rep.Results) != 3 || rep.Seed != 7 {
		t.Fatalf("report: %+v", rep)
	}
	text := read(t, out, "articles-results.md")
	for _, r := range rep.Results {
		f := r.Median
		if f["accepted"] != 20 || f["redis_commands"] <= 0 || f["redis_bytes"] <= 0 || f["claims_per_second"] <= 0 {
			t.Errorf("%s: %v", r.Title, f)
		}
		if !strings.Contains(text, r.Title) {
			t.Errorf("the report does not mention %s", r.Title)
		}
		for _, image := range []string{"rate", "waiting", "cpu"} {
			svg := read(t, out, "images/articles-"+image+".svg")
			if !strings.Contains(svg, ">"+r.Title+"<") {
				t.Errorf("%s: the picture does not show %s", image, r.Title)
			}
			wellFormed(t, svg)
		}
	}
	if rows := strings.Count(text, "\n| "); rows != 4 {
		t.Errorf("%d rows in the report, want a head and 3", rows)
	}
}

// servertestDir is a folder that the user postgres can reach, unlike the test's own.
func servertestDir(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "sluice-articles-test-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Succeed(t, os.Chmod(dir, 0o755))
	return dir
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))))(t)
	return string(text)
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadFlags: what cannot be run, or written, is found before anything is measured.
func TestBadFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for want, args := range map[string][]string{
		`unknown argument "s2"`:                             {"s2"},
		"--rounds and --callers: want 1 or more":            {"--rounds", "0"},
		`--only: there is no method "s9"; there are: s0, s`: {"--only", "s2,s9"},
		"--short is for the rushes alone":                   {"--faults", "--short"},
		"file: not a directory":                             {"--out", file},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// TestMain lets the test binary be the processes that are killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childCommand {
		if err := runChild(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestFaults has the referee find what is certain: the weakness of a method that is
// struck where it has one, and nothing in Sluice.
func TestFaults(t *testing.T) {
	needServers(t)
	dir := servertestDir(t)
	s := must.Get(newStage(t.Context(), dir))(t)
	t.Cleanup(s.close)
	try := func(name string, f fault, trial referee.Trial) *referee.Verdict {
		t.Helper()
		m := must.Get(method.Find(name))(t)
		trial.Settle, trial.Seed = 3*time.Second, 1
		if m.Own {
			trial.Settle = 30 * time.Second
		}
		got := s.try(t.Context(), m, f, trial)
		if got.Error != "" {
			t.Fatalf("%s, %s: %s", name, f.Name, got.Error)
		}
		t.Logf("%s, %s: %s", name, f.Name, got.text())
		return got.Found
	}
	named := func(name string) fault {
		return faults[slices.IndexFunc(faults, func(f fault) bool { return f.Name == name })]
	}
	repeats := named("replies lost, clients repeat")
	if v := try("s0", repeats, referee.Trial{Buyers: 100, Units: 300}); v.Twice.Count == 0 {
		t.Error("S0 sells again to who repeats a request, and the referee has not seen it")
	}
	if v := try("s2", workerDiesWithAMessage, referee.Trial{Buyers: 300, Units: 20}); v.Lost.Count == 0 {
		t.Error("S2's worker does not read what was pending when it died, and the referee has not seen it")
	}
	for _, f := range []string{repeats.Name, "server killed", "power cut of Redis, fsync no"} {
		trial := referee.Trial{Buyers: 500, Units: 50}
		if v := try("sluice-redis", named(f), trial); !v.Clean() {
			t.Errorf("Sluice, %s: %+v", f, v)
		}
	}
}

// workerDiesWithAMessage kills the worker after it has read a message whose order it
// could not store.
var workerDiesWithAMessage = fault{
	Name: "worker killed with a message", fsync: "no",
	make: func(s *shop) []referee.Fault {
		alter := func(ctx context.Context, how string) error {
			return s.t.query(ctx, func(conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "ALTER TABLE turn"+strconv.Itoa(s.t.turns)+".orders "+how)
				return err
			})
		}
		s.warmed = func(ctx context.Context) error { return alter(ctx, "ADD CONSTRAINT broken CHECK (false) NOT VALID") }
		return one("worker", func(ctx context.Context) error {
			for ctx.Err() == nil {
				lines, err := s.t.redis[0].Ask("XPENDING stream.order g1")
				if err == nil && len(lines) > 1 && lines[1] != ":0" {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			s.work.kill()
			return alter(ctx, "DROP CONSTRAINT broken")
		}, started(&s.work))
	},
}
