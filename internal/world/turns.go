package world

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing/synctest"
	"time"
)

// turns lets the goroutines of a world go on one at a time, from one request or call of a port to the
// next: all of them run until each waits for its turn, for another goroutine or for a time, and
// then the seed picks whose turn it is. It picks by the moment and by who waits, not by what it
// picked before: where a story is told a little differently, the rest of it stays the same.
type turns struct {
	seed   uint64
	arrive chan *turn
	over   chan struct{}
	taken  int

	now   int64             // the moment of the last turn
	often map[uint64]uint64 // how many turns each had at that moment
}

// turn is a goroutine that waits.
type turn struct {
	who  uint64 // from which server, to do what, where in the program
	next chan struct{}
}

func newTurns(seed uint64) *turns {
	return &turns{seed: seed, arrive: make(chan *turn, 1<<10), over: make(chan struct{}), often: map[uint64]uint64{}}
}

// wait returns when it is this goroutine's turn.
func (t *turns) wait(server int, what string) {
	own := &turn{who(server, what), make(chan struct{})}
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

// who tells those that wait apart, in every run of a program in the same way.
func who(server int, what string) uint64 {
	var callers [32]uintptr
	places := callers[:runtime.Callers(2, callers[:])]
	told := binary.LittleEndian.AppendUint64([]byte(what), uint64(server))
	for _, place := range places {
		told = binary.LittleEndian.AppendUint64(told, uint64(place))
	}
	h := fnv.New64a()
	_, _ = h.Write(told)
	return h.Sum64()
}

// run gives turns until the world is over.
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
		next := t.pick(waiting)
		close(next.next)
		waiting = slices.DeleteFunc(waiting, func(one *turn) bool { return one == next })
	}
}

// pick returns who is next of those that wait.
func (t *turns) pick(waiting []*turn) *turn {
	if now := time.Now().UnixNano(); now != t.now {
		t.now = now
		clear(t.often)
	}
	rank := func(one *turn) uint64 {
		return rand.NewPCG(t.seed^one.who, uint64(t.now)+t.often[one.who]).Uint64()
	}
	next := slices.MinFunc(waiting, func(a, b *turn) int { return cmp.Compare(rank(a), rank(b)) })
	t.often[next.who]++
	t.taken++
	return next
}
