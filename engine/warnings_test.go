package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// lines are those that hold all words.
func (l *logged) lines(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

// What a start warns of: settings of Redis that lose accepted claims, and a
// store that no second server can share.
func TestWarningsAtStart(t *testing.T) {
	const ownFile, unknown = "a second server needs --store postgres://",
		"cannot check whether the settings of Redis keep accepted claims"
	for _, test := range []struct {
		name string
		args []string
		want []string // of each warning of Redis, in order
	}{
		{name: "the recommended settings"},
		{"no file", []string{"--appendonly", "no"}, []string{"setting=appendonly value=no"}},
		{"not at once", []string{"--appendfsync", "everysec"}, []string{"setting=appendfsync value=everysec"}},
		{
			"evicting",
			[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"},
			[]string{"setting=maxmemory-policy value=allkeys-lru"},
		},
		{"a policy that never acts", []string{"--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"}, nil},
		{
			"all of it",
			[]string{"--appendonly", "no", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"},
			[]string{"setting=appendonly", "setting=maxmemory-policy"},
		},
		{"settings that Redis does not allow to read", []string{"--appendonly", "no", "--rename-command", "CONFIG", ""}, nil},
		{"a user without the right", strings.Fields("--appendonly no --user default on nopass ~* +@all -config|get"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := openLogged(t, servertest.StartRedis(t, test.args...).URL())
			hidden := strings.Contains(strings.ToLower(strings.Join(test.args, " ")), "config")
			if got := log.lines("level=WARN", unknown, "+config|get", "appendfsync always"); (len(got) == 1) != hidden {
				t.Errorf("settings are hidden: %t, warned of it: %q", hidden, got)
			}
			got := log.lines("level=WARN", "can lose accepted claims")
			if len(got) != len(test.want) {
				t.Fatalf("warned of %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) || !strings.Contains(got[i], "risk=") || !strings.Contains(got[i], "want=") {
					t.Errorf("warned: %s want %q, its risk, and what is right", got[i], want)
				}
			}
			if len(log.lines("level=WARN", ownFile)) != 1 {
				t.Error("no warning of a store that is this server's own file")
			}
		})
	}
	t.Run("embedded", func(t *testing.T) {
		if got := openLogged(t, "").lines("level=WARN"); got != nil {
			t.Errorf("warned: %q", got)
		}
	})
	t.Run("a store that servers share", func(t *testing.T) {
		log := new(logged)
		openBranch(t, engine.Config{Ledger: servertest.Redis(t), Store: servertest.Postgres(t), Node: "a", Log: log.logger()})
		if got := log.lines("level=WARN", ownFile); got != nil {
			t.Errorf("warned: %q", got)
		}
	})
}

func openLogged(t *testing.T, ledger string) *logged {
	t.Helper()
	log := new(logged)
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), Ledger: ledger, Log: log.logger()}))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	return log
}

// A server whose tables are to be changed says what it waits for, and starts when it can.
func TestTheStoreIsNotOpenYet(t *testing.T) {
	t.Parallel()
	postgres, log := servertest.StartPostgres(t).URL(), &logged{} // its own: the lock is that of a database
	conn := must.Get(pgx.Connect(t.Context(), postgres))(t)
	defer conn.Close(context.Background())
	// Another server migrates.
	must.Get(conn.Exec(t.Context(), "SELECT pg_advisory_lock(x'736c75696365'::bigint)"))(t)
	failed := make(chan error, 1)
	go func() {
		e, err := engine.Open(t.Context(), engine.Config{
			DataDir: t.TempDir(), Ledger: "store", Store: postgres, Log: log.logger(),
		})
		if err == nil {
			err = e.Close(context.Background())
		}
		failed <- err
	}()
	await(t, "a line of the log", func() bool { return len(log.lines("level=WARN", "not open yet", "postgres:")) == 1 })
	must.Get(conn.Exec(t.Context(), "SELECT pg_advisory_unlock_all()"))(t)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
