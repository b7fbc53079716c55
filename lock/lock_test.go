package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/lock"
)

// fake is a backend on the test's clock, which takes some time to answer.
type fake struct {
	mu       sync.Mutex
	takes    time.Duration
	down     bool
	deaf     bool // to the end of a caller's context
	owner    string
	fence    int64
	until    time.Time
	released int
}

func (f *fake) Lease(ctx context.Context, _, owner string, fence int64, ttl time.Duration) (int64, error) {
	got, wait := f.lease(owner, fence, ttl)
	if f.deaf {
		time.Sleep(wait)
		return got, nil
	}
	select {
	case <-time.After(wait):
		return got, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// lease decides at once: it is the answer that takes so long.
func (f *fake) lease(owner string, fence int64, ttl time.Duration) (got int64, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch held := now.Before(f.until); {
	case f.down:
		return 0, time.Hour
	case held && f.owner != owner, fence > 0 && (!held || f.owner != owner):
		return 0, f.takes
	case held:
		f.fence = max(f.fence, fence)
	default:
		f.fence++
	}
	f.owner, f.until = owner, now.Add(ttl)
	return f.fence, f.takes
}

func (f *fake) Unlease(_ context.Context, _, owner string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.released++; f.owner == owner {
		f.until = time.Time{}
	}
	return nil
}

const ttl = 10 * time.Second

// The context of a holder whose backend does not answer ends before its lock does,
// by the margin for clocks that differ; a patient one ends when another has it.
func TestTheContextEndsFirst(t *testing.T) {
	for _, patient := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{takes: time.Second}
			held := must.Get(lock.Locker{Backend: f, TTL: ttl, Patient: patient}.Try(t.Context(), "x"))(t)
			until := f.until
			f.mu.Lock()
			f.down = true
			f.mu.Unlock()
			time.Sleep(time.Until(until) - 100*time.Millisecond)
			synctest.Wait()
			if ended := held.Context().Err() != nil; ended == patient {
				t.Errorf("patient %v: a moment before the lock ends the context has ended: %v", patient, ended)
			}
			f.mu.Lock()
			f.down, f.owner, f.until = false, "b", time.Now().Add(time.Hour)
			f.mu.Unlock()
			time.Sleep(ttl)
			synctest.Wait()
			if err := held.Unlock(); !errors.Is(err, lock.ErrLost) || f.owner != "b" || f.until.IsZero() {
				t.Errorf("unlock: %v; the lock is %q's", err, f.owner)
			}
		})
	}
}

// A lock whose answer took so long that it may have ended is not held.
func TestALateAnswerIsNoLock(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{takes: ttl - 50*time.Millisecond, deaf: deaf}
			if _, err := (lock.Locker{Backend: f, TTL: ttl}).Try(t.Context(), "x"); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("an answer after %v of %v: %v, want an error", f.takes, ttl, err)
			}
			if f.released != 1 {
				t.Errorf("given back %d times, want once", f.released)
			}
		})
	}
}

// Redlock counts the time that asking took, and gives back everywhere.
func TestRedlockCountsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const short = 20 * time.Millisecond // a tenth of it is below the margin for drift
		slow := []*fake{{}, {}, {takes: short}}
		k := must.Get(lock.Redlock(slow[0], slow[1], slow[2]))(t)
		if fence, err := k.Lease(t.Context(), "x", "a", 0, ttl); err != nil || fence != 1 {
			t.Errorf("one slow backend of three: %d, %v", fence, err)
		}
		must.Succeed(t, k.Unlease(t.Context(), "x", "a"))
		slow[1].takes = 2 * time.Second // more than a tenth of the ttl
		slow[2].takes = 2 * time.Second
		if fence, err := k.Lease(t.Context(), "x", "a", 0, ttl); err == nil || fence != 0 {
			t.Errorf("two slow backends of three: %d, %v, want an error", fence, err)
		}
		for i, f := range slow {
			if f.released != 2 {
				t.Errorf("backend %d: given back %d times, want twice", i, f.released)
			}
		}
	})
}

// Of any two majorities the later one has the higher number, whichever backends are
// in them.
func TestRedlockFencesRise(t *testing.T) {
	fakes := []*fake{{fence: 100}, {fence: 1}, {fence: 50}}
	k := must.Get(lock.Redlock(fakes[0], fakes[1], fakes[2]))(t)
	var last int64
	for round := range 9 {
		away := fakes[round%3]
		owner := away.owner
		away.owner, away.until = "away", time.Now().Add(time.Hour) // refuses
		fence, err := k.Lease(t.Context(), "x", "a", 0, ttl)
		if err != nil || fence <= last {
			t.Errorf("round %d: number %d after %d, %v", round, fence, last, err)
		}
		last = fence
		must.Succeed(t, k.Unlease(t.Context(), "x", "a"))
		away.owner, away.until = owner, time.Time{}
	}
	if _, err := lock.Redlock(fakes[0], fakes[1]); err == nil {
		t.Error("Redlock over two backends")
	}
}

// Do runs the work under the lock, once, and returns its error.
func TestDo(t *testing.T) {
	f := &fake{}
	locker := lock.Locker{Backend: f, TTL: ttl}
	wrong := errors.New("wrong")
	err := locker.Do(t.Context(), "x", func(ctx context.Context, fence int64) error {
		if err := locker.Do(ctx, "x", nil); !errors.Is(err, lock.ErrHeld) || fence != 1 {
			t.Errorf("inside, fence %d: %v, want ErrHeld", fence, err)
		}
		return wrong
	})
	if !errors.Is(err, wrong) || f.released != 1 || !f.until.IsZero() {
		t.Errorf("%v, given back %d times", err, f.released)
	}
	waiting, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	must.Get(locker.Try(t.Context(), "x"))(t)
	if _, err := locker.Lock(waiting, "x"); !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for a lock that is held: %v", err)
	}
}

// What the backend does not answer keeps a caller little longer than its context.
func TestAHungBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := lock.Locker{Backend: hung{}, TTL: ttl}.Lock(ctx, "x")
		if took := time.Since(begun); err == nil || took > 2*time.Second {
			t.Errorf("a context of a second: Lock returns after %v, %v", took, err)
		}
	})
}

type hung struct{}

func (hung) Lease(ctx context.Context, _, _ string, _ int64, _ time.Duration) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hung) Unlease(ctx context.Context, _, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// Work that panics leaves no lock behind.
func TestWorkThatPanics(t *testing.T) {
	f := &fake{}
	locker := lock.Locker{Backend: f, TTL: ttl}
	func() {
		defer func() { _ = recover() }()
		_ = locker.Do(t.Context(), "x", func(context.Context, int64) error { panic("x") })
	}()
	held := must.Get(locker.Try(t.Context(), "x"))(t)
	_ = held.Unlock()
}

// With one backend down, two who want a lock at the same moment may have one backend
// each. Neither has it, and who waits for it goes on to wait.
func TestASplitVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loser := &fake{owner: "b", fence: 3, until: time.Now().Add(time.Second)}
		k := must.Get(lock.Redlock(&fake{down: true}, &fake{}, loser))(t)
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		held := must.Get(lock.Locker{Backend: k, TTL: ttl}.Lock(ctx, "x"))(t)
		_ = held.Unlock()
	})
}
