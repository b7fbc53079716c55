// Package referee lets a crowd of buyers rush a shop, breaks parts of the shop
// meanwhile, and judges what the shop made of it: whether it sold more than it
// had, refused what it had, lost what it promised, or served a buyer twice.
//
// It judges any shop: it knows only what buyers heard and which orders the shop
// lists in the end, and shares no rule and no line with Sluice's own audit. A
// System is the shop: one written in Go, or one that an adapter file describes
// (ReadAdapter).
//
// It accuses of nothing that a right shop could have done. An answer that did not
// arrive is neither a promise nor a refusal; orders count once the shop has had its
// time; units count as left only if buyers who come back are refused again.
package referee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// System is a shop that sells units of one thing, at most one to a buyer.
type System interface {
	// Start returns when the shop can be asked for things.
	Start(ctx context.Context) error
	// Reset begins a sale of so many units, open and without any order.
	Reset(ctx context.Context, units int) error
	// Buy asks for one unit. A buyer who repeats a request does it with the same
	// key. An error leaves open what became of the request, like Unknown.
	Buy(ctx context.Context, buyer, key string) (Answer, error)
	// Orders lists every order of the sale, each once.
	Orders(ctx context.Context) ([]Order, error)
	// Close ends all that Start has started, also after Start has failed.
	Close() error
}

// Kind is what an answer means to the buyer.
type Kind int

const (
	Unknown Kind = iota // it does not say what became of the request: the buyer repeats it
	Promise             // it says that a unit is the buyer's
	SoldOut             // it says that nothing is left
	Refused             // it says no, for another reason
)

var kindNames = []string{"unknown", "promise", "sold_out", "refused"}

func (k Kind) String() string { return kindNames[k] }

// Answer is what a buyer hears.
type Answer struct {
	Kind  Kind
	Order string // id that a promise names; may be empty
	Said  string // how the shop put it, for the tally; may be empty
}

// Order is what the shop has in the end: one unit for a buyer.
type Order struct {
	ID    string `json:"id"` // may be empty; equal to that of the promise otherwise
	Buyer string `json:"buyer"`
}

// Fault is a part of the shop that can break. Both functions return when it is
// done; Mend may be nil.
type Fault struct {
	Name        string
	Break, Mend func(context.Context) error
}

// Trial says how a shop is tried. An equal seed repeats the buyers, their order,
// their keys and habits, and the moments of the faults.
type Trial struct {
	Name          string // of the shop, for the report
	Buyers, Units int
	Seed          uint64
	Connections   int // buyers who are served at a time; default 64

	// Shares of the attempts, 0 to 1.
	Lost   float64 // whose first answer never reaches the buyer, who repeats the request
	Reload float64 // that are sent once more, with the same key, after they were answered
	Again  float64 // of buyers who make a second attempt, with a key of its own

	Timeout  time.Duration // of one request; default 10 s
	RetryFor time.Duration // how long a buyer without a decision repeats the request; default 60 s
	Settle   time.Duration // how long orders may stand still before what is missing is lost; default 60 s
	Quiet    time.Duration // how long they must stand still if nothing is missing; default 2 s

	// Each fault happens once, one after the other in a seeded order, each when a
	// seeded number of units has been promised, or else at the end of the rush.
	Faults []Fault
	Down   time.Duration // a part stays broken for a seeded time up to this

	Progress func(stage string, done, of int) // optional; called from one goroutine at a time
}

func (t *Trial) check() error {
	for _, d := range []struct {
		value  *time.Duration
		preset time.Duration
	}{
		{&t.Timeout, 10 * time.Second}, {&t.RetryFor, time.Minute}, {&t.Settle, time.Minute}, {&t.Quiet, 2 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.preset
		}
	}
	t.Connections = cmp.Or(t.Connections, 64)
	if t.Progress == nil {
		t.Progress = func(string, int, int) {}
	}
	for _, share := range []struct {
		name string
		is   float64
	}{{"lost", t.Lost}, {"reload", t.Reload}, {"again", t.Again}} {
		if !(share.is >= 0 && share.is <= 1) {
			return fmt.Errorf("%s: %v: want 0 to 1", share.name, share.is)
		}
	}
	for _, number := range []struct {
		name string
		is   int
	}{{"buyers", t.Buyers}, {"units", t.Units}, {"connections", t.Connections}} {
		if number.is < 1 || number.is > maxBuyers {
			return fmt.Errorf("%s: %d: want 1 to %d", number.name, number.is, maxBuyers)
		}
	}
	return nil
}

const maxBuyers = 10_000_000

// Judge tries a shop. An error means that it could not be judged.
func Judge(ctx context.Context, sys System, t Trial) (v *Verdict, err error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	defer func() {
		if failed := sys.Close(); failed != nil && v != nil {
			v.Notes = append(v.Notes, "the shop did not end well: "+failed.Error())
		}
	}()
	t.Progress("start", 0, 0)
	if err := sys.Start(ctx); err != nil {
		return nil, fmt.Errorf("the shop does not start: %w", err)
	}
	if err := sys.Reset(ctx, t.Units); err != nil {
		return nil, fmt.Errorf("no sale of %d units: %w", t.Units, err)
	}
	c := newCrowd(sys, t)
	early, _ := c.read(ctx) // a shop that cannot list yet may do so later
	begin := time.Now()
	happened, err := c.rushAndBreak(ctx)
	if err != nil {
		return nil, err
	}
	rushed, gaveUp := time.Now(), c.hopeless.Load()
	orders, err := c.settle(ctx)
	if err == nil {
		orders, err = c.comeBack(ctx, orders)
	}
	if err != nil {
		return nil, err
	}
	v = c.verdict(orders)
	if v.Promised+v.SoldOut == 0 {
		return nil, fmt.Errorf("not one buyer was promised a unit or refused one as sold out; the answers: %s",
			tallied(v.Answers))
	}
	if v.Clean() && v.Undecided > 0 && v.Orders < t.Units {
		return nil, fmt.Errorf("%d units are left, and %d buyers heard no decision; the answers: %s",
			t.Units-v.Orders, v.Undecided, tallied(v.Answers))
	}
	if gaveUp {
		v.Notes = append(v.Notes, fmt.Sprintf("the crowd ended early: no decision was heard for %s", c.t.RetryFor))
	}
	if len(early) > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d orders were there before the crowd came", len(early)))
	}
	v.Faults = happened
	v.Rush, v.Settled = rushed.Sub(begin).Seconds(), time.Since(rushed).Seconds()
	return v, nil
}

// Happened is a fault that was made.
type Happened struct {
	Fault string  `json:"fault"`
	After int     `json:"after"` // promises that buyers had heard
	Down  float64 `json:"down_s"`
}

// rushAndBreak returns when every attempt has ended and every part is mended.
func (c *crowd) rushAndBreak(ctx context.Context) ([]Happened, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, done := make(chan struct{}), make(chan struct{})
	var happened []Happened
	go func() {
		defer close(done)
		var err error
		if happened, err = c.breakParts(ctx, over); err != nil {
			cancel(err) // the crowd would wait for a part that stays broken
		}
	}()
	c.run(ctx, "rush", c.attempts)
	close(over)
	<-done
	return happened, context.Cause(ctx)
}

// breakParts makes the faults, each at its moment.
func (c *crowd) breakParts(ctx context.Context, over <-chan struct{}) ([]Happened, error) {
	r := c.random(2)
	faults := slices.Clone(c.t.Faults)
	r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	moments := make([]int, len(faults))
	for i := range moments {
		moments[i] = 1 + r.IntN(min(c.t.Units, c.t.Buyers))
	}
	slices.Sort(moments)
	var all []Happened
	heard := 0
	for i, fault := range faults {
		down := time.Duration(r.Int64N(int64(max(c.t.Down, 0)) + 1))
		for heard < moments[i] && c.hearsPromise(ctx, over) {
			heard++
		}
		if ctx.Err() != nil {
			return all, nil
		}
		all = append(all, Happened{Fault: fault.Name, After: heard, Down: down.Seconds()})
		if err := fault.Break(ctx); err != nil {
			return all, fmt.Errorf("break %s: %w", fault.Name, err)
		}
		sleep(ctx, down)
		if fault.Mend == nil {
			continue
		}
		if err := fault.Mend(ctx); err != nil {
			return all, fmt.Errorf("mend %s: %w", fault.Name, err)
		}
	}
	return all, nil
}

// hearsPromise waits for the next promise of the rush. False: there is none.
func (c *crowd) hearsPromise(ctx context.Context, over <-chan struct{}) bool {
	select {
	case <-c.promises:
		return true
	case <-ctx.Done():
		return false
	case <-over:
	}
	select { // all that will come is here
	case <-c.promises:
		return true
	default:
		return false
	}
}

// random returns the source for one purpose, so that what one purpose takes from
// it changes nothing for another.
func (c *crowd) random(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(c.t.Seed, purpose)) }

// sleep returns false if ctx ended before the time was over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errInterrupted = errors.New("interrupted")
