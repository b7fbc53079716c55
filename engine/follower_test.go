package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// followRig is a store, a ledger and a follower between them.
type followRig struct {
	t      *testing.T
	store  *sqlitestore.Store
	ledger *faultyLedger
	desk   *settle.Control
}

// faultyLedger is a ledger whose loads and changes of terms may fail or hang.
type faultyLedger struct {
	*sqliteledger.Ledger
	claims atomic.Int64 // calls of Claim
	load   func(ctx context.Context, image port.LoadImage) error
	apply  func(ctx context.Context, sale sluice.SaleID) error
}

func (l *faultyLedger) Load(ctx context.Context, image port.LoadImage) error {
	if err := l.load(ctx, image); err != nil {
		return err
	}
	return l.Ledger.Load(ctx, image)
}

func (l *faultyLedger) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	if err := l.apply(ctx, sale); err != nil {
		return err
	}
	return l.Ledger.Apply(ctx, sale, epoch, terms)
}

func (l *faultyLedger) Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision,
	error,
) {
	l.claims.Add(1)
	return l.Ledger.Claim(ctx, sale, claims)
}

// hang is a call that no server answers.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func newFollowRig(t *testing.T, ledger *faultyLedger, sales ...sluice.SaleID) *followRig {
	r := &followRig{t: t, ledger: ledger}
	dir := t.TempDir()
	var err error
	r.store = must.Get(sqlitestore.Open(t.Context(), filepath.Join(dir, "store.db"), sqlitestore.Options{}))(t)
	t.Cleanup(func() { r.store.Close() })
	ledger.Ledger, err = sqliteledger.Open(t.Context(), filepath.Join(dir, "ledger.db"), sqliteledger.Options{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ledger.Close() })
	loader := settle.NewLoader(r.store, ledger.Ledger)
	r.desk = settle.NewControl(r.store, ledger.Ledger, loader)
	for _, id := range sales {
		must.Get(r.desk.Create(t.Context(), sluice.Sale{
			ID: id, SKU: "sku", Title: "title", Price: sluice.Money{Amount: 100, Currency: "CNY"},
			Terms: sluice.Terms{
				Version: 1, Total: 10, MaxPerBuyer: 2, MaxOrders: 2,
				OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
			},
			PaymentWindow: time.Minute,
		}))(t)
	}
	must.Succeed(t, r.store.Heartbeat(t.Context(), port.Server{Node: "a"}))

	log := slog.New(slog.DiscardHandler)
	var f *follower
	board := admission.NewBoard(ledger, r.store, admission.BoardOptions{
		Refresh: 20 * time.Millisecond, Sales: 50 * time.Millisecond,
		Refreshed: func(views map[sluice.SaleID]*admission.View) { f.saw(views) },
	})
	loader = settle.NewLoader(r.store, ledger)
	f = newFollower(&follower{
		stores: func(sluice.SaleID) {},
		node:   "a", store: r.store, board: board, loader: loader, log: log,
		rebuilder: settle.NewRebuilder("a", r.store, ledger, loader, settle.NewMemory(0),
			func(sluice.SaleID) bool { return true }, log),
		replayer: settle.NewReplayer(r.store, ledger, loader, func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {}),
		archiver: settle.NewArchiver(r.store, ledger, 0),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { board.Run(ctx); ended <- struct{}{} }()
	go func() { f.run(ctx); ended <- struct{}{} }()
	t.Cleanup(func() {
		cancel()
		<-ended
		<-ended
	})
	return r
}

func (r *followRig) fence(id sluice.SaleID) {
	r.t.Helper()
	must.Succeed(r.t, r.store.FenceSale(r.t.Context(), id, 1, "rebuild: the test asks for it"))
}

// pause changes the terms in the store alone, as a server that then dies does.
func (r *followRig) pause(id sluice.SaleID) {
	r.t.Helper()
	pause := func(s *sluice.Sale) error { s.Paused = true; return nil }
	must.Get(r.store.ChangeSale(r.t.Context(), id, pause))(r.t)
}

func (r *followRig) until(what string, reached func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited a minute for %s", what)
		}
	}
}

func (r *followRig) reading(id sluice.SaleID) port.Reading {
	r.t.Helper()
	readings := must.Get(r.ledger.Read(r.t.Context(), []sluice.SaleID{id}))(r.t)
	return readings[0]
}

func (r *followRig) rebuilt(id sluice.SaleID) bool {
	r.t.Helper()
	sale := must.Get(r.store.Sale(r.t.Context(), id))(r.t)
	reading := r.reading(id)
	return sale.Epoch > 1 && sale.LoadedEpoch == sale.Epoch && sale.Fence == "" &&
		reading.Epoch == sale.Epoch && reading.Fence == ""
}

// Rebuilds that take long hold up nothing else: other sales are rebuilt as long
// as some may be, and gathered and given their terms in any case.
func TestABigRebuildHoldsUpNoOther(t *testing.T) {
	release, begun := make(chan struct{}), make(chan sluice.SaleID, 100)
	big := make([]sluice.SaleID, limits[loading].sales)
	for i := range big {
		big[i] = sluice.SaleID(fmt.Sprint("big-", i))
	}
	r := newFollowRig(t, &faultyLedger{
		load: func(ctx context.Context, image port.LoadImage) error {
			if !strings.HasPrefix(string(image.Sale), "big") {
				return nil
			}
			begun <- image.Sale
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		apply: func(context.Context, sluice.SaleID) error { return nil },
	}, append([]sluice.SaleID{"small", "gathered", "paused"}, big...)...)

	loads := func(id sluice.SaleID) {
		t.Helper()
		r.fence(id)
		r.until("the load of "+string(id), func() bool { return len(begun) > 0 })
		<-begun
	}
	for _, id := range big[1:] {
		loads(id)
	}
	r.fence("small")
	r.until("the rebuild of a small sale", func() bool { return r.rebuilt("small") })
	loads(big[0])
	r.fence("gathered")
	r.until("a server to store what it remembers of another sale", func() bool {
		nodes, err := r.store.Gathered(t.Context(), "gathered", 1)
		return err == nil && slices.Contains(nodes, "a") && r.reading("gathered").Fence != ""
	})
	r.pause("paused")
	r.until("the terms of another sale", func() bool { return r.reading("paused").Terms.Paused })
	if len(begun) > 0 || r.rebuilt("gathered") {
		t.Errorf("more than %d sales are loaded at once", limits[loading].sales)
	}
	close(release)
	r.until("all to be rebuilt", func() bool {
		return r.rebuilt("gathered") && !slices.ContainsFunc(big, func(id sluice.SaleID) bool { return !r.rebuilt(id) })
	})
}

// When many sales are to be rebuilt, those that would sell come first.
func TestWhatSellsIsRebuiltBeforeWhatIsPaused(t *testing.T) {
	release, begun := make(chan struct{}), make(chan sluice.SaleID, 100)
	sales := []sluice.SaleID{"sells"}
	for i := range limits[loading].sales + 15 {
		sales = append(sales, sluice.SaleID(fmt.Sprint("paused-", i)))
	}
	r := newFollowRig(t, &faultyLedger{
		load: func(ctx context.Context, image port.LoadImage) error {
			begun <- image.Sale
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		apply: func(context.Context, sluice.SaleID) error { return nil },
	}, sales...)
	for _, id := range sales[1:] {
		r.pause(id)
		r.until("its terms", func() bool { return r.reading(id).Terms.Paused })
	}
	first := sales[1 : 1+limits[loading].sales]
	for _, id := range first {
		r.fence(id)
		r.until("the load of "+string(id), func() bool { return len(begun) > 0 })
		<-begun
	}
	rest := slices.Insert(slices.Clone(sales[1+len(first):]), 7, "sells")
	for _, id := range rest {
		r.fence(id)
	}
	for _, id := range rest {
		r.until("a server to store what it remembers of "+string(id), func() bool {
			nodes, err := r.store.Gathered(t.Context(), id, 1)
			return err == nil && len(nodes) > 0
		})
	}
	release <- struct{}{}
	r.until("the next load", func() bool { return len(begun) > 0 })
	if next := <-begun; next != "sells" {
		t.Errorf("%s is loaded before the sale that sells", next)
	}
	close(release)
	r.until("all to be rebuilt", func() bool {
		return !slices.ContainsFunc(sales, func(id sluice.SaleID) bool { return !r.rebuilt(id) })
	})
}

// Sales whose ledger hangs keep only themselves waiting.
func TestSalesThatHangHoldUpNoOther(t *testing.T) {
	before := limits
	t.Cleanup(func() { limits = before })  // after the rig has stopped
	limits[stepping].timeout = time.Second // the sale that is well must not need as long
	hung := make([]sluice.SaleID, limits[stepping].sales+limits[repeating].sales+2)
	for i := range hung {
		hung[i] = sluice.SaleID(fmt.Sprint("hung-", i))
	}
	var calls, again, most atomic.Int64 // most: of those tried before, at the same time
	var tried sync.Map
	r := newFollowRig(t, &faultyLedger{
		load: func(context.Context, port.LoadImage) error { return nil },
		apply: func(ctx context.Context, sale sluice.SaleID) error {
			if strings.HasPrefix(string(sale), "hung") {
				calls.Add(1)
				if _, before := tried.LoadOrStore(sale, true); before {
					most.Store(max(most.Load(), again.Add(1)))
					defer again.Add(-1)
				}
				return hang(ctx)
			}
			return nil
		},
	}, append([]sluice.SaleID{"well"}, hung...)...)
	for _, id := range hung {
		r.pause(id)
	}
	r.until("all that hang to be tried", func() bool {
		return calls.Load() >= int64(len(hung)+limits[repeating].sales)
	})
	begun := time.Now()
	for version := int64(2); version <= 6; version++ { // and those that hang come and go
		r.pause("well")
		r.until("the terms of a sale that is well", func() bool { return r.reading("well").Terms.Version == version })
	}
	if took := time.Since(begun); took > 2*stepTimeout {
		t.Errorf("five changes of a sale that is well took %v", took)
	}
	if most.Load() > int64(limits[repeating].sales) {
		t.Errorf("%d sales that have hung before are tried at the same time, want at most %d", most.Load(),
			limits[repeating].sales)
	}
}

// A sale that has had no run since the start is idle until something happens in
// it: those that sell do not wait behind all that do not.
func TestWhatSellsIsReconciledBeforeWhatIsIdle(t *testing.T) {
	j := newReconcileJob(&reconcileJob{})
	for i, step := range []struct {
		seq  int64
		idle bool
	}{{3, true}, {3, true}, {4, false}, {4, false}} {
		if got := j.idle("sells", &port.Reading{Seq: step.seq}); got != step.idle {
			t.Errorf("look %d: idle is %v", i, got)
		}
	}
	j.last["sells"] = reconcileRun{at: time.Now(), reading: port.Reading{Seq: 4}, clean: true}
	if !j.idle("sells", &port.Reading{Seq: 4}) {
		t.Error("after a clean run nothing has happened")
	}
	if j.idle("waits", &port.Reading{Backlog: 1}) {
		t.Error("entries wait in the journal")
	}
}

// A dead letter whose claims the store never gets (this follower has no pipeline) is
// replayed less and less often, not with every refresh of the board.
func TestALetterThatWaitsIsReplayedLessAndLess(t *testing.T) {
	var r *followRig
	lost := port.Entry{
		ID: "lost", Sale: "phone", Epoch: 1, Node: "a", Terms: 1, At: time.Now().UTC().Truncate(time.Millisecond),
		FirstSeq: 1,
		Claims: []sluice.Claim{{
			Buyer: "ann", Key: "attempt-1", Quantity: 1,
			Order: sluice.SaleID("phone").Order(strings.Repeat("0a", 16)),
		}},
	}
	r = newFollowRig(t, &faultyLedger{
		load: func(ctx context.Context, image port.LoadImage) error {
			if image.Epoch < 3 {
				return nil
			}
			return r.store.SetAside(ctx, lost.DeadLetter(port.ErrStaleEpoch)) // too late for the load
		},
		apply: func(context.Context, sluice.SaleID) error { return nil },
	}, "phone")
	rebuild := func(epoch int64) {
		t.Helper()
		must.Succeed(t, r.store.FenceSale(t.Context(), "phone", epoch, "rebuild: the test asks for it"))
		r.until("the rebuild", func() bool { return r.rebuilt("phone") && r.reading("phone").Epoch == epoch+1 })
	}
	rebuild(1)
	begun := time.Now()
	rebuild(2)
	for n := int64(1); n <= 3; n++ {
		r.until(fmt.Sprint("replay ", n), func() bool { return r.ledger.claims.Load() >= n })
	}
	if took := time.Since(begun); took < 500*time.Millisecond { // the rests are 200 and 400 ms at least
		t.Errorf("three replays within %v", took)
	}
	r.pause("phone")
	r.until("the terms of a sale with a letter", func() bool { return r.reading("phone").Terms.Paused })
}

// A sale that is lost again and again is loaded less and less often, until a load
// has held.
func TestReloads(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var r reloads
	wait := func() time.Duration {
		r.note(now)
		begun := now
		for !r.due(now) {
			now = now.Add(10 * time.Millisecond)
		}
		return now.Sub(begun)
	}
	for i, want := range []time.Duration{0, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := wait(); got != want*time.Millisecond {
			t.Errorf("after load %d: %v, want %d ms", i+1, got, want)
		}
	}
	now = now.Add(reloadHeld + time.Second)
	if got := wait(); got != 0 {
		t.Errorf("after one that held: %v", got)
	}
}

// A rebuild that fails is repeated less and less often, though the sale is gathered
// again, with success, before each attempt.
func TestARebuildThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &followed{}
		f := newFollower(&follower{log: slog.New(slog.DiscardHandler)})
		f.seen["s"] = s
		failed := errors.New("by a test")
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			f.finished(t.Context(), &outcome{sale: "s", task: gathering, ready: true})
			f.finished(t.Context(), &outcome{sale: "s", task: loading, err: failed})
			if rest := time.Until(s.rest); rest != want*time.Millisecond {
				t.Errorf("after attempt %d: %v, want %d ms", i+1, rest, want)
			}
		}
		f.finished(t.Context(), &outcome{sale: "s", task: loading, changed: true})
		if s.failed != 0 {
			t.Errorf("%d failures after a rebuild", s.failed)
		}
	})
}

// Whatever fences a sale after each load, its rebuilds are few; the first two wait
// for nothing.
func TestASaleThatIsLostAgainAndAgain(t *testing.T) {
	none := func(context.Context, sluice.SaleID) error { return nil }
	ledger := &faultyLedger{load: func(context.Context, port.LoadImage) error { return nil }, apply: none}
	r := newFollowRig(t, ledger, "s")
	begun := time.Now()
	epoch := int64(1)
	for ; time.Since(begun) < 2*time.Second; time.Sleep(time.Millisecond) {
		sale := must.Get(r.store.Sale(t.Context(), "s"))(t)
		if epoch = sale.LoadedEpoch; sale.Fence == "" && sale.LoadedEpoch == sale.Epoch {
			must.Succeed(t, r.store.FenceSale(t.Context(), "s", epoch, "lost: by a test"))
		}
	}
	if epoch > 6 { // 0, 0, 200, 400, 800 and 1600 ms
		t.Errorf("loaded %d times in two seconds", epoch)
	}
}

// Ledger and store of a sale are compared when a server first has both, and again when either
// shows an older state than it did.
func TestWhatRaisesADoubt(t *testing.T) {
	created := time.Unix(1_900_000_000, 0)
	view := func(epoch, version, seq int64, created time.Time) *admission.View {
		return &admission.View{
			Sale: sluice.Sale{
				ID: "phone", Terms: sluice.Terms{Version: version}, Epoch: epoch, LoadedEpoch: epoch, CreatedAt: created,
			},
			Reading: port.Reading{Sale: "phone", Loaded: true, Epoch: epoch, Seq: seq},
		}
	}
	f := newFollower(&follower{log: slog.New(slog.DiscardHandler)})
	f.storing["phone"] = true
	for i, step := range []struct {
		what   string
		view   *admission.View
		doubts int
	}{
		{"the first", view(1, 1, 5, created), 1},
		{"the same again", view(1, 1, 5, created), 1},
		{"more is sold", view(1, 2, 9, created), 1},
		{"the ledger's sequence went back", view(1, 2, 8, created), 2},
		{"another load", view(2, 2, 8, created), 3},
		{"the store's terms went back", view(2, 1, 8, created), 4},
		{"the store's epoch went back, and the ledger's", view(1, 1, 8, created), 6},
		{"the sale was created again", view(1, 1, 0, created.Add(time.Hour)), 7},
	} {
		if got := f.note("phone", step.view, created).doubts; got != step.doubts {
			t.Errorf("%d, %s: %d doubts, want %d", i, step.what, got, step.doubts)
		}
		if older := i >= 5; f.mayStore("phone") == older {
			t.Errorf("%d, %s: the journal is stored: %t", i, step.what, !older)
		}
	}
}
