package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/ledgertest"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/pgstore"
)

func TestLedgerConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Harness{New: newLedgers(t), SharedNodes: true, NoJournal: true}.Run(t)
}

// newLedgers makes ledgers on one store, emptied each time, which is what the suite's
// images and releases say: the ledger's records are its orders.
func newLedgers(t *testing.T) func(testing.TB) ledgertest.Open {
	url := servertest.Postgres(t) + "&synchronous_commit=off" // thousands of calls, none of which a crash follows
	store := must.Get(pgstore.Open(t.Context(), url, pgstore.Options{}))(t)
	pool := must.Get(pgxpool.New(context.Background(), url))(t)
	shared := &storeSide{store: store, pool: pool}
	t.Cleanup(func() {
		pool.Close()
		_ = store.Close()
	})
	return func(t testing.TB) ledgertest.Open {
		for _, table := range []string{ // to truncate them would take longer than the test
			"sale_terms", "sales", "orders", "order_changes", "sale_events", "ledger_sales", "ledger_promises", "ledger_rates",
		} {
			must.Get(pool.Exec(context.Background(), "DELETE FROM "+table))(t)
		}
		return func(t testing.TB, node string, clock *ledgertest.Clock) port.Ledger {
			l := must.Get(store.LedgerAt(node, clock.Now))(t)
			t.Cleanup(func() { _ = l.Close() })
			return &ledgerOnStore{Ledger: l, storeSide: shared}
		}
	}
}

// storeSide is what a store does around its ledger.
type storeSide struct {
	store *pgstore.Store
	pool  *pgxpool.Pool
	mu    sync.Mutex // of releases
}

// ledgerOnStore is a ledger whose store follows what the suite loads and releases.
type ledgerOnStore struct {
	*pgstore.Ledger
	*storeSide
}

// Load has the store know what the image says that it does.
func (l *ledgerOnStore) Load(ctx context.Context, image port.LoadImage) error {
	if err := l.follow(ctx, &image); err != nil {
		return fmt.Errorf("the store's side: %w", err)
	}
	return l.Ledger.Load(ctx, image)
}

func (s *storeSide) follow(ctx context.Context, image *port.LoadImage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sale := sluice.NewSale(image.Terms.Total, sluice.Unlimited)
	sale.ID, sale.SKU, sale.Title = image.Sale, "sku", "title"
	sale.Price, sale.Terms = sluice.Money{Amount: 1, Currency: "CNY"}, image.Terms
	sale.Total = sluice.Unlimited // the store's own guard stays out of the way
	_, _ = s.store.CreateSale(ctx, sale)
	taken := image.Taken
	var rows [][]any
	for i := range image.Records {
		r := &image.Records[i]
		if r.Epoch == image.Epoch {
			taken -= r.Quantity // a promise, which is not stored
			continue
		}
		status := "cancelled"
		if r.Live {
			status = "pending"
		}
		rows = append(rows, []any{
			string(r.Order), string(r.Sale), string(r.Buyer), string(r.Key), r.Quantity, r.Meta, string(r.Counters), int64(1),
			"CNY", status, "",
			r.Epoch, r.Seq, r.Terms, "node", r.At, r.At, r.At.Add(time.Second), r.At.Add(time.Second), r.At, r.Unpaid,
		})
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE sales SET epoch = $2, loaded_epoch = $2, fence = '', taken = $3
			WHERE id = $1 AND epoch < $2`, string(image.Sale), image.Epoch, taken)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM orders WHERE sale_id = $1`, string(image.Sale)); err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{
			"order_id", "sale_id", "buyer_id", "claim_key", "quantity", "meta", "counters", "price_amount", "currency", "status",
			"reason", "epoch", "seq", "terms", "node", "accepted_at", "stored_at", "expires_at", "keep_until", "updated_at",
			"unpaid",
		}, pgx.CopyFromRows(rows))
		return err
	})
}

// Release ends the orders first, as their store does.
func (l *ledgerOnStore) Release(ctx context.Context, id sluice.SaleID, releases []port.Release,
) (port.Released, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	readings, err := l.Read(ctx, []sluice.SaleID{id})
	if err != nil {
		return port.Released{}, err
	}
	now := &readings[0]
	for _, r := range releases {
		if now.Fence != "" || r.Epoch > now.Epoch {
			return l.Ledger.Release(ctx, id, releases)
		}
	}
	applied := 0
	for _, r := range releases {
		have, err := l.Find(ctx, r.Order, "")
		if err != nil || !have.Live || have.Buyer != r.Buyer || have.Key != r.Key || r.Epoch < now.Epoch {
			continue
		}
		change := sluice.Change{Order: r.Order, Action: sluice.Cancel, By: "test"}
		if r.Unpaid {
			change.Buyer = r.Buyer
		}
		if _, err := l.store.Change(ctx, change); err != nil {
			return port.Released{}, err
		}
		applied++
	}
	answer, err := l.Ledger.Release(ctx, id, releases)
	answer.Before -= applied
	answer.Applied = applied
	return answer, err
}

// Drop has the store forget the sale, as no store does: the suite loads another one under
// its name.
func (l *ledgerOnStore) Drop(ctx context.Context, id sluice.SaleID, epoch int64) error {
	if err := l.Ledger.Drop(ctx, id, epoch); err != nil {
		return err
	}
	_, err := l.pool.Exec(ctx, `WITH gone AS (DELETE FROM orders WHERE sale_id = $1)
		UPDATE sales SET epoch = 0, loaded_epoch = 0, taken = 0 WHERE id = $1`, string(id))
	return err
}

// sell loads a sale into a ledger of a store of its own, as servers do.
func sell(t *testing.T, terms func(*sluice.Sale)) (*pgstore.Store, *pgstore.Ledger, *pgxpool.Pool) {
	t.Helper()
	return sellAt(t, servertest.Postgres(t), terms)
}

func sellAt(t *testing.T, url string, terms func(*sluice.Sale),
) (*pgstore.Store, *pgstore.Ledger, *pgxpool.Pool) {
	t.Helper()
	store := must.Get(pgstore.Open(t.Context(), url, pgstore.Options{}))(t)
	l := must.Get(store.LedgerAt("one", nil))(t)
	pool := must.Get(pgxpool.New(context.Background(), url))(t)
	t.Cleanup(func() {
		pool.Close()
		_ = l.Close()
		_ = store.Close()
	})
	sale := sluice.NewSale(1000, sluice.Unlimited)
	sale.ID, sale.SKU, sale.Title, sale.Price = "sale", "sku", "title", sluice.Money{Amount: 1, Currency: "CNY"}
	sale.OpensAt = time.Now().Add(-time.Hour)
	terms(&sale)
	must.Get(store.CreateSale(t.Context(), sale))(t)
	load(t, store, l, "sale")
	return store, l, pool
}

func load(t *testing.T, store *pgstore.Store, l *pgstore.Ledger, id sluice.SaleID) {
	t.Helper()
	image, err := store.BeginLoad(t.Context(), id, 0)
	if err == nil {
		err = l.Load(t.Context(), image)
	}
	if err == nil {
		err = store.ConfirmLoad(t.Context(), id, image.Epoch)
	}
	if err == nil {
		err = l.Unfence(t.Context(), id, image.Epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func claimOf(buyer string, n int) sluice.Claim {
	return sluice.Claim{
		Buyer: sluice.BuyerID(buyer), Key: sluice.Key(fmt.Sprintf("key-%05d", n)), Quantity: 1,
		Order: sluice.SaleID("sale").Order(fmt.Sprintf("%016x%016x", time.Now().UnixNano(), n)),
	}
}

func codes(t *testing.T, l *pgstore.Ledger, id sluice.SaleID, claims ...sluice.Claim) map[sluice.Code]int {
	t.Helper()
	decisions := must.Get(l.Claim(t.Context(), id, claims))(t)
	all := map[sluice.Code]int{}
	for i := range decisions {
		all[decisions[i].Code]++
	}
	return all
}

// An accepted claim is an order when it is answered; one that ends has given its units
// back when that is answered, and no release is written.
func TestAnAcceptedClaimIsAnOrder(t *testing.T) {
	t.Parallel()
	store, timed, _ := sell(t, func(s *sluice.Sale) { s.Total = 1 })
	clock := ledgertest.Clock{}
	clock.Set(time.Now())
	l := must.Get(store.LedgerAt("one", clock.Now))(t)
	defer l.Close()
	c := claimOf("ann", 1)
	if got := codes(t, l, "sale", c, claimOf("bob", 1)); got[sluice.Accepted] != 1 || got[sluice.SoldOut] != 1 {
		t.Fatalf("%v, want one accepted and one sold out", got)
	}
	order, err := store.Order(t.Context(), c.Order)
	if err != nil || order.Status != sluice.Pending || order.Seq != 1 || order.Epoch != 1 {
		t.Fatalf("%+v, %v; want the pending order", order, err)
	}
	must.Get(store.Change(t.Context(), sluice.Change{Order: c.Order, Action: sluice.Cancel}))(t)
	readings, err := l.Read(t.Context(), []sluice.SaleID{"sale"})
	if r := readings[0]; err != nil || r.Taken != 0 || r.CooldownUntil.Before(r.Now) {
		t.Errorf("%+v, %v; want nothing taken, and a cooldown", r, err)
	}
	if n, err := store.PendingReleases(t.Context(), "sale"); err != nil || n != 0 {
		t.Errorf("%d releases, %v; want none", n, err)
	}
	if got := codes(t, l, "sale", claimOf("bob", 1)); got[sluice.SoldOut] != 1 {
		t.Errorf("during the cooldown %v, want sold out", got)
	}
	clock.Advance(sluice.RefusalLease)
	if got := codes(t, l, "sale", claimOf("bob", 1), c); got[sluice.Accepted] != 2 {
		t.Errorf("after the cooldown %v, want a new claim and the repeat of the ended one", got)
	}
	if readings, err := timed.Read(t.Context(), []sluice.SaleID{"sale"}); err != nil || readings[0].Taken != 1 {
		t.Errorf("%+v, %v; want one unit taken", readings, err)
	}
}

// A buyer with more claims than are read at once is counted and looked up all the same.
func TestABuyerWithManyClaims(t *testing.T) {
	t.Parallel()
	_, l, _ := sell(t, func(s *sluice.Sale) { s.MaxPerBuyer = 250 })
	var claims []sluice.Claim
	for i := range 230 {
		claims = append(claims, claimOf("shop", i))
	}
	for i, want := range []sluice.Code{sluice.Accepted, sluice.Accepted} {
		if got := codes(t, l, "sale", claims...); got[want] != len(claims) {
			t.Fatalf("time %d: %v, want all accepted", i+1, got)
		}
	}
	var more []sluice.Claim
	for i := range 30 {
		more = append(more, claimOf("shop", 1000+i))
	}
	if got := codes(t, l, "sale", more...); got[sluice.Accepted] != 20 || got[sluice.BuyerLimit] != 10 {
		t.Errorf("%v, want 20 accepted up to the limit of 250", got)
	}
	readings, err := l.Read(t.Context(), []sluice.SaleID{"sale"})
	if err != nil || readings[0].Taken != 250 || readings[0].Seq != 250 {
		t.Errorf("%+v, %v; want 250 taken", readings, err)
	}
}

// promise rebuilds a sale that was loaded once, with the claim of a dead letter.
func promise(t *testing.T, store *pgstore.Store, l *pgstore.Ledger, c sluice.Claim) (r port.Record) {
	t.Helper()
	must.Succeed(t, store.FenceSale(t.Context(), "sale", 1, "a test"))
	image := must.Get(store.BeginLoad(t.Context(), "sale", 0))(t)
	r = port.Record{Claim: c, Sale: "sale", Epoch: 2, Seq: 1, Terms: 1, At: time.Now(), Live: true}
	image.Records = append(image.Records, r)
	for _, err := range []error{
		l.Load(t.Context(), image), store.ConfirmLoad(t.Context(), "sale", 2), l.Unfence(t.Context(), "sale", 2),
	} {
		must.Succeed(t, err)
	}
	return r
}

// A promise that is stored counts once: where units are left, those of an ending are sold at once. If none were, there
// is a cooldown.
func TestAPromiseThatIsStoredCountsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		stored, others int
		want           sluice.Code
	}{
		{"units are left", 1, 5, sluice.Accepted},
		{"sold out", 1, 6, sluice.SoldOut},
		{"sold out, with the promise", 0, 6, sluice.SoldOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, l, _ := sell(t, func(s *sluice.Sale) { s.Total = 10 })
			r := promise(t, store, l, withQuantity(claimOf("ann", 1), 4))
			if c.stored > 0 {
				storetest.InsertBatch(t, store, port.Entry{
					Sale: "sale", Epoch: 2, Node: "one", Terms: 1, At: r.At, FirstSeq: 1, Claims: []sluice.Claim{r.Claim},
				})
			}
			var all []sluice.Claim
			for i := range c.others {
				all = append(all, claimOf(fmt.Sprint("buyer-", i), 1))
			}
			if got := codes(t, l, "sale", all...); got[sluice.Accepted] != c.others {
				t.Fatalf("%v, want all accepted", got)
			}
			must.Get(store.Change(t.Context(), sluice.Change{Order: all[0].Order, Action: sluice.Cancel}))(t)
			if got := codes(t, l, "sale", claimOf("bob", 1)); got[c.want] != 1 {
				t.Errorf("after an ending %v, want %v", got, c.want)
			}
		})
	}
}

// A promise counts in its counters, and once, stored or not.
func TestAPromiseCountsInItsCounters(t *testing.T) {
	t.Parallel()
	atHome := func(c sluice.Claim) sluice.Claim {
		c.Counters = c.Counters.With(sluice.Counter{Name: "home:1", Max: 5})
		return c
	}
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			t.Parallel()
			store, l, _ := sell(t, func(s *sluice.Sale) { s.Total = 20 })
			r := promise(t, store, l, atHome(withQuantity(claimOf("ann", 1), 4)))
			if stored {
				storetest.InsertBatch(t, store, port.Entry{
					Sale: "sale", Epoch: 2, Node: "one", Terms: 1, At: r.At, FirstSeq: 1, Claims: []sluice.Claim{r.Claim},
				})
			}
			for buyer, want := range []sluice.Code{sluice.Accepted, sluice.BuyerLimit} {
				if got := codes(t, l, "sale", atHome(claimOf(fmt.Sprint("buyer-", buyer), 1))); got[want] != 1 {
					t.Errorf("buyer %d: %v, want %v", buyer, got, want)
				}
			}
		})
	}
}

// everyStatement has a ledger do all that it does.
func everyStatement(t *testing.T, url string) {
	t.Helper()
	store, l, _ := sellAt(t, url, func(s *sluice.Sale) { s.MaxPerBuyer = 200 })
	for i := range 3 { // the first is no different; the others are decided in one round trip
		if got := codes(t, l, "sale", claimOf(fmt.Sprint("new-", i), i)); got[sluice.Accepted] != 1 {
			t.Fatalf("%v, want it accepted", got)
		}
	}
	promised := promise(t, store, l, claimOf("ann", 1)).Claim
	claims := []sluice.Claim{promised}
	for i := range 150 {
		claims = append(claims, claimOf("shop", i))
	}
	for range 2 {
		if got := codes(t, l, "sale", claims...); got[sluice.Accepted] != 151 {
			t.Fatalf("%v, want all accepted", got)
		}
	}
	sale, err := store.ChangeSale(t.Context(), "sale", func(s *sluice.Sale) error { s.Paused = true; return nil })
	if err == nil {
		err = l.Apply(t.Context(), "sale", 2, sale.Terms)
	}
	if err == nil {
		sale, err = store.ChangeSale(t.Context(), "sale", func(s *sluice.Sale) error { s.Paused = false; return nil })
	}
	if err == nil {
		err = l.Apply(t.Context(), "sale", 2, sale.Terms)
	}
	if err != nil {
		t.Fatal(err)
	}
	readings, err := l.Read(t.Context(), []sluice.SaleID{"sale", "other"})
	if err != nil || readings[0].Taken != 154 || readings[0].Seq != 151 || readings[0].CooldownUntil.IsZero() {
		t.Errorf("%+v, %v; want 154 taken, and a cooldown", readings, err)
	}
	records, holders := 0, map[sluice.BuyerID]bool{}
	err = errors.Join(
		l.Records(t.Context(), "sale", func(port.Record) bool { records++; return true }),
		l.Holders(t.Context(), "sale", func(b sluice.BuyerID) bool { holders[b] = true; return true }))
	if err != nil || records != 154 || len(holders) != 5 {
		t.Errorf("%d records, %d holders, %v", records, len(holders), err)
	}
	for _, c := range []sluice.Claim{promised, claims[7]} {
		found, err := l.Find(t.Context(), c.Order, c.Buyer)
		if err != nil || found.Claim != c {
			t.Errorf("Find: %+v, %v", found, err)
		}
		found, err = l.Recall(t.Context(), sluice.ClaimID{Sale: "sale", Buyer: c.Buyer, Key: c.Key})
		if err != nil || found.Claim != c {
			t.Errorf("Recall: %+v, %v", found, err)
		}
	}
	rates := port.Rates{
		Buyer: sluice.BuyerRate{Requests: 1, PerS: 60}, Address: sluice.AddressRate{Requests: 5, PerS: 60},
	}
	try := port.Try{Buyer: "ann", Address: "192.0.2.1"}
	if waits, err := l.Allow(t.Context(), "sale", rates, []port.Try{try, try}); err != nil || waits[0].Longest() > 0 ||
		waits[1].Buyer == 0 {
		t.Errorf("Allow: %+v, %v", waits, err)
	}
	for _, err := range []error{
		l.Fence(t.Context(), "sale", 2, "a test"), l.Unfence(t.Context(), "sale", 2), l.Drop(t.Context(), "sale", 2),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestEveryStatementOfTheLedger(t *testing.T) {
	t.Parallel()
	everyStatement(t, servertest.Postgres(t))
}

// A server that was told more than the database knows fences the sale, by a reading and by
// a claim, and passes over the epochs that it has seen. A server that was told nothing does
// not know, and must not be trusted with the sale after it is fenced.
func TestTheDatabaseIsAnOlderCopy(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(t *testing.T, l *pgstore.Ledger){
		"read": func(t *testing.T, l *pgstore.Ledger) {
			must.Get(l.Read(t.Context(), []sluice.SaleID{"sale"}))(t)
		},
		"claim": func(t *testing.T, l *pgstore.Ledger) {
			if got := codes(t, l, "sale", claimOf("eve", 1)); got[sluice.Unavailable] != 1 {
				t.Errorf("%v, want unavailable", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, l, pool := sell(t, func(*sluice.Sale) {})
			codes(t, l, "sale", claimOf("ann", 1), claimOf("bob", 1))
			for _, table := range []string{"orders", "ledger_sales"} {
				must.Get(pool.Exec(t.Context(), "CREATE TABLE old_"+table+" AS TABLE "+table))(t)
			}
			codes(t, l, "sale", claimOf("cid", 1))
			must.Get(pool.Exec(t.Context(), `DELETE FROM orders WHERE order_id NOT IN (SELECT order_id FROM old_orders);
				DELETE FROM ledger_sales; INSERT INTO ledger_sales TABLE old_ledger_sales; UPDATE sales SET taken = 2`))(t)
			other := must.Get(store.LedgerAt("two", nil))(t)
			defer other.Close()
			if got := codes(t, other, "sale", claimOf("dan", 1), claimOf("dan", 2)); got[sluice.Accepted] != 2 {
				t.Fatalf("%v, want a server that was told nothing to go on", got)
			}
			ask(t, l)
			for _, ledger := range []*pgstore.Ledger{l, other} {
				readings, err := ledger.Read(t.Context(), []sluice.SaleID{"sale"})
				if err != nil || !strings.HasPrefix(readings[0].Fence, port.FenceLost) {
					t.Errorf("%+v, %v; want it fenced as lost", readings, err)
				}
				if got := codes(t, ledger, "sale", claimOf("eve", 2)); got[sluice.Unavailable] != 1 {
					t.Errorf("%v, want unavailable", got)
				}
			}
		})
	}
}

// With a synchronous standby nothing is promised before that has it. A commit whose wait was
// broken off is not, though the database shows its order to the next attempt and calls a
// commit that was canceled a success.
func TestNoPromiseBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	database := servertest.StartPostgres(t)
	store, l, pool := sellAt(t, database.URL(), func(*sluice.Sale) {})
	do := func(statement string) {
		t.Helper()
		must.Get(pool.Exec(t.Context(), statement))(t)
	}
	waits := func() (some bool) {
		t.Helper()
		const question = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
		must.Succeed(t, pool.QueryRow(t.Context(), question).Scan(&some))
		time.Sleep(5 * time.Millisecond)
		return some
	}
	cancel := func() {
		t.Helper()
		for waits() {
			do("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}
	}
	standby := func(name string) {
		t.Helper()
		do("ALTER SYSTEM SET synchronous_standby_names = '" + name + "'")
		do("SELECT pg_reload_conf()")
		if name == "" {
			return
		}
		var seen atomic.Bool // that commits wait now
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !seen.Load() && t.Context().Err() == nil {
				_, _ = pool.Exec(t.Context(), "UPDATE event_feed SET first_event = first_event")
			}
		}()
		for !waits() {
		}
		seen.Store(true)
		cancel()
		<-done
	}
	answer := func(what string, breakOff func(), call func() error) error {
		t.Helper()
		answered := make(chan error, 1)
		go func() { answered <- call() }()
		for !waits() {
			select {
			case err := <-answered:
				t.Fatalf("%s does not wait for the standby: %v", what, err)
			default:
			}
		}
		breakOff()
		err := <-answered
		for waits() {
		}
		return err
	}
	for _, by := range []string{"the caller", "the database"} {
		codes(t, l, "sale", claimOf("before "+by, 1)) // so that the next is decided in one round trip
		standby("away")
		for _, attempt := range []string{"new", "repeated"} {
			ctx, stop := context.WithCancel(t.Context())
			breakOff := cancel
			if by == "the caller" {
				breakOff = stop
			}
			err := answer(attempt, breakOff, func() error {
				decisions, err := l.Claim(ctx, "sale", []sluice.Claim{claimOf("stopped by "+by, 1)})
				if err == nil {
					err = fmt.Errorf("decided: %v", decisions[0].Code)
				}
				return err
			})
			stop()
			want := map[string]error{"the caller": context.Canceled, "the database": sluice.ErrNoAnswer}[by]
			if !errors.Is(err, want) {
				t.Errorf("%s, stopped by %s: %v; want %v", attempt, by, err, want)
			}
		}
		if err := answer("a change", cancel, func() error {
			sale := sluice.NewSale(1, 1)
			sale.ID, sale.SKU, sale.Title, sale.OpensAt = sluice.SaleID(by[4:]), "sku", "title", time.Now()
			sale.Price = sluice.Money{Amount: 1, Currency: "CNY"}
			_, err := store.CreateSale(t.Context(), sale)
			return err
		}); !errors.Is(err, sluice.ErrStoreBusy) {
			t.Errorf("a change: %v, want the store to be busy", err)
		}
		standby("")
		if got := codes(t, l, "sale", claimOf("stopped by "+by, 1)); got[sluice.Accepted] != 1 {
			t.Errorf("asked again: %v, want accepted", got)
		}
	}
}

// Claims wait for the sale's row and read what was committed meanwhile, whatever isolation the
// database has by default.
func TestTheDefaultIsolation(t *testing.T) {
	t.Parallel()
	database := servertest.StartPostgres(t)
	admin := must.Get(pgx.Connect(t.Context(), database.URL()))(t)
	defer admin.Close(context.Background())
	const serializable = "ALTER ROLE CURRENT_USER SET default_transaction_isolation = 'serializable'"
	must.Get(admin.Exec(t.Context(), serializable))(t)
	_, l, pool := sellAt(t, database.URL(), func(*sluice.Sale) {})
	tx, err := admin.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "UPDATE sales SET taken = taken")
	}
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		decisions, err := l.Claim(t.Context(), "sale", []sluice.Claim{claimOf("ann", 1)})
		if err == nil && decisions[0].Code != sluice.Accepted {
			err = fmt.Errorf("%v", decisions[0].Code)
		}
		failed <- err
	}()
	for waits := false; !waits; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-failed:
			t.Fatalf("the claim does not wait for the row: %v", err)
		default:
		}
		const question = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
		must.Succeed(t, pool.QueryRow(t.Context(), question).Scan(&waits))
	}
	must.Succeed(t, tx.Commit(t.Context()))
	if err := <-failed; err != nil {
		t.Errorf("%v, want the claim accepted", err)
	}
}

// A load gives no epoch that this server has seen, also if the database has forgotten it.
func TestAnEpochThatWasSeenIsPassedOver(t *testing.T) {
	t.Parallel()
	store, l, pool := sell(t, func(*sluice.Sale) {})
	codes(t, l, "sale", claimOf("ann", 1))
	must.Get(pool.Exec(t.Context(), `DELETE FROM ledger_sales; DELETE FROM orders;
		UPDATE sales SET epoch = 0, loaded_epoch = 0, taken = 0`))(t)
	image := must.Get(store.BeginLoad(t.Context(), "sale", 0))(t)
	var seen *port.EpochError
	if err := l.Load(t.Context(), image); !errors.As(err, &seen) || seen.Seen != 1 {
		t.Errorf("%v, want epoch 1 to be passed over", err)
	}
	image = must.Get(store.BeginLoad(t.Context(), "sale", 1))(t)
	if err := l.Load(t.Context(), image); err != nil || image.Epoch != 2 {
		t.Errorf("%v of epoch %d, want it to be loaded under 2", err, image.Epoch)
	}
}

// What another ledger has loaded is not this one's any more, by the sale's own row.
func TestAnotherLedgerHasTheSale(t *testing.T) {
	t.Parallel()
	store, l, _ := sell(t, func(*sluice.Sale) {})
	c := claimOf("ann", 1)
	codes(t, l, "sale", c)
	must.Succeed(t, store.FenceSale(t.Context(), "sale", 1, "a person"))
	if got := codes(t, l, "sale", claimOf("bob", 1)); got[sluice.Unavailable] != 1 {
		t.Errorf("fenced by the store: %v, want unavailable", got)
	}
	image, err := store.BeginLoad(t.Context(), "sale", 0)
	if err == nil {
		err = store.ConfirmLoad(t.Context(), "sale", image.Epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []sluice.Claim{c, claimOf("bob", 1)} {
		if got := codes(t, l, "sale", of); got[sluice.Unavailable] != 1 {
			t.Errorf("of another ledger: %v for %s, want unavailable", got, of.Buyer)
		}
	}
	must.Get(store.Change(t.Context(), sluice.Change{Order: c.Order, Action: sluice.Cancel}))(t)
	if n, err := store.PendingReleases(t.Context(), "sale"); err != nil || n != 1 {
		t.Errorf("%d releases, %v; want one, for that ledger", n, err)
	}
}

// Between a sale's archiving and the moment when its ledger drops it, no claim is
// accepted, also if the ledger has not heard yet that the sale is closed.
func TestAnArchivedSaleSellsNothing(t *testing.T) {
	t.Parallel()
	store, l, _ := sell(t, func(*sluice.Sale) {})
	if got := codes(t, l, "sale", claimOf("ann", 1)); got[sluice.Accepted] != 1 {
		t.Fatal(got)
	}
	page, _, err := store.Orders(t.Context(), sluice.OrderFilter{Limit: 1})
	if err == nil {
		_, err = store.Change(t.Context(), sluice.Change{Order: page[0].ID, Action: sluice.Cancel})
	}
	if err == nil {
		_, err = store.ChangeSale(t.Context(), "sale", func(s *sluice.Sale) error {
			s.ClosesAt = s.OpensAt.Add(time.Millisecond)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if archived, err := store.Archive(t.Context(), "sale"); err != nil || !archived {
		t.Fatal(archived, err)
	}
	if got := codes(t, l, "sale", claimOf("ann", 1), claimOf("bob", 1)); got[sluice.Unavailable] != 2 {
		t.Errorf("archived: %v, want unavailable", got)
	}
}

// What no batch of claims changes is checked where it changes, and where a row is new.
func TestRowsAreChecked(t *testing.T) {
	t.Parallel()
	_, _, pool := sell(t, func(*sluice.Sale) {})
	refused := func(statement string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement)
		if why := (*pgconn.PgError)(nil); !errors.As(err, &why) || why.Code != "23514" {
			t.Errorf("%s: %v, want a check to fail", statement, err)
		}
	}
	for _, set := range []string{
		"seq = -1", "epoch = 0", "version = 0", "total = -1", "max_per_buyer = 0", "max_orders = 0", "max_unpaid = 0",
		"closes_at = opens_at", "promised = -1",
	} {
		refused("UPDATE ledger_sales SET " + set)
	}
	for _, table := range []string{"sales", "ledger_sales"} {
		must.Get(pool.Exec(t.Context(), "UPDATE "+table+" SET closes_at = opens_at + interval '1 d'"))(t)
		refused("UPDATE " + table + " SET opens_at = closes_at")
	}
	again := "INSERT INTO %[1]s SELECT (jsonb_populate_record(r, '%[2]s')).* FROM %[1]s r"
	refused(fmt.Sprintf(again, "ledger_sales", `{"sale_id": "another", "version": 0}`))
	refused(fmt.Sprintf(again, "sales", `{"id": ""}`))
}

// The store's cap is the second guard (I1): what it does not cover is not stored, and not
// accepted.
func TestTheCapIsTheSecondGuard(t *testing.T) {
	t.Parallel()
	_, l, pool := sell(t, func(s *sluice.Sale) { s.Total = 2 })
	must.Get(pool.Exec(t.Context(), `UPDATE ledger_sales SET total = 5`))(t)
	if got := codes(t, l, "sale", claimOf("ann", 1), claimOf("bob", 1), claimOf("cid", 1)); got[sluice.Unavailable] != 3 {
		t.Errorf("%v, want unavailable", got)
	}
	readings, err := l.Read(t.Context(), []sluice.SaleID{"sale"})
	if r := readings[0]; err != nil || r.Seq != 0 || r.Taken != 0 || !strings.HasPrefix(r.Fence, port.FenceLost) {
		t.Errorf("%+v, %v; want nothing taken, and a fence", r, err)
	}
}

// Sales whose rows another session holds fail in time, and leave the others a connection,
// however many they are and however many claims they have.
func TestSalesThatHang(t *testing.T) {
	t.Parallel()
	store, l, pool := sell(t, func(*sluice.Sale) {})
	const hung = 12
	var ids []string
	for i := range hung {
		sale := sluice.NewSale(10, sluice.Unlimited)
		sale.ID, sale.SKU, sale.Title = sluice.SaleID(fmt.Sprint("hung-", i)), "sku", "title"
		sale.Price, sale.OpensAt = sluice.Money{Amount: 1, Currency: "CNY"}, time.Now().Add(-time.Hour)
		must.Get(store.CreateSale(t.Context(), sale))(t)
		load(t, store, l, sale.ID)
		ids = append(ids, string(sale.ID))
	}
	tx := must.Get(pool.Begin(t.Context()))(t)
	defer tx.Rollback(context.Background())
	must.Get(tx.Exec(t.Context(), "SELECT FROM sales WHERE id = ANY ($1) FOR UPDATE", ids))(t)
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	var answered atomic.Int64
	for _, id := range ids {
		crowd.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c := claimOf("ann", n)
				c.Order = sluice.SaleID(id).Order(fmt.Sprintf("%032x", n))
				if _, err := l.Claim(ctx, sluice.SaleID(id), []sluice.Claim{c}); err == nil {
					t.Errorf("%s: decided, although its row is held", id)
				} else if ctx.Err() == nil && !errors.Is(err, sluice.ErrNoAnswer) {
					t.Errorf("%s: %v", id, err)
				}
				answered.Add(1)
			}
		})
	}
	for end := time.Now().Add(30 * time.Second); answered.Load() < hung && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for end := time.Now().Add(30 * time.Second); l.Connections() > 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections in use: sales that hang do not share one", l.Connections())
		}
	}
	for n := range 20 {
		well := []sluice.Claim{claimOf("bob", n)}
		var decisions []sluice.Decision
		var err error
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); { // a busy machine may need a second try
			if decisions, err = l.Claim(t.Context(), "sale", well); err == nil {
				_, err = l.Read(t.Context(), []sluice.SaleID{"sale", "hung-1"})
			}
			if err == nil {
				break
			}
		}
		if err != nil || decisions[0].Code != sluice.Accepted {
			t.Fatalf("%+v, %v; want the well sale to sell", decisions, err)
		}
	}
	stop()
	crowd.Wait()
}

// A session that is not Sluice's holds the ledger's row until the sale has closed: the
// clock is read after the lock, so nothing is accepted (I8).
func TestTheClockIsReadAfterTheLocks(t *testing.T) {
	_, l, pool := sell(t, func(*sluice.Sale) {})
	codes(t, l, "sale", claimOf("bob", 1)) // so that the next batch is one round trip
	must.Get(pool.Exec(t.Context(),
		"UPDATE ledger_sales SET closes_at = date_trunc('milliseconds', clock_timestamp()) + interval '3 s'"))(t)
	tx := must.Get(pool.Begin(t.Context()))(t)
	defer tx.Rollback(context.Background())
	must.Get(tx.Exec(t.Context(), "SELECT FROM ledger_sales FOR UPDATE"))(t)
	got := make(chan sluice.Decision, 1)
	go func() { // a claim that waits too long for the lock is made again
		for t.Context().Err() == nil {
			if decisions, err := l.Claim(t.Context(), "sale", []sluice.Claim{claimOf("ann", 1)}); err == nil {
				got <- decisions[0]
				return
			}
		}
	}()
	for closed := false; !closed; time.Sleep(time.Millisecond) {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT bool_and(closes_at < clock_timestamp()) FROM ledger_sales").
			Scan(&closed))
	}
	_ = tx.Rollback(t.Context())
	if d := <-got; d.Code != sluice.Closed {
		t.Errorf("%v at %v under a lock that was had after the closing, want closed", d.Code, d.At)
	}
}

// One claim that the database refuses, by a rule of an operator, keeps no other of its
// batch from being decided.
func TestAClaimThatTheDatabaseRefuses(t *testing.T) {
	_, l, pool := sell(t, func(*sluice.Sale) {})
	must.Get(pool.Exec(t.Context(), `ALTER TABLE orders ADD CONSTRAINT mine CHECK (buyer_id <> 'eve')`))(t)
	got := codes(t, l, "sale",
		claimOf("ann", 1), claimOf("bob", 1), claimOf("eve", 1), claimOf("cid", 1), claimOf("dan", 1))
	if got[sluice.Accepted] != 4 || got[sluice.Unavailable] != 1 {
		t.Errorf("decisions %v, want 4 accepted and 1 unavailable", got)
	}
	if decisions, err := l.Claim(t.Context(), "sale", []sluice.Claim{claimOf("eve", 2)}); err == nil {
		t.Errorf("alone it is %v, want the database's error", decisions)
	}
}

// A batch of new buyers is decided in one round trip, but only while everything that it is
// decided by is as it was: otherwise nothing is written, and it is decided as any other.
func TestABatchOfNewBuyers(t *testing.T) {
	t.Parallel()
	type row struct{ taken, seq, orders int64 }
	store, l, pool := sell(t, func(*sluice.Sale) {})
	rows := func(t *testing.T, id sluice.SaleID) (r row) {
		t.Helper()
		must.Succeed(t, pool.QueryRow(t.Context(), `SELECT taken, seq, (SELECT count(*) FROM orders WHERE sale_id = id)
			FROM sales JOIN ledger_sales ON sale_id = id WHERE id = $1`, id).Scan(&r.taken, &r.seq, &r.orders))
		return r
	}
	two := func(c ...sluice.Claim) []sluice.Claim { return append(c, claimOf("cid", 1)) }
	for name, test := range map[string]struct {
		change string // of every sale: each test has its own
		claims []sluice.Claim
		done   bool
	}{
		"unchanged":               {done: true, change: `SELECT`, claims: two(claimOf("dan", 1))},
		"a cooldown that is over": {done: true, change: `UPDATE ledger_sales SET cooldown = 9, cooldown_until = now()`},
		"another batch before":    {done: true, change: `UPDATE ledger_sales SET seq = 7`},
		"two units":               {done: true, change: `SELECT`, claims: []sluice.Claim{withQuantity(claimOf("dan", 1), 2)}},

		"a buyer who has an order": {change: `SELECT`, claims: two(claimOf("ann", 2))},
		"a claim again":            {change: `SELECT`, claims: two(claimOf("ann", 1))},
		"a buyer twice":            {change: `SELECT`, claims: two(claimOf("cid", 2))},
		"over the limit":           {change: `SELECT`, claims: []sluice.Claim{withQuantity(claimOf("dan", 1), 3)}},
		"refused by the database":  {change: `ALTER TABLE orders ADD CHECK (buyer_id <> 'eve')`, claims: two(claimOf("eve", 1))},

		"other terms":            {change: `UPDATE ledger_sales SET version = version + 1`},
		"paused":                 {change: `UPDATE ledger_sales SET paused = true`},
		"not open":               {change: `UPDATE ledger_sales SET opens_at = now() + interval '1 h', closes_at = NULL`},
		"closed":                 {change: `UPDATE ledger_sales SET closes_at = now(), opens_at = now() - interval '1 h'`},
		"no units":               {change: `UPDATE ledger_sales SET total = 1`},
		"too few units":          {change: `UPDATE ledger_sales SET total = 2`, claims: two(claimOf("dan", 1))},
		"promises":               {change: `UPDATE ledger_sales SET promised = 1`},
		"a reopening":            {change: `UPDATE ledger_sales SET reopened = 9`},
		"a cooldown":             {change: `UPDATE ledger_sales SET cooldown = 9, cooldown_until = now() + interval '1 h'`},
		"an older copy":          {change: `UPDATE orders SET order_id = order_id || 'x'`},
		"a fence":                {change: `UPDATE ledger_sales SET fence = 'a test'`},
		"another epoch":          {change: `UPDATE ledger_sales SET epoch = 2`},
		"the epoch of the store": {change: `UPDATE sales SET epoch = 2`},
		"the store is behind":    {change: `UPDATE sales SET loaded_epoch = 0`},
		"a fence of the store":   {change: `UPDATE sales SET fence = 'a test'`},
		"archived":               {change: `UPDATE sales SET archived_at = now()`},
		"the cap of the store":   {change: `UPDATE sales SET total = taken, cap = taken`},
	} {
		t.Run(name, func(t *testing.T) {
			sale := sluice.NewSale(1000, sluice.Unlimited)
			sale.ID, sale.SKU, sale.Title = sluice.SaleID(strings.ReplaceAll(name, " ", "-")), "sku", "title"
			sale.Price = sluice.Money{Amount: 1, Currency: "CNY"}
			sale.MaxPerBuyer, sale.OpensAt = 2, time.Now().Add(-time.Hour)
			must.Get(store.CreateSale(t.Context(), sale))(t)
			load(t, store, l, sale.ID)
			codes(t, l, sale.ID, claimOf("ann", 1))
			must.Get(pool.Exec(t.Context(), test.change))(t)
			claims, before := test.claims, rows(t, sale.ID)
			if claims == nil {
				claims = two()
			}
			decisions, done, err := l.Fresh(t.Context(), sale.ID, claims)
			if err != nil || done != test.done {
				t.Fatalf("decided %t, %v; want %t", done, err, test.done)
			}
			want := before
			if done {
				for i := range claims {
					want.taken, want.seq, want.orders = want.taken+claims[i].Quantity, want.seq+1, want.orders+1
					if d := decisions[i]; d.Code != sluice.Accepted || d.Order != claims[i].Order || d.Seq != want.seq {
						t.Errorf("claim %d: %+v, want it accepted as %s at sequence %d", i, d, claims[i].Order, want.seq)
					}
				}
			}
			if got := rows(t, sale.ID); got != want {
				t.Errorf("rows %+v, want %+v", got, want)
			}
			if !done {
				return
			}
			again, err := l.Claim(t.Context(), sale.ID, claims)
			for i := range again {
				first := decisions[i]
				if first.Replayed = true; !reflect.DeepEqual(again[i], first) {
					t.Errorf("again: %+v, want %+v", again[i], first)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A claim of a free sale is a paid order, decided in one round trip or in two, and ends as one: by a refund.
func TestAClaimOfAFreeSaleIsPaid(t *testing.T) {
	t.Parallel()
	store, l, _ := sell(t, func(s *sluice.Sale) { s.Price.Amount, s.Free = 0, true })
	ann, bob := claimOf("ann", 1), claimOf("bob", 1)
	codes(t, l, "sale", ann)
	if _, done, err := l.Fresh(t.Context(), "sale", []sluice.Claim{bob}); err != nil || !done {
		t.Fatalf("decided in one round trip %t, %v", done, err)
	}
	for _, c := range []sluice.Claim{ann, bob} {
		if o := must.Get(store.Order(t.Context(), c.Order))(t); o.Status != sluice.Paid || !o.Free() {
			t.Errorf("%+v; want a paid order", o)
		}
	}
	must.Get(store.Change(t.Context(), sluice.Change{Order: ann.Order, Action: sluice.Refund}))(t)
	if r := must.Get(l.Read(t.Context(), []sluice.SaleID{"sale"}))(t)[0]; r.Taken != 1 {
		t.Errorf("%d taken after a refund, want 1", r.Taken)
	}
}

// A batch that is not of new buyers alone is the last that is tried in one round trip, until
// there was one again; an old cooldown does not matter.
func TestBatchesOfNewBuyersAreTriedAfterOne(t *testing.T) {
	t.Parallel()
	_, l, pool := sell(t, func(*sluice.Sale) {})
	must.Get(pool.Exec(t.Context(), "UPDATE ledger_sales SET cooldown = 9, cooldown_until = now()"))(t)
	fresh := func(c sluice.Claim, want bool) {
		t.Helper()
		if _, done, err := l.Fresh(t.Context(), "sale", []sluice.Claim{c}); err != nil || done != want {
			t.Fatalf("%s: decided in one round trip %t, %v; want %t", c.Buyer, done, err, want)
		}
	}
	ann := claimOf("ann", 1)
	fresh(ann, false)
	codes(t, l, "sale", ann)
	fresh(claimOf("bob", 1), true)
	fresh(ann, false)
	fresh(claimOf("cid", 1), false)
	codes(t, l, "sale", claimOf("dan", 1))
	fresh(claimOf("eve", 1), true)
}

func withQuantity(c sluice.Claim, n int64) sluice.Claim {
	c.Quantity = n
	return c
}

// through listens at a free port for a database, and passes on what comes after passing has returned.
func through(t *testing.T, database string, passing func(over <-chan struct{}, n int)) (addr string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	over := make(chan struct{})
	t.Cleanup(func() {
		close(over)
		l.Close()
	})
	pass := func(to, from net.Conn) {
		buf := make([]byte, 4<<10)
		for {
			n, err := from.Read(buf)
			passing(over, n)
			if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
				to.Close()
				return
			}
		}
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", database)
			if err != nil {
				from.Close()
				continue
			}
			go pass(to, from)
			go pass(from, to)
		}
	}()
	return l.Addr().String()
}

// cutOff is through a proxy that passes on what comes until left is spent. Then nobody hears anything.
func cutOff(t *testing.T, database string, left *atomic.Int64) (addr string) {
	return through(t, database, func(over <-chan struct{}, n int) {
		if left.Add(int64(-n)) < 0 {
			<-over
		}
	})
}

// A load of many promises over a slow line takes longer than a transaction may hang, and is not ended.
func TestSlowLoad(t *testing.T) {
	t.Parallel()
	database := servertest.Postgres(t)
	store, other, _ := sellAt(t, database, func(s *sluice.Sale) { s.Total = 10_000 })
	must.Succeed(t, store.FenceSale(t.Context(), "sale", 1, "a test"))
	image := must.Get(store.BeginLoad(t.Context(), "sale", 0))(t)
	for i := range int64(3000) {
		c := claimOf(fmt.Sprint("buyer-", i), 1)
		c.Meta = `{"a":"` + strings.Repeat("x", 300) + `"}`
		image.Records = append(image.Records,
			port.Record{Claim: c, Sale: "sale", Epoch: 2, Seq: i + 1, Terms: 1, At: time.Now(), Live: true})
	}
	address := must.Get(url.Parse(database))(t)
	var slow atomic.Bool
	address.Host = through(t, address.Host, func(_ <-chan struct{}, n int) {
		if slow.Load() {
			time.Sleep(time.Duration(n) * 3 * time.Microsecond) // 330 kB a second
		}
	})
	far := must.Get(pgstore.Open(t.Context(), address.String(), pgstore.Options{}))(t)
	t.Cleanup(func() { far.Close() })
	l := must.Get(far.LedgerAt("far", nil))(t)
	slow.Store(true)
	loaded := make(chan error, 1)
	begun := time.Now()
	go func() { loaded <- l.Load(t.Context(), image) }()
	for {
		select {
		case err := <-loaded:
			if took := time.Since(begun); err != nil || took < 4*time.Second {
				t.Errorf("loaded after %v: %v", took, err)
			}
			return
		case <-time.After(100 * time.Millisecond):
			_, _ = other.Read(t.Context(), []sluice.SaleID{"sale"}) // as servers do each second
		}
	}
}

// A server that is cut off while it sends a batch keeps no other server from selling: neither in a batch of new
// buyers, nor in one of known buyers, nor while it counts tries.
func TestCutOffInABatch(t *testing.T) {
	t.Parallel()
	process := servertest.StartPostgres(t)
	via, admin := servertest.PgBouncer(t, process), raw(t, process.URL())
	var made, buyers atomic.Int64
	newBuyers := func(n int) (claims []sluice.Claim) {
		for range n {
			c := claimOf(fmt.Sprint("buyer-", buyers.Add(1)), 1)
			c.Meta = `{"a":"` + strings.Repeat("x", 300) + `"}`
			claims = append(claims, c)
		}
		return claims
	}
	known := claimOf("known", 1)
	rates := port.Rates{Buyer: sluice.BuyerRate{Requests: 5, PerS: 1}}
	for _, c := range []struct {
		name string
		does func(ctx context.Context, l *pgstore.Ledger, n int) error
	}{
		{"new buyers", func(ctx context.Context, l *pgstore.Ledger, n int) error {
			_, err := l.Claim(ctx, "sale", newBuyers(n))
			return err
		}},
		{"a known buyer", func(ctx context.Context, l *pgstore.Ledger, n int) error {
			_, err := l.Claim(ctx, "sale", append(newBuyers(n), known))
			return err
		}},
		{"tries", func(ctx context.Context, l *pgstore.Ledger, n int) error {
			var tries []port.Try
			for i := range n {
				tries = append(tries, port.Try{Buyer: sluice.BuyerID(fmt.Sprintf("%0100d", i))})
			}
			_, err := l.Allow(ctx, "sale", rates, tries)
			return err
		}},
	} {
		for _, pooler := range []string{"", " behind PgBouncer"} {
			t.Run(c.name+pooler, func(t *testing.T) {
				t.Parallel()
				address := must.Get(url.Parse(process.URL()))(t)
				address.Path = fmt.Sprintf("test_%d", made.Add(1))
				must.Get(admin.ExecContext(t.Context(), "CREATE DATABASE "+address.Path))(t)
				_, other, _ := sellAt(t, address.String(), func(s *sluice.Sale) { s.Total = 10_000 })
				if pooler != "" {
					address = must.Get(url.Parse(via(address.String())))(t)
				}
				var left atomic.Int64
				left.Store(1 << 40)
				address.Host = cutOff(t, address.Host, &left)
				store := must.Get(pgstore.Open(t.Context(), address.String(), pgstore.Options{}))(t)
				l := must.Get(store.LedgerAt("cut off", nil))(t)
				for _, err := range []error{c.does(t.Context(), l, 1), c.does(t.Context(), l, 1)} { // statements are prepared
					must.Succeed(t, err)
				}
				left.Store(16 << 10)
				if err := c.does(t.Context(), l, 1000); !errors.Is(err, sluice.ErrNoAnswer) {
					t.Errorf("cut off: %v", err)
				}
				begun := time.Now()
				for n := 1; ; n++ {
					must.Get(other.Read(t.Context(), []sluice.SaleID{"sale"}))(t) // as servers do each second
					_, err := other.Claim(t.Context(), "sale", []sluice.Claim{claimOf("bob", n)})
					if err == nil {
						_, err = other.Allow(t.Context(), "sale", rates, []port.Try{{Buyer: "bob"}})
					}
					if err == nil {
						break
					}
					if time.Since(begun) > 15*time.Second {
						t.Fatalf("nothing is sold for %v: %v", time.Since(begun), err)
					}
				}
				t.Logf("sold after %v", time.Since(begun))
			})
		}
	}
}
