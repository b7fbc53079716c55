package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
	"github.com/sluicehq/sluice/store/storetest"
)

// Also what refers to the table of sales, which SQLite must recreate.
func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	raw := func(t *testing.T) *sql.DB {
		t.Helper()
		db, err := handle(path, 1, "_txlock=immediate", "_pragma=foreign_keys(ON)")
		return storetest.Kept(t, db, err)
	}
	(&storetest.Older{
		DB: raw(t), Dialect: goose.DialectSQLite3, Migrations: migrations, VersionTable: sqlcore.VersionTable,
		Time:  func(ms int64) string { return strconv.FormatInt(ms, 10) },
		Bytes: "x'00'",
		Open: func(t *testing.T) sluice.Store {
			s, err := Open(t.Context(), path, Options{})
			return storetest.Kept(t, s, err)
		},
		Raw:        raw,
		CheckFails: func(err error) bool { return err != nil && strings.Contains(err.Error(), "CHECK constraint failed") },
		RefersToNone: func(t *testing.T) (n int) {
			t.Helper()
			db := raw(t)
			if err := db.QueryRow(`SELECT count(*) FROM pragma_foreign_key_check`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			// The table of orders, whose text was changed, is whole and refers to none.
			var refers int
			var whole string
			if err := db.QueryRow(`SELECT count(*), (SELECT integrity_check FROM pragma_integrity_check)
				FROM pragma_foreign_key_list('orders')`).Scan(&refers, &whole); err != nil || refers != 0 || whole != "ok" {
				t.Errorf("the orders refer to %d tables, want none; the file is %s; %v", refers, whole, err)
			}
			return n
		},
	}).Upgrade(t)
}

// A migration that reads a great many orders waits until no sale is open: the one
// server of an embedded store serves when it is done.
func TestALongMigrationWaitsForOpenSales(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := Open(t.Context(), path, Options{}) // of today, for its way of writing a sale
	if err != nil {
		t.Fatal(err)
	}
	sale := sluice.Sale{
		ID: "phones", SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"}, PaymentWindow: time.Hour,
		Terms: sluice.Terms{
			Version: 1, Total: sluice.Unlimited, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited,
			OpensAt: time.Now().Add(-time.Hour),
		},
	}
	if _, err := s.CreateSale(t.Context(), sale); err != nil {
		t.Fatal(err)
	}
	do := func(statement string, args ...any) {
		t.Helper()
		if _, err := s.write.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	do(`WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n <= ?)
		INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency, status, reason,
			epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at)
		SELECT printf('phones.%d', n), 'phones', 'ann', printf('key-%d', n), 1, '', 1, 'CNY', 'paid', '',
			1, n, 1, 'one', 1, 1, 2, 2, 1 FROM c`, manyOrders)
	// As the version before the slow migration has left it.
	do("DROP TABLE payments")
	do("DROP TABLE order_addresses")
	for _, column := range []string{"fence", "ttl"} {
		do("ALTER TABLE leases DROP COLUMN " + column)
	}
	for _, index := range []string{"sales_to_erase", "sales_to_purge", "order_events_of_sale"} {
		do("DROP INDEX " + index)
	}
	do("ALTER TABLE event_feed DROP COLUMN first_event")
	do("ALTER TABLE nodes DROP COLUMN ledger")
	for _, column := range []string{"erased_at", "purged_at", "remains", "ledger"} {
		do("ALTER TABLE sales DROP COLUMN " + column)
	}
	for _, table := range []string{"sales", "sale_terms"} {
		do("ALTER TABLE " + table + " DROP COLUMN max_unpaid")
		do("ALTER TABLE " + table + " DROP COLUMN max_live_per_address")
	}
	for _, table := range []string{"orders", "releases"} {
		do("ALTER TABLE " + table + " DROP COLUMN unpaid")
	}
	do("DELETE FROM "+sqlcore.VersionTable+" WHERE version_id >= ?", lastSlow)
	_, err = Open(t.Context(), path, Options{})
	if err == nil || !strings.Contains(err.Error(), "the sale phones is open") {
		t.Errorf("with an open sale: %v", err)
	}
	do("UPDATE sales SET paused = 1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, _, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: 1})
	if err != nil || len(page) != 1 || page[0].Unpaid {
		t.Errorf("%+v, %v", page, err)
	}
}
