package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// suspect is an entry that could not be stored together with others.
type suspect struct {
	entry    port.Entry
	since    time.Time // when it failed alone for the first time
	attempts int       // that count
	stored   int64     // worker.stored at the last one
	split    bool      // the store has taken what it takes of it
	partly   bool      // and that was something: the fault is of single claims
	retry    time.Time
	pause    time.Duration
}

// maxSuspects bounds the suspects in memory.
const maxSuspects = 1000

// suspect keeps an entry that has failed alone out of the others' way. Those beyond
// maxSuspects stay in the journal, and are read again when there are fewer.
func (w *worker) suspect(e port.Entry) {
	if len(w.suspects) >= maxSuspects {
		w.left = true
		return
	}
	now := time.Now()
	w.suspects = append(w.suspects, suspect{
		entry: e, since: now, stored: w.stored, pause: w.p.opts.Backoff,
		retry: now.Add(w.p.opts.Backoff), split: len(e.Claims) <= 1,
	})
}

// suspectDue reports whether a suspect's turn has come, also while new entries
// keep coming.
func (w *worker) suspectDue() bool {
	for i := range w.suspects {
		if !time.Now().Before(w.suspects[i].retry) {
			return true
		}
	}
	return false
}

// retrySuspects tries the suspects that are due, each alone, and returns when
// the next one is due. One that has failed often is set aside.
func (w *worker) retrySuspects() (next time.Time) {
	kept := w.suspects[:0]
	for _, s := range w.suspects {
		if time.Now().Before(s.retry) {
			kept = append(kept, s)
			continue
		}
		err := w.store([]port.Entry{s.entry})
		if err == nil {
			continue
		}
		w.warn(notStored, err, "entries", 1)
		if !errors.Is(err, sluice.ErrStoreBusy) && w.up() {
			if !s.split && !hopeless(err) {
				some, interrupted := w.insertParts(s.entry)
				s.split, s.partly = interrupted == nil, s.partly || some
			}
			patience := w.p.opts.Patience
			if s.split && errors.Is(err, port.ErrUnstorable) {
				patience /= 10 // for a constraint that is a mistake, and soon gone
			}
			if s.partly || w.stored > s.stored || time.Since(s.since) > patience {
				s.attempts++
				s.stored = w.stored
			}
		}
		if s.attempts >= w.p.opts.Attempts || hopeless(err) {
			if w.setAside(s.entry, err) {
				continue
			}
		}
		s.pause = min(s.pause*2, w.p.opts.BackoffMax)
		s.retry = time.Now().Add(s.pause)
		kept = append(kept, s)
	}
	clear(w.suspects[len(kept):])
	w.suspects = kept
	if w.left && len(kept) <= maxSuspects/2 {
		w.left, w.recovered, w.after = false, false, ""
	}
	next = time.Now().Add(w.p.opts.BackoffMax)
	for _, s := range kept {
		if s.retry.Before(next) {
			next = s.retry
		}
	}
	return next
}

// hopeless reports whether trying again cannot help: the entry conflicts with
// what is stored, or a rebuild has ended its epoch.
func hopeless(err error) bool {
	var conflict *port.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, port.ErrStaleEpoch)
}

// setAside keeps an entry as a dead letter, for an operator, and takes it out
// of the journal. A conflict is evidence that the ledger lost data: the sale
// is fenced. It reports success; without it the entry stays where it is.
func (w *worker) setAside(e port.Entry, cause error) bool {
	ctx, cancel := context.WithTimeout(w.p.ctx, w.p.opts.Timeout)
	defer cancel()
	if conflict, ok := errors.AsType[*port.ConflictError](cause); ok {
		reason := fmt.Sprintf("%s: %s", port.FenceLost, conflict.Error())
		if err := w.p.store.FenceSale(ctx, w.sale, e.Epoch, reason); err != nil {
			w.p.opts.Log.Error("the sale cannot be fenced", "sale", w.sale, "error", err)
			return false
		}
	}
	if err := w.p.store.SetAside(ctx, e.DeadLetter(cause)); err != nil {
		w.p.opts.Log.Error("an entry cannot be set aside", "sale", w.sale, "entry", e.ID, "error", err)
		w.recovered, w.after = false, "" // a damaged one is no suspect: read it again
		w.sleep(w.p.opts.Backoff)
		return false
	}
	w.p.opts.Log.Error("an entry is set aside", "sale", w.sale, "entry", e.ID, "reason", cause)
	w.unacked = append(w.unacked, e.ID)
	if w.ahead == nil {
		w.acknowledge()
	}
	w.p.opts.SetAside(w.sale)
	return true
}

// withoutSuspects drops entries that are known to fail and wait for their turn.
func (w *worker) withoutSuspects(entries []port.Entry) []port.Entry {
	if len(w.suspects) == 0 {
		return entries
	}
	kept := entries[:0]
	for _, e := range entries {
		known := false
		for i := range w.suspects {
			known = known || w.suspects[i].entry.ID == e.ID
		}
		if !known {
			kept = append(kept, e)
		}
	}
	return kept
}

// insertParts stores what the store takes of an entry that it refuses as a whole, by
// halves, so that one refused claim does not keep the orders of other buyers back. The
// entry stays in the journal until it is stored or set aside as a whole: the store
// takes each claim once (I5). It reports whether some part was stored, and an error
// that is not about the claims: then parts were left out.
func (w *worker) insertParts(e port.Entry) (some bool, err error) {
	for half := len(e.Claims) / 2; len(e.Claims) > 0; half = len(e.Claims) {
		part := e
		part.Claims = e.Claims[:half]
		switch err := w.insert([]port.Entry{part}); {
		case err == nil:
			some = true
		case w.p.ctx.Err() != nil || hopeless(err) || errors.Is(err, sluice.ErrStoreBusy) || !w.up():
			return some, err
		case half > 1:
			more, err := w.insertParts(part)
			some = some || more
			if err != nil {
				return some, err
			}
		}
		e.FirstSeq, e.Claims = e.FirstSeq+int64(half), e.Claims[half:]
	}
	return some, nil
}
