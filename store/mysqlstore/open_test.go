package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// Servers that start together migrate once, and all of them work.
func TestOpensTogetherMigrateOnce(t *testing.T) {
	url := servertest.MySQL(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			s, err := mysqlstore.Open(t.Context(), url, mysqlstore.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Sales(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var applied, versions int
	row := mysqlstore.OpenRaw(t, url).QueryRow("SELECT count(*), count(DISTINCT version_id) FROM sluice_schema WHERE version_id > 0")
	if err := row.Scan(&applied, &versions); err != nil || applied == 0 || applied != versions {
		t.Errorf("%d migrations applied, of %d versions, %v", applied, versions, err)
	}
}

// A server that finds the migration's lock taken waits for it.
func TestOpenWaitsForTheMigrationOfAnother(t *testing.T) {
	url := servertest.MySQL(t)
	other, err := mysqlstore.OpenRaw(t, url).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run := func(query string, args ...any) (answer int) {
		t.Helper()
		if err := other.QueryRowContext(t.Context(), query, args...).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if run(mysqlstore.AcquireLock, 0) != 1 {
		t.Fatal("the lock is taken")
	}
	const tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s, err := mysqlstore.Open(ctx, url, mysqlstore.Options{}); !errors.Is(err, context.DeadlineExceeded) || run(tables) != 0 {
		t.Errorf("store %v, error %v, %d tables; want it to wait", s, err, run(tables))
	}
	// The lock is of this database alone.
	if s := open(t, servertest.MySQL(t)); s.NotReady() != nil {
		t.Error(s.NotReady())
	}
	if run(mysqlstore.ReleaseLock) != 1 {
		t.Fatal("the lock was not ours")
	}
	if open(t, url); run(tables) == 0 {
		t.Error("not migrated")
	}
}

// MySQL commits each statement of a migration by itself, so a server may die
// between any two of them. The next one does all of the migration again, on
// tables where some of it, or all, has been done.
func TestMigrationsCanBeRunAgain(t *testing.T) {
	url := servertest.MySQL(t)
	s := open(t, url)
	load(t, s)
	if err := insert(t, s, benchEntry(1)); err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string][]string{
		"all is done, and the last is not noted": {"DELETE FROM sluice_schema ORDER BY version_id DESC LIMIT 1"},
		"all is done, and nothing is noted":      {"DELETE FROM sluice_schema WHERE version_id > 0"},
		"not even that there is nothing":         {"DELETE FROM sluice_schema"},
		"between two changes of a constraint":    {"DELETE FROM sluice_schema WHERE version_id > 2", "ALTER TABLE sales DROP CONSTRAINT sales_no_oversell, DROP CONSTRAINT sales_cap"},
	} {
		for _, statement := range harm {
			execute(t, mysqlstore.RawDB(s), statement)
		}
		again := open(t, url)
		if n := orders(t, again); n != perBatch {
			t.Errorf("%s: %d orders, want %d", name, n, perBatch)
		}
		if _, err := mysqlstore.RawDB(again).ExecContext(t.Context(), "UPDATE sales SET total = taken - 1, cap = taken - 1"); err == nil {
			t.Errorf("%s: the check of I1 is missing", name)
		}
		openReadOnly(t, url)
	}
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	url := servertest.MySQL(t)
	open(t, url)
	if _, err := mysqlstore.OpenRaw(t, url).Exec("INSERT INTO sluice_schema (version_id, is_applied) VALUES (999, true)"); err != nil {
		t.Fatal(err)
	}
	for name, open := range openers {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "999") {
			t.Errorf("%s: error %v, want one that tells the version", name, err)
		}
	}
}

func TestOpenReadOnlyWithoutSchema(t *testing.T) {
	url := servertest.MySQL(t)
	_, err := mysqlstore.OpenReadOnly(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "no store of sluice") {
		t.Errorf("error %v", err)
	}
	var tables int
	if err := mysqlstore.OpenRaw(t, url).QueryRow("SELECT count(*) FROM information_schema.tables WHERE table_schema = database()").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables, %v, want none", tables, err)
	}
}

// The database itself refuses, should a change ever get that far.
func TestReadOnlyIsTheDatabasesWordToo(t *testing.T) {
	url := servertest.MySQL(t)
	open(t, url)
	r := openReadOnly(t, url)
	r.ReadOnly = false
	_, err := r.CreateSale(t.Context(), aSale(10))
	if err == nil || !strings.Contains(err.Error(), "READ ONLY") {
		t.Errorf("error %v", err)
	}
}

// Every session is as the store needs it, whatever the server's defaults are.
func TestSession(t *testing.T) {
	db := mysqlstore.RawDB(open(t, servertest.MySQL(t)))
	for variable, want := range map[string]string{
		"sql_mode": "STRICT_ALL_TABLES", "time_zone": "+00:00", "character_set_client": "utf8mb4",
		"collation_connection": "utf8mb4_bin", "innodb_lock_wait_timeout": "10",
	} {
		var value string
		if err := db.QueryRow("SELECT @@SESSION." + variable).Scan(&value); err != nil || !strings.Contains(value, want) {
			t.Errorf("%s is %q, %v, want %s", variable, value, err, want)
		}
	}
	// MySQL and MariaDB call the isolation level differently. What it means: a
	// transaction sees what others commit meanwhile.
	if _, err := db.Exec("CREATE TABLE seen (n INT)"); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for n := range 2 {
		var rows int
		if err := tx.QueryRow("SELECT count(*) FROM seen").Scan(&rows); err != nil || rows != n {
			t.Errorf("%d rows, %v, want %d", rows, err, n)
		}
		if _, err := db.Exec("INSERT INTO seen VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	}
}

var openers = map[string]func(context.Context, string) (*mysqlstore.Store, error){
	"Open": func(ctx context.Context, url string) (*mysqlstore.Store, error) {
		return mysqlstore.Open(ctx, url, mysqlstore.Options{ConnectTimeout: time.Second})
	},
	"OpenReadOnly": mysqlstore.OpenReadOnly,
}

// Errors of Open are one sentence without the password, and tell a database
// that may come back from a URL that is wrong.
func TestOpenErrors(t *testing.T) {
	base := servertest.MySQL(t)
	port, err := servertest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t-%2F"
	changed := func(change func(*url.URL)) string {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	with := func(query string) string { return "mysql://ann:" + secret + "@127.0.0.1/shop?" + query }
	for _, test := range []struct {
		name, url   string
		want        string
		unreachable bool
	}{
		{"nothing listens", fmt.Sprintf("mysql://ann:%s@127.0.0.1:%d/shop", secret, port), fmt.Sprintf(`database "shop" at 127.0.0.1:%d`, port), true},
		{"no such host", "mysql://ann:" + secret + "@no-such-host.invalid/shop", `no-such-host.invalid:3306`, true},
		{"nobody answers", fmt.Sprintf("mysql://ann:%s@%s/shop?connect_timeout=1", secret, deaf(t)), "does not answer within 1s", true},
		{"wrong password", changed(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), secret) }), "Access denied", false},
		{"no such database", changed(func(u *url.URL) { u.Path = "/nowhere" }), `Unknown database 'nowhere'`, false},
		{"no TLS", changed(func(u *url.URL) { u.RawQuery = "tls=true" }), "TLS", false},
		{"not MySQL", "postgres://ann:" + secret + "@127.0.0.1/shop", "mysql://", false},
		{"of the driver", "ann:" + secret + "@tcp(127.0.0.1)/shop", "mysql://", false},
		{"password not encoded", "mysql://ann:s3cr3t-#/x@127.0.0.1/shop", "mysql://", false},
		{"port no number", "mysql://ann:" + secret + "@127.0.0.1:x/shop", "cannot be parsed", false},
		{"no database", "mysql://ann:" + secret + "@127.0.0.1", "names no database", false},
		{"unknown setting", with("clientFoundRows=true"), `unknown setting "clientFoundRows"`, false},
		{"bad setting", with("tls=nonsense"), "tls", false},
		{"bad pool size", with("pool_max_conns=1"), "pool_max_conns", false},
		{"bad time", with("read_timeout=1s"), "read_timeout", false},
		{"bad query", with("tls=%"), "cannot be parsed", false},
		{"empty", "", "mysql://", false},
	} {
		for name, open := range openers {
			_, err := open(t.Context(), test.url)
			if err == nil {
				t.Errorf("%s, %s: no error", test.name, name)
				continue
			}
			text := err.Error()
			if !strings.Contains(text, test.want) || strings.Contains(text, "\n") || !strings.HasPrefix(text, "mysqlstore: ") {
				t.Errorf("%s, %s: %q, want a line with %q", test.name, name, text, test.want)
			}
			if strings.Contains(text, "s3cr3t") || strings.Contains(text, "sluice-test") {
				t.Errorf("%s, %s: the password shows: %s", test.name, name, text)
			}
			if errors.Is(err, mysqlstore.ErrUnreachable) != test.unreachable {
				t.Errorf("%s, %s: unreachable %v: %s", test.name, name, !test.unreachable, text)
			}
		}
	}
}

// deaf returns an address where connections are taken and nothing is said.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Settings of the URL, in one that works.
func TestURLSettings(t *testing.T) {
	s := open(t, servertest.MySQL(t)+"?tls=false&connect_timeout=3&read_timeout=30&write_timeout=30&pool_max_conns=2")
	if n := mysqlstore.RawDB(s).Stats().MaxOpenConnections; n != 2 {
		t.Errorf("at most %d connections, want 2", n)
	}
	load(t, s)
	insideSnapshot := s.Snapshot(t.Context(), "phones", func(sluice.Snapshot) error { return insert(t, s, benchEntry(1)) })
	if insideSnapshot != nil {
		t.Error(insideSnapshot)
	}
}

func aSale(total int64) sluice.Sale {
	return sluice.Sale{
		ID: "phones", SKU: "sku-1", Title: "A thing", Price: sluice.Money{Amount: 1999, Currency: "CNY"},
		Terms:         sluice.Terms{Total: total, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: time.Now()},
		PaymentWindow: 15 * time.Minute,
	}
}

// insert stores an entry of new claims.
func insert(t testing.TB, s sluice.Store, e sluice.Entry) error {
	t.Helper()
	got, err := s.Insert(t.Context(), e.Sale, []sluice.Entry{e})
	if err == nil && got.Inserted != len(e.Claims) {
		err = fmt.Errorf("%d of %d claims inserted", got.Inserted, len(e.Claims))
	}
	return err
}

func execute(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}
