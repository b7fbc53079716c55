package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// What the follower does for a sale that is neither loaded nor rebuilt.

// first compares ledger and store of every sale before this server takes its
// first claim: one of them may have been restored from an older copy, and a
// sequence must not be given twice. A sale that cannot be compared within stepTimeout
// is compared later, by check. Complete says that the board has all sales.
func (f *follower) first(ctx context.Context, complete bool) {
	bound, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	views := f.board.Views()
	f.mu.Lock()
	for id := range views {
		f.storing[id] = false
	}
	f.begun = complete
	f.mu.Unlock()
	var sales errgroup.Group
	sales.SetLimit(limits[stepping].sales)
	for id, view := range views {
		if !view.Down && f.loader.Foreign(&view.Sale) {
			if _, err := f.loader.Follow(bound, &view.Sale, &view.Reading); err != nil {
				f.log.Warn("cannot synchronise sale between ledger and store", "sale", id, "error", err)
			}
			continue
		}
		if view.Down || !view.InStep() && !waitsForRebuild(&view.Sale) || f.unsure(&view.Sale) { // a backup is fenced
			continue
		}
		sales.Go(func() error {
			fenced, err := f.rebuilder.Verify(bound, &view.Sale)
			if err == nil {
				f.compared(id, fenced)
			}
			if err == nil && fenced {
				_, err = f.board.Reload(bound, id)
			}
			if err != nil {
				f.log.Warn("ledger and store of a sale are not compared yet", "sale", id, "error", err)
			}
			return nil
		})
	}
	_ = sales.Wait()
}

// mayStore reports whether the pipeline may store a sale's journal, and its orders may
// expire. While a sale is fenced, or not compared yet, the rebuild stores it: the store may
// have forgotten endings, which come first, and payments.
func (f *follower) mayStore(sale sluice.SaleID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	may, known := f.storing[sale]
	return may || !known && f.begun
}

// compared notes that ledger and store of a sale have been compared.
func (f *follower) compared(sale sluice.SaleID, fenced bool) {
	may := f.mayStore(sale)
	f.mu.Lock()
	f.storing[sale] = !fenced
	f.mu.Unlock()
	if !may && !fenced {
		f.stores(sale)
	}
}

// heartbeat says that this server lives, so that a rebuild waits for what it
// remembers.
func (f *follower) heartbeat(ctx context.Context) {
	// The store may know this server by a heartbeat of the process that was killed a moment ago.
	f.unsent.Store(time.Now().UnixNano())
	for range loop.Every(ctx, settle.HeartbeatEvery) {
		beat, cancel := context.WithTimeout(ctx, settle.SilentAfter)
		if err := f.beat(beat); err != nil && ctx.Err() == nil {
			f.log.Debug("no heartbeat: the store does not answer", "error", err)
		}
		f.name(beat)
		cancel()
	}
	leaves := f.peers.self
	leaves.Left = true
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = f.store.Heartbeat(last, leaves) // else it looks as if this server had been killed
}

// beat is one heartbeat. It notes when the store does not know this server of a moment ago,
// or takes long (mayTake).
func (f *follower) beat(ctx context.Context) error {
	known, begun := false, time.Now()
	f.beats.Store(begun.UnixNano())
	defer f.beats.Store(0)
	if f.made.Load() {
		asking, cancel := context.WithTimeout(ctx, nameTimeout)
		live, err := f.store.LiveServers(asking, late)
		known = err == nil && slices.Contains(port.Nodes(live), f.node)
		cancel()
	}
	err := f.store.Heartbeat(ctx, f.peers.self)
	if live, failed := f.store.LiveServers(ctx, settle.SilentAfter); failed == nil {
		f.board.SetServers(int64(max(len(live), 1))) // a store that is silent leaves the last number
		f.peers.saw(live)
	}
	now := time.Now()
	if err != nil || now.Sub(begun) > late {
		f.missed.Store(now.UnixNano())
	}
	if err != nil || !known || now.Sub(begun) > late {
		f.unsent.Store(now.UnixNano())
	}
	return err
}

// late is how long a heartbeat may take that counts as sent.
const late = 5 * settle.HeartbeatEvery / 2

// missedUntil is until when the store took no heartbeat of this server, as far as is known; zero: it always did.
func (f *follower) missedUntil() time.Time {
	if begun := f.beats.Load(); begun > 0 && time.Since(time.Unix(0, begun)) > late {
		return time.Now()
	}
	if missed := f.missed.Load(); missed > 0 {
		return time.Unix(0, missed)
	}
	return time.Time{}
}

// step does what is short for a sale, and reports whether there was anything.
func (f *follower) step(ctx context.Context, view *admission.View, compare bool) (changed bool, err error) {
	if f.loader.Foreign(&view.Sale) {
		if changed, err := f.leave(ctx, view); changed || err != nil {
			return changed, err
		}
		return f.loader.Follow(ctx, &view.Sale, &view.Reading)
	}
	if changed, err := f.archiver.Step(ctx, &view.Sale, &view.Reading); changed || err != nil {
		return changed, err
	}
	if view.InStep() {
		if err := f.check(ctx, view, compare); err != nil {
			return false, err
		}
	}
	return f.loader.Follow(ctx, &view.Sale, &view.Reading)
}

// check looks after a sale that is in step. If compare is set, its reading began
// an epoch or went backwards, and is compared with what the store holds. What
// this server remembers of epochs before is brought in, and dead letters of
// theirs are replayed.
func (f *follower) check(ctx context.Context, view *admission.View, compare bool) error {
	if compare {
		fenced, err := f.rebuilder.Verify(ctx, &view.Sale)
		if err != nil {
			return err
		}
		if f.compared(view.Sale.ID, fenced); fenced {
			return nil
		}
	}
	late, err := f.rebuilder.SaveRemembered(ctx, &view.Sale)
	if err != nil {
		return err
	}
	if !late && !compare && !f.letter(view.Sale.ID, time.Now()) {
		return nil
	}
	return f.replayLetters(ctx, &view.Sale)
}

// replayLetters replays the dead letters of a sale that are due. One that fails is no
// matter of the sale's other steps.
func (f *follower) replayLetters(ctx context.Context, sale *sluice.Sale) error {
	f.mu.Lock()
	delete(f.letters, sale.ID) // what is set aside from now on is for the next time
	f.mu.Unlock()
	again, err := f.replayer.Pending(ctx, sale)
	if again.IsZero() && err == nil {
		return nil
	}
	f.mu.Lock()
	if _, newer := f.letters[sale.ID]; !newer {
		f.letters[sale.ID] = again
	}
	f.mu.Unlock()
	time.AfterFunc(time.Until(again), f.bell.Ring) // the board may have no news until then
	if again.IsZero() || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if err != nil {
		f.log.Warn("dead letters of a sale cannot be replayed yet", "sale", sale.ID, "error", err)
	}
	return nil
}

// replay deals with a dead letter at a person's request; what waits for the
// store is followed up.
func (f *follower) replay(ctx context.Context, letter int64) (settle.Replayed, error) {
	replayed, err := f.replayer.Replay(ctx, letter)
	if replayed.Waiting {
		f.aside(replayed.Sale)
	}
	return replayed, err
}

// aside notes that a sale has a dead letter. If a rebuild has ended the letter's
// epoch, its claims can be claimed again. It is looked at with the next
// refresh of the board.
func (f *follower) aside(sale sluice.SaleID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.letters[sale] = time.Time{}
}

// letter reports whether a sale has dead letters to replay now.
func (f *follower) letter(sale sluice.SaleID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, waits := f.letters[sale]
	return waits && !now.Before(at)
}
