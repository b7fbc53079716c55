package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// call is one call of a port.
type call struct {
	op     string
	sale   sluice.SaleID
	writes bool
}

// way is how a server reaches its ledger, or its store. Every call waits for its turn, and
// meets the faults of that moment.
type way struct {
	server *server
	to     string // "ledger" or "store"
}

var (
	errDead = errors.New("world: the server is dead")
	errCut  = errors.New("world: connection lost")
)

// saleOf returns the sale of an order id; empty if it names none.
func saleOf(id sluice.OrderID) sluice.SaleID {
	sale, _ := id.Sale()
	return sale
}

// get is do with a result.
func get[T any](ctx context.Context, y *way, c call, f func() (T, error)) (result T, err error) {
	err = y.do(ctx, c, func() error {
		result, err = f()
		return err
	})
	if errors.Is(err, errDead) || errors.Is(err, errCut) { // nothing of the answer arrives
		result = *new(T)
	}
	return result, err
}

// do makes a call when it is its turn.
func (y *way) do(ctx context.Context, c call, f func() error) error {
	s := y.server
	if s.dead.Load() {
		return errDead
	}
	s.turn("%s %s %s", y.to, c.op, c.sale)
	if s.dead.Load() {
		return errDead
	}
	met := s.world.faults.meet(s.n, y.to, &c)
	if met.slow > 0 {
		select {
		case <-time.After(met.slow):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errCut, ctx.Err())
		}
		s.turn("%s %s %s", y.to, c.op, c.sale)
	}
	switch {
	case met.refused != nil:
		return met.refused
	case met.kills == killBefore:
		s.world.kill(s, c.op+", before it took effect")
		return errDead
	}
	err := f()
	if met.twice && err == nil {
		err = f()
	}
	if met.kills == killAfter {
		s.world.kill(s, c.op+", after it took effect")
		return errDead
	}
	if met.late > 0 {
		time.Sleep(met.late)
		s.turn("%s %s %s", y.to, c.op, c.sale)
	}
	switch {
	case s.dead.Load():
		return errDead
	case met.cut:
		return errCut
	}
	return err
}
