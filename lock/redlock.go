package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Redlock makes one Backend of several that are independent of each other, such as
// Redis servers that do not replicate to each other. A lock is held by who holds it
// at more than half of them, so it survives the loss of the others; with an odd
// number, three or five, most is gained.
//
// All backends are asked at once, and each may take a tenth of the ttl: that is what
// one that hangs costs. A lock that was not got by the majority is
// given back everywhere, also where the answer was an error. A Locker takes the time
// that the answers took off the ttl. Fencing numbers are the backends' highest,
// written back to a majority before the lock counts as taken: of any two majorities,
// one backend is in both.
//
// A backend that has lost its data may let in a second holder while a lock that it
// knew of lasts: keep Redis on disk with appendfsync always, or start a Redis that
// has lost its data a ttl later.
func Redlock(backends ...Backend) (Backend, error) {
	if len(backends) < 3 {
		return nil, fmt.Errorf("Redlock over %d backends: want three or more, so that one may fail", len(backends))
	}
	return redlock(backends), nil
}

type redlock []Backend

func (r redlock) Lease(ctx context.Context, name, owner string, fence int64, ttl time.Duration) (int64, error) {
	got, err := r.ask(ctx, name, owner, fence, ttl)
	taking := fence == 0
	if taking && got.majority {
		fence = got.highest
		if got.lowest < fence {
			got, err = r.ask(ctx, name, owner, fence, ttl)
		}
	}
	switch {
	case got.majority:
		return fence, nil
	case got.refused:
		err = nil
	}
	if taking {
		_ = r.Unlease(ctx, name, owner) // where it fails, the lock ends by itself
	}
	return 0, err
}

// answers of the backends.
type answers struct {
	majority        bool // more than half have given the lock
	refused         bool // another holds it, or, of a renewal, it is lost
	lowest, highest int64
}

func (r redlock) ask(ctx context.Context, name, owner string, fence int64, ttl time.Duration) (a answers, err error) {
	var mu sync.Mutex
	yes, no := 0, 0
	err = r.each(ctx, ttl/10, func(ctx context.Context, k Backend) error {
		got, err := k.Lease(ctx, name, owner, fence, ttl)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			return err
		case got == 0:
			no++
		default:
			if yes++; yes == 1 {
				a.lowest = got
			}
			a.lowest, a.highest = min(a.lowest, got), max(a.highest, got)
		}
		return nil
	})
	a.majority, a.refused = yes > len(r)/2, no >= len(r)-len(r)/2
	if fence == 0 && no > 0 && yes+no > len(r)/2 { // those that are down keep no one from trying again
		a.refused = true
	}
	return a, err
}

// Unlease waits a second at most for a backend that does not answer. A lock that a
// majority has back is free, even if the others have not heard of it.
func (r redlock) Unlease(ctx context.Context, name, owner string) error {
	var back atomic.Int64
	err := r.each(context.WithoutCancel(ctx), goodbye, func(ctx context.Context, k Backend) error {
		err := k.Unlease(ctx, name, owner)
		if err == nil {
			back.Add(1)
		}
		return err
	})
	if int(back.Load()) > len(r)/2 {
		return nil
	}
	return err
}

// each calls every backend at once, and joins what goes wrong.
func (r redlock) each(ctx context.Context, wait time.Duration, call func(context.Context, Backend) error) error {
	ctx, done := context.WithTimeout(ctx, wait)
	defer done()
	errs := make([]error, len(r))
	var calls sync.WaitGroup
	for i, k := range r {
		calls.Go(func() {
			if err := call(ctx, k); err != nil {
				errs[i] = fmt.Errorf("backend %d of %d: %w", i+1, len(r), err)
			}
		})
	}
	calls.Wait()
	return errors.Join(errs...)
}
