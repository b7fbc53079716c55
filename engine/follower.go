package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/settle"
)

// follower keeps ledger and store in step, for every sale on the board: it
// finishes loads, passes on terms, fences what is lost, rebuilds what is
// fenced, and archives what is settled. One loop, per server, sees what is to
// be done; each sale's work has a goroutine and a deadline of its own, so that
// one that is slow, or has much to load, keeps no other waiting.
type follower struct {
	node      string
	store     sluice.Store
	board     *admission.Board
	loader    *settle.Loader
	rebuilder *settle.Rebuilder
	replayer  *settle.Replayer
	archiver  *settle.Archiver
	stores    func(sluice.SaleID) // wakes the pipeline
	log       *slog.Logger

	bell loop.Bell
	done chan outcome

	// Of the loop.
	seen    map[sluice.SaleID]*followed
	open    map[sluice.SaleID]struct{} // sales to look at: with news, or with something to be done
	waiting [tasks][]sluice.SaleID     // sales that have something to be done
	running [tasks]int

	mu      sync.Mutex
	news    map[sluice.SaleID]struct{}  // sales to look at, since the loop did last
	letters map[sluice.SaleID]time.Time // when dead letters of a sale are to be replayed; zero: now
	// Whether the pipeline may store a sale's journal: once its ledger and store have been
	// compared, and are not fenced. A sale that is not there began after this server did;
	// begun says that it has, and knew all sales then.
	storing map[sluice.SaleID]bool
	begun   bool
}

// followed is what the loop remembers of a sale.
type followed struct {
	epoch, loaded int64     // of the row, when last seen
	since         time.Time // since when they have been so

	reading, seq     int64 // epoch and sequence of the ledger, when last seen in step
	doubts, verified int   // readings that began an epoch or went backwards, and those of them that have been compared

	busy   bool
	ready  bool      // all servers have gathered, of this epoch
	failed int       // steps in a row
	rest   time.Time // until when it is left alone
	loads  reloads
}

// task is a kind of work for a sale.
type task int

const (
	stepping  task = iota // what is short: terms, fences, the archive, dead letters
	repeating             // the same, after it has failed
	gathering             // storing what this server remembers of a fenced sale
	loading               // rebuilding it, or loading it
	tasks
)

// limits bound the work of each kind: how many sales at once, and each for how
// long. Sales that fail keep to themselves, since they may do so by hanging. What
// is long leaves connections of the database to all others.
var limits = [tasks]struct {
	sales   int
	timeout time.Duration
}{
	stepping:  {8, stepTimeout},
	repeating: {2, stepTimeout},
	gathering: {2, time.Minute},
	loading:   {2, 10 * time.Minute},
}

// stepTimeout bounds what is short for one sale.
const stepTimeout = 10 * time.Second

// outcome is what became of a task.
type outcome struct {
	sale     sluice.SaleID
	task     task
	verified int // doubts that have been compared
	ready    bool
	changed  bool
	err      error
}

// The first load of a sale is made by the server that creates the sale. If it is
// not confirmed after adoptAfter, another server loads it. Every later load has
// a lease (settle.Rebuilder.Adopt): it is adopted as soon as no server is at it.
const adoptAfter = 3 * time.Second

// A sale is looked at again at the board's next refresh. One whose task fails
// is tried again after restMin, then after twice as long each time, up to restMax.
const (
	restMin = 100 * time.Millisecond
	restMax = 5 * time.Second
	// restLoading is between two attempts to get the lease of a load.
	restLoading = time.Second
)

func newFollower(f *follower) *follower {
	f.bell, f.done = loop.NewBell(), make(chan outcome)
	f.seen, f.open = map[sluice.SaleID]*followed{}, map[sluice.SaleID]struct{}{}
	f.news = map[sluice.SaleID]struct{}{}
	f.letters, f.storing = map[sluice.SaleID]time.Time{}, map[sluice.SaleID]bool{}
	return f
}

// saw notes the sales that the board has new views of: only those are looked at,
// so that idle sales cost what their readings do.
func (f *follower) saw(views map[sluice.SaleID]*admission.View) {
	f.mu.Lock()
	for id := range views {
		f.news[id] = struct{}{}
	}
	f.mu.Unlock()
	f.bell.Ring()
}

// aside notes that a sale has a dead letter. If it is of an epoch that a rebuild
// has ended, its claims can be claimed again. It is looked at with the next
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

// heartbeat says that this server lives, so that a rebuild waits for what it
// remembers.
func (f *follower) heartbeat(ctx context.Context) {
	for range loop.Every(ctx, settle.HeartbeatEvery) {
		beat, cancel := context.WithTimeout(ctx, settle.SilentAfter)
		if err := f.store.Heartbeat(beat, f.node); err != nil && ctx.Err() == nil {
			f.log.Debug("no heartbeat: the store does not answer", "error", err)
		}
		cancel()
	}
}

// first compares ledger and store of every sale before this server takes its
// first claim: one of them may have been restored from an older copy, and a
// sequence must not be given twice. What cannot be compared within stepTimeout
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
		if view.Down || !view.InStep() {
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

// mayStore reports whether the pipeline may store a sale's journal. Of a sale that is
// fenced, or not compared yet, the rebuild stores it: the store may have forgotten
// endings, which come first.
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

// run works until the context ends.
func (f *follower) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.bell:
			f.look()
		case o := <-f.done:
			f.finished(ctx, &o)
		}
		for t := range tasks {
			for len(f.waiting[t]) > 0 && f.running[t] < limits[t].sales {
				id := f.waiting[t][0]
				f.waiting[t] = f.waiting[t][1:]
				f.start(ctx, &running, id, t)
			}
		}
	}
}

// look sees what is to be done.
func (f *follower) look() {
	now := time.Now()
	for t := range tasks {
		f.waiting[t] = nil
	}
	f.mu.Lock()
	maps.Copy(f.open, f.news)
	clear(f.news)
	for id, at := range f.letters {
		if !now.Before(at) {
			f.open[id] = struct{}{}
		}
	}
	f.mu.Unlock()
	for id := range f.open {
		s, view := f.seen[id], f.board.View(id)
		gone := view == nil || view.Archived()
		if !gone && !view.Down {
			s = f.note(id, view, now)
		}
		switch {
		case s != nil && s.busy: // until that has ended
		case gone:
			if s != nil { // otherwise the board may not have it yet
				f.mu.Lock()
				delete(f.letters, id)
				delete(f.storing, id)
				f.mu.Unlock()
			}
			delete(f.seen, id)
			delete(f.open, id)
		case view.Down: // until it is read again
			delete(f.open, id)
		default:
			if t, due := f.due(s, view, now); !due {
				delete(f.open, id)
			} else if !now.Before(s.rest) && (t != loading || s.loads.due(now)) {
				f.waiting[t] = append(f.waiting[t], id)
			}
		}
	}
}

// note notes what the board says of a sale now.
func (f *follower) note(id sluice.SaleID, view *admission.View, now time.Time) *followed {
	s := f.seen[id]
	if s == nil {
		s = &followed{since: now}
		f.seen[id] = s
	}
	if row := &view.Sale; row.Epoch != s.epoch || row.LoadedEpoch != s.loaded {
		if s.loaded > 0 && row.LoadedEpoch != s.loaded {
			s.loads.note(now)
		}
		s.epoch, s.loaded, s.since, s.ready = row.Epoch, row.LoadedEpoch, now, false
	}
	if view.InStep() {
		if view.Reading.Epoch != s.reading || view.Reading.Seq < s.seq {
			s.doubts++
		}
		s.reading, s.seq = view.Reading.Epoch, view.Reading.Seq
	}
	return s
}

// due says what is to be done for a sale, if anything is.
func (f *follower) due(s *followed, view *admission.View, now time.Time) (task, bool) {
	short := stepping
	if s.failed > 0 {
		short = repeating
	}
	row, reading := &view.Sale, &view.Reading
	switch {
	case fenced(row) && !s.ready:
		return gathering, true
	case fenced(row) || s.abandoned(row, now):
		return loading, true
	}
	changed := !reading.Terms.Same(&row.Terms) || row.Cap != row.Total
	return short, !view.InStep() || changed || s.doubts != s.verified || f.archiver.Due(row, reading) ||
		f.letter(row.ID, now) || f.rebuilder.Remembers(row)
}

// fenced reports whether a sale waits for its rebuild.
func fenced(sale *sluice.Sale) bool { return sale.Fence != "" && sale.LoadedEpoch == sale.Epoch }

// abandoned reports whether a load was begun, or should have been, that no
// server may be at any more.
func (s *followed) abandoned(sale *sluice.Sale, now time.Time) bool {
	if sale.Epoch > 0 && sale.LoadedEpoch == sale.Epoch {
		return false
	}
	return s.epoch > 1 || now.Sub(s.since) > adoptAfter
}

// start does a task for a sale, as the board says now.
func (f *follower) start(ctx context.Context, running *sync.WaitGroup, id sluice.SaleID, t task) {
	s, view := f.seen[id], f.board.View(id)
	if view == nil || view.Archived() || s.busy {
		return
	}
	if now, due := f.due(s, view, time.Now()); !due || now != t {
		return // the board has changed since
	}
	s.busy = true
	f.running[t]++
	doubts, compare := s.doubts, s.doubts != s.verified
	running.Go(func() {
		o := outcome{sale: id, task: t}
		bound, cancel := context.WithTimeout(ctx, limits[t].timeout)
		switch {
		case t == gathering:
			o.ready, o.err = f.rebuilder.Gather(bound, &view.Sale)
		case t == loading && fenced(&view.Sale):
			o.changed, o.err = f.rebuilder.Step(bound, &view.Sale)
		case t == loading:
			o.changed, o.err = f.rebuilder.Adopt(bound, &view.Sale)
		default:
			o.changed, o.err = f.step(bound, view, compare)
		}
		if o.changed && o.err == nil {
			_, o.err = f.board.Reload(bound, id)
		}
		cancel()
		if o.err == nil && t <= repeating && view.InStep() {
			o.verified = doubts
		}
		select {
		case f.done <- o:
		case <-ctx.Done():
		}
	})
}

// finished takes note of what became of a task.
func (f *follower) finished(ctx context.Context, o *outcome) {
	s := f.seen[o.sale]
	s.busy, s.ready = false, o.ready
	f.running[o.task]--
	s.verified = max(s.verified, o.verified)
	switch {
	case o.err == nil:
		if o.changed || o.task <= repeating { // to gather before each attempt to load ends no failing
			s.failed = 0
		}
		if o.ready && s.loads.due(time.Now()) {
			f.waiting[loading] = append(f.waiting[loading], o.sale)
		}
		if o.task == loading && !o.changed {
			s.rest = time.Now().Add(restLoading)
		}
		return
	case ctx.Err() != nil:
		return
	case s.failed == 0:
		f.log.Warn("cannot synchronise sale between ledger and store", "sale", o.sale, "error", o.err)
	}
	s.rest = time.Now().Add(min(restMin<<min(s.failed, 10), restMax))
	s.failed++
}

// step does what is short for a sale, and reports whether there was anything.
func (f *follower) step(ctx context.Context, view *admission.View, compare bool) (changed bool, err error) {
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
	late, err := f.rebuilder.Late(ctx, &view.Sale)
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
		if sale, ok := replayed.Saved[0].Sale(); ok {
			f.aside(sale)
		}
	}
	return replayed, err
}
