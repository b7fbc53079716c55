package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// errInjected is what a call that was made to fail returns, wrapped.
var errInjected = errors.New("injected fault")

// fault is what happens to one call of a ledger. The zero fault is none.
type fault struct {
	Delay  time.Duration   // before the step
	Wait   <-chan struct{} // before the step, until it is closed or ctx ends
	Before bool            // an error instead of the step: nothing has happened
	After  bool            // an error instead of the reply: the step has happened
	// Crash: from now on (with Before or After: from after this call on) every
	// call is an error, until restart.
	Crash bool
}

// ledgerCall is one call of a ledger: the n-th, from 1, of the method of this name
// ("Claim", "ReadJournal", ...).
type ledgerCall struct {
	Method string
	N      int
}

// plan decides what happens to each call. It is called by one goroutine at a
// time. A nil plan injects nothing.
type plan func(call ledgerCall) fault

// nth returns a plan for the n-th call of one method, from 1.
func nth(method string, n int, f fault) plan {
	return func(call ledgerCall) fault {
		if call.Method == method && call.N == n {
			return f
		}
		return fault{}
	}
}

// every returns a plan for every call of one method.
func every(method string, f fault) plan {
	return func(call ledgerCall) fault {
		if call.Method == method {
			return f
		}
		return fault{}
	}
}

// shaky returns a plan that makes about this share of all calls fail, half of
// them before the step and half after it, the same for equal seeds.
func shaky(seed uint64, share float64) plan {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(ledgerCall) fault {
		if random.Float64() >= share {
			return fault{}
		}
		before := random.IntN(2) == 0
		return fault{Before: before, After: !before}
	}
}

// faultyLedger is a ledger around a real one to which faults happen.
type faultyLedger struct {
	ledger port.Ledger

	mu    sync.Mutex
	plan  plan
	calls map[string]int
	down  bool
}

var _ port.Ledger = (*faultyLedger)(nil)

// newFaulty wraps a ledger. Close closes the real one, whatever the plan.
func newFaulty(ledger port.Ledger, plan plan) *faultyLedger {
	return &faultyLedger{ledger: ledger, plan: plan, calls: map[string]int{}}
}

// setPlan changes what happens to the calls to come.
func (f *faultyLedger) setPlan(plan plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// restart ends a crash; ledger, if not nil, is the real one from now on.
func (f *faultyLedger) restart(ledger port.Ledger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
	if ledger != nil {
		f.ledger = ledger
	}
}

// countOf returns how often a method was called.
func (f *faultyLedger) countOf(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// call does the step, with what is planned for it.
func (f *faultyLedger) call(ctx context.Context, method string, step func(l port.Ledger) error) error {
	ledger, fault, err := f.next(method)
	if err != nil {
		return err
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fault.Before {
		return fmt.Errorf("%s, nothing happened: %w", method, errInjected)
	}
	if err := step(ledger); err != nil || !fault.After {
		return err
	}
	return fmt.Errorf("%s, the reply is lost: %w", method, errInjected)
}

func (f *faultyLedger) next(method string) (port.Ledger, fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	if f.down {
		return nil, fault{}, fmt.Errorf("%s, the ledger is down: %w", method, errInjected)
	}
	var injected fault
	if f.plan != nil {
		injected = f.plan(ledgerCall{method, f.calls[method]})
	}
	if injected.Crash {
		f.down = true
		if !injected.Before && !injected.After {
			return nil, fault{}, fmt.Errorf("%s, the ledger is down: %w", method, errInjected)
		}
	}
	return f.ledger, injected, nil
}

// Claim implements port.Decider.
func (f *faultyLedger) Claim(ctx context.Context, sale sluice.SaleID,
	claims []sluice.Claim,
) (decisions []sluice.Decision, err error) {
	err = f.call(ctx, "Claim", func(l port.Ledger) (err error) {
		decisions, err = l.Claim(ctx, sale, claims)
		return err
	})
	if err != nil {
		return nil, err
	}
	return decisions, nil
}

// Read implements port.Reader.
func (f *faultyLedger) Read(ctx context.Context, sales []sluice.SaleID) (readings []port.Reading, err error) {
	err = f.call(ctx, "Read", func(l port.Ledger) (err error) {
		readings, err = l.Read(ctx, sales)
		return err
	})
	if errors.Is(err, errInjected) {
		return nil, err
	}
	return readings, err // of those that could be read
}

// Records implements port.Reader.
func (f *faultyLedger) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	return f.call(ctx, "Records", func(l port.Ledger) error { return l.Records(ctx, sale, yield) })
}

// Holders implements port.Reader.
func (f *faultyLedger) Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	return f.call(ctx, "Holders", func(l port.Ledger) error { return l.Holders(ctx, sale, yield) })
}

// Find implements port.Reader.
func (f *faultyLedger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (record port.Record,
	err error,
) {
	err = f.call(ctx, "Find", func(l port.Ledger) (err error) {
		record, err = l.Find(ctx, order, buyer)
		return err
	})
	if err != nil {
		return port.Record{}, err
	}
	return record, nil
}

// Recall implements port.Reader.
func (f *faultyLedger) Recall(ctx context.Context, claim sluice.ClaimID) (record port.Record, err error) {
	err = f.call(ctx, "Recall", func(l port.Ledger) (err error) {
		record, err = l.Recall(ctx, claim)
		return err
	})
	if err != nil {
		return port.Record{}, err
	}
	return record, nil
}

// Load implements port.Keeper.
func (f *faultyLedger) Load(ctx context.Context, image port.LoadImage) error {
	return f.call(ctx, "Load", func(l port.Ledger) error { return l.Load(ctx, image) })
}

// Apply implements port.Keeper.
func (f *faultyLedger) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	return f.call(ctx, "Apply", func(l port.Ledger) error { return l.Apply(ctx, sale, epoch, terms) })
}

// Fence implements port.Keeper.
func (f *faultyLedger) Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error {
	return f.call(ctx, "Fence", func(l port.Ledger) error { return l.Fence(ctx, sale, epoch, reason) })
}

// Unfence implements port.Keeper.
func (f *faultyLedger) Unfence(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	return f.call(ctx, "Unfence", func(l port.Ledger) error { return l.Unfence(ctx, sale, epoch) })
}

// ReadJournal implements port.Journal.
func (f *faultyLedger) ReadJournal(ctx context.Context, read port.JournalRead) (entries []port.Entry, err error) {
	err = f.call(ctx, "ReadJournal", func(l port.Ledger) (err error) {
		entries, err = l.ReadJournal(ctx, read)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Ack implements port.Journal.
func (f *faultyLedger) Ack(ctx context.Context, sale sluice.SaleID, ids []string) error {
	return f.call(ctx, "Ack", func(l port.Ledger) error { return l.Ack(ctx, sale, ids) })
}

// PeekJournal implements port.Journal.
func (f *faultyLedger) PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error {
	return f.call(ctx, "PeekJournal", func(l port.Ledger) error { return l.PeekJournal(ctx, sale, yield) })
}

// Release implements port.Releaser.
func (f *faultyLedger) Release(ctx context.Context, sale sluice.SaleID,
	releases []port.Release,
) (released port.Released, err error) {
	err = f.call(ctx, "Release", func(l port.Ledger) (err error) {
		released, err = l.Release(ctx, sale, releases)
		return err
	})
	if err != nil {
		return port.Released{}, err
	}
	return released, nil
}

// Drop implements port.Keeper.
func (f *faultyLedger) Drop(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	return f.call(ctx, "Drop", func(l port.Ledger) error { return l.Drop(ctx, sale, epoch) })
}

// Allow implements port.RateLimiter.
func (f *faultyLedger) Allow(ctx context.Context, sale sluice.SaleID, rates port.Rates,
	tries []port.Try,
) (waits []port.Wait, err error) {
	err = f.call(ctx, "Allow", func(l port.Ledger) (err error) {
		waits, err = l.Allow(ctx, sale, rates, tries)
		return err
	})
	return waits, err
}

// Close implements port.Ledger.
func (f *faultyLedger) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ledger.Close()
}
