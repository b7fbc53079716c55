package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// poolTurns bounds how many connections of the pool sales can hold. A sale has one turn at a time, and all
// together leave connections to readers. One sale at a time has a second turn as well, with
// a connection of its own, so that its next batch is on its way to the database while the
// one before is written. So a sale whose row is locked takes no more of the others' turns
// than one. Sales that made the last call wait in vain share one turn.
type poolTurns struct {
	first, second, slow chan struct{}
	mu                  sync.Mutex
	sales               map[sluice.SaleID]*turns
}

// turns are the turns of one sale.
type turns struct {
	first chan struct{} // taken by sending
	calls int           // that have a turn, or wait for one
	hung  bool          // the last call waited in vain
}

// firstTurns is how many sales have a turn at a time.
const firstTurns = 6

func newPoolTurns() poolTurns {
	return poolTurns{
		first: make(chan struct{}, firstTurns), second: make(chan struct{}, 1), slow: make(chan struct{}, 1),
		sales: map[sluice.SaleID]*turns{},
	}
}

// errNoTurn: nothing was asked.
var errNoTurn = fmt.Errorf("%w: too many calls wait for the database", sluice.ErrNoAnswer)

// take waits for a turn of the sale; done ends it.
func (s *poolTurns) take(ctx context.Context, sale sluice.SaleID) (done func(err *error), err error) {
	t, hung := s.enter(sale)
	var had []chan struct{}
	leave := func() {
		for _, turn := range had {
			<-turn
		}
		s.leave(sale, t)
	}
	wait := func(either, or chan struct{}) bool { // for neither of them that is nil
		select {
		case either <- struct{}{}:
			had = append(had, either)
		case or <- struct{}{}:
			had = append(had, or)
		case <-ctx.Done():
			return false
		}
		return true
	}
	second := s.second
	if hung || len(t.first) == 0 { // the sale's own is better, where it is free
		second = nil
	}
	ok := wait(t.first, second)
	if ok && had[0] == t.first {
		ok = (!hung || wait(s.slow, nil)) && wait(s.first, nil)
	}
	if !ok {
		leave()
		return nil, errNoTurn
	}
	begun := time.Now()
	return func(err *error) {
		s.mu.Lock()
		t.hung = *err != nil && time.Since(begun) >= isSlow
		s.mu.Unlock()
		leave()
	}, nil
}

func (s *poolTurns) enter(sale sluice.SaleID) (t *turns, hung bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.sales[sale]
	if t == nil {
		t = &turns{first: make(chan struct{}, 1)}
		s.sales[sale] = t
	}
	t.calls++
	return t, t.hung
}

func (s *poolTurns) leave(sale sluice.SaleID, t *turns) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.calls--; t.calls == 0 && !t.hung {
		delete(s.sales, sale)
	}
}

// isSlow is how long a failure must take for its sale to have hung.
const isSlow = 500 * time.Millisecond
