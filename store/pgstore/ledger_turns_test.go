package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/pgstore"
)

// taking is a call that has a turn, or waits for one.
type taking struct {
	done func(err *error)
	err  error
}

func take(t *testing.T, turns *pgstore.Turns, sale sluice.SaleID) *taking {
	t.Helper()
	c := &taking{}
	go func() { c.done, c.err = turns.Take(t.Context(), sale) }()
	synctest.Wait()
	return c
}

func (c *taking) has() bool { return c.done != nil }

func (c *taking) end(err error) {
	c.done(&err)
	synctest.Wait()
}

// Sales whose rows are locked, and on which claims gather, hold one turn each and one more
// in all: the others have the rest.
func TestLockedSalesHoldOneTurnEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := pgstore.NewTurns()
		var have, wait []*taking
		for i := range pgstore.FirstTurns - 1 {
			for range 3 {
				c := take(t, turns, sluice.SaleID(fmt.Sprint("locked-", i)))
				if c.has() {
					have = append(have, c)
				} else {
					wait = append(wait, c)
				}
			}
		}
		if len(have) != pgstore.FirstTurns {
			t.Errorf("%d turns are held, want %d: one of each sale, and a second one", len(have), pgstore.FirstTurns)
		}
		well := take(t, turns, "well")
		if !well.has() {
			t.Fatal("no turn is left for another sale")
		}
		if take(t, turns, "one more").has() {
			t.Error("no connection is left to readers")
		}
		well.end(nil)
		for len(have) > 0 { // those that wait follow
			have[0].end(nil)
			have = have[1:]
			rest := wait[:0]
			for _, c := range wait {
				if c.has() {
					have = append(have, c)
				} else {
					rest = append(rest, c)
				}
			}
			wait = rest
		}
		if len(wait) > 0 {
			t.Errorf("%d calls wait for turns that are free", len(wait))
		}
	})
}

// A call does not wait for the second turn, which another sale holds, when that of its own
// sale is free.
func TestASaleTakesItsOwnTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := pgstore.NewTurns()
		locked, second := take(t, turns, "locked"), take(t, turns, "locked")
		well, next := take(t, turns, "well"), take(t, turns, "well")
		if !locked.has() || !second.has() || !well.has() || next.has() {
			t.Fatal("want two turns of the first sale, and one of the other")
		}
		well.end(nil)
		if !next.has() {
			t.Fatal("its sale's turn is free")
		}
		last := take(t, turns, "well")
		second.end(nil)
		if !last.has() {
			t.Error("the second turn is free")
		}
		for _, c := range []*taking{locked, next, last} {
			c.end(nil)
		}
		if n := turns.Sales(); n != 0 {
			t.Errorf("%d sales are remembered that have no calls", n)
		}
	})
}

// A sale that waited in vain has one turn, which it shares with all such sales.
func TestSalesThatHungShareATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := pgstore.NewTurns()
		for _, sale := range []sluice.SaleID{"a", "b"} {
			c := take(t, turns, sale)
			time.Sleep(time.Second)
			c.end(errors.New("canceling statement due to lock timeout"))
		}
		a := take(t, turns, "a")
		for _, sale := range []sluice.SaleID{"a", "b"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := turns.Take(ctx, sale); !errors.Is(err, sluice.ErrNoAnswer) {
				t.Errorf("%s: %v; want no turn beside that of a sale that hung", sale, err)
			}
			cancel()
		}
		a.end(nil)
		second := take(t, turns, "a")
		third := take(t, turns, "a")
		b := take(t, turns, "b")
		if !second.has() || !third.has() || !b.has() {
			t.Error("a call of the first sale has succeeded: want its two turns, and that of those that hang for the other")
		}
		for _, c := range []*taking{second, third, b} {
			c.end(nil)
		}
		if n := turns.Sales(); n != 0 {
			t.Errorf("%d sales are remembered", n)
		}
	})
}
