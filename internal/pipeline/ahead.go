package pipeline

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice/internal/port"
)

// ahead is what the journal does while the store is busy with a batch, when
// the journal is full: what was stored before is acknowledged, and what comes
// next is read. An entry is still acknowledged only after its commit (I5); it is
// just a batch later, so a server that is killed in between leaves one batch
// more to be redelivered.
type ahead struct {
	done   chan struct{} // closed when the rest is there
	ackErr error
	reading
}

// reading is what one look for new entries came to.
type reading struct {
	entries []port.Entry
	more    bool // the journal had as many as were asked for
	// lost: a page could not be read, and may have been handed out in a reply
	// that got lost. Then it is among this server's own.
	lost bool
	err  error // nothing was read
}

// lookAhead starts acknowledging and reading on, if the last reading left
// something; else it acknowledges what waits for that.
func (w *worker) lookAhead() {
	if !w.more || !w.recovered {
		w.acknowledge()
		return
	}
	a, ids, read := &ahead{done: make(chan struct{})}, w.unacked, w.readOf(port.New)
	w.ahead, w.unacked = a, nil
	go func() {
		defer close(a.done)
		if len(ids) > 0 {
			a.ackErr = w.sendAck(ids)
		}
		a.reading = w.readNew(read)
	}()
}

// join waits for what lookAhead has started, and returns what was read.
func (w *worker) join() reading {
	a := w.ahead
	<-a.done
	w.ahead = nil
	if a.ackErr != nil {
		w.ackFailed(a.ackErr)
	}
	return a.reading
}

// took notes how a reading went on.
func (w *worker) took(r reading) ([]port.Entry, error) {
	w.more = r.more
	if r.lost {
		w.recovered, w.after = false, ""
	}
	if n := len(r.entries); n > 0 {
		w.perEntry = max(claims(r.entries)/n, 1)
	}
	return r.entries, r.err
}

// readNew reads pages of new entries until they fill a transaction or there are
// no more: entries of one claim must not make transactions of a few. It touches
// nothing of the worker that changes.
func (w *worker) readNew(read port.JournalRead) (r reading) {
	for {
		page, err := w.read(read)
		if err != nil && len(r.entries) == 0 {
			return reading{err: err}
		}
		if err != nil {
			r.lost = true
			return r
		}
		r.entries = append(r.entries, page...)
		r.more = len(page) == read.Max
		if !r.more || max(claims(r.entries), len(r.entries)) >= w.p.opts.MaxClaims {
			return r
		}
	}
}

// readOf asks for about two transactions' worth of entries, going by the last
// ones: neither must a page of big entries fill the memory, nor must its
// transactions leave nothing to read ahead.
func (w *worker) readOf(source port.Source) port.JournalRead {
	n := 16 // before anything is known
	if w.perEntry > 0 {
		n = max(2*w.p.opts.MaxClaims/w.perEntry, 16)
	}
	return port.JournalRead{Sale: w.sale, Source: source, Max: min(n, w.p.opts.MaxEntries), Idle: w.p.opts.Abandoned}
}

// acknowledge takes the stored entries that wait for it out of the journal. If
// that fails they will be read again, as this server's own, and be found stored.
func (w *worker) acknowledge() {
	ids := w.unacked
	if w.unacked = nil; len(ids) == 0 {
		return
	}
	if err := w.sendAck(ids); err != nil {
		w.ackFailed(err)
	}
}

func (w *worker) sendAck(ids []string) error {
	ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
	defer cancel()
	return w.p.journal.Ack(ctx, w.sale, ids)
}

func (w *worker) ackFailed(err error) {
	if !errors.Is(err, context.Canceled) {
		w.warn("stored entries cannot be acknowledged yet", err)
	}
	w.recovered, w.after = false, ""
	w.sleep(w.p.opts.Backoff)
}
