package sqlitestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

func TestConformance(t *testing.T) { storetest.Databases(databases).Run(t) }

func TestSoak(t *testing.T) { storetest.Databases(databases).Soak(t) }

// databases are copies of one file that has been migrated.
func databases(t *testing.T) func(t *testing.T) storetest.Database {
	migrated := filepath.Join(t.TempDir(), "store.db")
	must.Succeed(t, open(t, migrated).Close())
	content := must.Get(os.ReadFile(migrated))(t)
	return func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "store.db")
		must.Succeed(t, os.WriteFile(path, content, 0o600))
		return storetest.Database{
			Open:         func(t *testing.T) port.Store { return open(t, path) },
			OpenReadOnly: func(t *testing.T) port.Store { return openReadOnly(t, path) },
			OpenAhead: func(t *testing.T, by time.Duration) port.Store {
				s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Now: func() time.Time {
					return time.Now().Add(by)
				}})
				return storetest.Kept(t, s, err)
			},
			Hold: func(t *testing.T, statement string) func() {
				db, err := sql.Open("sqlite", path)
				return storetest.Hold(t, storetest.Kept(t, db, err), statement)
			},
			Age:     func(t *testing.T, sale sluice.SaleID, by time.Duration) { age(t, path, sale, by) },
			Earlier: func(column, seconds string) string { return column + " - (" + seconds + ") * 1000" },
			Refuse: `CREATE TRIGGER shop BEFORE INSERT ON orders WHEN NEW.quantity > 1
				BEGIN SELECT RAISE(ABORT, 'not more than one'); END`,
			Accept:  "DROP TRIGGER shop",
			Execute: func(t *testing.T, statement string) { execute(t, path, statement) },
			Try: func(t *testing.T, statement string) error {
				db, err := sql.Open("sqlite", path+"?_pragma=foreign_keys(ON)")
				_, err = storetest.Kept(t, db, err).ExecContext(t.Context(), statement)
				return err
			},
		}
	}
}

func age(t testing.TB, path string, sale sluice.SaleID, by time.Duration) {
	t.Helper()
	execute(t, path, fmt.Sprintf(`UPDATE orders SET stored_at = stored_at - %[1]d, expires_at = expires_at - %[1]d,
		keep_until = keep_until - %[1]d, updated_at = updated_at - %[1]d WHERE sale_id = '%[2]s'`, by.Milliseconds(), sale))
}

func open(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	return storetest.Kept(t, s, err)
}

func openReadOnly(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.OpenReadOnly(t.Context(), path)
	return storetest.Kept(t, s, err)
}

// Numbering looks at the sales that sell, not at each sale. An order that is committed
// after one with a later position is found within two seconds as long as a
// transaction may last, and within a minute in any case.
func TestLateOrdersAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path)
		var err error
		for _, id := range []sluice.SaleID{"one", "two"} {
			_, createErr := s.CreateSale(t.Context(), sluice.Sale{
				ID: id, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"}, PaymentWindow: time.Hour,
				Terms: sluice.Terms{Total: 10, MaxPerBuyer: 10, MaxOrders: 10, OpensAt: time.Now()},
			})
			_, loadErr := s.BeginLoad(t.Context(), id, 0)
			err = errors.Join(err, createErr, loadErr, s.ConfirmLoad(t.Context(), id, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		seq := map[sluice.SaleID]int64{}
		store := func(id sluice.SaleID, position int) {
			t.Helper()
			seq[id]++
			key := fmt.Sprint("key-0000", seq[id])
			stored, err := s.Insert(t.Context(), id, []port.Entry{{
				ID: key, Sale: id, Epoch: 1, Node: "a", Terms: 1, At: time.Now(), FirstSeq: seq[id], Deliveries: 1,
				Claims: []sluice.Claim{{
					Order: id.Order(fmt.Sprintf("%032x", seq[id])), Buyer: "buyer",
					Key: sluice.Key(key), Quantity: 1,
				}},
			}})
			if err != nil || stored.Inserted != 1 {
				t.Fatal(stored, err)
			}
			execute(t, path, fmt.Sprintf("UPDATE orders SET position = %d WHERE position = (SELECT max(position) FROM orders)",
				position))
		}
		numbered := func(want int) {
			t.Helper()
			got := 0
			for n, err := -1, error(nil); n != 0; got += n {
				if n, err = s.NumberEvents(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
			}
			if got != want {
				t.Fatalf("%d events got numbers, want %d", got, want)
			}
		}
		store("one", 10)
		numbered(5)
		time.Sleep(20 * time.Second)
		numbered(0)
		store("two", 5)
		time.Sleep(3 * time.Second)
		numbered(1)
		store("two", 6)
		store("one", 11)
		numbered(1) // as it should be: only the sale that sells was looked at
		time.Sleep(3 * time.Second)
		numbered(1)
		time.Sleep(time.Minute + time.Second)
		numbered(0)
		store("two", 7)
		numbered(0) // as it should be: no sale was looked at
		time.Sleep(time.Minute + time.Second)
		numbered(1)
		store("one", 12)
		numbered(1)
	})
}
