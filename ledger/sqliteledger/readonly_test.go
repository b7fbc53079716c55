package sqliteledger_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// open opens a ledger that is closed with the test.
func open(t testing.TB, path string) *sqliteledger.Ledger {
	t.Helper()
	l := must.Get(sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: "node-a"}))(t)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func load(t testing.TB, l *sqliteledger.Ledger, id sluice.SaleID, total int64) {
	t.Helper()
	terms := sluice.Terms{
		Version: 1, Total: total, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited,
		OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
	}
	must.Succeed(t, l.Load(t.Context(), port.LoadImage{Sale: id, Epoch: 1, Terms: terms}))
	must.Succeed(t, l.Unfence(t.Context(), id, 1))
}

func claim(t testing.TB, l *sqliteledger.Ledger, id sluice.SaleID, claims ...sluice.Claim) []sluice.Decision {
	t.Helper()
	decisions := must.Get(l.Claim(context.Background(), id, claims))(t)
	return decisions
}

func newClaim(id sluice.SaleID, n int) sluice.Claim {
	buyer := "buyer-" + hex(n)
	return sluice.Claim{Buyer: sluice.BuyerID(buyer), Key: "key-0001", Quantity: 1, Order: id.Order(hex(n))}
}

// hex returns n as the 32 hex digits of an order id.
func hex(n int) string {
	const digits = "0123456789abcdef"
	b := []byte(strings.Repeat("0", 32))
	for i := len(b) - 1; n > 0; i, n = i-1, n/16 {
		b[i] = digits[n%16]
	}
	return string(b)
}

// everything returns all that readers see of a sale.
func everything(t testing.TB, l port.ReadOnlyLedger, id sluice.SaleID) (
	port.Reading, []port.Record, []port.Entry,
) {
	t.Helper()
	readings := must.Get(l.Read(t.Context(), []sluice.SaleID{id}))(t)
	var records []port.Record
	must.Succeed(t, l.Records(t.Context(), id, func(r port.Record) bool {
		records = append(records, r)
		return true
	}))
	var entries []port.Entry
	must.Succeed(t, l.PeekJournal(t.Context(), id, func(e port.Entry) bool {
		entries = append(entries, e)
		return true
	}))
	readings[0].Now = time.Time{}
	for i := range entries {
		entries[i].Deliveries = 0
	}
	return readings[0], records, entries
}

func TestReadOnlyWhileTheLedgerRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, path)
	load(t, l, "s", 10)
	claim(t, l, "s", newClaim("s", 1), newClaim("s", 2))
	claim(t, l, "s", newClaim("s", 3))
	entries := must.Get(l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New, Max: 1}))(t)
	must.Succeed(t, l.Ack(t.Context(), "s", []string{entries[0].ID}))

	snapshot := must.Get(sqliteledger.OpenReadOnly(t.Context(), path))(t)
	defer snapshot.Close()
	reading, records, journal := everything(t, l, "s")
	gotReading, gotRecords, gotJournal := everything(t, snapshot, "s")
	for _, d := range []string{
		cmp.Diff(reading, gotReading), cmp.Diff(records, gotRecords),
		cmp.Diff(journal, gotJournal),
	} {
		if d != "" {
			t.Errorf("-ledger +snapshot\n%s", d)
		}
	}
	if len(records) != 3 || len(journal) != 1 || reading.Taken != 3 {
		t.Errorf("%d records, %d entries, taken %d; want 3, 1, 3", len(records), len(journal), reading.Taken)
	}
	for _, buyer := range []sluice.BuyerID{records[1].Buyer, ""} {
		got, err := snapshot.Find(t.Context(), records[1].Order, buyer)
		if err != nil || cmp.Diff(records[1], got) != "" {
			t.Errorf("Find: %+v, %v; want %+v", got, err, records[1])
		}
	}

	// The ledger goes on, and the snapshot stays what it was.
	claim(t, l, "s", newClaim("s", 4))
	if after, _, _ := everything(t, snapshot, "s"); after.Seq != 3 {
		t.Errorf("seq %d in the snapshot, want 3 still", after.Seq)
	}
	if err := snapshot.Records(t.Context(), "other", nil); !errors.Is(err, port.ErrNotLoaded) {
		t.Errorf("error %v, want ErrNotLoaded", err)
	}
}

func TestReadOnlyOfAClosedLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, path)
	load(t, l, "s", 10)
	claim(t, l, "s", newClaim("s", 1))
	must.Succeed(t, l.Close())
	snapshot := must.Get(sqliteledger.OpenReadOnly(t.Context(), path))(t)
	if r, _, _ := everything(t, snapshot, "s"); r.Seq != 1 {
		t.Errorf("seq %d, want 1", r.Seq)
	}
}

func TestFilesThatAreNoLedger(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	if _, err := sqliteledger.OpenReadOnly(t.Context(), missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v, want os.ErrNotExist", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made the file: %v", err)
	}
	for name, want := range map[string]string{
		"text":   "not a database",
		"other":  "not a ledger",
		"future": "format 99",
		"folder": "",
	} {
		path := filepath.Join(t.TempDir(), name+".db")
		makeFile(t, name, path)
		_, err := sqliteledger.OpenReadOnly(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s, read-only: error %v, want %q and the path", name, err, want)
		}
		l, err := sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: "a"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: ledger %v, error %v, want %q and the path", name, l, err, want)
		}
	}
}

func makeFile(t *testing.T, name, path string) {
	t.Helper()
	var err error
	switch name {
	case "text":
		err = os.WriteFile(path, []byte(strings.Repeat("this is no database, it is a text\n", 100)), 0o600)
	case "folder":
		err = os.Mkdir(path, 0o700)
	case "other":
		err = execSQL(path, `CREATE TABLE t (a); PRAGMA application_id = 7`)
	case "future":
		must.Succeed(t, open(t, path).Close())
		err = execSQL(path, `PRAGMA user_version = 99`)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// query reads a text from a file.
func query(t *testing.T, path, query string, args ...any) (text string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	defer db.Close()
	must.Succeed(t, db.QueryRow(query, args...).Scan(&text))
	return text
}

// execSQL changes a file behind the ledger's back.
func execSQL(path, query string, args ...any) error {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(query, args...)
	return err
}
