package settle_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// hungLedger never answers.
type hungLedger struct{ asked chan struct{} }

func (h *hungLedger) Release(ctx context.Context, _ sluice.SaleID, _ []port.Release) (port.Released, error) {
	select {
	case h.asked <- struct{}{}:
		<-ctx.Done()
	case <-ctx.Done(): // the test has ended meanwhile
	}
	return port.Released{}, ctx.Err()
}

// endings is a store in which an order is due at every look, and a release waits.
type endings struct{ expired atomic.Int64 }

func (e *endings) ExpireDue(
	context.Context, int, func(sluice.SaleID) bool, func(time.Time) time.Time,
) (map[sluice.SaleID]int, error) {
	e.expired.Add(1)
	return map[sluice.SaleID]int{"phones": 1}, nil
}

func (*endings) GiveReleases(_ context.Context, _ int, give func(sluice.SaleID, []port.Release) error) (int, error) {
	return 0, give("phones", []port.Release{{Order: "phones.1"}})
}

func (*endings) FenceSale(context.Context, sluice.SaleID, int64, string) error { return nil }

// Orders go on to expire while a ledger hangs, and what is asked of that ends.
func TestExpiryDoesNotWaitForALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store, ledger := &endings{}, &hungLedger{asked: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			settle.NewEnder(store, ledger, settle.EnderOptions{}).Run(ctx)
			close(done)
		}()
		begun := time.Now()
		<-ledger.asked
		before := store.expired.Load()
		time.Sleep(2 * time.Second)
		if n := store.expired.Load() - before; n < 7 {
			t.Errorf("%d looks for due orders in 2 s while the ledger hangs, want about 8", n)
		}
		<-ledger.asked // again: the first call has ended
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a hanging call was given up after %v", took)
		}
		cancel()
		<-done
	})
}

// dueStore is a store whose clock differs from the server's, with orders that are
// due at moments of the store's clock.
type dueStore struct {
	endings
	ahead atomic.Int64 // a time.Duration
	due   []time.Time
}

func (s *dueStore) now() time.Time { return time.Now().Round(0).Add(time.Duration(s.ahead.Load())) }

func (s *dueStore) ExpireDue(
	_ context.Context, _ int, _ func(sluice.SaleID) bool, until func(time.Time) time.Time,
) (map[sluice.SaleID]int, error) {
	limit, now := until(s.now()), s.now()
	if limit.After(now) {
		limit = now
	}
	before := len(s.due)
	s.due = slices.DeleteFunc(s.due, func(due time.Time) bool { return !due.After(limit) })
	return map[sluice.SaleID]int{"phones": before - len(s.due)}, nil
}

func (*dueStore) GiveReleases(context.Context, int, func(sluice.SaleID, []port.Release) error) (int, error) {
	return 0, nil
}

// Orders whose deadline passes only because the store's clock jumps ahead keep half
// of the time that they had left, at least; then expiry is in time again.
func TestExpiryAndTheStoresClock(t *testing.T) {
	const never = 1000 * time.Hour
	for name, test := range map[string]struct {
		ahead         time.Duration // the store's clock, at the start
		step          time.Duration // of the store's clock, after a minute
		back          time.Duration // another step, a minute later
		ledger        time.Duration // the ledger's clock is ahead by this; never: unknown
		first, last   time.Duration // orders due at a moment, by the store's clock at the start, then one per second
		want          time.Duration // when the first of them is ended ...
		wantLast      time.Duration // ... and the last one
		warns, agrees bool
	}{
		"clocks agree": {
			first: 5 * time.Minute, last: 6 * time.Minute, want: 5 * time.Minute,
			wantLast: 6 * time.Minute,
		},
		"a small jump": {
			step: 4 * time.Second, first: 5 * time.Minute, last: 6 * time.Minute,
			want: 5*time.Minute - 4*time.Second, wantLast: 6*time.Minute - 4*time.Second,
		},
		"an hour ahead": {
			step: time.Hour, first: 5 * time.Minute, last: 6 * time.Minute, want: 3 * time.Minute,
			wantLast: 3*time.Minute + 30*time.Second, warns: true,
		},
		"it has caught up": {
			step: time.Hour, first: 122 * time.Minute, last: 122 * time.Minute, want: 62 * time.Minute,
			wantLast: 62 * time.Minute, warns: true,
		},
		"ahead and back": {
			step: time.Hour, back: -time.Hour, first: 5 * time.Minute, last: 6 * time.Minute,
			want: 5 * time.Minute, wantLast: 6 * time.Minute, warns: true, agrees: true,
		},
		"an hour back": {
			step: -time.Hour, first: 5 * time.Minute, last: 5 * time.Minute, want: 65 * time.Minute,
			wantLast: 65 * time.Minute, warns: true,
		},
		"back and ahead": {
			step: -time.Hour, back: time.Hour, first: 5 * time.Minute, last: 6 * time.Minute,
			want: 33*time.Minute + 30*time.Second, wantLast: 34 * time.Minute, warns: true, agrees: true,
		},
		"ahead at the start": {
			ahead: time.Hour, first: -50 * time.Minute, last: -50 * time.Minute, want: 5 * time.Minute,
			wantLast: 5 * time.Minute, warns: true,
		},
		"as ahead as a ledger": {
			ahead: time.Hour, ledger: time.Hour, first: 5 * time.Minute, last: 5 * time.Minute,
			want: 5 * time.Minute, wantLast: 5 * time.Minute, warns: true,
		},
		"behind at the start": {
			ahead: -time.Hour, first: 5 * time.Minute, last: 5 * time.Minute, want: 5 * time.Minute,
			wantLast: 5 * time.Minute, warns: true,
		},
		"ledger not known": {
			ledger: never, step: time.Hour, first: 5 * time.Minute, last: 5 * time.Minute,
			want: 3 * time.Minute, wantLast: 3 * time.Minute, warns: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				store := &dueStore{}
				store.ahead.Store(int64(test.ahead))
				for due := test.first; due <= test.last; due += time.Second {
					store.due = append(store.due, store.now().Add(due))
				}
				orders := len(store.due)
				var log bytes.Buffer
				var seen settle.Clocks
				var first, last time.Duration
				ender := settle.NewEnder(store, &hungLedger{}, settle.EnderOptions{
					Log:    slog.New(slog.NewTextHandler(&log, nil)),
					Clocks: func(c settle.Clocks) { seen = c },
					LedgerTime: func() time.Time {
						if test.ledger == never {
							return time.Time{}
						}
						return time.Now().Add(test.ledger)
					},
					Ended: func(sale sluice.SaleID, n int) {
						if n == 0 {
							return
						}
						last = time.Since(begun)
						if first == 0 {
							first = last
						}
					},
				})
				done := make(chan struct{})
				go func() { ender.Run(ctx); close(done) }()
				time.Sleep(time.Minute)
				store.ahead.Add(int64(test.step))
				time.Sleep(time.Minute)
				synctest.Wait()
				if want := test.ahead + test.step; seen.Store != want || test.ledger != never && seen.Ledger != test.ledger {
					t.Errorf("the clocks differ by %+v, want %v for the store and %v for the ledger", seen, want, test.ledger)
				}
				store.ahead.Add(int64(test.back))
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if len(store.due) != 0 {
					t.Fatalf("%d of %d orders never ended", len(store.due), orders)
				}
				about := func(got, want time.Duration) bool { return (got - want).Abs() <= time.Second }
				if !about(first, test.want) || !about(last, test.wantLast) {
					t.Errorf("ended after %v to %v, want %v to %v", first, last, test.want, test.wantLast)
				}
				cancel()
				<-done
				if warns := strings.Count(log.String(), "disagree"); warns > 1 || (warns == 1) != test.warns {
					t.Errorf("%d warnings, wanted: %v\n%s", warns, test.warns, &log)
				}
				if agrees := strings.Contains(log.String(), "this server agree again"); agrees != test.agrees {
					t.Errorf("agree again: %v, want %v\n%s", agrees, test.agrees, &log)
				}
			})
		})
	}
}
