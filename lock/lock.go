// Package lock lets one process at a time do a job, on any number of machines:
//
//	locker := lock.Locker{Backend: backend, TTL: 10 * time.Second}
//	err := locker.Do(ctx, "close-the-books", func(ctx context.Context, fence int64) error {
//		return books.Close(ctx, fence)
//	})
//
// A Backend keeps the locks: lock/redislock on one Redis, [Redlock] on several that
// know nothing of each other, lock/storelock in the database of a store. A lock
// ends by itself, a ttl after it was last renewed, so that a holder that dies
// blocks no other. While the holder lives, a watchdog renews the lock three times
// per ttl; if that fails, it ends the holder's context before the ttl can end.
//
// # What a lock cannot do
//
// A process may be frozen between the moment it looks at its context and the
// moment it writes, for longer than the ttl; the next holder is at work then.
// No lock can prevent that. What the lock guards can: it remembers the highest
// fencing number that it has seen, and refuses lower ones. Each new holder of a
// name gets a higher number than all holders before it.
//
// Sluice itself never depends on a lock for being correct, and no claim ever
// waits for one: its locks keep two servers from doing the same work twice.
//
// Sources: "SET NX PX", owner-checked release and the Redlock algorithm are from
// the Redis documentation on distributed locks; fencing numbers, and why a lock
// needs them, are from Martin Kleppmann, "How to do distributed locking" (2016).
package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

var (
	// ErrHeld says that another owner holds the lock.
	ErrHeld = errors.New("another owner holds the lock")
	// ErrLost says that the holder can no longer be sure to be the only one: the
	// lock was not renewed in time, or another owner has it.
	ErrLost = errors.New("the lock is lost")
)

// Backend keeps locks. It is safe for concurrent use by any number of processes.
type Backend interface {
	// Lease with fence 0 takes the named lock for owner, for ttl from now by the
	// backend's clock, unless another owner holds it. It returns the lock's fencing
	// number: a new one, higher than all before it, or the same again if owner holds
	// the lock already. 0 means that another owner holds it.
	//
	// With a fence that an earlier call has returned it renews: the lock ends ttl
	// from now, and its number is at least fence from then on. It returns 0, and
	// changes nothing, if owner does not hold the lock any more.
	//
	// After an error it is unknown whether the lock is taken or renewed.
	Lease(ctx context.Context, name, owner string, fence int64, ttl time.Duration) (int64, error)

	// Unlease gives the lock back if owner holds it, and does nothing otherwise.
	Unlease(ctx context.Context, name, owner string) error
}

const defaultTTL = 10 * time.Second

// Locker takes locks from a backend. All who share a name use the same TTL.
type Locker struct {
	Backend Backend
	// TTL is how long others wait for a holder that has died; default 10 s.
	// It should be long beside the time that a call of the backend takes.
	TTL time.Duration
	// Owner, if it is set, is who holds the locks, instead of a new random name for
	// each. An owner gets what it holds already: a process that starts again under
	// its old name need not wait for the ttl. Such a process must not take one name
	// twice at a time.
	Owner string
	// Patient keeps the holder's context while the backend does not answer, and
	// ends it only when another owner has the lock: for work that is right without
	// its lock, and is merely done twice.
	Patient bool
}

// drift is what clocks may differ by over a ttl: as much as Redlock allows.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Try takes a lock, or returns ErrHeld at once. The lock's context ends with ctx.
func (l Locker) Try(ctx context.Context, name string) (*Lock, error) {
	l.TTL = cmp.Or(l.TTL, defaultTTL)
	l.Owner = cmp.Or(l.Owner, rand.Text())
	asked := time.Now()
	until := asked.Add(l.TTL - drift(l.TTL))
	call, done := context.WithDeadline(ctx, until)
	defer done()
	k := &Lock{locker: l, name: name, ended: make(chan struct{})}
	var err error
	k.fence, err = l.Backend.Lease(call, name, l.Owner, 0, l.TTL)
	if err == nil && !time.Now().Before(until) { // whatever the backend says: it may have ended since
		err = context.DeadlineExceeded
	}
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("take the lock %s: %w", name, err), k.giveBack(ctx))
	case k.fence == 0:
		return nil, fmt.Errorf("take the lock %s: %w", name, ErrHeld)
	}
	var cancel context.CancelCauseFunc
	k.ctx, cancel = context.WithCancelCause(ctx)
	k.end = func() { cancel(nil) }
	go k.watch(cancel, asked)
	return k, nil
}

// Lock takes a lock, and waits for it as long as ctx lets it. It asks about ten times
// per ttl; who of several gets it next is a matter of luck.
func (l Locker) Lock(ctx context.Context, name string) (*Lock, error) {
	for {
		k, err := l.Try(ctx, name)
		if !errors.Is(err, ErrHeld) {
			return k, err
		}
		step := cmp.Or(l.TTL, defaultTTL) / 10
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, context.Cause(ctx))
		case <-time.After(step/2 + mathrand.N(step)):
		}
	}
}

// Do takes a lock as Try does, runs work, and gives the lock back. It returns what
// work returns, and ErrLost besides if the lock did not hold until its end.
func (l Locker) Do(
	ctx context.Context, name string, work func(ctx context.Context, fence int64) error,
) (err error) {
	k, err := l.Try(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(k.Unlock(), err) }() // also when work panics
	return work(k.ctx, k.fence)
}

// Lock is a lock that is held, until its context ends.
type Lock struct {
	locker Locker
	name   string
	fence  int64
	ctx    context.Context // what the holder works under
	end    func()
	ended  chan struct{} // closed when the watchdog has ended
	once   sync.Once
	err    error
}

// Context ends when the lock does: context.Cause says ErrLost, or why it was ended.
func (k *Lock) Context() context.Context { return k.ctx }

// Fence is the lock's number: higher than that of each holder before.
func (k *Lock) Fence() int64 { return k.fence }

// Unlock ends the lock's context and gives the lock back. It returns ErrLost if the
// lock was lost before. Calling it again does nothing.
func (k *Lock) Unlock() error {
	k.once.Do(func() {
		if lost := context.Cause(k.ctx); errors.Is(lost, ErrLost) {
			k.err = fmt.Errorf("%s: %w", k.name, lost)
		}
		k.end()
		<-k.ended
		k.err = errors.Join(k.err, k.giveBack(k.ctx))
	})
	return k.err
}

// goodbye bounds giving a lock back: it ends by itself as well.
const goodbye = time.Second

func (k *Lock) giveBack(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer done()
	if err := k.locker.Backend.Unlease(ctx, k.name, k.locker.Owner); err != nil {
		return fmt.Errorf("give back the lock %s, which ends by itself: %w", k.name, err)
	}
	return nil
}

// watch is the watchdog. The lock counts from the moment before the backend was
// asked, so it ends here before it can end at the backend, whatever a call takes.
func (k *Lock) watch(cancel context.CancelCauseFunc, asked time.Time) {
	defer close(k.ended)
	ttl := k.locker.TTL
	until := func(asked time.Time) time.Duration { return time.Until(asked.Add(ttl - drift(ttl))) }
	expiry := time.AfterFunc(until(asked), func() {
		if !k.locker.Patient {
			cancel(ErrLost)
		}
	})
	defer expiry.Stop()
	wait := ttl / 3
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-time.After(wait):
		}
		now := time.Now()
		call, done := context.WithTimeout(k.ctx, ttl/3)
		fence, err := k.locker.Backend.Lease(call, k.name, k.locker.Owner, k.fence, ttl)
		done()
		switch {
		case err != nil:
			wait = ttl / 10
		case fence != k.fence:
			cancel(ErrLost)
			return
		default:
			expiry.Reset(until(now))
			wait = ttl/3 - min(time.Since(now), ttl/3)
		}
	}
}
