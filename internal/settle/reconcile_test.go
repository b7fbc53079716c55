package settle_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/mysqlstore"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// pair is a ledger and a store with a sale that is loaded.
type pair struct {
	t      *testing.T
	ledger port.Ledger
	store  port.Store
	db     *sql.DB // the store's
	id     sluice.SaleID
	orders map[string]sluice.OrderID
}

// pairs runs a test on each pair of a ledger and a store.
func pairs(t *testing.T, total int64, test func(*testing.T, *pair)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newPair(t, total))
	})
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		p, url := &pair{t: t}, servertest.Postgres(t)
		var err error
		p.ledger, err = redisledger.Open(t.Context(), servertest.Redis(t), redisledger.Options{Node: "a"})
		p.must(err)
		p.store, err = pgstore.Open(t.Context(), url, pgstore.Options{})
		p.must(err)
		p.db, err = sql.Open("pgx", url)
		p.must(err)
		test(t, p.ready(total))
	})
	t.Run("sqlite and mysql", func(t *testing.T) {
		t.Parallel()
		p, url := &pair{t: t}, servertest.MySQL(t)
		var err error
		p.ledger, err = sqliteledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
			sqliteledger.Options{Node: "a"})
		p.must(err)
		p.store, err = mysqlstore.Open(t.Context(), url, mysqlstore.Options{})
		p.must(err)
		p.db = openMySQL(t, url)
		test(t, p.ready(total))
	})
}

// openMySQL connects with the driver's own form of the URL.
func openMySQL(t *testing.T, raw string) *sql.DB {
	u := must.Get(url.Parse(raw))(t)
	password, _ := u.User.Password()
	db := must.Get(sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s", u.User.Username(), password, u.Host, u.Path)))(t)
	return db
}

func newPair(t *testing.T, total int64) *pair {
	p, dir := &pair{t: t}, t.TempDir()
	var err error
	p.ledger, err = sqliteledger.Open(t.Context(), filepath.Join(dir, "ledger.db"), sqliteledger.Options{Node: "a"})
	p.must(err)
	p.store, err = sqlitestore.Open(t.Context(), filepath.Join(dir, "store.db"), sqlitestore.Options{})
	p.must(err)
	p.db, err = sql.Open("sqlite", filepath.Join(dir, "store.db")+"?_pragma=busy_timeout(5000)")
	p.must(err)
	return p.ready(total)
}

func (p *pair) ready(total int64) *pair {
	p.t.Cleanup(func() { p.ledger.Close(); p.store.Close() })
	if p.db != nil {
		p.t.Cleanup(func() { p.db.Close() })
	}
	p.orders = map[string]sluice.OrderID{}
	p.id = sluice.SaleID("sale-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20])
	sale := phone(-time.Hour)
	sale.ID, sale.Total, sale.MaxUnpaid, sale.PaymentWindow = p.id, total, 2, time.Hour
	_, err := p.store.CreateSale(p.t.Context(), sale)
	p.must(err)
	p.must(settle.NewLoader(p.store, p.ledger).Load(p.t.Context(), p.id))
	return p
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// accept has claims of one unit accepted, and leaves them in the journal.
func (p *pair) accept(buyers ...string) {
	p.t.Helper()
	for _, b := range buyers {
		p.orders[b] = p.id.Order(fmt.Sprintf("%032x", []byte(b)))
		decisions, err := p.ledger.Claim(p.t.Context(), p.id,
			[]sluice.Claim{{Buyer: sluice.BuyerID(b), Key: "attempt-1", Quantity: 1, Order: p.orders[b]}})
		p.must(err)
		if decisions[0].Code != sluice.Accepted {
			p.t.Fatalf("%s: %v", b, decisions[0].Code)
		}
	}
}

// drain stores what is in the journal, or, if lose is true, forgets it.
func (p *pair) drain(lose bool) {
	p.t.Helper()
	entries, err := p.ledger.ReadJournal(p.t.Context(), port.JournalRead{Sale: p.id, Source: port.New, Max: 1000})
	p.must(err)
	if !lose {
		_, err = p.store.Insert(p.t.Context(), p.id, entries)
		p.must(err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	p.must(p.ledger.Ack(p.t.Context(), p.id, ids))
}

func (p *pair) cancel(buyer string) {
	p.t.Helper()
	_, err := p.store.Change(p.t.Context(), sluice.Change{Order: p.orders[buyer], Action: sluice.Cancel, By: "test"})
	p.must(err)
}

// loseReleases forgets what waits in the outbox.
func (p *pair) loseReleases() {
	p.t.Helper()
	_, err := p.store.GiveReleases(p.t.Context(), 1000, func(sluice.SaleID, []port.Release) error { return nil })
	p.must(err)
}

// stray is an order in the store that no ledger has promised.
func (p *pair) stray(buyer string, seq int64) {
	p.t.Helper()
	p.orders[buyer] = p.id.Order(fmt.Sprintf("%032x", []byte(buyer)))
	_, err := p.store.Insert(p.t.Context(), p.id, []port.Entry{{
		ID: "planted", Sale: p.id, Epoch: 1, Terms: 1, FirstSeq: seq, At: time.Now(),
		Claims: []sluice.Claim{{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: p.orders[buyer]}},
	}})
	p.must(err)
}

func (p *pair) release(buyer string) {
	p.t.Helper()
	_, err := p.ledger.Release(p.t.Context(), p.id, []port.Release{{
		Order: p.orders[buyer], Sale: p.id, Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Epoch: 1,
	}})
	p.must(err)
}

func (p *pair) reconcile(apply bool) sluice.ReconcileReport {
	p.t.Helper()
	reconciler := settle.NewReconciler(p.store, p.ledger, settle.NewLoader(p.store, p.ledger))
	report, err := reconciler.Reconcile(p.t.Context(), p.id, apply)
	p.must(err)
	return report
}

// found is what a report says of the classes that it found.
type found struct {
	Count, Repaired int64
	Orders          []string // buyers
}

func (p *pair) found(r *sluice.ReconcileReport) map[sluice.DifferenceClass]found {
	all := map[sluice.DifferenceClass]found{}
	for _, d := range r.Differences {
		f := found{Count: d.Count, Repaired: d.Repaired}
		for buyer, id := range p.orders {
			if slices.Contains(d.Orders, id) {
				f.Orders = append(f.Orders, buyer)
			}
		}
		slices.Sort(f.Orders)
		if d.Count > 0 {
			all[d.Class] = f
		}
	}
	return all
}

// Each kind of damage is found without apply, and then mended or reported.
func TestReconcilePlanted(t *testing.T) {
	type want = map[sluice.DifferenceClass]found
	for _, c := range []struct {
		name   string
		total  int64
		plant  func(*pair)
		looks  want
		mends  want
		after  want // the next report
		fenced bool
		older  bool // for a person
	}{
		{name: "nothing", total: 10, plant: func(p *pair) { p.accept("a", "b"); p.drain(false) }},
		{
			name: "in flight", total: 10,
			plant: func(p *pair) { p.accept("a", "b"); p.drain(false); p.cancel("a"); p.accept("c") },
			looks: want{sluice.InFlight: {Count: 2}}, mends: want{sluice.InFlight: {Count: 2}},
			after: want{sluice.InFlight: {Count: 2}},
		},
		{
			name: "lost orders", total: 3,
			plant: func(p *pair) { p.accept("a", "b"); p.drain(true); p.accept("c"); p.drain(false) },
			looks: want{sluice.LostOrder: {2, 0, []string{"a", "b"}}}, mends: want{sluice.LostOrder: {2, 2, []string{"a", "b"}}},
		},
		{
			name: "a lost release", total: 10,
			plant: func(p *pair) { p.accept("a", "b"); p.drain(false); p.cancel("a"); p.loseReleases() },
			looks: want{sluice.LostRelease: {1, 0, []string{"a"}}}, mends: want{sluice.LostRelease: {1, 1, []string{"a"}}},
			after: want{sluice.InFlight: {Count: 1}},
		},
		{
			name: "a lost release of an order that was rejected in the store's own word", total: 10,
			plant: func(p *pair) {
				p.accept("a", "b")
				p.drain(false)
				p.cancel("a")
				p.loseReleases()
				_, err := p.db.Exec("UPDATE orders SET reason = 'not_covered' WHERE order_id = '" + string(p.orders["a"]) + "'")
				p.must(err)
			},
			looks: want{sluice.LostRelease: {1, 0, []string{"a"}}}, mends: want{sluice.LostRelease: {1, 1, []string{"a"}}},
			after: want{sluice.InFlight: {Count: 1}},
		},
		{
			name: "an unpaid ending that was released without its mark", total: 10,
			plant: func(p *pair) {
				p.accept("a", "b")
				p.drain(false)
				_, err := p.store.Change(p.t.Context(), sluice.Change{
					Order: p.orders["a"], Action: sluice.Cancel, Buyer: "a", By: "buyer",
				})
				p.must(err)
				p.loseReleases()
				p.release("a")
			},
			looks: want{sluice.Drift: {1, 0, []string{"a"}}}, mends: want{sluice.Drift: {1, 1, []string{"a"}}}, fenced: true,
		},
		{
			name: "a hold that the cap does not cover", total: 1,
			plant: func(p *pair) { p.accept("a"); p.drain(true); p.stray("thief", 7) },
			looks: want{sluice.LostOrder: {1, 0, []string{"a"}}}, mends: want{sluice.OrphanHold: {1, 1, []string{"a"}}},
			fenced: true,
		},
		{
			name: "an order without a claim, in another's place", total: 10, fenced: true,
			plant: func(p *pair) { p.accept("a"); p.drain(true); p.accept("b"); p.drain(false); p.stray("thief", 1) },
			looks: want{sluice.LostOrder: {1, 0, []string{"a"}}, sluice.OrphanOrder: {1, 0, []string{"thief"}}},
			mends: want{sluice.OrphanHold: {1, 1, []string{"a"}}, sluice.OrphanOrder: {1, 1, []string{"thief"}}},
		},
		{
			name: "a live order whose units are for sale", total: 10, fenced: true,
			plant: func(p *pair) { p.accept("a", "b"); p.drain(false); p.release("a") },
			looks: want{sluice.OrphanOrder: {1, 0, []string{"a"}}}, mends: want{sluice.OrphanOrder: {1, 0, []string{"a"}}},
			older: true,
		},
		{
			name: "a claim without units or order", total: 10, fenced: true, older: true,
			plant: func(p *pair) { p.accept("a", "b"); p.drain(true); p.release("a") },
			looks: want{sluice.LostOrder: {2, 0, []string{"a", "b"}}}, mends: want{sluice.LostOrder: {2, 0, []string{"a", "b"}}},
		},
		{
			name: "the last claims are not stored", total: 10, fenced: true, older: true,
			plant: func(p *pair) { p.accept("a"); p.drain(false); p.accept("b"); p.drain(true) },
			looks: want{sluice.LostOrder: {1, 0, []string{"b"}}}, mends: want{sluice.LostOrder: {1, 0, []string{"b"}}},
		},
		{
			name: "the store's counter", total: 10,
			plant: func(p *pair) {
				p.accept("a", "b")
				p.drain(false)
				_, err := p.db.Exec("UPDATE sales SET taken = taken + 1 WHERE id = '" + string(p.id) + "'")
				p.must(err)
			},
			looks: want{sluice.Drift: {Count: 1}}, mends: want{sluice.Drift: {Count: 1, Repaired: 1}},
		},
		{
			name: "an order's quantity", total: 10, fenced: true,
			plant: func(p *pair) {
				p.accept("a", "b")
				p.drain(false)
				_, err := p.db.Exec("UPDATE orders SET quantity = 2 WHERE order_id = '" + string(p.orders["a"]) + "'")
				p.must(err)
				_, err = p.db.Exec("UPDATE sales SET taken = taken + 1 WHERE id = '" + string(p.id) + "'")
				p.must(err)
			},
			looks: want{sluice.Drift: {1, 0, []string{"a"}}}, mends: want{sluice.Drift: {1, 1, []string{"a"}}},
		},
		{
			name: "terms that the store does not have", total: 10,
			plant: func(p *pair) {
				terms := phone(-time.Hour).Terms
				terms.Version = 2
				p.must(p.ledger.Apply(p.t.Context(), p.id, 1, terms))
			},
			looks: want{sluice.Drift: {Count: 1}}, mends: want{sluice.Drift: {Count: 1}}, fenced: true, older: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pairs(t, c.total, func(t *testing.T, p *pair) {
				c.plant(p)
				is := func(what string, r sluice.ReconcileReport, want want) {
					t.Helper()
					if want == nil {
						want = map[sluice.DifferenceClass]found{}
					}
					if d := cmp.Diff(want, p.found(&r)); d != "" {
						t.Errorf("%s: %s\n%+v", what, d, r)
					}
				}
				is("looking", p.reconcile(false), c.looks)
				is("looking again", p.reconcile(false), c.looks) // it changed nothing
				is("mending", p.reconcile(true), c.mends)
				sale, err := p.store.Sale(t.Context(), p.id)
				p.must(err)
				after := p.reconcile(false)
				if fenced := sale.Fence != ""; fenced != c.fenced || fenced != (after.Skipped != "") {
					t.Errorf("fence %q, skipped %q; want fenced %v", sale.Fence, after.Skipped, c.fenced)
				}
				if older := settle.Outdated(&sale); older != c.older {
					t.Errorf("fence %q; want a person to be waited for: %v", sale.Fence, c.older)
				}
				is("afterwards", after, c.after)
			})
		})
	}
}

// miscounting is a ledger whose counter is wrong, until the sale is loaded.
type miscounting struct {
	port.Ledger
	by atomic.Int64
}

func (m *miscounting) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	readings, err := m.Ledger.Read(ctx, sales)
	for i := range readings {
		readings[i].Taken += m.by.Load()
	}
	return readings, err
}

func (m *miscounting) Load(ctx context.Context, image port.LoadImage) error {
	m.by.Store(0)
	return m.Ledger.Load(ctx, image)
}

// miscount makes the ledger's counter wrong: Redis's own, and of the embedded
// ledger, which has no counter that could be changed, what it says.
func (p *pair) miscount(by int64) {
	p.t.Helper()
	if _, ok := p.ledger.(*redisledger.Ledger); !ok {
		wrong := &miscounting{Ledger: p.ledger}
		wrong.by.Store(by)
		p.ledger = wrong
		return
	}
	options, err := rueidis.ParseURL(servertest.Redis(p.t))
	p.must(err)
	client, err := rueidis.NewClient(options)
	p.must(err)
	defer client.Close()
	key := "sluice:{" + string(p.id) + "}:sale"
	p.must(client.Do(p.t.Context(), client.B().Hincrby().Key(key).Field("taken").Increment(by).Build()).Error())
}

// A counter of the ledger that is wrong is found, fenced and rebuilt, and the
// sale goes on with the units that it has.
func TestTheLedgersCounterIsRepaired(t *testing.T) {
	for _, by := range []int64{-2, 3} {
		t.Run(fmt.Sprintf("%+d", by), func(t *testing.T) {
			pairs(t, 6, func(t *testing.T, p *pair) {
				p.accept("a", "b", "c")
				p.drain(false)
				p.accept("d") // on its way
				p.miscount(by)
				if r := p.reconcile(false); r.Of(sluice.Drift).Count != 1 || r.Of(sluice.Drift).Repaired != 0 {
					t.Errorf("looking: %+v", r)
				}
				if r := p.reconcile(true); r.Of(sluice.Drift).Repaired != 1 || r.Remaining() != 0 {
					t.Errorf("mending: %+v", r)
				}
				p.rebuild()
				if r := p.reconcile(true); r.Remaining() != 0 || r.Skipped != "" {
					t.Errorf("after the rebuild: %+v", r)
				}
				p.accept("e", "f")
				decisions, err := p.ledger.Claim(t.Context(), p.id,
					[]sluice.Claim{{
						Buyer: "g", Key: "attempt-1", Quantity: 1,
						Order: p.id.Order(fmt.Sprintf("%032x", "g")),
					}})
				p.must(err)
				if decisions[0].Code != sluice.SoldOut {
					t.Errorf("the seventh of six: %v", decisions[0].Code)
				}
				p.drain(false)
				proof, err := audit.Run(t.Context(), p.ledger, p.store, p.id)
				p.must(err)
				if !proof.OK {
					t.Errorf("%+v", proof)
				}
			})
		})
	}
}

// rebuild does what a server does with a sale that is fenced.
func (p *pair) rebuild() {
	p.t.Helper()
	sale, err := p.store.Sale(p.t.Context(), p.id)
	p.must(err)
	idle := func(sluice.SaleID) bool { return true }
	rebuilder := settle.NewRebuilder("a", p.store, p.ledger, settle.NewLoader(p.store, p.ledger), settle.NewMemory(0),
		idle, slog.New(slog.DiscardHandler))
	if done, err := rebuilder.Step(p.t.Context(), &sale); !done || err != nil {
		p.t.Fatalf("rebuilt %v, %v; fence %q", done, err, sale.Fence)
	}
}

// A wrong counter is found while claims are accepted all the time.
func TestAWrongCounterIsFoundInARush(t *testing.T) {
	pairs(t, sluice.Unlimited, func(t *testing.T, p *pair) {
		ctx := t.Context()
		claimed := make(chan struct{}, 1)
		stop := make(chan struct{})
		var buying sync.WaitGroup
		defer func() { close(stop); buying.Wait() }()
		ledger := p.ledger
		buying.Go(func() {
			for n := 0; ; n++ {
				order := p.id.Order(fmt.Sprintf("%032x", n))
				claim := sluice.Claim{Buyer: sluice.BuyerID(fmt.Sprint("b-", n)), Key: "attempt-1", Quantity: 2, Order: order}
				if _, err := ledger.Claim(ctx, p.id, []sluice.Claim{claim}); err != nil {
					return
				}
				select {
				case claimed <- struct{}{}:
				case <-stop:
					return
				default:
				}
			}
		})
		p.miscount(1)
		busy := &selling{Ledger: p.ledger, claimed: claimed}
		r, err := settle.NewReconciler(p.store, busy, settle.NewLoader(p.store, p.ledger)).Reconcile(ctx, p.id, false)
		p.must(err)
		if d := r.Of(sluice.Drift); d.Count != 1 {
			t.Errorf("found %+v", d)
		}
	})
}

// selling is a ledger that has accepted something between any two readings.
type selling struct {
	port.Ledger
	claimed chan struct{}
}

func (s *selling) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	for range 2 { // one may have been accepted before
		<-s.claimed
	}
	return s.Ledger.Read(ctx, sales)
}

// outrun is a store that is asked to repair when another reconciliation has just
// repaired the same.
type outrun struct {
	port.Store
	first func()
}

func (o *outrun) Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	if first := o.first; first != nil {
		o.first = nil
		first()
	}
	return o.Store.Sale(ctx, id)
}

// Two reconciliations at a time, by two servers or a server and a person, find the
// same lost orders: each is restored once, and the second finds nothing wrong.
func TestTwoReconciliationsAtATime(t *testing.T) {
	p := newPair(t, 3)
	p.accept("a", "b")
	p.drain(true)
	p.accept("c")
	p.drain(false)
	store := &outrun{p.store, func() { p.reconcile(true) }}
	reconciler := settle.NewReconciler(store, p.ledger, settle.NewLoader(p.store, p.ledger))
	report, err := reconciler.Reconcile(t.Context(), p.id, true)
	p.must(err)
	want := map[sluice.DifferenceClass]found{sluice.LostOrder: {2, 2, []string{"a", "b"}}}
	if diff := cmp.Diff(want, p.found(&report)); diff != "" {
		t.Errorf("found: -want +got\n%s", diff)
	}
	sale, err := p.store.Sale(t.Context(), p.id)
	if err != nil || sale.Fence != "" || sale.Taken != 3 {
		t.Errorf("taken %d of 3, fence %q, %v", sale.Taken, sale.Fence, err)
	}
}

// damagedLedger is a ledger that cannot read the records of some buyers, until the
// sale is loaded.
type damagedLedger struct {
	port.Ledger
	buyers []sluice.BuyerID
}

func (l *damagedLedger) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	err := l.Ledger.Records(ctx, sale, func(r port.Record) bool {
		return slices.Contains(l.buyers, r.Buyer) || yield(r)
	})
	if err != nil || len(l.buyers) == 0 {
		return err
	}
	return &port.DamageError{Buyers: l.buyers}
}

func (l *damagedLedger) Load(ctx context.Context, image port.LoadImage) error {
	l.buyers = nil
	return l.Ledger.Load(ctx, image)
}

// harm damages the records of buyers: Redis's own, and of the embedded ledger, which
// reads its rows at the start alone, what it says.
func (p *pair) harm(buyers ...string) {
	p.t.Helper()
	if _, ok := p.ledger.(*redisledger.Ledger); !ok {
		wrong := &damagedLedger{Ledger: p.ledger}
		for _, b := range buyers {
			wrong.buyers = append(wrong.buyers, sluice.BuyerID(b))
		}
		p.ledger = wrong
		return
	}
	options, err := rueidis.ParseURL(servertest.Redis(p.t))
	p.must(err)
	client, err := rueidis.NewClient(options)
	p.must(err)
	defer client.Close()
	key := "sluice:{" + string(p.id) + "}:buyers"
	for _, b := range buyers {
		p.must(client.Do(p.t.Context(), client.B().Hset().Key(key).FieldValue().FieldValue(b, "x\t1\nfoo").Build()).Error())
	}
}

// Damaged records of buyers are found and fenced, whether their orders are stored or
// wait in the journal; the rebuild gives all buyers the orders that they had.
func TestDamagedRecordsAreRepaired(t *testing.T) {
	pairs(t, 6, func(t *testing.T, p *pair) {
		p.accept("a", "b", "c", "d")
		p.drain(false)
		p.cancel("c")
		p.accept("e", "f") // on their way
		p.harm("a", "c", "e")
		if r := p.reconcile(false); r.Of(sluice.Drift).Count != 1 || r.Of(sluice.Drift).Repaired != 0 {
			t.Errorf("looking: %+v", r)
		}
		if sale, err := p.store.Sale(t.Context(), p.id); err != nil || sale.Fence != "" {
			t.Errorf("looking: fence %q, %v", sale.Fence, err)
		}
		if r := p.reconcile(true); r.Of(sluice.Drift).Repaired != 1 || r.Remaining() != 0 {
			t.Errorf("mending: %+v", r)
		}
		p.rebuild()
		if r := p.reconcile(true); r.Remaining() != 0 || r.Skipped != "" {
			t.Errorf("after the rebuild: %+v", r)
		}
		for buyer, order := range p.orders {
			decisions, err := p.ledger.Claim(t.Context(), p.id, []sluice.Claim{{
				Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: p.id.Order(fmt.Sprintf("%032x", "other")),
			}})
			p.must(err)
			if d := decisions[0]; !d.Replayed || d.Order != order {
				t.Errorf("%s has %s and gets %+v", buyer, order, d)
			}
		}
		p.accept("g") // the unit of c's order
		p.drain(false)
		proof, err := audit.Run(t.Context(), p.ledger, p.store, p.id)
		p.must(err)
		if !proof.OK {
			t.Errorf("%+v", proof)
		}
	})
}

// changedLedger reads its records and readings wrongly, until the sale is loaded.
type changedLedger struct {
	port.Ledger
	change func(*port.Record)
	ahead  int64 // of the sequence
}

func (l *changedLedger) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	return l.Ledger.Records(ctx, sale, func(r port.Record) bool {
		if l.change != nil {
			l.change(&r)
		}
		return yield(r)
	})
}

func (l *changedLedger) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	readings, err := l.Ledger.Read(ctx, sales)
	for i := range readings {
		readings[i].Seq += l.ahead
	}
	return readings, err
}

func (l *changedLedger) Load(ctx context.Context, image port.LoadImage) error {
	l.change, l.ahead = nil, 0
	return l.Ledger.Load(ctx, image)
}

// A record that differs in anything from its order, or from its journal entry, and a
// hole in the sequence, are found by the audit and by reconciliation alike; the
// rebuild gives the buyers the orders that they had.
func TestAChangedRecordIsRepaired(t *testing.T) {
	for name, wrong := range map[string]changedLedger{
		"buyer":    {change: func(r *port.Record) { r.Buyer += "x" }},
		"key":      {change: func(r *port.Record) { r.Key += "x" }},
		"meta":     {change: func(r *port.Record) { r.Meta = "{}" }},
		"counters": {change: func(r *port.Record) { r.Counters = "home:1=2" }},
		"quantity": {change: func(r *port.Record) { r.Quantity++ }},
		"terms":    {change: func(r *port.Record) { r.Terms++ }},
		"at":       {change: func(r *port.Record) { r.At = r.At.Add(-time.Millisecond) }},
		"order": {change: func(r *port.Record) { // of a and b, swapped
			if suffix := fmt.Sprintf("%032x", []byte{'a' + 'b' - r.Buyer[0]}); r.Seq < 3 {
				r.Order = r.Sale.Order(suffix)
			}
		}},
		"hole": {ahead: 2},
	} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", name, stored), func(t *testing.T) {
				t.Parallel()
				p := newPair(t, 6)
				p.accept("a", "b", "c")
				if stored {
					p.drain(false)
				}
				changed := wrong
				changed.Ledger, p.ledger = p.ledger, &changed
				proof, err := audit.Run(t.Context(), p.ledger, p.store, p.id)
				p.must(err)
				if proof.OK {
					t.Errorf("the audit sees nothing")
				}
				if r := p.reconcile(true); r.Of(sluice.Drift).Repaired == 0 || r.Remaining() != 0 {
					t.Errorf("mending: %+v", r)
				}
				p.rebuild()
				if r := p.reconcile(true); r.Remaining() != 0 || r.Skipped != "" || r.Of(sluice.Drift).Count != 0 {
					t.Errorf("after the rebuild: %+v", r)
				}
				for buyer, order := range p.orders {
					decisions, err := p.ledger.Claim(t.Context(), p.id, []sluice.Claim{{
						Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: p.id.Order(fmt.Sprintf("%032x", "other")),
					}})
					p.must(err)
					if d := decisions[0]; !d.Replayed || d.Order != order {
						t.Errorf("%s has %s and gets %+v", buyer, order, d)
					}
				}
				proof, err = audit.Run(t.Context(), p.ledger, p.store, p.id)
				p.must(err)
				if !proof.OK {
					t.Errorf("%+v", proof)
				}
			})
		}
	}
}
