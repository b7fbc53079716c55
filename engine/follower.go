package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// follower keeps ledger and store in step, for every sale on the board: it
// finishes loads, passes on terms, fences what is lost, rebuilds what is
// fenced, and archives what is settled. One loop, per server, sees what is to
// be done; each sale's work has a goroutine and a deadline of its own, so that
// one that is slow, or has much to load, keeps no other waiting.
type follower struct {
	node      string
	peers     *peers
	store     port.Store
	board     *admission.Board
	loader    *settle.Loader
	rebuilder *settle.Rebuilder
	replayer  *settle.Replayer
	archiver  *settle.Archiver
	stores    func(sluice.SaleID) // wakes the pipeline
	log       *slog.Logger

	bell loop.Bell
	done chan outcome

	ledger port.Ledger
	named  string       // its name, of the heartbeats
	made   atomic.Bool  // this process gave it the name
	unsent atomic.Int64 // since when no heartbeat was missed, in Unix nanoseconds; 0: none was due yet (mayTake)
	missed atomic.Int64 // until when the store was known to take none, or late; 0: never
	beats  atomic.Int64 // since when one is under way; 0: none is

	// Owned by the loop; no lock needed.
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
	// outdated are sales that wait for a person to recover them.
	outdated map[sluice.SaleID]struct{}
}

// followed is what the loop remembers of a sale.
type followed struct {
	created       time.Time // when the sale was: its id may have been another's before
	epoch, loaded int64     // of the row, when last seen
	ledger        string    // which decides
	version       int64     // of its terms
	since         time.Time // since when epoch and loaded have been so

	reading, seq     int64 // epoch and sequence of the ledger, when last seen in step
	doubts, verified int   // readings that began an epoch or went backwards, and those of them that have been compared

	outdated bool // it waits for a person to recover it
	sells    bool // if its ledger decides: it comes before those that would not
	busy     bool
	ready    bool      // all servers have gathered, of this epoch
	failed   int       // steps in a row
	rest     time.Time // until when it is left alone
	loads    reloads
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
// long. A sale that fails may do so by hanging, so it delays no other. Long
// tasks run few at a time, so that they cannot exhaust the database's connections.
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
	f.outdated = map[sluice.SaleID]struct{}{}
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
	var others [tasks][]sluice.SaleID // behind those that sell: all may be fenced at once
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
				delete(f.outdated, id)
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
				if s.sells = view.Sale.Terms.Refusal(now) == 0; s.sells {
					f.waiting[t] = append(f.waiting[t], id)
				} else {
					others[t] = append(others[t], id)
				}
			}
		}
	}
	for t := range tasks {
		f.waiting[t] = append(f.waiting[t], others[t]...)
	}
}

// note notes what the board says of a sale now.
func (f *follower) note(id sluice.SaleID, view *admission.View, now time.Time) *followed {
	s := f.seen[id]
	if s == nil {
		s = &followed{since: now}
		f.seen[id] = s
	}
	row := &view.Sale
	if row.CreatedAt.After(s.created) {
		s.epoch, s.loaded, s.version, s.reading, s.seq = 0, 0, 0, 0, 0
	}
	wentBack := row.CreatedAt.Before(s.created) || row.Epoch < s.epoch || row.LoadedEpoch < s.loaded ||
		row.Version < s.version
	if wentBack {
		f.log.Warn("the store has an older state of a sale than it had: it was restored while this server runs",
			"sale", id, "epoch", row.Epoch, "was", s.epoch, "version", row.Version, "version_was", s.version)
		f.mu.Lock()
		f.storing[id] = false // as at a start
		f.mu.Unlock()
		s.doubts++
	}
	f.waits(s, row)
	s.created, s.version = row.CreatedAt, row.Version
	if row.Ledger != s.ledger {
		s.ledger, s.ready = row.Ledger, false
		if f.loader.Foreign(row) {
			f.log.Warn("another ledger decides about a sale; this server answers unavailable", "sale", id, "ledger", row.Ledger)
		}
	}
	if row.Epoch != s.epoch || row.LoadedEpoch != s.loaded {
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

// waits notes whether a sale waits for a person to recover it. Until then its journal is not
// stored either: endings that the store has forgotten come first.
func (f *follower) waits(s *followed, row *sluice.Sale) {
	outdated := settle.Outdated(row)
	if outdated == s.outdated {
		return
	}
	s.outdated = outdated
	f.mu.Lock()
	defer f.mu.Unlock()
	if !outdated {
		delete(f.outdated, row.ID)
		return
	}
	f.outdated[row.ID], f.storing[row.ID] = struct{}{}, false
	f.log.Error("the store is older than the ledger of a sale, as after a restore; the sale waits for a person: "+
		"sluice recover --sale ID", "sale", row.ID, "why", row.Fence)
}

// outdatedSales returns the sales that wait for a person.
func (f *follower) outdatedSales() []sluice.SaleID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.outdated))
}

// due says what is to be done for a sale, if anything is.
func (f *follower) due(s *followed, view *admission.View, now time.Time) (task, bool) {
	short := stepping
	if s.failed > 0 {
		short = repeating
	}
	row, reading := &view.Sale, &view.Reading
	switch {
	case f.unsure(row):
		return short, false
	case settle.Outdated(row) && !f.loader.Foreign(row):
		return short, reading.Loaded && reading.Fence == ""
	case waitsForRebuild(row) && !s.ready:
		return gathering, true
	case f.loader.Foreign(row):
		return short, reading.Loaded && (reading.Fence == "" || !f.mayStore(row.ID)) || f.mayTake(row)
	case waitsForRebuild(row) || s.abandoned(row, now):
		return loading, true
	}
	changed := !reading.Terms.Same(&row.Terms) || row.Cap != row.Total
	return short, !view.InStep() || changed || s.doubts != s.verified || f.archiver.Due(row, reading) ||
		f.letter(row.ID, now) || f.rebuilder.Remembers(row)
}

// waitsForRebuild reports whether a sale waits for its rebuild.
func waitsForRebuild(sale *sluice.Sale) bool {
	return sale.Fence != "" && sale.LoadedEpoch == sale.Epoch && !settle.Outdated(sale)
}

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
		case t == loading && waitsForRebuild(&view.Sale):
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

// finished records a task's outcome and schedules its retry.
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
			at := len(f.waiting[loading])
			if s.sells {
				at = 0
			}
			f.waiting[loading] = slices.Insert(f.waiting[loading], at, o.sale)
		}
		if o.task == loading && !o.changed {
			s.rest = time.Now().Add(restLoading)
		}
		return
	case ctx.Err() != nil:
		return
	case errors.Is(o.err, sluice.ErrSaleNotFound): // deleted: the board forgets it soon
		s.rest = time.Now().Add(restLoading)
		return
	case s.failed == 0:
		f.log.Warn("cannot synchronise sale between ledger and store", "sale", o.sale, "error", o.err)
	}
	s.rest = time.Now().Add(min(restMin<<min(s.failed, 10), restMax))
	s.failed++
}

// reloads are the loads of one sale that were seen, of all servers. If a sale is
// lost again as soon as it is loaded, the first repetition does not wait, and each
// later one longer, up to restMax: servers must not do nothing else. A load that
// failed is none: it is repeated at once.
type reloads struct {
	vain  int       // loads in a row that did not hold
	last  time.Time // when the last one was seen
	until time.Time // when the next one is due
}

// reloadHeld is how long a load lasts that has held.
const reloadHeld = 2 * restMax

// note notes a load.
func (r *reloads) note(now time.Time) {
	if now.Sub(r.last) > reloadHeld {
		r.vain = 0
	} else {
		r.vain++
		r.until = now.Add(min(restMin<<min(r.vain, 10), restMax))
	}
	r.last = now
}

// due reports whether the sale may be loaded now.
func (r *reloads) due(now time.Time) bool { return !now.Before(r.until) }
