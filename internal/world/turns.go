package world

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing/synctest"
)

// turns lets the goroutines of a world go on one at a time, from one call of a port to the
// next: all of them run until each waits for a call, for another goroutine or for a time, and
// then the seed picks whose call is next. Between two calls the runtime decides: which of the buyers who come
// at one instant a server queues first, for instance.
type turns struct {
	arrive chan *turn
	over   chan struct{}
	random *rand.Rand
	taken  int
}

// turn is a call that waits.
type turn struct {
	server int
	what   string
	next   chan struct{}
}

func newTurns(random *rand.Rand) *turns {
	return &turns{arrive: make(chan *turn, 1<<10), over: make(chan struct{}), random: random}
}

// wait returns when it is this call's turn.
func (t *turns) wait(server int, what string) {
	own := &turn{server, what, make(chan struct{})}
	select {
	case t.arrive <- own:
	case <-t.over:
		return
	}
	select {
	case <-own.next:
	case <-t.over:
	}
}

// run picks calls until the world is over.
func (t *turns) run() {
	var waiting []*turn
	for {
		if len(waiting) == 0 {
			select {
			case first := <-t.arrive:
				waiting = append(waiting, first)
			case <-t.over:
				return
			}
		}
		synctest.Wait()
		for arrived := true; arrived; {
			select {
			case more := <-t.arrive:
				waiting = append(waiting, more)
			default:
				arrived = false
			}
		}
		// Goroutines that a moment wakes come here in any order.
		slices.SortStableFunc(waiting, func(a, b *turn) int {
			return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.what, b.what))
		})
		n := t.random.IntN(len(waiting))
		close(waiting[n].next)
		waiting = slices.Delete(waiting, n, n+1)
		t.taken++
	}
}
