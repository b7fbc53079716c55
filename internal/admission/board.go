package admission

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/sluicehq/sluice"
)

// BoardOptions are the settings of a Board. Zero values mean the defaults.
type BoardOptions struct {
	// Refresh is how often the ledger is read for a sale that is being sold or
	// looked at; default 200 ms. It must be well below sluice.RefusalLease, or
	// refusals are not repeated without asking the ledger. Idle sales are read
	// rarely (reading.go).
	Refresh time.Duration
	// Replica, if there is one, is read as often for those who look on; then
	// the ledger is read as often for sales that are claimed here, and once a
	// second for the others (replica.go).
	Replica Replica
	// Sales is how often the store's list of live sales is read at most;
	// default 1 s, and more with more sales (listRows). A sale's row is read sooner
	// when the ledger shows that it has changed.
	Sales time.Duration
	// Timeout bounds one reading; default 2 s.
	Timeout time.Duration

	// Rules are those of the sales that the store listed before this server
	// started, for as long as it does not list them again (Board.unseen).
	Rules map[sluice.SaleID]sluice.Rules
	// RulesChanged is told the rules of all sales that are not archived, after
	// one has come or changed, for Rules the next time. It may take a moment.
	RulesChanged func(map[sluice.SaleID]sluice.Rules)

	// Encode makes View.Body. It is called when a view is made; a view that
	// looks like the one before gets the same value.
	Encode func(v, before *View) any
	// Refreshed is called with the views that are new, after a reading of the
	// ledger and when a sale is archived. It must not block.
	Refreshed func(views map[sluice.SaleID]*View)
	Log       *slog.Logger
}

// Board is what this server knows of every live sale: an immutable view of
// each behind an atomic pointer, so that looking at it takes no lock and no
// network. What it does follows what is being sold: archived sales are not on
// it, and idle ones are read rarely.
type Board struct {
	ledger sluice.Reader
	store  sluice.SaleStore
	opts   BoardOptions

	sales    *xsync.Map[sluice.SaleID, *boardSale] // not archived, as far as known
	archived *xsync.Map[sluice.SaleID, *View]      // of those that were asked for; at most maxArchived
	version  atomic.Uint64                         // raised when a view looks different

	clock   ledgerClock
	bell    chan struct{} // rung when a sale is to be read soon
	changed chan struct{} // asks for rows soon
	lookups lookups
	calls   sync.WaitGroup

	answered  atomic.Int64 // when the ledger last did, in Unix nanoseconds
	telling   sync.Mutex   // one RulesChanged at a time
	replicaUp atomic.Bool  // the replica has answered the last time
	woken     woken

	mu      sync.Mutex // guards the fields below, and those of its sales
	due     dueHeap
	flying  map[*readCall]struct{}     // that are not split yet
	rows    map[sluice.SaleID]bool     // to be read in the store again
	hot     map[*boardSale]struct{}    // beside a replica: those it is read for
	rules   bool                       // some have changed since RulesChanged was called
	failing map[sluice.SaleID]struct{} // whose last reading failed
}

// boardSale is a sale on the board.
type boardSale struct {
	id    sluice.SaleID
	board *Board
	view  atomic.Pointer[View] // nil until the first reading has ended

	why atomic.Uint32 // what has woken it since readDue has looked; set without a lock

	// Guarded by Board.mu.
	sale      sluice.Sale // the store's row, as last read
	rowAsked  time.Time   // when it was last asked for out of turn
	newer     int64       // version of the terms for which it has been asked for
	retired   bool        // archived: no longer on the board
	next      time.Time   // when it is to be read
	index     int         // in dueHeap; -1: not there
	call      *readCall   // reading it; nil: none
	again     bool        // wanted while call is under way
	apart     bool        // it does not answer in time, and is read by calls of its own
	hotUntil  time.Time
	failed    time.Time // since when its readings fail; zero: they do not
	holders   *holders  // newest
	fetching  bool
	fetchNext time.Time // the earliest moment of the next fetch
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
	return &Board{
		ledger: ledger, store: store, opts: opts, bell: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		sales: xsync.NewMap[sluice.SaleID, *boardSale](), archived: xsync.NewMap[sluice.SaleID, *View](),
		flying: map[*readCall]struct{}{}, rows: map[sluice.SaleID]bool{}, hot: map[*boardSale]struct{}{}, failing: map[sluice.SaleID]struct{}{},
	}
}

// View returns what is known of a sale, nil if it is not on the board.
func (b *Board) View(id sluice.SaleID) *View {
	if e, ok := b.sales.Load(id); ok {
		return e.view.Load()
	}
	v, _ := b.archived.Load(id)
	return v
}

// Views returns the views of all live sales. It costs as much as there are.
func (b *Board) Views() map[sluice.SaleID]*View {
	views := make(map[sluice.SaleID]*View, b.sales.Size())
	for id, e := range b.sales.Range {
		if v := e.view.Load(); v != nil {
			views[id] = v
		}
	}
	return views
}

// Version changes when a view looks different or a sale comes or goes: what was
// made of Views under the same version, read before them, is still right.
func (b *Board) Version() uint64 { return b.version.Load() }

// Answered is when the ledger last answered for any sale, by this server's
// clock; zero if it never has.
func (b *Board) Answered() time.Time {
	if at := b.answered.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Wake asks for a reading of one sale soon, for instance because the ledger
// has just said that it is sold out. It does not block, and many are one.
func (b *Board) Wake(id sluice.SaleID) {
	if e, ok := b.sales.Load(id); ok {
		e.wake(wokenChanged)
		ring(b.bell)
	}
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// minPause keeps a rush from turning into a reading per ledger call.
const minPause = 10 * time.Millisecond

// Of the list of sales at most listRows are read in a second, and reading it takes
// at most one part in listShare of the time. It is read every listMax all the same.
const (
	listRows  = 500
	listShare = 50
	listMax   = time.Minute
)

// Run refreshes the board until the context ends. The store's list, the ledger
// and its replica are read by a loop each, so that none waits for another that
// is down.
func (b *Board) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		b.loop(ctx, "sales", b.opts.Sales, b.changed, b.followStore)
	})
	loops.Go(func() {
		b.loop(ctx, "ledger", b.opts.Refresh, b.bell, func(ctx context.Context, _ bool) (time.Duration, error) {
			b.readDue(ctx)
			return 0, nil
		})
	})
	if b.opts.Replica != nil {
		loops.Go(func() {
			b.loop(ctx, "replica", b.opts.Refresh, nil, func(ctx context.Context, _ bool) (time.Duration, error) {
				return 0, b.readReplica(ctx)
			})
		})
	}
	loops.Wait()
	b.calls.Wait()
}

// loop calls do at intervals, or when woken, and logs when it begins and ceases
// to fail. The interval is every, or what do asks for if that is longer.
func (b *Board) loop(ctx context.Context, what string, every time.Duration, bell <-chan struct{},
	do func(ctx context.Context, woken bool) (pause time.Duration, err error),
) {
	next := time.Now()
	failing := false
	for {
		timer := time.NewTimer(time.Until(next))
		woken := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-bell:
			timer.Stop()
			woken = time.Now().Before(next)
		}
		begun := time.Now()
		pause, err := do(ctx, woken)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			b.opts.Log.Warn("the board cannot be refreshed", "from", what, "error", err)
		} else if err == nil && failing {
			b.opts.Log.Info("the board is refreshed again", "from", what)
		}
		failing = err != nil
		if !woken || what != "sales" {
			next = begun.Add(max(every, pause))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(minPause):
		}
	}
}

// followStore reads the list of sales, or, when woken, the rows that have been
// asked for.
func (b *Board) followStore(ctx context.Context, woken bool) (pause time.Duration, err error) {
	if woken {
		return 0, b.readRows(ctx)
	}
	begun := time.Now()
	err = b.ReadSales(ctx)
	pause = max(listShare*time.Since(begun), time.Duration(b.sales.Size())*time.Second/listRows)
	return min(pause, listMax), err
}

// ReadSales reads the store's list of live sales. If that fails the old one
// stays. What has left the list is read by itself: it may be archived.
func (b *Board) ReadSales(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, max(b.opts.Timeout, listTimeout))
	defer cancel()
	list, err := b.store.SelectSales(asking, sluice.SaleFilter{Live: true})
	if err != nil {
		return err
	}
	b.take(list)
	if b.sales.Size() > len(list) {
		listed := make(map[sluice.SaleID]bool, len(list))
		for i := range list {
			listed[list[i].ID] = true
		}
		b.mu.Lock()
		for id, e := range b.sales.Range {
			if !listed[id] {
				b.askRow(e)
			}
		}
		b.mu.Unlock()
	}
	return b.readRows(ctx)
}

// listTimeout bounds a reading of the list, which may be long.
const listTimeout = 10 * time.Second

// rowsAtOnce bounds the rows asked for by one query.
const rowsAtOnce = 500

// rowEvery is how long a sale's row is not asked for again out of turn.
const rowEvery = time.Second

// askRow asks for a sale's row. The caller holds mu.
func (b *Board) askRow(e *boardSale) {
	if now := time.Now(); now.Sub(e.rowAsked) >= rowEvery {
		e.rowAsked = now
		b.rows[e.id] = true
		ring(b.changed)
	}
}

// readRows reads the rows that have been asked for.
func (b *Board) readRows(ctx context.Context) error {
	for {
		var ids []sluice.SaleID
		b.mu.Lock()
		for id := range b.rows {
			if delete(b.rows, id); len(ids) < rowsAtOnce {
				ids = append(ids, id)
			}
			if len(ids) == rowsAtOnce {
				break
			}
		}
		b.mu.Unlock()
		if len(ids) == 0 {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, b.opts.Timeout)
		rows, err := b.store.SelectSales(asking, sluice.SaleFilter{IDs: ids})
		cancel()
		if err != nil {
			return err // the readings ask again
		}
		b.take(rows)
	}
}

// take puts rows on the board.
func (b *Board) take(rows []sluice.Sale) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range rows {
		b.keep(&rows[i])
	}
}

// Reload puts the store's row of one sale on the board with a fresh reading:
// what a server does with a sale it has just changed. If only the ledger does
// not answer, the view says that (View.Down).
func (b *Board) Reload(ctx context.Context, id sluice.SaleID) (*View, error) {
	sale, err := b.store.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	b.take([]sluice.Sale{sale})
	b.readNow(ctx, id)
	view := b.View(id)
	if view == nil {
		return nil, sluice.ErrSaleNotFound
	}
	return view, nil
}

// maxArchived bounds the views of archived sales, which are kept as long as
// they are asked for.
const maxArchived = 4096

// keep takes a row unless the board has a newer one: the list may have been
// read before a change that this server has made itself. The caller holds mu.
func (b *Board) keep(sale *sluice.Sale) {
	e, ok := b.sales.Load(sale.ID)
	if ok && older(sale, &e.sale) {
		return
	}
	if !sale.ArchivedAt.IsZero() {
		b.retire(e, sale)
		return
	}
	if v, ok := b.archived.Load(sale.ID); ok && older(sale, &v.Sale) {
		return
	}
	if !ok {
		e = &boardSale{id: sale.ID, board: b, index: -1}
		b.sales.Store(sale.ID, e)
		b.version.Add(1)
	}
	b.rules = b.rules || !ok || e.sale.Rules != sale.Rules
	news := !ok || e.sale != *sale
	if e.sale = *sale; news {
		b.plan(e, time.Now())
		ring(b.bell)
	}
}

// retire takes a sale that is archived off the board: nothing is read of it any
// more. It is told to Refreshed once. The caller holds mu.
func (b *Board) retire(e *boardSale, sale *sluice.Sale) {
	old, _ := b.archived.Load(sale.ID)
	if e != nil {
		e.retired = true
		b.unplan(e)
		delete(b.hot, e)
		b.recovered(e)
		old = e.view.Load()
		b.sales.Delete(e.id)
		b.rules = true
	}
	v := &View{Sale: *sale, Reading: sluice.Reading{Sale: sale.ID, Now: sale.UpdatedAt}}
	v.Body = b.opts.Encode(v, old)
	if b.archived.Size() >= maxArchived {
		b.archived.Clear()
	}
	b.archived.Store(sale.ID, v)
	b.version.Add(1)
	if e != nil {
		b.opts.Refreshed(map[sluice.SaleID]*View{sale.ID: v})
	}
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
