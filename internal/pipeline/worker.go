package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// worker empties the journal of one sale. Its fields but woken and running
// (guarded by Pipeline.mu) belong to the goroutine of run.
type worker struct {
	p    *Pipeline
	sale sluice.SaleID

	woken, running bool
	bell           loop.Bell // rung by every wake

	// recovered says that this server's own unacknowledged entries, of before
	// a restart or a failed acknowledgement, have been read since. They are read again
	// when abandoned ones are looked for, unless some of them are suspects.
	recovered bool
	after     string    // of Own: where the recovery stands
	suspects  []suspect // entries that fail, kept out of the others' way
	left      bool      // more of them are in the journal alone
	stored    int64     // transactions that have succeeded
	adopted   time.Time // when abandoned entries were last looked for

	more     bool     // the last reading of new entries left some, it seems
	perEntry int      // claims of an entry, going by the last reading
	most     int      // claims of one transaction; fewer while the store is slow
	unacked  []string // stored entries that are acknowledged with the next reading
	ahead    *ahead   // nil when nothing is read ahead
}

// run reads, stores and acknowledges until nothing is left.
func (w *worker) run() {
	for {
		if w.suspectDue() {
			w.retrySuspects()
		}
		entries, err := w.next()
		switch {
		case w.p.ctx.Err() != nil:
			w.stopped()
			return
		case errors.Is(err, port.ErrNotLoaded) || err == nil && !w.p.opts.May(w.sale):
			// The sale is gone, or waits for a rebuild, which brings what is left.
			w.suspects, w.unacked, w.recovered, w.more, w.left = nil, nil, false, false, false
			w.stopped()
			return
		case err != nil:
			w.warn("the journal cannot be read", err)
			w.recovered, w.after = false, "" // entries may have been handed out in a reply that was lost
			w.sleep(w.p.opts.Backoff * 4)
			continue
		}
		if len(entries) > 0 {
			w.lookAhead()
			w.handle(entries)
			w.linger(claims(entries))
			continue
		}
		if len(w.suspects) > 0 {
			w.sleepUntilWoken(time.Until(w.retrySuspects()))
			continue
		}
		if w.p.rest(w) {
			return
		}
	}
}

// linger lets entries gather after a transaction of n claims that was far from full. Larger
// transactions cost less for an order: a database writes a page of a random key once for each.
// But while one is stored, claims wait for a processor, and those are the slowest. So
// transactions are small, except in a rush, when claims wait anyway.
func (w *worker) linger(n int) {
	inRush := w.p.count(n)
	switch {
	case n >= w.p.opts.MaxClaims/2:
	case inRush:
		w.sleep(rushLingers * w.p.opts.Linger)
	default:
		w.sleep(w.p.opts.Linger)
	}
}

func claims(entries []port.Entry) (n int) {
	for i := range entries {
		n += len(entries[i].Claims)
	}
	return n
}

// stopped marks the worker as not running, even if it was woken meanwhile.
func (w *worker) stopped() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.running, w.woken = false, false
}

// next returns entries to store: those read ahead, then this server's own from
// before, then new ones, then those that another server has abandoned.
func (w *worker) next() ([]port.Entry, error) {
	w.clearWoken()
	if w.ahead != nil {
		if entries, err := w.took(w.join()); err != nil || len(entries) > 0 {
			return entries, err
		}
	}
	w.acknowledge()
	for !w.recovered {
		read := w.readOf(port.Own)
		read.After = w.after
		entries, err := w.read(read)
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			w.recovered, w.after = true, ""
			break
		}
		w.after = entries[len(entries)-1].ID
		if entries = w.withoutSuspects(entries); len(entries) > 0 {
			return entries, nil
		}
	}
	entries, err := w.took(w.readNew(w.readOf(port.New)))
	if err != nil || len(entries) > 0 {
		return entries, err
	}
	if time.Since(w.adopted) < w.p.opts.Abandoned/4 {
		return nil, nil
	}
	w.adopted = time.Now()
	if len(w.suspects) == 0 && !w.left { // which are this server's own, and known
		w.recovered, w.after = false, "" // the next time: the ledger may have lost an acknowledgement
	}
	entries, err = w.read(w.readOf(port.Abandoned))
	if len(entries) > 0 {
		w.adopted = time.Time{} // there may be more
	}
	return w.withoutSuspects(entries), err // servers take suspects over from each other
}

func (w *worker) clearWoken() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.woken = false
}

// read reads a page of the journal, in time.
func (w *worker) read(read port.JournalRead) ([]port.Entry, error) {
	ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
	defer cancel()
	return w.p.journal.ReadJournal(ctx, read)
}

// handle stores entries in transactions of at most MaxClaims claims, and of
// fewer while the store is slow. Entries that cannot be stored together are tried one by
// one; an entry that cannot be stored alone becomes a suspect. When the store is down or
// busy it waits here: nothing is lost, and reading on would only fill memory.
func (w *worker) handle(entries []port.Entry) {
	for len(entries) > 0 && w.p.ctx.Err() == nil {
		rest := entries
		batch := w.take(&rest)
		err := w.storeWhenUp(batch)
		if errors.Is(err, errSmaller) {
			w.most = max(claims(batch)/2, 1)
			continue
		}
		entries = rest
		if err == nil {
			w.most = min(2*w.most, w.p.opts.MaxClaims)
			continue
		}
		for i := range batch {
			switch one := batch[i : i+1]; {
			case batch[i].Damage != nil:
				w.setAside(batch[i], batch[i].Damage)
			case w.storeWhenUp(one) != nil:
				w.suspect(batch[i])
			}
		}
	}
}

// take cuts the next batch off the entries. A damaged entry is a batch alone,
// and so is one that was handed out often: it may be what kills its reader.
func (w *worker) take(entries *[]port.Entry) []port.Entry {
	alone := func(e *port.Entry) bool { return e.Damage != nil || e.Deliveries > int64(w.p.opts.Attempts) }
	all := *entries
	n, size := 1, len(all[0].Claims)
	if !alone(&all[0]) {
		for n < len(all) && size+len(all[n].Claims) <= w.most && !alone(&all[n]) {
			size += len(all[n].Claims)
			n++
		}
	}
	*entries = all[n:]
	return all[:n]
}

// notStored is logged at every attempt: what is not repeated counts as over.
const notStored = "entries cannot be stored"

var (
	errDamaged = errors.New("the entry is damaged")
	// errSmaller: the store is busy, and might be quick enough for less at once.
	errSmaller = errors.New("the batch is to be smaller")
)

// storeWhenUp stores and acknowledges a batch. While the store does not even
// answer a ping, or says that it is busy, it waits and tries again: that is not
// the entries' fault, however long it lasts. Any other failure is returned.
func (w *worker) storeWhenUp(batch []port.Entry) error {
	if batch[0].Damage != nil {
		return errDamaged
	}
	pause := w.p.opts.Backoff
	for {
		err := w.store(batch)
		if err == nil || w.p.ctx.Err() != nil {
			return err
		}
		busy := errors.Is(err, sluice.ErrStoreBusy)
		if !busy && w.up() {
			w.warn(notStored, err, "entries", len(batch))
			return err
		}
		w.warn("the store takes no orders now; they wait in the journal", err)
		w.sleep(pause)
		if busy && len(batch) > 1 {
			return errSmaller
		}
		pause = min(pause*2, w.p.opts.BackoffMax)
	}
}

// store is the heart: one transaction, then the acknowledgement (I5).
func (w *worker) store(batch []port.Entry) error {
	if err := w.insert(batch); err != nil {
		return err
	}
	for i := range batch {
		w.unacked = append(w.unacked, batch[i].ID)
	}
	if w.ahead == nil {
		w.acknowledge()
	}
	return nil
}

// insert is one transaction.
func (w *worker) insert(batch []port.Entry) error {
	ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
	defer cancel()
	begun := time.Now()
	stored, err := w.p.store.Insert(ctx, w.sale, batch)
	w.p.opts.Transaction(batch, stored, time.Since(begun), err)
	if err != nil {
		return err
	}
	if len(stored.Rejected) > 0 {
		w.p.opts.Log.Error("accepted claims exceed the total; the sale is fenced", "sale", w.sale, "orders", stored.Rejected)
	}
	w.stored++
	w.p.opts.Stored(w.sale, stored)
	return nil
}

func (w *worker) up() bool {
	ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
	defer cancel()
	return w.p.store.Ping(ctx) == nil
}

// warn logs trouble of the sale. Entries that are tried one by one repeat it; the
// engine's log keeps the repetitions out (internal/loglimit).
func (w *worker) warn(message string, err error, args ...any) {
	w.p.opts.Log.Warn(message, append([]any{"sale", w.sale, "error", err}, args...)...)
}

// sleep waits, or ends early with the pipeline.
func (w *worker) sleep(d time.Duration) {
	select {
	case <-w.p.ctx.Done():
	case <-time.After(d):
	}
}

// sleepUntilWoken waits, but not when there is something new to store: a
// suspect never delays the others.
func (w *worker) sleepUntilWoken(d time.Duration) {
	select {
	case <-w.p.ctx.Done():
	case <-w.bell:
	case <-time.After(d):
	}
}
