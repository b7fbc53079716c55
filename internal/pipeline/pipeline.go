// Package pipeline carries journal entries into the store: read, store,
// acknowledge, and set aside what cannot be stored.
//
// It keeps I5 together with the store. An entry is acknowledged only after the
// transaction that stored its claims (or set it aside) is committed; whatever
// happens in between, the entry is read again, and the store takes each claim
// exactly once. So the pipeline may be killed at any instant and may run on
// any number of servers.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// Store is what the pipeline needs of port.Store.
type Store interface {
	Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error)
	SetAside(ctx context.Context, letter port.DeadLetter) error
	FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error
	Ping(ctx context.Context) error
}

// Options are the settings of a Pipeline. Zero values mean the defaults.
type Options struct {
	// MaxClaims bounds the claims of one transaction (an entry is never
	// split); default 2,000. MaxEntries bounds the entries of one reading of
	// the journal, of which a transaction may take several; default 500.
	MaxClaims  int
	MaxEntries int
	// Linger is how long a worker lets entries gather after a transaction that was far
	// from full; sixteen times as long while the pipeline stores 10,000 claims a second or
	// more. The first entry after a pause is stored at once. Default 5 ms; negative: none.
	Linger time.Duration
	// Attempts is how often an entry that fails alone is tried before it is set
	// aside; default 5. What the store takes of it is stored at the first. An attempt
	// counts only when a part of the entry could be stored, or other entries of the sale
	// since the attempt before, or after Patience (default 10 minutes), or a tenth of it
	// if the store refuses the entry for what it is (port.ErrUnstorable). It never does
	// when the store says that it is busy (sluice.ErrStoreBusy): that trouble is the
	// store's, not the entry's.
	Attempts int
	Patience time.Duration
	// Backoff is the pause after a first failure; it doubles up to
	// BackoffMax. Defaults 50 ms and 2 s.
	Backoff, BackoffMax time.Duration
	// Abandoned is how long another server may hold an entry before this
	// one takes it over: longer than the longest transaction. Default 30 s.
	Abandoned time.Duration
	// Timeout bounds one transaction; default 10 s.
	Timeout time.Duration

	// May reports whether a sale's journal may be stored at this moment; default: always. What
	// waits meanwhile is stored once Wake is called again. It must not block.
	May func(sale sluice.SaleID) bool

	// Transaction is called after each transaction with how long it took; stored is of
	// one that is committed. Stored is called after each of those, SetAside when an entry
	// has become a dead letter. They must not block.
	Transaction func(entries []port.Entry, stored port.Stored, took time.Duration, err error)

	Stored   func(sale sluice.SaleID, result port.Stored)
	SetAside func(sale sluice.SaleID)
	Log      *slog.Logger
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxClaims, 2000)
	setDefault(&o.MaxEntries, 500)
	setDefault(&o.Attempts, 5)
	o.Linger = cmp.Or(o.Linger, 5*time.Millisecond)
	setDefault(&o.Patience, 10*time.Minute)
	setDefault(&o.Backoff, 50*time.Millisecond)
	setDefault(&o.BackoffMax, 2*time.Second)
	setDefault(&o.Abandoned, 30*time.Second)
	setDefault(&o.Timeout, 10*time.Second)
	if o.May == nil {
		o.May = func(sluice.SaleID) bool { return true }
	}
	if o.Transaction == nil {
		o.Transaction = func([]port.Entry, port.Stored, time.Duration, error) {}
	}
	if o.Stored == nil {
		o.Stored = func(sluice.SaleID, port.Stored) {}
	}
	if o.SetAside == nil {
		o.SetAside = func(sluice.SaleID) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

func setDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Pipeline runs one worker per sale that has something to store. A worker is
// started by Wake and ends when the sale's journal is empty, so that a
// thousand quiet sales cost nothing.
type Pipeline struct {
	journal port.Journal
	store   Store
	opts    Options

	ctx  context.Context // ends the workers
	stop context.CancelFunc

	mu      sync.Mutex
	workers map[sluice.SaleID]*worker
	running sync.WaitGroup
	closed  bool

	counted int       // claims that were stored, of whichever sale,
	since   time.Time // in the window that began then
	inRush  bool      // the window before was a rush
}

// New returns a pipeline between a journal and a store. It does nothing until
// it is woken.
func New(journal port.Journal, store Store, opts Options) *Pipeline {
	ctx, stop := context.WithCancel(context.Background())
	return &Pipeline{
		journal: journal, store: store, opts: opts.withDefaults(),
		ctx: ctx, stop: stop, workers: map[sluice.SaleID]*worker{},
	}
}

// Wake says that the sale may have entries. It does not block.
func (p *Pipeline) Wake(sale sluice.SaleID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !p.opts.May(sale) {
		return
	}
	w := p.workers[sale]
	if w == nil {
		w = &worker{p: p, sale: sale, bell: loop.NewBell(), most: p.opts.MaxClaims}
		p.workers[sale] = w
	}
	w.woken = true
	w.bell.Ring()
	if !w.running {
		w.running = true
		p.running.Go(w.run)
	}
}

const (
	// rush is how many claims are stored in a second of a window from which on many gather.
	rush   = 10_000
	window = 100 * time.Millisecond
	// rushLingers is how many times as long they gather then.
	rushLingers = 16
)

// count counts claims that were stored, and reports whether there is a rush. It is the
// store's, so sales are counted together.
func (p *Pipeline) count(claims int) (inRush bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted += claims
	if over := time.Since(p.since); over >= window {
		p.inRush = float64(p.counted) >= rush*over.Seconds()
		p.counted, p.since = 0, time.Now()
	}
	return p.inRush
}

// rest ends a worker's run unless it has been woken meanwhile.
func (p *Pipeline) rest(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.woken {
		w.woken = false
		return false
	}
	w.running = false
	return true
}

// Close takes no more wakes and lets the workers empty the journals that they
// are at, until the context ends; then it stops them. Other entries stay in
// the journal. It is idempotent.
func (p *Pipeline) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		p.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		p.stop()
		return nil
	case <-ctx.Done():
		p.stop()
		<-idle
		return errors.Join(errors.New("pipeline: some entries are not stored yet; they stay in the journal"), ctx.Err())
	}
}
