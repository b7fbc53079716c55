package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
)

// Older is an empty database, to be filled as a program of schema version 2 has
// left it.
type Older struct {
	DB           *sql.DB // Upgrade closes it
	Dialect      goose.Dialect
	Migrations   fs.FS
	VersionTable string
	// Time is the literal of a time, in milliseconds since 1970, and Bytes that
	// of one byte 0.
	Time  func(ms int64) string
	Bytes string

	// Open opens it with the program of today, and Raw a handle past the store.
	Open func(t *testing.T) sluice.Store
	Raw  func(t *testing.T) *sql.DB
	// CheckFails reports whether a statement failed at a CHECK, and
	// RefersToNone counts rows that refer to a row that is not there; nil where
	// no migration recreates a table.
	CheckFails   func(err error) bool
	RefersToNone func(t *testing.T) int
}

// Upgrade checks that a database of an older program keeps everything, and gets
// what it then must have: each sale its cap, each order its event.
func (old *Older) Upgrade(t *testing.T) {
	old.fill(t)
	s := old.Open(t)
	got, err := s.Sale(t.Context(), "phones")
	if err != nil || got.Cap != 10 || got.Total != 10 || got.Taken != 3 || got.MaxUnpaid != 0 || got.Fence != "why" ||
		!got.ArchivedAt.IsZero() ||
		got.CreatedAt.UnixMilli() != 5000 || got.UpdatedAt.UnixMilli() != 6000 {
		t.Errorf("sale %+v, %v", got, err)
	}
	if got, err := s.Sale(t.Context(), "endless"); err != nil || got.Cap != sluice.Unlimited ||
		got.Total != sluice.Unlimited {
		t.Errorf("sale without a total: %+v, %v", got, err)
	}
	if page, _, err := s.Orders(t.Context(), sluice.OrderFilter{Sale: "phones", Limit: 10}); err != nil ||
		len(page) != 1 || page[0].ID != oldOrder || page[0].Unpaid {
		t.Errorf("orders %+v, %v", page, err)
	}
	if letters, err := s.DeadLetters(t.Context(), "phones"); err != nil || len(letters) != 1 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	raw := old.Raw(t)
	for _, set := range []string{
		"taken = 11", "taken = -1", "cap = 9", "cap = NULL", "total = -1", "price_amount = -1",
		"price_currency = 'CN'", "list_price_amount = -1, list_price_currency = 'CNY'", "list_price_amount = 1",
		"list_price_currency = 'CNY'",
		"list_price_amount = 1, list_price_currency = 'EUR'", "payment_window_ms = 0", "payment_grace_ms = -1",
		"terms_version = 0", "max_per_buyer = 0", "max_orders = 0", "max_unpaid = 0", "max_live_per_address = 0",
		"closes_at = opens_at", "epoch = -1", "loaded_epoch = epoch + 1", "loaded_epoch = -1",
	} {
		_, err := raw.ExecContext(t.Context(), "UPDATE sales SET "+set+" WHERE id = 'phones'")
		if !old.CheckFails(err) {
			t.Errorf("%s: error %v, want the check to fail", set, err)
		}
	}
	if old.RefersToNone != nil {
		if n := old.RefersToNone(t); n != 0 {
			t.Errorf("%d rows refer to none", n)
		}
	}
	if _, err := raw.ExecContext(t.Context(), "DELETE FROM sales WHERE id = 'phones'"); err == nil {
		t.Error("a sale that others refer to was deleted")
	}
	// What was there before there were events gets its numbers.
	if _, err := s.Change(t.Context(), sluice.Change{Order: oldOrder, Action: sluice.Cancel}); err != nil {
		t.Error(err)
	}
	if n, err := s.NumberEvents(t.Context(), 10); err != nil || n != 2 {
		t.Errorf("%d events, %v", n, err)
	}
	if events, err := s.Events(t.Context(), 0, 10); err != nil || len(events) != 2 ||
		events[0].Type != sluice.EventOrderCreated || events[1].Type != sluice.EventOrderCancelled {
		t.Errorf("events %+v, %v", events, err)
	}
}

// StandsAside: while a session holds a table that a migration after that version changes,
// the servers that sell go on, and once the table is free the store opens.
func (old *Older) StandsAside(t *testing.T, version int64) {
	old.upTo(t, version)
	holder, err := old.DB.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = holder.ExecContext(t.Context(), "SELECT count(*) FROM sales")
	}
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		old.Open(t)
	}()
	for begin := time.Now(); time.Since(begin) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := old.DB.ExecContext(ctx, "SELECT count(*) FROM sales")
		if cancel(); err != nil {
			t.Errorf("who sells: %v", err)
			break
		}
	}
	select {
	case <-opened:
		t.Error("opened while the table was held")
	default:
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	<-opened
}

const oldOrder sluice.OrderID = "phones.0123456789abcdef0123456789abcdef"

func (old *Older) upTo(t *testing.T, version int64) {
	t.Helper()
	provider, err := goose.NewProvider(old.Dialect, old.DB, old.Migrations, goose.WithTableName(old.VersionTable),
		goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = provider.UpTo(t.Context(), version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (old *Older) fill(t *testing.T) {
	t.Helper()
	old.upTo(t, 2)
	at := func(second int64) string { return old.Time(second * 1000) }
	sale := func(id, total string, taken int) string {
		return fmt.Sprintf(
			`INSERT INTO sales VALUES ('%s', 'sku', 'title', 1, 'CNY', NULL, NULL, 1000, 0, 1, %s, NULL, NULL, %s, NULL, false, 1, 1, 'why', %d, %s, %s)`,
			id, total, at(1), taken, at(5), at(6))
	}
	for _, statement := range []string{
		sale("phones", "10", 3),
		sale("endless", "NULL", 0),
		fmt.Sprintf(`INSERT INTO sale_terms VALUES ('phones', 1, 10, NULL, NULL, %s, NULL, false, %s)`, at(1), at(5)),
		fmt.Sprintf(
			`INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency, status, reason, epoch, seq, terms, node,
				accepted_at, stored_at, expires_at, keep_until, updated_at)
			VALUES ('%[1]s', 'phones', 'ann', 'key-00000001', 3, '', 1, 'CNY', 'pending', '', 1, 1, 1, 'n', %[2]s, %[2]s, %[3]s, %[3]s, %[2]s)`, oldOrder, at(1), at(2)),
		fmt.Sprintf(`INSERT INTO dead_letters (sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, created_at)
			VALUES ('phones', 1, 'e', 'why', %s, 1, 1, 'n', %s)`, old.Bytes, at(7)),
	} {
		if _, err := old.DB.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := old.DB.Close(); err != nil {
		t.Fatal(err)
	}
}
