package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

const sale = sluice.SaleID("sale")

// rig is a real ledger and a real store with a sale of 100,000 units, and
// faults in between.
type rig struct {
	t      *testing.T
	dir    string
	ledger *sqliteledger.Ledger
	store  *sqlitestore.Store
	faults *faults
	next   int
}

// faults is the journal and the store, as the pipeline meets them.
type faults struct {
	port.Journal
	*sqlitestore.Store

	down    atomic.Bool // the store does not answer
	noAck   atomic.Bool
	inserts atomic.Int64

	mu     sync.Mutex
	poison func(*port.Entry) error // why an entry cannot be stored
	damage func(*port.Entry)       // what the journal does to an entry
	atOnce func([]port.Entry) error
}

var errDown = errors.New("connection refused")

func (f *faults) Ping(ctx context.Context) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.Ping(ctx)
}

func (f *faults) Insert(ctx context.Context, id sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	if f.down.Load() {
		return port.Stored{}, errDown
	}
	f.inserts.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.atOnce != nil {
		if err := f.atOnce(entries); err != nil {
			return port.Stored{}, err
		}
	}
	for i := range entries {
		if f.poison != nil {
			if err := f.poison(&entries[i]); err != nil {
				return port.Stored{}, err
			}
		}
	}
	return f.Store.Insert(ctx, id, entries)
}

func (f *faults) SetAside(ctx context.Context, letter port.DeadLetter) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.SetAside(ctx, letter)
}

func (f *faults) Ack(ctx context.Context, id sluice.SaleID, ids []string) error {
	if f.noAck.Load() {
		return errDown
	}
	return f.Journal.Ack(ctx, id, ids)
}

func (f *faults) ReadJournal(ctx context.Context, read port.JournalRead) ([]port.Entry, error) {
	entries, err := f.Journal.ReadJournal(ctx, read)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range entries {
		if f.damage != nil {
			f.damage(&entries[i])
		}
	}
	return entries, err
}

func (f *faults) set(poison func(*port.Entry) error, damage func(*port.Entry)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poison, f.damage = poison, damage
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir()}
	r.open()
	created, err := r.store.CreateSale(t.Context(), aSale())
	if err == nil {
		err = settle.NewLoader(r.store, r.ledger).Load(t.Context(), created.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func aSale() sluice.Sale {
	return sluice.Sale{
		ID: sale, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 100, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 100_000, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited,
			OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Minute,
	}
}

func (r *rig) open() {
	var err error
	if r.ledger, err = sqliteledger.Open(r.t.Context(), filepath.Join(r.dir, "ledger.db"),
		sqliteledger.Options{Node: "a"}); err != nil {
		r.t.Fatal(err)
	}
	if r.store, err = sqlitestore.Open(r.t.Context(), filepath.Join(r.dir, "store.db"), sqlitestore.Options{}); err !=
		nil {
		r.t.Fatal(err)
	}
	r.faults = &faults{Journal: r.ledger, Store: r.store}
	r.t.Cleanup(r.close)
}

func (r *rig) close() {
	_ = r.ledger.Close()
	_ = r.store.Close()
}

// pipeline starts one that is quick to try again.
func (r *rig) pipeline() *pipeline.Pipeline {
	p := pipeline.New(r.faults, r.faults, pipeline.Options{
		Backoff: time.Millisecond, BackoffMax: 5 * time.Millisecond, Attempts: 3, MaxClaims: 20,
	})
	r.t.Cleanup(func() { stop(p) })
	return p
}

// accept makes journal entries of size claims each, and returns the orders.
func (r *rig) accept(entries, size int) []sluice.OrderID {
	r.t.Helper()
	var orders []sluice.OrderID
	for range entries {
		claims := make([]sluice.Claim, size)
		for i := range claims {
			r.next++
			claims[i] = sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprint("buyer-", r.next)), Key: "attempt-1", Quantity: 1,
				Order: admission.NewOrderID(sale),
			}
		}
		decisions := must.Get(r.ledger.Claim(r.t.Context(), sale, claims))(r.t)
		for _, d := range decisions {
			if d.Code != sluice.Accepted {
				r.t.Fatalf("decision %v", d.Code)
			}
			orders = append(orders, d.Order)
		}
	}
	return orders
}

func (r *rig) stored() []sluice.Order {
	r.t.Helper()
	var all []sluice.Order
	filter := sluice.OrderFilter{Sale: sale, Limit: sluice.MaxPage}
	for {
		page, next, err := r.store.Orders(context.Background(), filter)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, page...)
		if filter.Cursor = next; next == "" {
			return all
		}
	}
}

func (r *rig) backlog() int64 {
	r.t.Helper()
	readings := must.Get(r.ledger.Read(context.Background(), []sluice.SaleID{sale}))(r.t)
	return readings[0].Backlog
}

// drained waits until the journal is empty, and checks that the orders are
// stored, each once.
func (r *rig) drained(orders []sluice.OrderID) {
	r.t.Helper()
	eventually(r.t, "the journal to be empty", func() bool { return r.backlog() == 0 })
	want := map[sluice.OrderID]bool{}
	for _, id := range orders {
		want[id] = true
	}
	all := r.stored()
	for _, o := range all {
		if !want[o.ID] {
			r.t.Errorf("order %s is stored twice, or was never accepted (I5)", o.ID)
		}
		delete(want, o.ID)
	}
	for id := range want {
		r.t.Errorf("order %s was promised and is not stored (I5)", id)
	}
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

func TestPoisonIsSetAsideAndBlocksNobody(t *testing.T) {
	r := newRig(t)
	bad := r.accept(1, 2)
	good := r.accept(10, 2)
	r.faults.set(func(e *port.Entry) error {
		if e.FirstSeq <= 2 {
			return errors.New("an unknown constraint")
		}
		return nil
	}, nil)
	p := r.pipeline()
	p.Wake(sale)
	var letters []port.DeadLetter
	var err error
	for len(letters) == 0 && err == nil { // that others are stored is what makes it the entry's fault
		good = append(good, r.accept(1, 1)...)
		p.Wake(sale)
		letters, err = r.store.DeadLetters(t.Context(), sale)
	}
	r.drained(good)
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v; want 1", len(letters), err)
	}
	claims, err := port.ParseClaims(letters[0].Claims)
	if err != nil || len(claims) != 2 || claims[0].Order != bad[0] || claims[1].Order != bad[1] {
		t.Errorf("the dead letter holds %+v, %v; want the orders %v", claims, err, bad)
	}
	if letters[0].FirstSeq != 1 || letters[0].Reason != "an unknown constraint" {
		t.Errorf("dead letter %+v", letters[0])
	}
	if s, _ := r.store.Sale(t.Context(), sale); s.Fence != "" {
		t.Errorf("the sale is fenced (%s); a failure that is no conflict is no loss", s.Fence)
	}
}

// The store refuses one claim of an entry: the orders of the others are stored at
// once, although nothing else of the sale is, and the entry is set aside soon.
func TestARefusedClaimKeepsNoOtherBack(t *testing.T) {
	r := newRig(t)
	orders := r.accept(1, 9)
	r.faults.set(func(e *port.Entry) error {
		if e.FirstSeq <= 5 && 5 < e.FirstSeq+int64(len(e.Claims)) {
			return errors.New("a constraint of the shop's own")
		}
		return nil
	}, nil)
	r.pipeline().Wake(sale)
	eventually(t, "the orders of the others", func() bool { return len(r.stored()) == 8 })
	var letters []port.DeadLetter
	eventually(t, "the dead letter", func() bool {
		letters, _ = r.store.DeadLetters(t.Context(), sale)
		return len(letters) == 1 && r.backlog() == 0
	})
	if claims, err := port.ParseClaims(letters[0].Claims); err != nil || len(claims) != 9 ||
		claims[4].Order != orders[4] {
		t.Errorf("the dead letter holds %+v, %v", claims, err)
	}
	r.drained(slices.Concat(orders[:4], orders[5:]))
}

func TestPoisonDoesNotDelayNewEntries(t *testing.T) {
	r := newRig(t)
	r.accept(1, 1)
	r.faults.set(func(e *port.Entry) error {
		if e.FirstSeq == 1 {
			return errors.New("poison")
		}
		return nil
	}, nil)
	p := pipeline.New(r.faults, r.faults, pipeline.Options{Backoff: time.Hour, BackoffMax: time.Hour})
	p.Wake(sale)
	eventually(t, "the poison to fail alone", func() bool { return r.faults.inserts.Load() >= 2 })
	good := r.accept(3, 1)
	p.Wake(sale)
	eventually(t, "the new entries", func() bool { return len(r.stored()) == len(good) && r.backlog() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Close(ctx); err == nil {
		t.Error("Close says that all is stored, while an entry waits")
	}
	if r.backlog() != 1 {
		t.Errorf("backlog %d, want the poison to stay in the journal", r.backlog())
	}
}

// A suspect gets its turn although new entries keep coming.
func TestSuspectsDoNotStarve(t *testing.T) {
	r := newRig(t)
	first := r.accept(1, 1)
	var failures atomic.Int64
	r.faults.set(func(e *port.Entry) error {
		if e.FirstSeq == 1 && failures.Add(1) <= 2 {
			return errors.New("deadlock detected")
		}
		return nil
	}, nil)
	p := r.pipeline()
	p.Wake(sale)
	orders := first
	for deadline := time.Now().Add(20 * time.Second); ; {
		orders = append(orders, r.accept(1, 1)...)
		p.Wake(sale)
		if _, err := r.store.Order(t.Context(), first[0]); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first order waits for the end of the rush")
		}
	}
	r.drained(orders)
}

func TestConflictFencesTheSale(t *testing.T) {
	r := newRig(t)
	r.accept(1, 1)
	r.faults.set(nil, func(e *port.Entry) {
		if e.FirstSeq == 2 {
			e.FirstSeq = 1 // what a ledger that lost its last entry would say
		}
	})
	p := r.pipeline()
	p.Wake(sale)
	eventually(t, "the first order", func() bool { return len(r.stored()) == 1 })
	r.accept(1, 1)
	p.Wake(sale)
	eventually(t, "the journal to be empty", func() bool { return r.backlog() == 0 })
	s, err := r.store.Sale(t.Context(), sale)
	if err != nil || s.Fence == "" {
		t.Errorf("fence %q, %v; want the sale fenced", s.Fence, err)
	}
	letters, err := r.store.DeadLetters(t.Context(), sale)
	if err != nil || len(letters) != 1 {
		t.Errorf("%d dead letters, %v; want the evidence kept", len(letters), err)
	}
	if n := len(r.stored()); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

// An entry of an epoch that a rebuild has ended can never be stored: it is set
// aside without the patience that other failures get, and is no loss.
func TestAStaleEntryIsSetAsideAtOnce(t *testing.T) {
	r := newRig(t)
	r.accept(1, 2)
	must.Succeed(t, r.store.FenceSale(t.Context(), sale, 1, "a person asked for a rebuild"))
	if image, err := r.store.BeginLoad(t.Context(), sale, 0); err != nil || image.Epoch != 2 {
		t.Fatal(image.Epoch, err)
	}
	r.pipeline().Wake(sale)
	eventually(t, "the journal to be empty", func() bool { return r.backlog() == 0 })
	letters, err := r.store.DeadLetters(t.Context(), sale)
	if err != nil || len(letters) != 1 || letters[0].Epoch != 1 || len(r.stored()) != 0 {
		t.Errorf("%d orders, dead letters %+v, %v; want no order and the entry of epoch 1", len(r.stored()), letters, err)
	}
	if n := r.faults.inserts.Load(); n > 3 { // with others, alone, and as a suspect
		t.Errorf("it was tried %d times", n)
	}
	if s, err := r.store.Sale(t.Context(), sale); err != nil || s.Fence != "a person asked for a rebuild" {
		t.Errorf("fence %q, %v; want it unchanged", s.Fence, err)
	}
}

func TestDamagedEntryIsSetAside(t *testing.T) {
	r := newRig(t)
	r.accept(1, 1)
	good := r.accept(5, 1)
	r.faults.set(nil, func(e *port.Entry) {
		if e.FirstSeq == 1 {
			*e = port.Entry{ID: e.ID, Sale: e.Sale, Damage: errors.New("format 9 is not known"), Raw: "what stood there"}
		}
	})
	r.pipeline().Wake(sale)
	r.drained(good)
	letters, err := r.store.DeadLetters(t.Context(), sale)
	if err != nil || len(letters) != 1 || letters[0].Claims != "what stood there" {
		t.Errorf("dead letters %+v, %v; want the damaged entry's content", letters, err)
	}
}

// Each transaction is measured, those that fail too.
func TestTransactionsAreMeasured(t *testing.T) {
	r := newRig(t)
	r.accept(3, 2)
	var stored, failed atomic.Int64
	r.faults.down.Store(true)
	p := pipeline.New(r.faults, r.faults, pipeline.Options{
		Backoff: time.Millisecond, BackoffMax: time.Millisecond,
		Transaction: func(entries []port.Entry, result port.Stored, took time.Duration, err error) {
			if took < 0 {
				t.Errorf("took %v", took)
			}
			if err != nil {
				failed.Add(1)
				r.faults.down.Store(false)
				return
			}
			stored.Add(int64(result.Inserted))
			if len(entries) == 0 {
				t.Error("no entries")
			}
		},
	})
	p.Wake(sale)
	if err := p.Close(t.Context()); err != nil || stored.Load() != 6 || failed.Load() == 0 {
		t.Errorf("%d stored, %d failed, %v", stored.Load(), failed.Load(), err)
	}
}
