package admission

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
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
	// Sales is how often the store is asked at most whether its live sales have changed;
	// default 1 s, and more with more sales (listRows). A sale's row is read sooner
	// when the ledger shows that it has changed.
	Sales time.Duration
	// Timeout bounds one reading; default 2 s.
	Timeout time.Duration

	// Rules holds the rules of the sales that the store listed before this server
	// started, for as long as it does not list them again (Board.rulesOnly).
	Rules map[sluice.SaleID]sluice.Rules
	// RulesChanged receives the rules of all sales that are not archived, after
	// one has come or changed, for Rules the next time. It may take a moment.
	RulesChanged func(map[sluice.SaleID]sluice.Rules)

	// Encode makes View.Body. It is called when a view is made; a view that
	// looks like the one before gets the same value.
	Encode func(v, before *View) any
	// Refreshed is called with the views that are new, after a reading of the
	// ledger and when a sale is archived. It must not block.
	Refreshed func(views map[sluice.SaleID]*View)
	// Gone is called with a sale that the store no longer has. It must not block.
	Gone func(sale sluice.SaleID)
	Log  *slog.Logger
}

// Board is what this server knows of every live sale: an immutable view of
// each behind an atomic pointer, so that looking at it takes no lock and no
// network. Its cost follows what is being sold: archived sales are not on
// it, and idle ones are read rarely.
type Board struct {
	ledger port.Reader
	store  port.SaleStore
	opts   BoardOptions

	sales    *xsync.Map[sluice.SaleID, *boardSale] // not archived, as far as known
	archived *xsync.Map[sluice.SaleID, *View]      // of those that were asked for; at most maxArchived
	version  atomic.Uint64                         // raised when a view looks different

	servers atomic.Int64

	clock   ledgerClock
	bell    loop.Bell // rung when a sale is to be read soon
	changed loop.Bell // asks for rows soon
	lookups lookups
	calls   sync.WaitGroup
	life    context.Context // over: no call begins; stop ends it, under mu
	stop    context.CancelFunc

	answered  atomic.Int64 // when the ledger last did, in Unix nanoseconds
	telling   sync.Mutex   // one RulesChanged at a time
	replicaUp atomic.Bool  // the replica has answered the last time
	woken     woken
	rests     atomic.Bool // no sale is hot: what is woken rings the bell
	nextList  time.Time   // when the list of sales is to be read; of followStore

	mu       sync.Mutex // guards the fields below, and those of its sales
	due      dueHeap
	again    time.Time                  // while the board rests: when it looks at due
	flying   map[*readCall]struct{}     // that are not split yet
	list     saleList                   // as last read
	rows     map[sluice.SaleID]bool     // to be read in the store again
	hotUntil time.Time                  // the latest of all sales
	hot      map[*boardSale]struct{}    // beside a replica: those it is read for
	looked   map[*boardSale]struct{}    // at by readers who keep them hot, or did a moment ago
	single   chan struct{}              // holds the readings of single ids (readOnce)
	rules    bool                       // some have changed since RulesChanged was called
	failing  map[sluice.SaleID]struct{} // whose last reading failed
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
	rowRead   time.Time   // when the latest reading began that returned it, or a newer one
	newer     int64       // version of the terms for which it has been asked for
	retired   bool        // archived: no longer on the board
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
func NewBoard(ledger port.Reader, store port.SaleStore, opts BoardOptions) *Board {
	orDefault(&opts.Refresh, 200*time.Millisecond)
	orDefault(&opts.Sales, time.Second)
	orDefault(&opts.Timeout, 2*time.Second)
	if opts.Encode == nil {
		opts.Encode = func(*View, *View) any { return nil }
	}
	if opts.Refreshed == nil {
		opts.Refreshed = func(map[sluice.SaleID]*View) {}
	}
	if opts.Gone == nil {
		opts.Gone = func(sluice.SaleID) {}
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	life, stop := context.WithCancel(context.Background())
	return &Board{
		life: life, stop: stop,
		ledger: ledger, store: store, opts: opts, bell: loop.NewBell(), changed: loop.NewBell(),
		sales: xsync.NewMap[sluice.SaleID, *boardSale](), archived: xsync.NewMap[sluice.SaleID, *View](),
		flying: map[*readCall]struct{}{}, rows: map[sluice.SaleID]bool{}, hot: map[*boardSale]struct{}{},
		looked:  map[*boardSale]struct{}{},
		single:  make(chan struct{}, singleReads),
		failing: map[sluice.SaleID]struct{}{},
	}
}

// Servers returns how many servers live, this one too, as SetServers was last told; 0: not
// known yet. Each admits its share by a sale's ratio.
func (b *Board) Servers() int64     { return b.servers.Load() }
func (b *Board) SetServers(n int64) { b.servers.Store(n) }

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

// LedgerTime is the ledger's clock at now by this server's clock, as well as
// the readings of all sales tell; before the first one it is this server's. It
// opens and closes sales, so it is what countdowns go by. View.LedgerTime is the
// same for one sale, and never ahead.
func (b *Board) LedgerTime(now time.Time) time.Time {
	if known := b.clock.known.Load(); known != nil {
		return known.at(now)
	}
	return now
}

// Wake asks for a reading of one sale soon, for instance because the ledger
// has just said that it is sold out. It does not block, and many are one.
func (b *Board) Wake(id sluice.SaleID) {
	if e, ok := b.sales.Load(id); ok {
		e.wake(wokenChanged)
		b.bell.Ring()
	}
}

// minPause keeps a rush from turning into a reading per ledger call.
const minPause = 10 * time.Millisecond

// Run refreshes the board until the context ends; when it returns, nothing asks the
// ledger any more. The store's list, the ledger and its replica are read by a loop
// each, so that none waits for another that is down.
func (b *Board) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		b.loop(ctx, "sales", b.changed, func(ctx context.Context, woken bool) (time.Time, error) {
			pause, err := b.followStore(ctx, woken)
			return time.Now().Add(max(b.opts.Sales, pause)), err
		})
	})
	loops.Go(func() {
		b.loop(ctx, "ledger", b.bell, func(ctx context.Context, _ bool) (time.Time, error) {
			return b.readDue(ctx), nil
		})
	})
	if b.opts.Replica != nil {
		loops.Go(func() {
			b.loop(ctx, "replica", nil, func(ctx context.Context, _ bool) (time.Time, error) {
				next := time.Now().Add(b.opts.Refresh)
				return next, b.readReplica(ctx)
			})
		})
	}
	loops.Wait()
	b.mu.Lock() // others may still ask for readings
	b.stop()
	b.mu.Unlock()
	b.calls.Wait()
}

// loop calls do at the moments that it returns, or when woken, and logs when it begins and
// ceases to fail.
func (b *Board) loop(ctx context.Context, what string, bell loop.Bell,
	do func(ctx context.Context, woken bool) (again time.Time, err error),
) {
	next, rested := time.Now(), time.Time{}
	trouble := loop.Trouble{
		Log: b.opts.Log, Begins: "the board cannot be refreshed", Ceases: "the board is refreshed again",
	}
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
			if !loop.Wait(ctx, time.Until(rested), nil) {
				return
			}
		}
		again, err := do(ctx, woken)
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err, "from", what)
		if !woken || what != "sales" {
			next = again
		}
		rested = time.Now().Add(minPause)
	}
}

// Refresh reads all sales in the ledger and publishes new views. An error is of
// a sale that could not be read; the others are.
func (b *Board) Refresh(ctx context.Context) error {
	b.mu.Lock()
	var waiting []*readCall
	var all []*boardSale
	for _, e := range b.sales.Range {
		all = append(all, e)
	}
	for group := range slices.Chunk(all, together) {
		waiting = append(waiting, b.begin(ctx, group...))
	}
	b.mu.Unlock()
	enough := time.NewTimer(max(b.opts.Refresh, minPatience))
	defer enough.Stop()
	for _, c := range waiting {
		select {
		case <-c.done:
		case <-enough.C:
			b.mu.Lock()
			b.split(ctx, time.Now())
			b.mu.Unlock()
			enough.Reset(b.opts.Timeout)
			<-c.done
		}
	}
	for _, c := range waiting {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// readNow reads one sale and returns when that has ended, well or not.
func (b *Board) readNow(ctx context.Context, id sluice.SaleID) {
	e, ok := b.sales.Load(id)
	if !ok {
		return
	}
	b.mu.Lock()
	b.heat(e, time.Now())
	c := b.begin(ctx, e)
	b.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
}
