package pgstore_test

import (
	"context"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// A database without a standby has nothing to fail over to. As soon as one is attached, each setting
// that lets a commit be lost is named, also to a user who may see nothing of the standby.
func TestRisks(t *testing.T) {
	t.Parallel()
	server := servertest.StartPostgres(t)
	pool := must.Get(pgxpool.New(t.Context(), server.URL()))(t)
	t.Cleanup(pool.Close)
	do := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			must.Get(pool.Exec(t.Context(), statement))(t)
		}
	}
	do("CREATE USER plain PASSWORD 'plain'", "GRANT CREATE ON SCHEMA public TO plain")
	u := must.Get(url.Parse(server.URL()))(t)
	u.User = url.UserPassword("plain", "plain")
	s := must.Get(pgstore.Open(t.Context(), u.String(), pgstore.Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	finds := func(want ...string) {
		t.Helper()
		var have []string
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			risks := must.Get(s.Risks(t.Context()))(t)
			have = nil
			for _, risk := range risks {
				have = append(have, risk.Setting+" "+risk.Value)
			}
			if slices.Equal(have, want) {
				return
			}
			if time.Now().After(end) { // a reload, and the end of a connection, take a moment
				t.Fatalf("risks %q, want %q", have, want)
			}
		}
	}
	set := func(setting, value string) {
		t.Helper()
		do("ALTER SYSTEM SET "+setting+" = '"+value+"'", "SELECT pg_reload_conf()")
	}
	finds()
	set("synchronous_commit", "off")
	set("fsync", "off")
	finds("fsync off", "synchronous_commit off")
	set("synchronous_commit", "on")
	set("fsync", "on")
	finds()
	leave := standby(t, pool)
	finds("synchronous_standby_names ")
	set("synchronous_standby_names", "standby")
	finds()
	set("synchronous_commit", "local")
	finds("synchronous_commit local")
	leave()
	finds()
	set("synchronous_standby_names", "")
	set("synchronous_commit", "on")
}

// standby attaches what looks like one to the server, until leave is called.
func standby(t *testing.T, server *pgxpool.Pool) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var position string
	must.Succeed(t, server.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&position))
	config := server.Config().ConnConfig.Config.Copy()
	config.RuntimeParams["replication"] = "true"
	conn := must.Get(pgconn.ConnectConfig(ctx, config))(t)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if err := conn.Exec(ctx, "START_REPLICATION "+position).Close(); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	return func() {
		cancel() // ends the Exec, and with it the connection
		<-left
		_ = conn.Close(context.Background())
	}
}
