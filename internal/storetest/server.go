package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Server is an adapter whose databases are on a server: how its tests start
// one, and what differs between adapters. Every field is needed.
type Server struct {
	Name string // of the adapter's package; its errors begin with it

	// Empty returns the URL of an empty database of the test, and Start a
	// server for the test alone.
	Empty func(t testing.TB) string
	Start func(t testing.TB) ServerProcess

	Open         func(ctx context.Context, url string, opts ServerOptions) (port.Store, error)
	OpenReadOnly func(ctx context.Context, url string) (port.Store, error)
	OpenAhead    func(t testing.TB, url string, by time.Duration) (port.Store, error) // see Database.OpenAhead
	// LiftReadOnly lets a read-only store try to change something, and
	// ReadOnlyError is in what the database then says.
	LiftReadOnly  func(s port.Store)
	ReadOnlyError string

	// Raw returns a handle of the database for the test, past any store.
	Raw func(t testing.TB, url string) *sql.DB
	// Tables selects the names of the tables of the database.
	Tables string
	// Earlier, Refuse and Accept: see Database.
	Earlier        func(column, seconds string) string
	Refuse, Accept string
	// Deadlocks counts those of a server since it started. No store is open.
	Deadlocks func(t *testing.T, url string) int

	// HoldMigrations takes the lock of migrations, as another server does, until
	// release is called. LockIsOfTheDatabase: those of other databases of the
	// same server go on meanwhile.
	HoldMigrations      func(t *testing.T, url string) (release func())
	LockIsOfTheDatabase bool

	// OpenErrors calls away with URLs of databases that may be there later,
	// besides one where nothing listens, and wrong with URLs that Open must refuse
	// for ever; want is in the error. Base is a URL that works; secret, in a URL, is
	// a password that must not be in the error.
	OpenErrors func(t *testing.T, base, secret string, away, wrong func(name, url, want string))
}

// ServerProcess is a server of servertest.
type ServerProcess interface {
	URL() string
	Stop(t testing.TB)
	Kill(t testing.TB)
	Start(t testing.TB)
}

// ServerOptions holds the options that the adapters have in common.
type ServerOptions struct {
	Lazy           bool
	ConnectTimeout time.Duration
}

// Run runs what adapters of database servers promise beyond the port: how they
// open, migrate, fail and recover.
func (s *Server) Run(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Server)
	}{
		{"OpensTogetherMigrateOnce", testOpensTogether},
		{"OpenWaitsForTheMigrationOfAnother", testOpenWaits},
		{"OpenRefusesANewerSchema", testNewerSchema},
		{"OpenReadOnlyWithoutSchema", testNoSchema},
		{"ReadOnlyIsTheDatabasesWordToo", testReadOnlyDatabase},
		{"OpenErrors", testOpenErrors},
		{"DatabaseGoesAndComesBack", testComesBack},
		{"NobodyWaitsInACircle", testNoCircle},
		{"Locks", func(t *testing.T, s *Server) { s.Locks(t) }},
		{"AFrozenServerLetsGo", testFrozenServer},
	} {
		// Each has a database of its own, and most of them wait.
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, s)
		})
	}
}

// Databases makes the databases of the suite. All tests share one database, since making the
// tables takes longer than most tests; it is emptied before each.
func (s *Server) Databases(t *testing.T) func(t *testing.T) Database {
	t.Helper()
	url := s.Empty(t)
	if err := s.open(t, url).Close(); err != nil { // it has migrated
		t.Fatal(err)
	}
	raw := s.Raw(t, url)
	return func(t *testing.T) Database {
		t.Helper()
		s.empty(t, raw)
		run := func(t *testing.T, statement string) { execute(t, raw, statement) }
		return Database{
			Open:         func(t *testing.T) port.Store { return s.open(t, url) },
			OpenReadOnly: func(t *testing.T) port.Store { return s.openReadOnly(t, url) },
			OpenAhead: func(t *testing.T, by time.Duration) port.Store {
				return s.opened(t)(s.OpenAhead(t, url, by))
			},
			Hold:    func(t *testing.T, statement string) func() { return Hold(t, raw, statement) },
			Age:     func(t *testing.T, sale sluice.SaleID, by time.Duration) { s.age(t, raw, sale, by) },
			Earlier: s.Earlier,
			Refuse:  s.Refuse, Accept: s.Accept,
			Execute: run,
			Try: func(t *testing.T, statement string) error {
				_, err := raw.ExecContext(t.Context(), statement)
				return err
			},
		}
	}
}

// schemaTable has the versions of the schema.
const schemaTable = "sluice_schema"

// empty leaves the database as migrations have made it, but for the numbers of
// rows, which go on.
func (s *Server) empty(t *testing.T, raw *sql.DB) {
	t.Helper()
	// A test that left a transaction open makes the next one fail, not hang.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx := must.Get(raw.BeginTx(ctx, nil))(t)
	defer tx.Rollback()
	var first, last []string // rows of the last are referred to
	for _, table := range s.tables(t, raw) {
		switch table {
		case schemaTable, "event_feed":
		case "sales", "webhooks":
			last = append(last, "DELETE FROM "+table)
		default:
			first = append(first, "DELETE FROM "+table)
		}
	}
	for _, statement := range append(append(first, last...), "UPDATE event_feed SET first_event = 1, last_event = 0") {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	must.Succeed(t, tx.Commit())
}

func (s *Server) tables(t *testing.T, raw *sql.DB) (names []string) {
	t.Helper()
	rows := must.Get(raw.QueryContext(t.Context(), s.Tables))(t)
	defer rows.Close()
	for rows.Next() {
		var name string
		must.Succeed(t, rows.Scan(&name))
		names = append(names, name)
	}
	must.Succeed(t, rows.Err())
	return names
}

// Age returns what makes the orders of a sale older; see Database.Age.
func (s *Server) Age(t testing.TB, url string) func(sale sluice.SaleID, by time.Duration) {
	t.Helper()
	raw := s.Raw(t, url)
	return func(sale sluice.SaleID, by time.Duration) { s.age(t, raw, sale, by) }
}

func (s *Server) age(t testing.TB, raw *sql.DB, sale sluice.SaleID, by time.Duration) {
	t.Helper()
	var set []string
	for _, column := range []string{"stored_at", "expires_at", "keep_until", "updated_at"} {
		set = append(set, column+" = "+s.Earlier(column, fmt.Sprintf("%.6f", by.Seconds())))
	}
	execute(t, raw, fmt.Sprintf("UPDATE orders SET %s WHERE sale_id = '%s'", strings.Join(set, ", "), sale))
}

func (s *Server) open(t testing.TB, url string) port.Store {
	t.Helper()
	return s.opened(t)(s.Open(t.Context(), url, ServerOptions{}))
}

func (s *Server) openReadOnly(t testing.TB, url string) port.Store {
	t.Helper()
	return s.opened(t)(s.OpenReadOnly(t.Context(), url))
}

// opened closes the store when the test ends.
func (s *Server) opened(t testing.TB) func(port.Store, error) port.Store {
	t.Helper()
	return func(store port.Store, err error) port.Store {
		t.Helper()
		return Kept(t, store, err)
	}
}

// Kept closes a store that was just opened when the test ends.
func Kept[S interface{ Close() error }](t testing.TB, s S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	must.Get(db.ExecContext(t.Context(), statement))(t)
}

// Hold runs a statement in a transaction that stays open until free, or the end
// of the test.
func Hold(t testing.TB, db *sql.DB, statement string) (free func()) {
	t.Helper()
	tx := must.Get(db.BeginTx(t.Context(), nil))(t)
	free = func() { _ = tx.Rollback() }
	t.Cleanup(free)
	must.Get(tx.ExecContext(t.Context(), statement))(t)
	return free
}
