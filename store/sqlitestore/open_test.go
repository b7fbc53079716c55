package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

var openers = map[string]func(context.Context, string) (*sqlitestore.Store, error){
	"Open": func(ctx context.Context, path string) (*sqlitestore.Store, error) {
		return sqlitestore.Open(ctx, path, sqlitestore.Options{})
	},
	"OpenReadOnly": sqlitestore.OpenReadOnly,
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	must.Succeed(t, os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600))
	newer := filepath.Join(dir, "newer.db")
	open(t, newer).Close()
	execute(t, newer, "INSERT INTO sluice_schema (version_id, is_applied) VALUES (999, 1)")
	for _, test := range []struct {
		path, opener, want string
	}{
		{"", "Open", "empty"},
		{dir, "Open", "folder"},
		{dir, "OpenReadOnly", "folder"},
		{filepath.Join(dir, "none", "store.db"), "Open", "no folder"},
		{filepath.Join(dir, "none.db"), "OpenReadOnly", "no such file"},
		{text, "Open", "not a database"},
		{text, "OpenReadOnly", "not a database"},
		{newer, "Open", "999"},
		{newer, "OpenReadOnly", "999"},
	} {
		s, err := openers[test.opener](t.Context(), test.path)
		if err == nil {
			s.Close()
			t.Errorf("%s %q: no error", test.opener, test.path)
			continue
		}
		if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
			t.Errorf("%s %q: %q, want a line with %q", test.opener, test.path, text, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("OpenReadOnly made the file")
	}
}

func TestOpenReadOnlyDoesNotMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.db")
	execute(t, path, "CREATE TABLE other (n INTEGER)")
	_, err := sqlitestore.OpenReadOnly(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), "no store of sluice") {
		t.Errorf("error %v", err)
	}
	execute(t, path, "SELECT n FROM other")
}

// The database itself refuses, should a change ever get that far.
func TestReadOnlyIsTheDatabasesWordToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open(t, path)
	r := openReadOnly(t, path)
	r.ReadOnly = false
	_, err := r.CreateSale(t.Context(), aSale())
	if err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("error %v", err)
	}
}

// The path is a path, whatever is in it.
func TestPathsWithSpecialCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?mode=memory#%41&界.db")
	s := open(t, path)
	must.Get(s.CreateSale(t.Context(), aSale()))(t)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if _, err := openReadOnly(t, path).Sale(t.Context(), "phones"); err != nil {
		t.Error(err)
	}
}

func TestClockIsInjected(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("", 3600))
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"),
		sqlitestore.Options{Now: func() time.Time { return now }})
	s = storetest.Kept(t, s, err)
	sale, err := s.CreateSale(t.Context(), aSale())
	if want := time.Date(2030, 1, 2, 2, 4, 5, 678e6, time.UTC); err != nil || sale.CreatedAt != want {
		t.Errorf("created at %v, %v, want %v", sale.CreatedAt, err, want)
	}
}

// What a power cut must not take: every commit is on disk (see the package's
// comment), in a log that readers do not wait for.
func TestPragmas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		if got := s.Pragma(t, pragma); got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
}

func aSale() sluice.Sale {
	return sluice.Sale{
		ID: "phones", SKU: "sku-1", Title: "A thing", Price: sluice.Money{Amount: 1999, Currency: "CNY"},
		Terms:         sluice.Terms{Total: sluice.MaxUnits, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: time.Now()},
		PaymentWindow: 15 * time.Minute,
	}
}

func execute(t testing.TB, path, statement string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	must.Get(db.Exec(statement))(t)
}

// A buyer's change of an order that is not there, or is another's, does not wait
// for the one writer of the database, let alone hold it.
func TestAStrangersChangeNeedsNoWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	must.Get(s.CreateSale(t.Context(), aSale()))(t)
	writer := must.Get(sql.Open("sqlite", path))(t)
	defer writer.Close()
	conn := must.Get(writer.Conn(t.Context()))(t)
	defer conn.Close()
	must.Get(conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	order := sluice.SaleID("phones").Order(strings.Repeat("f", 32))
	if _, err := s.Change(ctx, sluice.Change{Action: sluice.Cancel, Order: order, Buyer: "ann"}); !errors.Is(err,
		sluice.ErrOrderNotFound) {
		t.Errorf("while another writes: %v", err)
	}
}

// Before its first load no ledger has accepted anything under the total before,
// which earlier versions kept as the cap: the lower total stays.
func TestFirstLoadKeepsLoweredTotal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path)
	must.Get(s.CreateSale(t.Context(), aSale()))(t)
	execute(t, path, "UPDATE sales SET total = 6")
	if image, err := s.BeginLoad(t.Context(), "phones", 0); err != nil || image.Terms.Total != 6 {
		t.Errorf("loaded with a total of %d, %v; want 6", image.Terms.Total, err)
	}
}

// The system forgets a process's locks of a file as soon as the process closes
// any descriptor of it. Without them another process that opens and closes the
// file, like the audit, takes away the log that this one writes to.
func TestOpenAgainKeepsLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	locks := func() (n int) {
		all, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Skip("this system does not list locks")
		}
		info := must.Get(os.Stat(path))(t)
		inode := fmt.Sprintf(":%d ", reflect.ValueOf(info.Sys()).Elem().FieldByName("Ino").Uint())
		return strings.Count(string(all), inode)
	}
	s := open(t, path)
	must.Succeed(t, s.Ping(t.Context()))
	before := locks()
	if before == 0 {
		t.Skip("this system does not list the locks of this file system")
	}
	open(t, path)
	if after := locks(); after < before {
		t.Errorf("%d locks after the file was opened again, %d before", after, before)
	}
}
