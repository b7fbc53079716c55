package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/admission"
	"github.com/sluicehq/sluice/settle"
)

// follower keeps ledger and store in step, for every sale on the board: it
// finishes loads, passes on terms, fences what is lost, rebuilds what is
// fenced, and archives what is settled. One goroutine, per server, does it.
type follower struct {
	node      string
	store     sluice.Store
	board     *admission.Board
	loader    *settle.Loader
	rebuilder *settle.Rebuilder
	replayer  *settle.Replayer
	archiver  *settle.Archiver
	log       *slog.Logger

	wake chan struct{}
	seen map[sluice.SaleID]*followed

	mu      sync.Mutex
	letters map[sluice.SaleID]bool // sales with new dead letters
}

// followed is what the follower remembers of a sale.
type followed struct {
	epoch, loaded int64     // of the row, when last seen
	since         time.Time // since when they have been so

	verified int64 // epoch whose sequences have been compared
	seq      int64 // of the ledger, when last seen
	failing  bool
}

// A load that was begun and is not confirmed is made good by another server
// after this long: soon if it is the first, of a sale without orders; later if
// there may be much to load.
const (
	adoptFirst = 3 * time.Second
	adoptLater = time.Minute
)

// stepTimeout bounds what is done for one sale at a time, but for a load of
// what may be many orders.
const stepTimeout = 10 * time.Second

func newFollower(f *follower) *follower {
	f.wake = make(chan struct{}, 1)
	f.seen = map[sluice.SaleID]*followed{}
	f.letters = map[sluice.SaleID]bool{}
	return f
}

func (f *follower) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// aside notes that a sale has a new dead letter. If it is of an epoch that a
// rebuild has ended, it can be claimed anew.
func (f *follower) aside(sale sluice.SaleID) {
	f.mu.Lock()
	f.letters[sale] = true
	f.mu.Unlock()
	f.nudge()
}

// heartbeat says that this server lives, so that a rebuild waits for what it
// remembers.
func (f *follower) heartbeat(ctx context.Context) {
	tick := time.NewTicker(settle.HeartbeatEvery)
	defer tick.Stop()
	for {
		beat, cancel := context.WithTimeout(ctx, settle.SilentAfter)
		if err := f.store.Heartbeat(beat, f.node); err != nil && ctx.Err() == nil {
			f.log.Debug("no heartbeat: the store does not answer", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// first compares ledger and store of every sale before this server takes its
// first claim: one of them may have been restored from an older copy, and a
// sequence must not be given twice. What cannot be compared now is compared
// later, by check.
func (f *follower) first(ctx context.Context) {
	for id, view := range f.board.Views() {
		if view.Down || !view.InStep() {
			continue
		}
		step, cancel := context.WithTimeout(ctx, stepTimeout)
		fenced, err := f.rebuilder.Verify(step, &view.Sale)
		if err == nil && fenced {
			_, err = f.board.Reload(step, id)
		}
		cancel()
		if err != nil {
			f.log.Warn("ledger and store of a sale are not compared yet", "sale", id, "error", err)
		}
	}
}

func (f *follower) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		for id, view := range f.board.Views() {
			if view.Down {
				continue
			}
			s := f.look(id, view)
			changed, err := f.follow(ctx, s, view)
			if changed && err == nil {
				_, err = f.board.Reload(ctx, id)
			}
			if err != nil && ctx.Err() == nil && !s.failing {
				f.log.Warn("a sale cannot be brought in step", "sale", id, "error", err)
			}
			s.failing = err != nil
		}
	}
}

// look notes what the board says of a sale now.
func (f *follower) look(id sluice.SaleID, view *admission.View) *followed {
	s := f.seen[id]
	if s == nil {
		s = &followed{since: time.Now()}
		f.seen[id] = s
	}
	if row := &view.Sale; row.Epoch != s.epoch || row.LoadedEpoch != s.loaded {
		s.epoch, s.loaded, s.since = row.Epoch, row.LoadedEpoch, time.Now()
	}
	return s
}

// follow does the next thing for a sale, and reports whether there was one.
func (f *follower) follow(ctx context.Context, s *followed, view *admission.View) (changed bool, err error) {
	if view.Sale.Fence != "" && view.Sale.LoadedEpoch == view.Sale.Epoch {
		return f.rebuilder.Step(ctx, &view.Sale)
	}
	if s.abandoned(&view.Sale) {
		return f.rebuilder.Adopt(ctx, &view.Sale)
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if changed, err := f.archiver.Step(ctx, &view.Sale, &view.Reading); changed || err != nil || view.Archived() {
		return changed, err
	}
	if view.InStep() {
		if err := f.check(ctx, s, view); err != nil {
			return false, err
		}
	}
	return f.loader.Follow(ctx, &view.Sale, &view.Reading)
}

// abandoned reports whether a load was begun and nobody has confirmed it for
// too long.
func (s *followed) abandoned(sale *sluice.Sale) bool {
	if !sale.ArchivedAt.IsZero() || sale.Epoch > 0 && sale.LoadedEpoch == sale.Epoch {
		return false
	}
	patience := adoptLater
	if s.epoch <= 1 {
		patience = adoptFirst
	}
	return time.Since(s.since) > patience
}

// check looks after a sale that is in step: the first reading of an epoch, and
// one that went backwards, are compared with what the store holds; what this
// server remembers of epochs before is brought in, and dead letters of theirs
// are claimed anew.
func (f *follower) check(ctx context.Context, s *followed, view *admission.View) error {
	if s.verified != view.Reading.Epoch || view.Reading.Seq < s.seq {
		if fenced, err := f.rebuilder.Verify(ctx, &view.Sale); err != nil || fenced {
			return err
		}
		f.mu.Lock()
		f.letters[view.Sale.ID] = true
		f.mu.Unlock()
	}
	s.verified, s.seq = view.Reading.Epoch, view.Reading.Seq
	late, err := f.rebuilder.Late(ctx, &view.Sale)
	if err != nil {
		return err
	}
	f.mu.Lock()
	waiting := f.letters[view.Sale.ID]
	delete(f.letters, view.Sale.ID)
	f.mu.Unlock()
	if !late && !waiting {
		return nil
	}
	if err := f.replayer.Pending(ctx, &view.Sale); err != nil {
		f.aside(view.Sale.ID)
		return err
	}
	return nil
}
