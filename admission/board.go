package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluicehq/sluice"
)

// BoardOptions are the settings of a Board. Zero values mean the defaults.
type BoardOptions struct {
	// Refresh is how often the ledger is read, for all sales at once; default
	// 200 ms. It must be well below sluice.RefusalLease, or refusals are not
	// repeated without asking the ledger.
	Refresh time.Duration
	// Replica, if there is one, is read as often for those who look on; then
	// the ledger is read as often for sales that are claimed here, and once a
	// second for the others (replica.go).
	Replica Replica
	// Sales is how often the store's list of sales is read; default 1 s. It is
	// read sooner when the ledger shows that a sale has changed.
	Sales time.Duration
	// Timeout bounds one reading; default 2 s.
	Timeout time.Duration

	// Rules are those of the sales that the store listed before this server
	// started, for as long as it does not list them again (Board.unseen).
	Rules map[sluice.SaleID]sluice.Rules
	// RulesChanged is told the rules of all sales that are not archived, after
	// one has come or changed, for Rules the next time. It may take a moment.
	RulesChanged func(map[sluice.SaleID]sluice.Rules)

	// Encode makes View.Body. It is called when a view is made.
	Encode func(v, before *View) any
	// Refreshed is called, from the board's goroutine, after every refresh
	// that reached the ledger. It must not block.
	Refreshed func(views map[sluice.SaleID]*View)
	Log       *slog.Logger
}

// Board is what this server knows of every sale: an immutable snapshot behind
// an atomic pointer, so that reading takes no lock and no network.
type Board struct {
	ledger sluice.Reader
	store  sluice.SaleStore
	opts   BoardOptions

	views   atomic.Pointer[map[sluice.SaleID]*View]
	clock   ledgerClock
	nudge   chan struct{} // asks for a reading of the wanted sales soon
	changed chan struct{} // asks for the store's list soon
	lookups singleflight.Group
	asking  chan struct{} // holds one value per lookup under way
	unknown unknownSales

	telling   sync.Mutex  // one RulesChanged at a time
	replicaUp atomic.Bool // the replica has answered the last time

	lookupFailed atomic.Int64 // when the store did not answer a lookup, in Unix nanoseconds

	mu    sync.Mutex                    // one reading at a time; guards the fields below
	sales map[sluice.SaleID]sluice.Sale // the store's rows, as last read
	fetch map[sluice.SaleID]bool        // holders being fetched
	found map[sluice.SaleID]*holders    // holders fetched, newest
	newer map[sluice.SaleID]int64       // versions of terms for which the list has been asked for
	rules bool                          // some have changed since RulesChanged was called

	wanted map[sluice.SaleID]*atomic.Bool // of all sales: a reading is wanted sooner than the pace brings it
}

// NewBoard returns an empty board; Run fills it.
func NewBoard(ledger sluice.Reader, store sluice.SaleStore, opts BoardOptions) *Board {
	if opts.Refresh <= 0 {
		opts.Refresh = 200 * time.Millisecond
	}
	if opts.Sales <= 0 {
		opts.Sales = time.Second
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 2 * time.Second
	}
	if opts.Encode == nil {
		opts.Encode = func(*View, *View) any { return nil }
	}
	if opts.Refreshed == nil {
		opts.Refreshed = func(map[sluice.SaleID]*View) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	b := &Board{
		ledger: ledger, store: store, opts: opts, nudge: make(chan struct{}, 1), changed: make(chan struct{}, 1), asking: make(chan struct{}, maxLookups),
		sales: map[sluice.SaleID]sluice.Sale{}, fetch: map[sluice.SaleID]bool{}, found: map[sluice.SaleID]*holders{},
		newer: map[sluice.SaleID]int64{}, wanted: map[sluice.SaleID]*atomic.Bool{},
	}
	b.views.Store(&map[sluice.SaleID]*View{})
	return b
}

// View returns what is known of a sale, nil if it is not on the board.
func (b *Board) View(id sluice.SaleID) *View { return (*b.views.Load())[id] }

// Views returns all of the board. The caller must not change the map.
func (b *Board) Views() map[sluice.SaleID]*View { return *b.views.Load() }

// Snapshot returns Views by its address: two that are equal are one board, so
// what has been made of it is still right. The caller must not change the map.
func (b *Board) Snapshot() *map[sluice.SaleID]*View { return b.views.Load() }

// Nudge asks for a reading of one sale soon, for instance because the ledger
// has just said that it is sold out. It does not block, and many are one.
func (b *Board) Nudge(id sluice.SaleID) {
	if view := b.View(id); view != nil {
		view.want()
	}
	b.poke()
}

func (b *Board) poke() {
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

// minPause keeps nudges from turning into a reading per ledger call.
const minPause = 10 * time.Millisecond

// Run refreshes the board until the context ends. The store's list, the ledger
// and its replica are read by a loop each, so that none waits for another that
// is down.
func (b *Board) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		b.loop(ctx, "sales", b.opts.Sales, b.changed, b.ReadSales)
	})
	loops.Go(func() {
		b.loop(ctx, "ledger", b.opts.Refresh, b.nudge, b.refreshDue)
	})
	if b.opts.Replica != nil {
		loops.Go(func() {
			b.loop(ctx, "replica", b.opts.Refresh, nil, b.readReplica)
		})
	}
	loops.Wait()
}

// loop calls do at intervals, or when nudged, and tells the log when it begins
// and ceases to fail.
func (b *Board) loop(ctx context.Context, what string, every time.Duration, nudge <-chan struct{}, do func(context.Context) error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-nudge:
		}
		err := do(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			b.opts.Log.Warn("the board cannot be refreshed", "from", what, "error", err)
		} else if err == nil && failing {
			b.opts.Log.Info("the board is refreshed again", "from", what)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(minPause):
		}
		timer.Reset(max(every-minPause, 0))
	}
}

// ReadSales reads the store's list of sales. If that fails the old one stays.
func (b *Board) ReadSales(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	all, err := b.store.Sales(ctx)
	if err != nil {
		return err
	}
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	news := false
	for _, sale := range all {
		news = b.keep(sale) || news
	}
	if news {
		b.poke()
	}
	return nil
}

// Refresh reads all sales in the ledger and publishes new views.
func (b *Board) Refresh(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readLedger(ctx, func(sluice.SaleID, *View) bool { return true })
}

// refreshDue is Refresh for the sales that are due.
func (b *Board) refreshDue(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	pace := b.opts.Refresh
	if b.replicaUp.Load() {
		pace = max(pace, idlePace)
	}
	now := time.Now()
	return b.readLedger(ctx, func(id sluice.SaleID, view *View) bool {
		return view == nil || view.Down || b.wanted[id].Load() || now.Sub(view.Asked) >= pace-2*minPause
	})
}

// Reload puts the store's row of one sale on the board with a fresh reading:
// what a server does with a sale it has just changed, or never heard of. If
// only the ledger does not answer, the view says that (View.Down).
func (b *Board) Reload(ctx context.Context, id sluice.SaleID) (*View, error) {
	sale, err := b.store.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(sale)
	_ = b.readLedger(ctx, func(other sluice.SaleID, _ *View) bool { return other == id }) // the view tells
	return b.View(id), nil
}

// errLookup: the store has not answered a lookup a moment ago.
var errLookup = errors.New("admission: the store does not answer")

// maxLookups is how many sales are looked up in the store at a time.
const maxLookups = 4

// Lookup is View for a sale that may not be on the board yet: the store is
// asked, once for all who ask at the same time, before the answer is
// sluice.ErrSaleNotFound. That answer is remembered for a second.
func (b *Board) Lookup(ctx context.Context, id sluice.SaleID) (*View, error) {
	if view := b.View(id); view != nil {
		return view, nil
	}
	if id.Validate() != nil || b.unknown.has(id) {
		return nil, sluice.ErrSaleNotFound
	}
	if time.Since(time.Unix(0, b.lookupFailed.Load())) < time.Second {
		return nil, errLookup
	}
	v, err, _ := b.lookups.Do(string(id), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.opts.Timeout)
		defer cancel()
		select { // made-up ids must not take all the store's connections
		case b.asking <- struct{}{}:
			defer func() { <-b.asking }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return b.Reload(ctx, id)
	})
	if errors.Is(err, sluice.ErrSaleNotFound) {
		b.unknown.add(id)
	} else if err != nil {
		b.lookupFailed.Store(time.Now().UnixNano())
	}
	if err != nil {
		return nil, err
	}
	return v.(*View), nil
}

// keep takes a row unless the board has a newer one: the list may have been
// read before a change that this server has made itself. It reports news.
func (b *Board) keep(sale sluice.Sale) bool {
	old, ok := b.sales[sale.ID]
	if ok && older(&sale, &old) {
		return false
	}
	b.sales[sale.ID] = sale
	b.rules = b.rules || !ok || old.Rules != sale.Rules
	if !ok {
		b.wanted[sale.ID] = new(atomic.Bool)
	}
	if ok && old == sale {
		return false
	}
	b.wanted[sale.ID].Store(true)
	return true
}

// older compares two states of a row by what only grows, whatever a database's
// clock does: epochs, the version of the terms, and under the same epoch the
// fence, which only the next load lifts.
func older(a, b *sluice.Sale) bool {
	fenced := func(s *sluice.Sale) int {
		if s.Fence != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.LoadedEpoch, b.LoadedEpoch),
		cmp.Compare(a.Version, b.Version), cmp.Compare(fenced(a), fenced(b)),
		a.ArchivedAt.Compare(b.ArchivedAt),
	) < 0
}

// readLedger reads the sales that are due and publishes the board with them.
// The caller holds mu.
func (b *Board) readLedger(ctx context.Context, due func(sluice.SaleID, *View) bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	before := b.Views()
	var ids []sluice.SaleID
	views := make(map[sluice.SaleID]*View, len(b.sales))
	for id, sale := range b.sales {
		switch old := before[id]; {
		case !sale.ArchivedAt.IsZero():
			delete(b.found, id)
			views[id] = b.archivedView(sale)
		case due(id, old):
			ids = append(ids, id)
			b.wanted[id].Store(false)
		case old != nil:
			views[id] = old
		}
	}
	asked := time.Now()
	readings, err := b.ledger.Read(ctx, ids)
	if err != nil {
		for _, id := range ids {
			b.wanted[id].Store(true)
		}
		b.publishDown(before)
		return err
	}
	told := time.Now()
	b.clock.take(asked, told, readings)
	for i, r := range readings {
		id := ids[i]
		v := &View{Sale: b.sales[id], Reading: r, Asked: asked, Told: told, holders: b.found[id], wanted: b.wanted[id]}
		b.follow(v)
		if v.InStep() && v.State(told) != sluice.StateOpen && !v.holders.covers(&v.Reading) {
			b.fetchHolders(v.Reading)
		}
		v.Body = b.opts.Encode(v, before[id])
		views[id] = v
	}
	b.views.Store(&views)
	b.opts.Refreshed(views)
	return nil
}

// follow asks for the store's list when the ledger has newer terms than the
// row, once for each version: whatever an operator changes raises it, rules
// too, and the ledger is read more often. The caller holds mu.
func (b *Board) follow(v *View) {
	version := v.Reading.Terms.Version
	if !v.Reading.Loaded || version <= max(v.Sale.Version, b.newer[v.Sale.ID]) {
		return
	}
	b.newer[v.Sale.ID] = version
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// archivedView is what is known of a sale that the ledger has forgotten. It
// is made once, and again only if the row has changed.
func (b *Board) archivedView(sale sluice.Sale) *View {
	old := b.View(sale.ID)
	if old != nil && old.Sale == sale {
		return old
	}
	v := &View{Sale: sale, Reading: sluice.Reading{Sale: sale.ID, Now: sale.UpdatedAt}, wanted: b.wanted[sale.ID]}
	v.Body = b.opts.Encode(v, old)
	return v
}

// downAfter is how long readers are told the last known state when the ledger
// does not answer.
const downAfter = 3 * time.Second

// publishDown marks views that have grown too old, and makes one for a sale
// that has none. The caller holds mu.
func (b *Board) publishDown(before map[sluice.SaleID]*View) {
	views := make(map[sluice.SaleID]*View, len(b.sales))
	for id, sale := range b.sales {
		old := before[id]
		if !sale.ArchivedAt.IsZero() {
			views[id] = b.archivedView(sale)
			continue
		}
		if old != nil && (old.Down || time.Since(old.Asked) < downAfter) {
			views[id] = old
			continue
		}
		v := &View{Sale: sale, Reading: sluice.Reading{Sale: id}, wanted: b.wanted[id]}
		if old != nil {
			*v = *old
		}
		v.Down = true
		v.Body = b.opts.Encode(v, old)
		views[id] = v
	}
	b.views.Store(&views)
}

// fetchHolders reads the holders of a sale in the background, once at a time.
func (b *Board) fetchHolders(r sluice.Reading) {
	if b.fetch[r.Sale] {
		return
	}
	b.fetch[r.Sale] = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		h, err := fetchHolders(ctx, b.ledger, &r)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fetch[r.Sale] = false
		if err != nil {
			b.opts.Log.Warn("the holders of a sale cannot be read", "sale", r.Sale, "error", err)
			return
		}
		b.found[r.Sale] = h
		b.Nudge(r.Sale)
	}()
}
