package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// Servers that start together migrate once, and all of them work.
func TestOpensTogetherMigrateOnce(t *testing.T) {
	url := servertest.Postgres(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			s, err := pgstore.Open(t.Context(), url, pgstore.Options{})
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
	row := connect(t, url).QueryRow(t.Context(), "SELECT count(*), count(DISTINCT version_id) FROM sluice_schema WHERE version_id > 0")
	if err := row.Scan(&applied, &versions); err != nil || applied == 0 || applied != versions {
		t.Errorf("%d migrations applied, of %d versions, %v", applied, versions, err)
	}
}

// A server that finds the migration's lock taken waits for it.
func TestOpenWaitsForTheMigrationOfAnother(t *testing.T) {
	url := servertest.Postgres(t)
	other := connect(t, url)
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock($1)", pgstore.MigrationLock); err != nil {
		t.Fatal(err)
	}
	hasSales := func() (there bool) {
		if err := other.QueryRow(t.Context(), "SELECT to_regclass('sales') IS NOT NULL").Scan(&there); err != nil {
			t.Fatal(err)
		}
		return there
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s, err := pgstore.Open(ctx, url, pgstore.Options{}); !errors.Is(err, context.DeadlineExceeded) || hasSales() {
		t.Errorf("store %v, error %v, migrated: %v; want it to wait", s, err, hasSales())
	}
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", pgstore.MigrationLock); err != nil {
		t.Fatal(err)
	}
	if open(t, url); !hasSales() {
		t.Error("not migrated")
	}
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	url := servertest.Postgres(t)
	open(t, url)
	if _, err := connect(t, url).Exec(t.Context(), "INSERT INTO sluice_schema (version_id, is_applied) VALUES (999, true)"); err != nil {
		t.Fatal(err)
	}
	for name, open := range openers {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "999") {
			t.Errorf("%s: error %v, want one that tells the version", name, err)
		}
	}
}

func TestOpenReadOnlyWithoutSchema(t *testing.T) {
	url := servertest.Postgres(t)
	_, err := pgstore.OpenReadOnly(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "no store of sluice") {
		t.Errorf("error %v", err)
	}
	var tables int
	if err := connect(t, url).QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables, %v, want none", tables, err)
	}
}

// The database itself refuses, should a change ever get that far.
func TestReadOnlyIsTheDatabasesWordToo(t *testing.T) {
	url := servertest.Postgres(t)
	open(t, url)
	r := openReadOnly(t, url)
	r.ReadOnly = false
	_, err := r.CreateSale(t.Context(), aSale(10))
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("error %v", err)
	}
}

var openers = map[string]func(context.Context, string) (*pgstore.Store, error){
	"Open": func(ctx context.Context, url string) (*pgstore.Store, error) {
		return pgstore.Open(ctx, url, pgstore.Options{ConnectTimeout: time.Second})
	},
	"OpenReadOnly": pgstore.OpenReadOnly,
}

// Errors of Open are one sentence without the password, and tell a database
// that may come back from a URL that is wrong.
func TestOpenErrors(t *testing.T) {
	base := servertest.Postgres(t)
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
	for _, test := range []struct {
		name, url   string
		want        string
		unreachable bool
	}{
		{"nothing listens", fmt.Sprintf("postgres://ann:%s@127.0.0.1:%d/shop", secret, port), fmt.Sprintf(`database "shop" at 127.0.0.1:%d`, port), true},
		{"no such host", "postgres://ann:" + secret + "@no-such-host.invalid/shop", `no-such-host.invalid`, true},
		{"wrong password", changed(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), secret) }), "password authentication failed", false},
		{"no such database", changed(func(u *url.URL) { u.Path = "/nowhere" }), `database "nowhere" does not exist`, false},
		{"not PostgreSQL", "mysql://ann:" + secret + "@127.0.0.1/shop", "postgres://", false},
		{"no URL", "host=127.0.0.1 password=" + secret, "postgres://", false},
		{"password not encoded", "postgres://ann:s3cr3t-#/x@127.0.0.1/shop", "postgres://", false},
		{"port no number", "postgres://ann:" + secret + "@127.0.0.1:x/shop", "cannot be parsed", false},
		{"bad setting", "postgres://ann:" + secret + "@127.0.0.1/shop?sslmode=nonsense", "sslmode", false},
		{"bad pool size", "postgres://ann:" + secret + "@127.0.0.1/shop?pool_max_conns=0", "pool_max_conns", false},
		{"empty", "", "postgres://", false},
	} {
		for name, open := range openers {
			_, err := open(t.Context(), test.url)
			if err == nil {
				t.Errorf("%s, %s: no error", test.name, name)
				continue
			}
			text := err.Error()
			if !strings.Contains(text, test.want) || strings.Contains(text, "\n") || !strings.HasPrefix(text, "pgstore: ") {
				t.Errorf("%s, %s: %q, want a line with %q", test.name, name, text, test.want)
			}
			if strings.Contains(text, "s3cr3t") || strings.Contains(text, "sluice-test") {
				t.Errorf("%s, %s: the password shows: %s", test.name, name, text)
			}
			if errors.Is(err, pgstore.ErrUnreachable) != test.unreachable {
				t.Errorf("%s, %s: unreachable %v: %s", test.name, name, !test.unreachable, text)
			}
		}
	}
}

func aSale(total int64) sluice.Sale {
	return sluice.Sale{
		ID: "phones", SKU: "sku-1", Title: "A thing", Price: sluice.Money{Amount: 1999, Currency: "CNY"},
		Terms:         sluice.Terms{Total: total, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: time.Now()},
		PaymentWindow: 15 * time.Minute,
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
