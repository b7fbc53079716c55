package settle_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

const id = sluice.SaleID("phone")

// rig is a real store and a real ledger, with a sale that is not loaded yet.
type rig struct {
	t      *testing.T
	store  *sqlitestore.Store
	ledger *sqliteledger.Ledger
	loader *settle.Loader
	desk   *settle.Control
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	dir := t.TempDir()
	var err error
	if r.store, err = sqlitestore.Open(t.Context(), filepath.Join(dir, "store.db"), sqlitestore.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.store.Close() })
	if r.ledger, err = sqliteledger.Open(t.Context(), filepath.Join(dir, "ledger.db"),
		sqliteledger.Options{Node: "a"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.ledger.Close() })
	r.loader = settle.NewLoader(r.store, r.ledger)
	r.desk = settle.NewControl(r.store, r.ledger, r.loader)
	return r
}

func phone(opens time.Duration) sluice.Sale {
	return sluice.Sale{
		ID: id, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 100, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 10, MaxPerBuyer: 2, MaxOrders: 11,
			OpensAt: time.Now().Add(opens).UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Minute, PaymentGrace: time.Second,
	}
}

func (r *rig) create(opens time.Duration) {
	r.t.Helper()
	must.Get(r.store.CreateSale(r.t.Context(), phone(opens)))(r.t)
}

func (r *rig) sale() sluice.Sale {
	r.t.Helper()
	s := must.Get(r.store.Sale(r.t.Context(), id))(r.t)
	return s
}

func (r *rig) reading() port.Reading {
	r.t.Helper()
	readings := must.Get(r.ledger.Read(r.t.Context(), []sluice.SaleID{id}))(r.t)
	return readings[0]
}

// follow does what a server does with what it reads; adopt says that a load
// that is not confirmed has been so for long.
func (r *rig) follow(adopt bool) (changed bool) {
	r.t.Helper()
	sale, reading := r.sale(), r.reading()
	changed, err := false, error(nil)
	if adopt && sale.LoadedEpoch < max(sale.Epoch, 1) {
		changed, err = r.rebuilder("a", settle.NewMemory(0)).Adopt(r.t.Context(), &sale)
	} else {
		changed, err = r.loader.Follow(r.t.Context(), &sale, &reading)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return changed
}

func (r *rig) claim(buyer string) sluice.Decision {
	r.t.Helper()
	decisions := must.Get(r.ledger.Claim(r.t.Context(), id, []sluice.Claim{{
		Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: id.Order(strings.Repeat("0a", 16)),
	}}))(r.t)
	return decisions[0]
}

// inStep fails the test unless claims are decided under this epoch.
func (r *rig) inStep(epoch int64) {
	r.t.Helper()
	sale, reading := r.sale(), r.reading()
	if sale.Epoch != epoch || sale.LoadedEpoch != epoch || sale.Fence != "" || reading.Epoch != epoch ||
		reading.Fence != "" {
		r.t.Errorf("store: epoch %d, loaded %d, fence %q; ledger: epoch %d, fence %q; want epoch %d everywhere and no fence",
			sale.Epoch, sale.LoadedEpoch, sale.Fence, reading.Epoch, reading.Fence, epoch)
	}
}

// A crash after each step of a load: the next server makes it good, and
// nothing was accepted before.
func TestALoadIsMadeGoodAfterACrash(t *testing.T) {
	for steps, want := range []int64{1, 2, 2, 1} {
		r := newRig(t)
		r.create(-time.Hour)
		crashAfter(t, r, steps)
		if d := r.claim("alice"); d.Code != sluice.Unavailable {
			t.Fatalf("after %d steps a claim is %v, want unavailable", steps, d.Code)
		}
		if steps < 3 && r.follow(false) {
			t.Errorf("after %d steps another server loads at once; the first may still be at it", steps)
		}
		for r.follow(true) {
		}
		r.inStep(want)
		if d := r.claim("alice"); d.Code != sluice.Accepted {
			t.Errorf("after %d steps and the repair a claim is %v", steps, d.Code)
		}
	}
}

// The ledger sells under an epoch whose load the store does not know to be confirmed: the
// store is an older copy, from the middle of the load. To repeat that would forget claims.
func TestALoadThatWasConfirmedIsNotRepeated(t *testing.T) {
	r := newRig(t)
	r.create(-time.Hour)
	crashAfter(t, r, 2)
	must.Succeed(t, r.ledger.Unfence(t.Context(), id, 1))
	if d := r.claim("alice"); d.Code != sluice.Accepted {
		t.Fatalf("a claim is %v", d.Code)
	}
	sale := r.sale()
	deaf := settle.NewRebuilder("a", &deafOnce{RebuildStore: r.store}, r.ledger,
		settle.NewLoader(&deafOnce{RebuildStore: r.store}, r.ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	for range 2 { // the first time the ledger is fenced, and the store is not told
		_, _ = deaf.Adopt(t.Context(), &sale)
	}
	if sale := r.sale(); !settle.Outdated(&sale) || sale.Epoch != 1 {
		t.Errorf("epoch %d, fence %q; want epoch 1, which waits for a person", sale.Epoch, sale.Fence)
	}
}

// deafOnce is a store that takes no fence the first time.
type deafOnce struct {
	settle.RebuildStore
	told bool
}

func (s *deafOnce) FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error {
	if !s.told {
		s.told = true
		return errors.New("the test loses this")
	}
	return s.RebuildStore.FenceSale(ctx, id, epoch, reason)
}

// crashAfter does the first steps of Loader.Load.
func crashAfter(t *testing.T, r *rig, steps int) {
	ctx := t.Context()
	if steps < 1 {
		return
	}
	image, err := r.store.BeginLoad(ctx, id, 0)
	if err == nil && steps > 1 {
		err = r.ledger.Load(ctx, image)
	}
	if err == nil && steps > 2 {
		err = r.store.ConfirmLoad(ctx, id, image.Epoch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOperators(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must := func(s sluice.Sale, err error) sluice.Sale {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	refused := func(_ sluice.Sale, err error) {
		t.Helper()
		var state *sluice.StateError
		if !errors.As(err, &state) {
			t.Errorf("err = %v, want a sluice.StateError", err)
		}
	}
	edit := func(change func(*sluice.Sale)) func(*sluice.Sale) error {
		return func(s *sluice.Sale) error { change(s); return nil }
	}
	must(r.desk.Create(ctx, phone(time.Hour)))
	// before opening all may change
	must(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.MaxPerBuyer, s.Total = 3, 5 })))

	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.OpensAt = time.Now().UTC().Truncate(time.Millisecond) })))
	if opened := must(r.desk.Open(ctx, id)); opened.OpensAt.After(time.Now()) {
		t.Errorf("opened in the future: %v", opened.OpensAt)
	}
	if d := r.claim("alice"); d.Code != sluice.Accepted {
		t.Errorf("a claim after Open returned is %v", d.Code)
	}
	version := r.sale().Version
	must(r.desk.Open(ctx, id)) // already open
	if v := r.sale().Version; v != version {
		t.Errorf("opening an open sale made version %d of %d", v, version)
	}
	must(r.desk.Pause(ctx, id))
	if d := r.claim("bob"); d.Code != sluice.Paused {
		t.Errorf("a claim after Pause returned is %v", d.Code)
	}
	must(r.desk.Resume(ctx, id))
	if d := r.claim("bob"); d.Code != sluice.Accepted {
		t.Errorf("a claim after Resume returned is %v", d.Code)
	}

	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.MaxPerBuyer = 9 })))
	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.MaxOrders = 99 })))
	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.Total = 4 })))
	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.Total = sluice.Unlimited })))
	refused(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.OpensAt = s.OpensAt.Add(time.Hour) })))
	must(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) { s.Total, s.Title = 6, "new" })))
	if reading := r.reading(); reading.Terms.Total != 6 {
		t.Errorf("the ledger's total is %d, want 6", reading.Terms.Total)
	}

	must(r.desk.Close(ctx, id))
	if d := r.claim("carol"); d.Code != sluice.Closed {
		t.Errorf("a claim after Close returned is %v", d.Code)
	}
	if d := r.claim("alice"); d.Code != sluice.Accepted || !d.Replayed {
		t.Errorf("a repeat after Close is %v, replayed %v (I4)", d.Code, d.Replayed)
	}
	must(r.desk.Close(ctx, id))
	refused(r.desk.Open(ctx, id))
	refused(r.desk.Pause(ctx, id))
	must(r.desk.Patch(ctx, id, edit(func(s *sluice.Sale) {
		s.ClosesAt = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	})))
	if d := r.claim("carol"); d.Code != sluice.Accepted {
		t.Errorf("a claim after the closing time moved is %v", d.Code)
	}
	if _, err := r.desk.Open(ctx, "unknown"); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("opening an unknown sale: %v", err)
	}
}

func TestClosingBeforeTheOpening(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(time.Hour)))(t)
	must.Get(r.desk.Close(t.Context(), id))(t)
	if reading := r.reading(); reading.State(reading.Now) != sluice.StateClosed {
		t.Errorf("state %v, want closed", reading.State(reading.Now))
	}
	if d := r.claim("alice"); d.Code == sluice.Accepted {
		t.Error("a sale that was called off accepts claims")
	}
}

// A change that the ledger did not answer is in the store, and says so.
func TestAChangeWaitsForTheLedger(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	desk := settle.NewControl(r.store, cut{r.ledger}, settle.NewLoader(r.store, cut{r.ledger}))
	var pending *sluice.PendingError
	if _, err := desk.Pause(t.Context(), id); !errors.As(err, &pending) {
		t.Fatalf("err = %v, want a sluice.PendingError", err)
	}
	if !r.sale().Paused {
		t.Error("the change is not in the store")
	}
	r.follow(false)
	if d := r.claim("alice"); d.Code != sluice.Paused {
		t.Errorf("after the ledger is back a claim is %v, want paused", d.Code)
	}
}

// cut is a ledger whose answer to Apply is lost before anything happens.
type cut struct{ *sqliteledger.Ledger }

func (cut) Apply(context.Context, sluice.SaleID, int64, sluice.Terms) error {
	return errors.New("connection reset")
}

// A pause of a sale that the ledger does not hold is in force when it is
// answered: no load that follows, or that has begun before, opens the sale.
func TestAPauseOfASaleThatIsNotLoaded(t *testing.T) {
	load := func(r *rig) {
		t.Helper()
		must.Succeed(t, r.loader.Load(t.Context(), id))
	}
	t.Run("none is under way", func(t *testing.T) {
		r := newRig(t)
		r.create(-time.Hour)
		must.Get(r.desk.Pause(t.Context(), id))(t)
		load(r)
		if d := r.claim("alice"); d.Code != sluice.Paused {
			t.Errorf("after the pause a claim is %v", d.Code)
		}
	})
	t.Run("one has read the old terms", func(t *testing.T) {
		r := newRig(t)
		r.create(-time.Hour)
		image := must.Get(r.store.BeginLoad(t.Context(), id, 0))(t)
		var pending *sluice.PendingError
		if _, err := r.desk.Pause(t.Context(), id); !errors.As(err, &pending) {
			t.Errorf("err = %v, want a sluice.PendingError", err)
		}
		must.Succeed(t, r.ledger.Load(t.Context(), image))
		if _, err := r.desk.Pause(t.Context(), id); err != nil {
			t.Errorf("again, when the ledger holds the sale: %v", err)
		}
		if reading := r.reading(); !reading.Terms.Paused {
			t.Error("the pause is answered, and not in force")
		}
	})
	t.Run("one ends meanwhile", func(t *testing.T) {
		r := newRig(t)
		r.create(-time.Hour)
		desk := settle.NewControl(r.store, outdated{r.ledger, func() { load(r) }}, r.loader)
		must.Get(desk.Pause(t.Context(), id))(t)
		if d := r.claim("alice"); d.Code != sluice.Paused {
			t.Errorf("after the pause a claim is %v", d.Code)
		}
	})
}

// outdated is a ledger whose readings are old when they are answered.
type outdated struct {
	settle.Ledger
	meanwhile func()
}

func (l outdated) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	readings, err := l.Ledger.Read(ctx, sales)
	if err == nil && !readings[0].Loaded {
		l.meanwhile()
	}
	return readings, err
}

// replaced is a ledger whose replicas do not confirm what it writes, and that is read as
// this, if it is set.
type replaced struct {
	*sqliteledger.Ledger
	is *port.Reading
}

func (l replaced) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	if l.is != nil {
		return []port.Reading{*l.is}, nil
	}
	return l.Ledger.Read(ctx, sales)
}

var errUnconfirmed = errors.New("0 of 1 replicas have it")

func (replaced) Confirmed(context.Context, sluice.SaleID) error { return errUnconfirmed }

// A ledger that others may have replaced proves nothing: the store, which they use as
// well, is neither fenced nor loaded from, nor told of a lower total, for what it lacks.
func TestAReplacedLedgerStopsNoSale(t *testing.T) {
	r := newRig(t)
	r.create(-time.Minute)
	loader := settle.NewLoader(r.store, replaced{Ledger: r.ledger})
	if err := loader.Load(t.Context(), id); !errors.Is(err, errUnconfirmed) || r.sale().Epoch != 0 {
		t.Errorf("a load: %v, epoch %d", err, r.sale().Epoch)
	}
	must.Succeed(t, r.loader.Load(t.Context(), id))
	lowered, err := r.store.ChangeSale(t.Context(), id, func(s *sluice.Sale) error { s.Total = 5; return nil })
	if err != nil || lowered.Cap != 10 {
		t.Fatalf("cap %d, %v", lowered.Cap, err)
	}
	for what, change := range map[string]func(*port.Reading){
		"not loaded":    func(is *port.Reading) { is.Loaded = false },
		"an old epoch":  func(is *port.Reading) { is.Epoch = 0 },
		"a new epoch":   func(is *port.Reading) { is.Epoch = 2 },
		"fenced":        func(is *port.Reading) { is.Fence = "lost: its journal" },
		"a lower total": func(is *port.Reading) { is.Terms = lowered.Terms },
	} {
		sale, reading := r.sale(), r.reading()
		change(&reading)
		loader := settle.NewLoader(r.store, replaced{r.ledger, &reading})
		if _, err := loader.Follow(t.Context(), &sale, &reading); !errors.Is(err, errUnconfirmed) {
			t.Errorf("%s: %v", what, err)
		}
		if now := r.sale(); now.Fence != "" || now.Epoch != 1 || now.Cap != 10 {
			t.Errorf("%s: the store has %+v", what, now)
		}
	}
}

var errRefusing = errors.New("refused")

// noConfirm and noApply fail at one step.
type noConfirm struct{ *sqlitestore.Store }

func (noConfirm) ConfirmLoad(context.Context, sluice.SaleID, int64) error { return errRefusing }

type noApply struct{ *sqliteledger.Ledger }

func (noApply) Apply(context.Context, sluice.SaleID, int64, sluice.Terms) error { return errRefusing }

// What waits for a step that fails is not done: the ledger accepts no claims of a load that the
// store has not confirmed, and the store's cap stays while the ledger has the higher total.
func TestAStepThatFails(t *testing.T) {
	r := newRig(t)
	r.create(-time.Hour)
	if err := settle.NewLoader(noConfirm{r.store}, r.ledger).Load(t.Context(), id); !errors.Is(err, errRefusing) {
		t.Fatal(err)
	}
	if got := r.reading(); got.Fence != port.FenceLoading {
		t.Errorf("%+v; want a sale that is being loaded", got)
	}
	must.Succeed(t, r.loader.Load(t.Context(), id))
	must.Get(r.store.Restock(t.Context(), id, "recall", -3))(t)
	sale, reading := r.sale(), r.reading()
	if _, err := settle.NewLoader(r.store, noApply{r.ledger}).Follow(t.Context(), &sale, &reading); !errors.Is(err,
		errRefusing) {
		t.Fatal(err)
	}
	if now := r.sale(); now.Total != 7 || now.Cap != 10 {
		t.Errorf("total %d, cap %d; want 7, and 10 as the ledger has it", now.Total, now.Cap)
	}
}
