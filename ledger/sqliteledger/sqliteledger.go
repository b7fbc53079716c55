// Package sqliteledger is the embedded ledger: memory decides, SQLite
// remembers, and nothing is answered before it is on the disk.
//
// One writer goroutine takes everything that is queued, of all callers and
// sales, decides it in memory, writes what was decided as one transaction with
// a full fsync, and only then answers. So the cost of an fsync is shared by
// all who wait for it, and a busy ledger makes bigger groups by itself. There
// is no other place where anything changes, hence no lock order and no
// isolation level to think about.
//
// The file is an append-only log (log.go); memory is what the log says
// (state.go). After a failed commit memory is thrown away, and nothing is decided
// until it has been rebuilt from the file. If the failure came before the mark of
// the commit, as that of a full disk does, the group's callers get
// sluice.ErrRefusesWrites; otherwise, and until the rebuild, the outcome is
// unknown, and a repeat of the claim gets the answer that the file knows (I4).
//
// Readers never wait for the disk. What they see is published after the
// commit, per sale, as an immutable view behind an atomic pointer.
//
// Rejected: deciding by SQL (two orders of magnitude slower than a map, and
// the same single writer); one transaction per sale (an fsync each); answering
// before the fsync (breaks I4 when the machine stops); an fsync by timer (a
// promise that is not kept for some milliseconds).
//
// An accepted claim costs 200 bytes of memory (BenchmarkMemory), some 200 more
// until it is stored, and 120 of the file, until its sale is archived; opening
// a ledger takes about a second and a half per million of them.
//
// One process owns the file, by a lock of the operating system on path+".lock".
// Within it memory is the truth, so the sequence a server received cannot be
// ahead of the ledger. What can still be lost is the file's content: a log
// with gaps fences its sale as lost when it is opened.
package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/meters"
	"github.com/sluicehq/sluice/internal/port"
)

// Options are the settings of a ledger.
type Options struct {
	// Node names this server; every journal entry has it. Required.
	Node string
	// Now is the ledger's clock. Default time.Now; tests set it.
	Now func() time.Time

	// hook, in tests, is called before and after every commit, by the writer.
	// Its error takes the place of the commit, or of its success.
	hook func(f *file, committed bool) error
}

// Ledger is a port.Ledger in one SQLite file.
type Ledger struct {
	path string
	node string
	now  func() time.Time
	hook func(f *file, committed bool) error // of the options

	reader
	lock  *flock.Flock
	queue queue
	sales atomic.Pointer[salesByID] // what is committed; replaced, never changed
	full  refusal                   // of the disk
	done  chan struct{}             // closed when the writer has ended

	buyers, addresses *meters.Table // what their tries have cost

	naming sync.Mutex // guards name
	name   string
}

var _ port.Ledger = (*Ledger)(nil)

// wrap says where an error happened. Methods of the port defer it.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("sqliteledger: %s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// Open opens the ledger in the file at path, and makes the file if there is
// none. ErrInUse if another process (or another Ledger of this one) owns it.
func Open(ctx context.Context, path string, opts Options) (_ *Ledger, err error) {
	defer wrap(&err, "open %s", path)
	if opts.Node == "" {
		return nil, errors.New("Options.Node is required")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	lock := flock.New(abs+".lock", flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock: %w", err)
	case !locked:
		return nil, sluice.ErrInUse
	}
	l := &Ledger{
		path: abs, node: opts.Node, now: opts.Now, hook: opts.hook, lock: lock, done: make(chan struct{}),
		buyers: meters.New(0), addresses: meters.New(0),
	}
	l.loaded = l.look
	l.queue.bell = loop.NewBell()
	w := &writer{ledger: l}
	if err := w.open(ctx, false); err != nil {
		return nil, errors.Join(disk.Why(abs, err), lock.Unlock())
	}
	w.try(ctx)
	go w.run()
	return l, nil
}

// Refuses says why nothing can be written: there is no room on the disk, or the last
// write failed; nil if there is and it did not. A ledger that has just been opened has tried. While
// writing fails, or if the caller has a doubt, it has the writer try again, at most
// once a second, for the next call to know.
func (l *Ledger) Refuses(doubt bool) error {
	why := l.full.why.Load()
	if why == nil && !doubt {
		return disk.Room(l.path)
	}
	now := time.Now().UnixNano()
	last := l.full.tried.Load()
	due := now-last >= int64(time.Second) || now < last // the clock was set back
	if due && l.full.tried.CompareAndSwap(last, now) {
		l.queue.add(&op{run: func(g *group) error {
			g.try = true
			return nil
		}})
	}
	if why == nil {
		return disk.Room(l.path)
	}
	return *why
}

// refusal is why nothing can be written.
type refusal struct {
	why   atomic.Pointer[error] // nil: the last write has succeeded
	tried atomic.Int64          // when Refuses last asked for another try, in Unix nanoseconds
}

// Close answers what is queued, closes the file and gives it free.
func (l *Ledger) Close() error {
	if !l.queue.close() {
		<-l.done // another call closes it
		return nil
	}
	<-l.done
	if err := l.lock.Unlock(); err != nil {
		return fmt.Errorf("sqliteledger: unlock %s: %w", l.path, err)
	}
	return nil
}

// clock returns the ledger's time in whole milliseconds, UTC.
func (l *Ledger) clock() time.Time { return l.now().UTC().Truncate(time.Millisecond) }

// sale returns the committed state of a sale, or nil if it is not loaded.
func (l *Ledger) sale(id sluice.SaleID) *sale { return (*l.sales.Load())[id] }

// Claim implements port.Decider.
func (l *Ledger) Claim(ctx context.Context, id sluice.SaleID, claims []sluice.Claim) (_ []sluice.Decision, err error) {
	defer wrap(&err, "claim sale=%s", id)
	decisions := make([]sluice.Decision, len(claims))
	claims = slices.Clone(claims) // the caller may leave, and use its slice again, before we are done
	if err := l.do(ctx, func(g *group) error {
		g.claim(id, claims, decisions)
		return nil
	}); err != nil {
		return nil, err
	}
	return decisions, nil
}

// Load implements port.Keeper.
func (l *Ledger) Load(ctx context.Context, image port.LoadImage) (err error) {
	defer wrap(&err, "load sale=%s epoch=%d", image.Sale, image.Epoch)
	image.Records = slices.Clone(image.Records)
	return l.do(ctx, func(g *group) error { return g.load(image) })
}

// Apply implements port.Keeper. A total below the units taken is
// ErrBelowTaken and changes nothing (I1).
func (l *Ledger) Apply(ctx context.Context, id sluice.SaleID, epoch int64, terms sluice.Terms) (err error) {
	defer wrap(&err, "apply sale=%s version=%d", id, terms.Version)
	return l.do(ctx, func(g *group) error { return g.apply(id, epoch, terms) })
}

// Fence implements port.Keeper. An empty reason is an error.
func (l *Ledger) Fence(ctx context.Context, id sluice.SaleID, epoch int64, reason string) (err error) {
	defer wrap(&err, "fence sale=%s", id)
	return l.do(ctx, func(g *group) error {
		if reason == "" {
			return errors.New("a fence needs a reason")
		}
		return g.fence(id, epoch, reason)
	})
}

// Unfence implements port.Keeper.
func (l *Ledger) Unfence(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer wrap(&err, "unfence sale=%s", id)
	return l.do(ctx, func(g *group) error { return g.fence(id, epoch, "") })
}
