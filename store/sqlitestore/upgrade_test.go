package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

// A file of an older program keeps everything, also what refers to the table of
// sales, which SQLite must make anew.
func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := handle(path, 1, "_txlock=immediate", "_pragma=foreign_keys(ON)")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations(), goose.WithTableName(sqlcore.VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	const sale = `INSERT INTO sales VALUES (?, 'sku', 'title', 1, 'CNY', NULL, NULL, 1000, 0, 1, ?, NULL, NULL, 1000, NULL, 0, 1, 1, 'why', ?, 5, 6)`
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(sale, "phones", 10, 3)
	run(sale, "endless", nil, 0)
	run(`INSERT INTO sale_terms VALUES ('phones', 1, 10, NULL, NULL, 1000, NULL, 0, 5)`)
	run(`INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency, status, reason, epoch, seq, terms, node,
			accepted_at, stored_at, expires_at, keep_until, updated_at)
		VALUES ('phones.0123456789abcdef0123456789abcdef', 'phones', 'ann', 'key-00000001', 3, '', 1, 'CNY', 'pending', '', 1, 1, 1, 'n', 1, 1, 2, 2, 1)`)
	run(`INSERT INTO dead_letters (sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, created_at) VALUES ('phones', 1, 'e', 'why', x'00', 1, 1, 'n', 7)`)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Sale(t.Context(), "phones")
	if err != nil || got.Cap != 10 || got.Total != 10 || got.Taken != 3 || got.Fence != "why" || !got.ArchivedAt.IsZero() ||
		got.CreatedAt.UnixMilli() != 5 || got.UpdatedAt.UnixMilli() != 6 {
		t.Errorf("sale %+v, %v", got, err)
	}
	if got, err := s.Sale(t.Context(), "endless"); err != nil || got.Cap != sluice.Unlimited || got.Total != sluice.Unlimited {
		t.Errorf("sale without a total: %+v, %v", got, err)
	}
	if page, _, err := s.Orders(t.Context(), sluice.OrderFilter{Sale: "phones", Limit: 10}); err != nil || len(page) != 1 {
		t.Errorf("orders %+v, %v", page, err)
	}
	if letters, err := s.DeadLetters(t.Context(), "phones"); err != nil || len(letters) != 1 {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	// What was there before there were events gets its numbers.
	if _, err := s.Change(t.Context(), sluice.Change{Order: "phones.0123456789abcdef0123456789abcdef", Action: sluice.Cancel}); err != nil {
		t.Error(err)
	}
	if n, err := s.NumberEvents(t.Context(), 10); err != nil || n != 2 {
		t.Errorf("%d events, %v", n, err)
	}
	if events, err := s.Events(t.Context(), 0, 10); err != nil || len(events) != 2 || events[0].Type != sluice.EventOrderCreated || events[1].Type != sluice.EventOrderCancelled {
		t.Errorf("events %+v, %v", events, err)
	}
	if n := broken(t, s.write); n != 0 {
		t.Errorf("%d rows refer to none", n)
	}
	if _, err := s.write.Exec(`DELETE FROM sales WHERE id = 'phones'`); err == nil {
		t.Error("a sale that others refer to was deleted")
	}
}

func broken(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow(`SELECT count(*) FROM pragma_foreign_key_check`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
