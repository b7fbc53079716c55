package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// shop is an embedded engine with one sale.
type shop struct {
	t      *testing.T
	dir    string
	engine *engine.Engine
}

const restoreSale = sluice.SaleID("phone")

func openShop(t *testing.T, dir string) *shop {
	t.Helper()
	return openShopThatLogs(t, dir, &logged{})
}

func openShopThatLogs(t *testing.T, dir string, log *logged) *shop {
	t.Helper()
	return openShopWith(t, dir, "", log)
}

// openShopWith opens one with this ledger; empty: the embedded one.
func openShopWith(t *testing.T, dir, ledger string, log *logged) *shop {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: dir, Ledger: ledger, AdminKey: "admin-key-of-the-shop", BuyerSecret: "buyer-secret-of-the-fleet",
		ReconcileInterval: 200 * time.Millisecond, Log: log.logger(),
	}))(t)
	s := &shop{t: t, dir: dir, engine: e}
	t.Cleanup(s.close)
	return s
}

func (s *shop) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.engine.Close(ctx); err != nil {
		s.t.Error(err)
	}
}

// claim tries until it is decided.
func (s *shop) claim(buyer int) (order sluice.OrderID, code string) {
	name := fmt.Sprintf("buyer-%05d", buyer)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		request := httptest.NewRequest(http.MethodPost, "/v1/sales/"+string(restoreSale)+"/orders",
			strings.NewReader(`{"quantity":1}`))
		request.Header.Set("Authorization", "Bearer "+token(name))
		request.Header.Set("Idempotency-Key", "attempt-"+name)
		answer := httptest.NewRecorder()
		s.engine.Handler().ServeHTTP(answer, request)
		body := answer.Body.String()
		switch {
		case answer.Code == http.StatusAccepted:
			return sluice.OrderID(field(body, "order_id")), "accepted"
		case answer.Code != http.StatusServiceUnavailable:
			return "", field(body, "code")
		case time.Now().After(deadline):
			s.t.Errorf("%s: no decision in 30 s: %d %s", name, answer.Code, body)
			return "", "none"
		}
	}
}

func field(body, name string) string {
	_, rest, _ := strings.Cut(body, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// cancel ends an order, which may still be queued.
func (s *shop) cancel(order sluice.OrderID) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		request := httptest.NewRequest(http.MethodPost, "/v1/admin/orders/"+string(order)+"/cancel", nil)
		request.Header.Set("Authorization", "Bearer admin-key-of-the-shop")
		answer := httptest.NewRecorder()
		s.engine.Handler().ServeHTTP(answer, request)
		if answer.Code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("cancel %s: %d %s", order, answer.Code, answer.Body.String())
			return
		}
	}
}

// copyDB copies an SQLite file as it is at one moment, and changes nothing in
// the copy: what a snapshot of the disk would be.
func copyDB(t *testing.T, from, to string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+from+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec(`VACUUM INTO ?`, to); err != nil {
		t.Error(err)
	}
}

// patience bounds every wait for what must happen: a machine may be busy, and only what
// never happens is a failure.
const patience = 5 * time.Minute

func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// fence asks for a rebuild, behind the back of a server that is down.
func fence(t *testing.T, store string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+store+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	must.Get(db.Exec(`UPDATE sales SET fence = 'lost: by a test'`))(t)
}

// oldFolder is a data folder that is about to get an older store.
type oldFolder struct {
	*testing.T
	base, dir string
	store     *sqlitestore.Store
	ledger    *sqliteledger.Ledger
}

func newOldFolder(t *testing.T) *oldFolder {
	t.Helper()
	d := &oldFolder{T: t, base: t.TempDir()}
	d.dir = filepath.Join(d.base, "data")
	d.must(os.Mkdir(d.dir, 0o700))
	var err error
	d.store, err = sqlitestore.Open(t.Context(), filepath.Join(d.dir, "store.db"), sqlitestore.Options{})
	d.must(err)
	d.ledger, err = sqliteledger.Open(t.Context(), filepath.Join(d.dir, "ledger.db"), sqliteledger.Options{Node: "a"})
	d.must(err)
	return d
}

func (d *oldFolder) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// create creates a sale of one unit.
func (d *oldFolder) create(sale sluice.SaleID) {
	d.Helper()
	loader := settle.NewLoader(d.store, d.ledger)
	_, err := settle.NewControl(d.store, d.ledger, loader).Create(d.Context(), sluice.Sale{
		ID: sale, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 1, MaxPerBuyer: 1, MaxOrders: 9,
			OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Hour, PaymentGrace: time.Second,
	})
	d.must(err)
}

// claim has a buyer accepted, and the order stored or left in the journal.
func (d *oldFolder) claim(sale sluice.SaleID, buyer string, stored bool) sluice.OrderID {
	d.Helper()
	order := sale.Order(fmt.Sprintf("%032x", []byte(buyer)))
	c := []sluice.Claim{{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: order}}
	await(d.T, "the unit", func() bool {
		decisions, err := d.ledger.Claim(d.Context(), sale, c)
		return err == nil && decisions[0].Code == sluice.Accepted
	})
	if stored {
		entries, err := d.ledger.ReadJournal(d.Context(), port.JournalRead{Sale: sale, Source: port.New, Max: 9})
		d.must(err)
		_, err = d.store.Insert(d.Context(), sale, entries)
		d.must(err)
		d.must(d.ledger.Ack(d.Context(), sale, []string{entries[0].ID}))
	}
	return order
}

// end cancels an order and gives its unit back to the ledger.
func (d *oldFolder) end(order sluice.OrderID) {
	d.Helper()
	_, err := d.store.Change(d.Context(), sluice.Change{Order: order, Action: sluice.Cancel, By: "test"})
	d.must(err)
	_, err = d.store.GiveReleases(d.Context(), 9, func(sale sluice.SaleID, releases []port.Release) error {
		_, err := d.ledger.Release(d.Context(), sale, releases)
		return err
	})
	d.must(err)
}

// An epoch that no server has counted, in the store: nothing is loaded, the log
// says why, and with the epoch of the orders the sale goes on.
func TestAnEpochOfNoServerInTheStore(t *testing.T) {
	dir := t.TempDir()
	s := openShop(t, dir)
	must.Get(s.engine.Control().Create(t.Context(), formatSale(restoreSale)))(t)
	order, code := s.claim(1)
	if code != "accepted" {
		t.Fatal(code)
	}
	for _, loaded := range []string{"9007199254740992", "1"} {
		s.close()
		file := filepath.Join(dir, "store.db")
		// The sale's own epoch waits beside it, in a table of the test's.
		execFile(t, file, `CREATE TABLE own AS SELECT epoch FROM sales`)
		execFile(t, file, `UPDATE sales SET epoch = 9007199254740992, loaded_epoch = `+loaded)
		out := &logged{}
		e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: dir, Log: out.logger()}))(t)
		s.engine = e
		await(t, "the log to say it", func() bool { return len(out.lines("no server counts that far")) > 0 })
		s.close()
		execFile(t, file, `UPDATE sales SET loaded_epoch = (SELECT epoch FROM own)`)
		execFile(t, file, `UPDATE sales SET epoch = (SELECT epoch FROM own)`)
		execFile(t, file, `DROP TABLE own`)
		s = openShop(t, dir)
		if again, code := s.claim(1); again != order {
			t.Errorf("loaded %s: buyer 1 was promised %s and gets %s %s", loaded, order, again, code)
		}
	}
}

// A restored sale waits for a person, and then its rebuild for another server. Until then the
// journal is not stored, whether a server finds the sale fenced or fences it at its start:
// the endings that the store has forgotten come first.
func TestARestoredJournalWaitsForTheRebuild(t *testing.T) {
	t.Parallel()
	for name, fenced := range map[string]bool{"the copy is fenced": true, "the copy is not fenced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restoreBeforeTheRebuild(t, fenced)
		})
	}
}

func restoreBeforeTheRebuild(t *testing.T, fenced bool) {
	d := newOldFolder(t)
	ctx, base, dir, must := t.Context(), d.base, d.dir, d.must
	const n = 3
	name := func(i int) sluice.SaleID { return sluice.SaleID(fmt.Sprintf("phone-%d", i)) }
	alice, dave := map[int]sluice.OrderID{}, map[int]sluice.OrderID{}
	for i := range n {
		d.create(name(i))
		alice[i] = d.claim(name(i), "alice", true)
	}
	copyDB(t, filepath.Join(dir, "store.db"), filepath.Join(base, "old-store.db"))
	for i := range n {
		d.end(alice[i])
	}
	for i := range n {
		d.end(d.claim(name(i), "carol", true))
	}
	for i := range n {
		dave[i] = d.claim(name(i), "dave", false)
	}
	must(d.store.Close())
	must(d.ledger.Close())
	for _, file := range []string{"store.db", "store.db-wal", "store.db-shm"} {
		_ = os.Remove(filepath.Join(dir, file))
	}
	if fenced { // as sluice backup leaves it
		fence(t, filepath.Join(base, "old-store.db"))
	}
	copyDB(t, filepath.Join(base, "old-store.db"), filepath.Join(dir, "store.db"))
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "store.db"), sqlitestore.Options{})
	must(err)
	must(store.Heartbeat(ctx, port.Server{Node: "b"})) // another server, which the rebuild waits for
	must(store.Close())
	s := openShop(t, dir)
	for i := range n {
		s.recover(name(i))
	}
	for i := range n {
		await(t, "dave's order", func() bool { s := s.status(dave[i]); return s == "pending" || s == "rejected" })
		if a, d := s.status(alice[i]), s.status(dave[i]); a != "cancelled" || d != "pending" {
			t.Errorf("alice, who had given the unit back, is %s; dave, who was promised it, %s", a, d)
		}
	}
}
