package storetest

import (
	"regexp"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// The database itself refuses rows that break an invariant, whatever program writes them.
func testChecks(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.entry(3)
	insert(t, s, port.Stored{Inserted: 3}, entry)
	change(t, s, want(entry.Claims[0].Order, sluice.Cancel))
	for table, sets := range map[string][]string{
		"sales": {
			"taken = 11", "taken = -1", "cap = 9", "cap = NULL", "total = -1", "price_amount = -1",
			"price_currency = 'CN'", "list_price_amount = -1", "list_price_amount = NULL", "list_price_currency = NULL",
			"list_price_currency = 'EUR'", "free = TRUE", "payment_window_ms = 0", "payment_grace_ms = -1",
			"terms_version = 0", "max_per_buyer = 0", "max_orders = 0", "max_unpaid = 0",
			"closes_at = opens_at", "epoch = -1", "loaded_epoch = epoch + 1", "loaded_epoch = -1",
		},
		"orders": {
			"status = 'lost'", "quantity = 0", "price_amount = -1", "seq = 0", "epoch = 0", "terms = 0",
			"expires_at = stored_at", "keep_until = stored_at",
		},
		"order_changes": {"to_status = 'refunded'", "from_status = 'paid'", "refused = 'payment-1'"},
		"releases":      {"quantity = 0", "epoch = -1"},
	} {
		for _, set := range sets {
			err := db.Try(t, "UPDATE "+table+" SET "+set)
			if err == nil || !checkFails.MatchString(err.Error()) {
				t.Errorf("%s: %s: error %v, want the check to fail", table, set, err)
			}
		}
	}
	if err := db.Try(t, "DELETE FROM sales"); err == nil {
		t.Error("a sale that other rows refer to was deleted")
	}
}

// checkFails matches SQLite's words, MariaDB's, MySQL's, and PostgreSQL's state.
var checkFails = regexp.MustCompile("CHECK constraint failed|CONSTRAINT .* failed|Check constraint .* violated|23514")
