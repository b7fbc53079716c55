package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/pgstore"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Databases(server.Databases).Run(t)
}

func TestServer(t *testing.T) {
	t.Parallel()
	server.Run(t)
}

func TestChild(t *testing.T) { server.Child(t) }

func TestSoak(t *testing.T) { storetest.Databases(server.Databases).Soak(t) }

var server = &storetest.Server{
	Name:  "pgstore",
	Empty: servertest.Postgres,
	Start: func(t testing.TB) storetest.ServerProcess { return servertest.StartPostgres(t) },
	Open: func(ctx context.Context, url string, opts storetest.ServerOptions) (port.Store, error) {
		return opened(pgstore.Open(ctx, url, pgstore.Options(opts)))
	},
	OpenReadOnly: func(ctx context.Context, url string) (port.Store, error) {
		return opened(pgstore.OpenReadOnly(ctx, url))
	},
	OpenAhead:     openAhead,
	LiftReadOnly:  func(s port.Store) { s.(*pgstore.Store).ReadOnly = false },
	ReadOnlyError: "read-only",
	Raw:           raw,
	Tables:        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
	Earlier:       func(column, seconds string) string { return column + " - (" + seconds + ") * interval '1 second'" },
	Refuse: `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not more than one'; END$$;
		CREATE TRIGGER shop BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.quantity > 1) EXECUTE FUNCTION refuse()`,
	Accept:         "DROP FUNCTION refuse() CASCADE",
	Deadlocks:      deadlocks,
	HoldMigrations: holdMigrations,
	OpenErrors: func(t *testing.T, base, secret string, away, wrong func(name, url, want string)) {
		changed := func(change func(*url.URL)) string {
			u := must.Get(url.Parse(base))(t)
			change(u)
			return u.String()
		}
		away("no such host", "postgres://ann:"+secret+"@no-such-host.invalid/shop", `no-such-host.invalid`)
		wrong("wrong password", changed(func(u *url.URL) {
			u.User = url.UserPassword(u.User.Username(), secret)
		}), "password authentication failed")
		wrong("no such database", changed(func(u *url.URL) { u.Path = "/nowhere" }),
			`database "nowhere" does not exist`)
		wrong("not PostgreSQL", "mysql://ann:"+secret+"@127.0.0.1/shop", "postgres://")
		wrong("no URL", "host=127.0.0.1 password="+secret, "postgres://")
		wrong("password not encoded", "postgres://ann:s3cr3t-#/x@127.0.0.1/shop", "postgres://")
		wrong("port no number", "postgres://ann:"+secret+"@127.0.0.1:x/shop", "cannot be parsed")
		wrong("bad setting", "postgres://ann:"+secret+"@127.0.0.1/shop?sslmode=nonsense", "sslmode")
		wrong("bad pool size", "postgres://ann:"+secret+"@127.0.0.1/shop?pool_max_conns=0", "pool_max_conns")
		wrong("empty", "", "postgres://")
	},
}

// opened is nil if the store is.
func opened(s *pgstore.Store, err error) (port.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func raw(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	return storetest.Kept(t, db, err)
}

// openAhead opens a store that finds a clock of the test's before PostgreSQL's: for
// all others pg_catalog comes first.
func openAhead(t testing.TB, base string, by time.Duration) (port.Store, error) {
	t.Helper()
	db, schema := raw(t, base), ""
	must.Succeed(t, db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
	must.Get(db.ExecContext(t.Context(),
		fmt.Sprintf("CREATE OR REPLACE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql "+
			"AS $$SELECT pg_catalog.clock_timestamp() + interval '%d milliseconds'$$", by.Milliseconds())))(t)
	u := must.Get(url.Parse(base))(t)
	query := u.Query()
	query.Set("search_path", schema+",pg_catalog")
	u.RawQuery = query.Encode()
	return opened(pgstore.Open(t.Context(), u.String(), pgstore.Options{}))
}

func holdMigrations(t *testing.T, url string) (release func()) {
	t.Helper()
	conn, err := raw(t, url).Conn(t.Context())
	conn = storetest.Kept(t, conn, err)
	run := func(query string) {
		t.Helper()
		must.Get(conn.ExecContext(t.Context(), query, pgstore.MigrationLock))(t)
	}
	run("SELECT pg_advisory_lock($1)")
	return func() { run("SELECT pg_advisory_unlock($1)") }
}

// deadlocks counts once all connections of stores are gone: that is when each
// has told its numbers.
func deadlocks(t *testing.T, url string) (n int) {
	t.Helper()
	db := raw(t, url)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var others int
		err := db.QueryRowContext(t.Context(),
			`SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice'), deadlocks
			FROM pg_stat_database WHERE datname = current_database()`).Scan(&others, &n)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d connections are left, %v", others, err)
		}
		if others == 0 {
			return n
		}
	}
}
