package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/store/pgstore"
)

// olderCopy stands for a standby that is behind, beside a database that is ledger and store.
type olderCopy struct {
	t  *testing.T
	mu sync.Mutex // a rush takes it and has it take over at once
	db *pgx.Conn
}

// copied are the tables of a copy. Of sales only units, ledger and terms differ; of servers, heartbeats.
var copied = []string{
	"orders", "order_changes", "ledger_sales", "event_feed", "order_events", "sale_events", "dead_letters",
	"gathered", "sale_terms", "restocks",
}

func newOlderCopy(t *testing.T, store string) *olderCopy {
	db := must.Get(pgx.Connect(t.Context(), store))(t)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return &olderCopy{t: t, db: db}
}

func (c *olderCopy) exec(statements ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, err := c.db.Exec(context.Background(), strings.Join(statements, ";\n"))
		if err == nil {
			return
		}
		_, _ = c.db.Exec(context.Background(), "ROLLBACK")
		if failed := (*pgconn.PgError)(nil); !errors.As(err, &failed) || failed.Code != "40P01" {
			c.t.Error(err)
			return
		} // a deadlock: the tables are locked one by one, beside the servers
	}
}

// shows reports whether something is true of the sale's row.
func (c *olderCopy) shows(what string) (is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.QueryRow(context.Background(), "SELECT "+what+" FROM sales").Scan(&is); err != nil {
		c.t.Error(err)
	}
	return is
}

// take copies the database as it is.
func (c *olderCopy) take() {
	statements := []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "CREATE TABLE old_sales AS TABLE sales"}
	for _, table := range copied {
		statements = append(statements, "CREATE TABLE old_"+table+" AS TABLE "+table)
	}
	c.exec(append(statements, "COMMIT")...)
}

// takesOver puts the copy in the place of the database, as a minute later. The connections of
// the servers' heartbeats hang at first.
func (c *olderCopy) takesOver() {
	statements := []string{"BEGIN", "LOCK TABLE sales, nodes, " + strings.Join(copied, ", ") + " IN ACCESS EXCLUSIVE MODE"}
	for _, table := range copied {
		statements = append(statements, "DELETE FROM "+table,
			"INSERT INTO "+table+" OVERRIDING SYSTEM VALUE TABLE old_"+table)
	}
	c.exec(append(statements, `UPDATE sales SET taken = o.taken, epoch = o.epoch, loaded_epoch = o.loaded_epoch,
		fence = o.fence, ledger = o.ledger, terms_version = o.terms_version, total = o.total, cap = o.cap,
		paused = o.paused FROM old_sales o WHERE o.id = sales.id`,
		"UPDATE nodes SET seen_at = seen_at - interval '1 minute'",
		`CREATE OR REPLACE FUNCTION hung() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF now() < to_timestamp(`+fmt.Sprint(time.Now().Add(3*time.Second).Unix())+`) THEN RETURN NULL; END IF;
			RETURN NEW; END $$`,
		"CREATE OR REPLACE TRIGGER hung BEFORE INSERT OR UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION hung()", "COMMIT")...)
}

// The database that is ledger and store becomes an older copy of itself in the middle of
// a rush, as after a failover to a standby that was behind. The sale fences itself, is
// rebuilt from the servers' memory, and every promise is kept.
func TestTheDatabaseBecomesAnOlderCopyInARush(t *testing.T) {
	f := &fleet{t: t, store: servertest.Postgres(t), sale: "phone"}
	older := newOlderCopy(t, f.store)
	f.early, f.lose = older.take, older.takesOver
	f.open(2, 1000, "store").rush(t, 1500, 1000)
}

// Two standbys that are equally behind take over, one after the other. Between them the sale
// sells out, and is rebuilt once more: the second copy lacks all of that, and the epochs. The
// servers' memory brings back what was accepted in each epoch, and each rebuild waits for
// servers that the copy has not heard of for a minute.
func TestTwoOlderCopiesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, store: servertest.Postgres(t), sale: "phone"}
	f.open(3, 60, "store")
	older := newOlderCopy(t, f.store)
	older.take()
	promised, others := map[int]string{}, 1000
	buy := func(n int) {
		t.Helper()
		for range n {
			buyer := len(promised)
			promised[buyer] = f.buys(buyer%3, buyer)
		}
	}
	kept := func() {
		t.Helper()
		f.until("the sale to refuse others", func() bool {
			others++
			status, _ := f.claim(others%3, others)
			if status == http.StatusAccepted {
				t.Fatal("a unit that was promised is sold again")
			}
			return status == http.StatusConflict
		})
		for buyer, order := range promised {
			f.keeps(buyer%3, buyer, order)
		}
		if stored := f.storedOrders(); len(stored) != len(promised) {
			t.Fatalf("%d orders, want %d", len(stored), len(promised))
		}
	}
	buy(40)
	older.takesOver()
	rebuilt := int64(0)
	f.until("the sale to be rebuilt", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		rebuilt = sale.Epoch
		return err == nil && sale.Epoch > 1 && sale.Taken == 40
	})
	buy(15)
	older.exec("UPDATE sales SET fence = 'by a test'")
	f.until("the sale to be rebuilt again", func() bool {
		sale, err := f.clients[1].AdminSale(t.Context(), f.sale)
		return err == nil && sale.Epoch == rebuilt+1
	})
	buy(5)
	kept()
	older.takesOver()
	kept()
	f.audited()
}

// The older copy lacks what the merchant has changed since, and claims or none of them: the
// servers were told of the terms, and bring them back. What was added is sold, what was taken
// away is not.
func TestTheOlderCopyLacksTerms(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]struct {
		delta  int64 // of the total, which is 20
		before int   // claims that the copy has
		since  int   // claims that it lacks
		paused bool  // since
	}{
		"units were added, and sold": {10, 20, 5, false},
		"units were taken away":      {-10, 5, 3, false},
		"nothing was sold since":     {-10, 5, 0, false},
		"it was paused since":        {-10, 5, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fleet{t: t, store: servertest.Postgres(t), sale: "phone"}
			f.open(2, 20, "store")
			older := newOlderCopy(t, f.store)
			promised := map[int]string{}
			buy := func(n int) {
				t.Helper()
				for range n {
					buyer := len(promised)
					promised[buyer] = f.buys(buyer%2, buyer)
				}
			}
			buy(on.before)
			older.take()
			must.Get(f.clients[0].RestockSale(t.Context(), f.sale, "change", on.delta))(t)
			buy(on.since)
			if on.paused {
				must.Get(f.clients[0].PauseSale(t.Context(), f.sale))(t)
			}
			total := 20 + on.delta
			for server := range f.clients { // each has been told
				f.until("each server to know", func() bool {
					s, err := f.clients[server].Sale(t.Context(), f.sale)
					return err == nil && s.Total != nil && *s.Total == total && (s.State == sluice.StatePaused) == on.paused
				})
			}
			older.takesOver()
			f.until("the terms to come back", func() bool {
				s, err := f.clients[1].AdminSale(t.Context(), f.sale)
				return err == nil && s.Total != nil && *s.Total == total && s.Fence == "" && s.Loaded &&
					s.Taken == int64(len(promised)) && s.Paused == on.paused
			})
			if on.paused { // the merchant resumes it, and nobody else
				if status, said := f.answer(1, 1000); status != http.StatusConflict || said.Code != "paused" {
					t.Errorf("a claim while it is paused: %d %s", status, said.Code)
				}
				must.Get(f.clients[1].ResumeSale(t.Context(), f.sale))(t)
			}
			buy(int(total) - len(promised))
			f.until("the sale to be sold out", func() bool {
				status, _ := f.claim(0, 1000)
				return status == http.StatusConflict
			})
			for buyer, order := range promised {
				f.keeps(buyer%2, buyer, order)
			}
			f.audited()
		})
	}
}

// The older copy is from before a sale: nothing can be done for its buyers, but it is said.
func TestTheOlderCopyLacksTheSale(t *testing.T) {
	t.Parallel()
	store, log := servertest.Postgres(t), &logged{}
	e := opened(t, engine.Config{DataDir: t.TempDir(), Ledger: "store", Store: store, Log: log.logger()})
	onSale(t, e, "phones", 10)
	for _, buyer := range []sluice.BuyerID{"ann", "bob"} {
		claim := sluice.Claim{Buyer: buyer, Key: "first-attempt", Quantity: 1}
		if d, err := e.Claim(t.Context(), "phones", claim, sluice.Caller{}); err != nil || d.Code != sluice.Accepted {
			t.Fatal(d.Code, err)
		}
	}
	db := must.Get(pgx.Connect(t.Context(), store))(t)
	defer db.Close(context.Background())
	const gone = "DELETE FROM orders; DELETE FROM ledger_sales; DELETE FROM sale_terms; DELETE FROM sales"
	must.Get(db.Exec(t.Context(), gone))(t)
	await(t, "a line of the log", func() bool {
		return len(log.lines("level=ERROR", "has gone from the store", "sale=phones", "claims=2")) == 1
	})
}

// A sale is over on each kind of ledger: it is archived, the store answers for its claims
// on every server, a buyer is erased, and orders are deleted. No unit is sold any more.
func TestTheEndOfASale(t *testing.T) {
	for name, on := range map[string]struct {
		servers int
		ledger  func(t *testing.T) string
	}{
		"embedded":       {1, func(*testing.T) string { return "" }},
		"redis":          {2, func(t *testing.T) string { return servertest.StartRedis(t).URL() }},
		"postgres alone": {2, func(*testing.T) string { return "store" }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleet{t: t, sale: "phone", retention: time.Millisecond}
			if on.servers > 1 {
				f.store = servertest.Postgres(t)
			}
			f.open(on.servers, 10, on.ledger(t))
			c := f.clients[0]
			orders := make([]string, 4)
			for buyer := range orders {
				orders[buyer] = f.buys(0, buyer)
			}
			f.until("all to be stored", f.stored)
			ok := func(_ any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, order := range orders[1:] {
				ok(c.PayOrder(t.Context(), sluice.OrderID(order), "payment-of-"+order))
			}
			f.cancel(0, orders[0])
			ok(c.CloseSale(t.Context(), f.sale))
			for i := range f.clients {
				f.until("the sale to be archived", func() bool {
					sale, err := f.clients[i].AdminSale(t.Context(), f.sale)
					return err == nil && sale.ArchivedAt != nil
				})
				for buyer, order := range orders {
					f.until("a repeat to get its order", func() bool {
						status, again := f.claim(i, buyer)
						return status == http.StatusAccepted && again == order
					})
				}
			}
			erased, err := c.EraseBuyer(t.Context(), "buyer-00001")
			if err != nil || erased.Orders != 1 {
				t.Errorf("erased: %+v, %v", erased, err)
			}
			if order, err := c.AdminOrder(t.Context(), sluice.OrderID(orders[1])); err != nil || order.BuyerID == "buyer-00001" {
				t.Errorf("after the erasure: %+v, %v", order, err)
			}
			if f.store != "" {
				store, err := pgstore.Open(t.Context(), f.store, pgstore.Options{})
				ok(store, err)
				defer store.Close()
				f.until("orders to be deleted", func() bool {
					purged, err := store.PurgeOlder(t.Context(), time.Millisecond)
					ok(purged, err)
					return purged.Orders > 0
				})
			}
			for i := range f.clients {
				if status, order := f.claim(i, 9); status == http.StatusAccepted {
					t.Errorf("a claim after the end was accepted as %s", order)
				}
			}
			if report, err := f.engines[0].Audit(t.Context(), f.sale); err != nil || !report.OK {
				t.Errorf("audit: %+v, %v", report.Checks, err)
			}
		})
	}
}

// A ledger in a store that is not PostgreSQL is an error before anything is opened.
func TestALedgerInAnotherStore(t *testing.T) {
	for _, store := range []string{"", "sqlite:x.db", "mysql://ann:secret-of-ann@127.0.0.1/shop"} {
		err := engine.Config{Ledger: "store", Store: store, DataDir: t.TempDir()}.Check()
		if err == nil || !strings.Contains(err.Error(), "PostgreSQL") || strings.Contains(err.Error(), "secret-of-ann") {
			t.Errorf("store %q: %v", store, err)
		}
	}
	if err := (engine.Config{Ledger: "store", Store: "postgres://ann@127.0.0.1/shop"}).Check(); err != nil {
		t.Error(err)
	}
}

// ledgerURL is that of the store as a ledger, or of a Redis of its own.
func ledgerURL(t *testing.T, kind string) string {
	if kind == "store" {
		return kind
	}
	return servertest.StartRedis(t).URL()
}

// Two servers of one store have different ledgers: the one that the sale's row names
// sells, the other one answers unavailable, and the sale is not loaded again.
func TestTwoLedgersBesideOneStore(t *testing.T) {
	t.Parallel()
	for first, second := range map[string]string{"redis": "store", "store": "redis", "redis too": "redis"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			f := &fleet{t: t, store: servertest.Postgres(t), sale: "phone"}
			f.open(1, 100, ledgerURL(t, first))
			// A ledger that answers too late while the machine is busy is loaded again, and claims are
			// sent again, as clients do.
			var before api.AdminSale
			f.until("the sale to be loaded", func() bool {
				var err error
				before, err = f.clients[0].AdminSale(t.Context(), f.sale)
				return err == nil && before.Loaded && before.Fence == ""
			})
			f.node = "other"
			f.join(1, ledgerURL(t, second))
			for buyer := range 60 {
				f.until("a claim to be accepted", func() bool {
					status, _ := f.claim(0, buyer)
					return status == http.StatusAccepted
				})
				if status, _ := f.claim(1, buyer); status != http.StatusServiceUnavailable {
					t.Errorf("%s answers %d", second, status)
				}
				time.Sleep(50 * time.Millisecond) // some rounds of the board
			}
			sale, err := f.clients[1].AdminSale(t.Context(), f.sale)
			if err != nil || sale.Epoch != before.Epoch {
				t.Errorf("the sale was loaded under %d, and is %+v, %v", before.Epoch, sale, err)
			}
		})
	}
}

// Redis is emptied while its only server is dead, and the server starts again before the store has forgotten the
// heartbeats of the one that was killed: the sale comes back by itself. One that waited for a person still does, who
// is told what is given up.
func TestAnEmptiedLedgerIsLoaded(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, redis: servertest.StartRedis(t), store: servertest.Postgres(t), sale: "phone"}
	f.open(1, 10, f.redis.URL())
	f.buys(0, 1)
	f.create("lamp", 10)
	f.until("the journal to be stored", f.stored)
	killed := f.engines[0].Node()
	must.Succeed(t, f.engines[0].Close(t.Context()))
	f.flush()
	store := must.Get(pgstore.Open(t.Context(), f.store, pgstore.Options{}))(t)
	must.Succeed(t, store.Heartbeat(t.Context(), port.Server{Node: killed})) // as if it had not said that it leaves
	must.Succeed(t, store.FenceSale(t.Context(), "lamp", 1, port.FenceOlder+": a test"))
	must.Succeed(t, store.Close())
	f.engines, f.clients = nil, nil
	f.join(1, f.redis.URL())
	if node := f.engines[0].Node(); node != killed {
		t.Fatalf("%s starts in the place of %s", node, killed)
	}
	f.until("the sale to be loaded", func() bool {
		status, _ := f.claim(0, 2)
		return status == http.StatusAccepted
	})
	would, err := f.clients[0].RecoverSale(t.Context(), "lamp", false)
	if err != nil || would.Ledger == "" || len(would.Payments) == 0 {
		t.Errorf("the other sale has got this ledger by itself: %+v, %v", would, err)
	}
	if did, err := f.clients[0].RecoverSale(t.Context(), "lamp", true); err != nil || !did.Applied ||
		did.NoExpiryBefore.IsZero() {
		t.Errorf("%+v, %v", did, err)
	}
	f.until("the other sale to be loaded", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), "lamp")
		return err == nil && sale.Loaded && sale.Fence == "" && sale.Epoch == 2
	})
}

// A shop leaves Redis for PostgreSQL alone, and goes back: what was promised stays, no unit
// is sold twice, and nothing changes hands while a server with the ledger before lives.
func TestALedgerIsChanged(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, redis: servertest.StartRedis(t), store: servertest.Postgres(t), sale: "phone"}
	f.open(1, 10, f.redis.URL())
	promised := map[int]string{}
	promised[1] = f.buys(0, 1)
	for n, ledger := range []string{"store", f.redis.URL()} {
		before := f.engines[0]
		f.until("the journal to be stored", f.stored)
		f.engines, f.clients, f.node = nil, nil, fmt.Sprint("change-", n)
		f.join(1, ledger)
		if status, _ := f.claim(0, n+2); status != http.StatusServiceUnavailable {
			t.Errorf("%s answers %d before it is asked for", ledger, status)
		}
		f.until("the check and the conditions to say why", func() bool {
			check, failed := f.clients[0].CheckSale(t.Context(), f.sale)
			status, err := f.clients[0].Status(t.Context(), f.sale)
			return errors.Join(failed, err) == nil && strings.Contains(fmt.Sprint(check.Checks), settle.OtherDecides) &&
				strings.Contains(fmt.Sprint(status.Conditions), settle.OtherDecides)
		})
		change := func() error {
			_, err := f.clients[0].RecoverSale(t.Context(), f.sale, true)
			return err
		}
		if err := change(); err == nil || !strings.Contains(err.Error(), before.Node()) {
			t.Errorf("%s takes the sale while a server with the ledger before lives: %v", ledger, err)
		}
		must.Succeed(t, before.Close(t.Context()))
		f.until("the change of the ledger", func() bool { return change() == nil })
		promised[n+2] = f.buys(0, n+2)
		for buyer, order := range promised {
			if !f.keeps(0, buyer, order) {
				t.Errorf("in %s", ledger)
			}
		}
	}
	f.until("all to be stored", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		return err == nil && sale.Taken == 3 && sale.StoredTaken == 3 && sale.Backlog == 0
	})
	if report, err := f.engines[0].Audit(t.Context(), f.sale); err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report.Checks, err)
	}
}

// Two Redis that are young decide about sales of one store, and the database becomes an older
// copy: its heartbeats are old, but no sale goes to the Redis of the others.
func TestACopyTakesNoSaleFromALedgerThatLives(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, store: servertest.Postgres(t), sale: "phone"}
	f.open(1, 20, ledgerURL(t, "redis"))
	f.node = "other"
	f.join(1, ledgerURL(t, "redis"))
	promised := map[int]string{0: f.buys(0, 0)}
	f.until("the order to be stored", f.stored)
	time.Sleep(3 * settle.SilentAfter) // the others might take a sale that has no ledger now
	older := newOlderCopy(t, f.store)
	older.take()
	for buyer := 1; buyer < 9; buyer++ {
		promised[buyer] = f.buys(0, buyer)
	}
	older.takesOver()
	for begun := time.Now(); time.Since(begun) < 3*settle.SilentAfter; time.Sleep(100 * time.Millisecond) {
		if !older.shows("ledger = (SELECT ledger FROM old_sales)") {
			t.Fatal("the other Redis has taken the sale")
		}
	}
	if older.shows("fence LIKE 'older%'") { // unless claims of after the copy were stored before it was looked at
		f.recover(0)
	}
	for buyer, order := range promised {
		f.keeps(0, buyer, order)
	}
}

// recover has a person recover the sale, whose store has become older than its ledger.
func (f *fleet) recover(server int) (did sluice.Recovery) {
	f.t.Helper()
	f.until("the sale to be fenced for a person", func() bool {
		would, err := f.clients[server].RecoverSale(f.t.Context(), f.sale, false)
		return err == nil && would.Why != ""
	})
	f.until("the recovery", func() (applied bool) {
		var err error
		did, err = f.clients[server].RecoverSale(f.t.Context(), f.sale, true)
		return err == nil && did.Applied
	})
	return did
}
