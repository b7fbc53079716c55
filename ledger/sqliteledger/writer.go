package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
)

// op is one thing that a caller wants done by the writer.
type op struct {
	run  func(g *group) error // decides in memory and adds rows to the group
	err  error                // what run returned: an answer, valid once the group is committed
	done chan error           // gets err, or why the outcome is unknown; nil when no caller waits
}

// queue is where callers leave their ops for the writer.
type queue struct {
	mu     sync.Mutex
	ops    []*op
	closed atomic.Bool // changed under mu
	bell   loop.Bell   // rings when something is queued, or the queue is closed
}

// add queues the op, and reports false when the ledger is closed.
func (q *queue) add(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed.Load() {
		return false
	}
	q.ops = append(q.ops, o)
	q.bell.Ring()
	return true
}

// take waits for ops and returns all of them; none means closed and empty.
// The slice it gets is used for the ops to come.
func (q *queue) take(spare []*op) []*op {
	for {
		q.mu.Lock()
		if ops := q.ops; len(ops) > 0 || q.closed.Load() {
			q.ops = spare[:0]
			q.mu.Unlock()
			return ops
		}
		q.mu.Unlock()
		<-q.bell
	}
}

// close reports whether this call closed it.
func (q *queue) close() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := !q.closed.Swap(true)
	q.bell.Ring()
	return first
}

// do has the writer run an op, and waits until it is on the disk. A caller
// whose ctx ends leaves, but its op is still done.
func (l *Ledger) do(ctx context.Context, run func(g *group) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{run: run, done: make(chan error, 1)}
	if !l.queue.add(o) {
		return sluice.ErrClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("outcome unknown: %w", ctx.Err())
	}
}

// writer is the only goroutine that decides and writes.
type writer struct {
	ledger *Ledger
	file   *file // nil after a failure, until memory is rebuilt from the reopened file
	lastID int64 // of the last row of the log
}

// run ends when the queue is closed and empty.
func (w *writer) run() {
	defer close(w.ledger.done)
	defer func() {
		if w.file != nil {
			w.file.close() // everything is committed; there is nothing left to fail
		}
	}()
	var ops []*op
	for {
		clear(ops)
		ops = w.ledger.queue.take(ops)
		if len(ops) == 0 {
			return
		}
		err := w.commit(ops)
		for _, o := range ops {
			if o.done == nil {
				continue
			}
			if err != nil {
				o.done <- err
			} else {
				o.done <- o.err
			}
		}
		// Those who were answered often come back at once: let them queue up, or
		// the first of them gets a commit of its own and the others wait for it.
		runtime.Gosched()
	}
}

// commit runs the ops as one group. Every op fails with the same error: either nothing
// was written (sluice.ErrRefusesWrites), or the outcome is unknown. It stays
// unknown, for a repeat as well, until memory is what the file says.
func (w *writer) commit(ops []*op) error {
	if w.file == nil {
		err := w.open(context.Background(), true)
		w.ledger.full.note(err)
		if err != nil {
			return fmt.Errorf("outcome unknown until memory is rebuilt from the file: %w", err)
		}
	}
	g := newGroup(w)
	for _, o := range ops {
		o.err = o.run(g)
	}
	g.finish()
	if g.try && len(g.rows) == 0 {
		w.try(context.Background())
	}
	if len(g.rows) > 0 {
		nothing, err := w.append(g.rows)
		w.ledger.full.note(err)
		if err != nil {
			// Memory holds the rows already. Whether they have reached the disk all
			// the same, as they may if the commit itself failed, the file says when it
			// is read again: none or all of them are there.
			before := w.lastID
			// In the open file: a full disk may have no room to open it again.
			if nothing && w.rebuild(context.Background()) == nil && w.lastID == before {
				return fmt.Errorf("%w: %w", sluice.ErrRefusesWrites, err)
			}
			w.drop()
			return fmt.Errorf("outcome unknown: %w", errors.Join(err, w.open(context.Background(), true)))
		}
		w.lastID = g.lastID
	}
	g.publish()
	return nil
}

// try writes something, to see whether that can be done. The write says nothing
// new, so it does not matter how much of it reaches the disk.
func (w *writer) try(ctx context.Context) { w.ledger.full.note(w.file.settle(ctx)) }

func (r *refusal) note(err error) {
	if err != nil {
		r.why.Store(&err)
	} else if r.why.Load() != nil {
		r.why.Store(nil)
	}
}

func (w *writer) append(rows []row) (nothing bool, err error) {
	hook := w.ledger.hook
	if hook == nil {
		return w.file.append(rows)
	}
	if err := hook(w.file, false); err != nil {
		return true, err
	}
	if nothing, err := w.file.append(rows); err != nil {
		return nothing, err
	}
	return false, hook(w.file, true)
}

func (w *writer) drop() {
	w.file.close() // it has failed already; what matters is that it is gone
	w.file = nil
}

// open opens the file, again after a failure, and rebuilds memory from it.
func (w *writer) open(ctx context.Context, again bool) error {
	f, err := openFile(ctx, w.ledger.path)
	if err != nil {
		return err
	}
	w.file = f
	if again {
		err = f.settle(ctx)
	}
	if err == nil {
		err = w.rebuild(ctx)
	}
	if err != nil {
		w.drop()
	}
	return err
}

// rebuild makes memory what the log says.
func (w *writer) rebuild(ctx context.Context) error {
	sales, lastID, err := w.file.replay(ctx)
	if err == nil {
		w.lastID = lastID
		w.ledger.sales.Store(&sales)
	}
	return err
}

// group is what is decided together: one transaction.
type group struct {
	w      *writer
	now    time.Time
	lastID int64
	rows   []row
	try    bool           // something is to be written, to see whether that can be done
	made   salesByID      // sales that this group loads, nil for one that it drops; not published before the commit
	seen   map[*sale]bool // sales that this group changes
	after  []func()       // what becomes true with the commit, besides the views
}

func newGroup(w *writer) *group {
	return &group{w: w, now: w.ledger.clock(), lastID: w.lastID, seen: map[*sale]bool{}}
}

// sale returns the sale as this group has made it so far, or nil.
func (g *group) sale(id sluice.SaleID) *sale {
	if s, ok := g.made[id]; ok {
		return s
	}
	return g.w.ledger.sale(id)
}

// add appends a row to the log and returns its id.
func (g *group) add(s *sale, r row) int64 {
	g.lastID++
	r.id, r.sale = g.lastID, s.id
	g.rows = append(g.rows, r)
	g.seen[s] = true
	return r.id
}

// publish shows readers what is committed now.
func (g *group) publish() {
	for _, f := range g.after {
		f()
	}
	for s := range g.seen {
		s.publish()
	}
	if len(g.made) > 0 {
		sales := maps.Clone(*g.w.ledger.sales.Load())
		for id, s := range g.made {
			if s != nil {
				sales[id] = s
			} else {
				delete(sales, id)
			}
		}
		g.w.ledger.sales.Store(&sales)
	}
}
