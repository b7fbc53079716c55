package sluice

import (
	"errors"
	"fmt"
	"time"
)

// Unlimited stands for an absent limit: of Total, MaxPerBuyer or MaxOrders.
const Unlimited int64 = -1

// MaxUnits bounds Total and the limits per buyer, so that sums stay exact in
// every ledger (Lua and JavaScript count in doubles).
const MaxUnits = 1_000_000_000_000

// Terms is what the ledger needs to know of a sale to decide claims. Every
// change raises Version by one; the store keeps all versions, each accepted
// claim records the one it was decided under, and so the audit can judge it by
// the terms of its moment (I8).
type Terms struct {
	Version int64 // from 1

	Total       int64 // units for sale, 0 or more, or Unlimited
	MaxPerBuyer int64 // live units per buyer, 1 or more, or Unlimited (I3)
	// MaxOrders bounds the accepted claims of a buyer, ended ones too, so that
	// claiming and cancelling in turns comes to an end. Or Unlimited.
	MaxOrders int64
	// MaxUnpaid bounds how many orders of a buyer may end unpaid (Order.Unpaid):
	// from then on the buyer is refused as BuyerLimit for the rest of the sale,
	// so that holding units without paying comes to an end. 0: no such limit.
	MaxUnpaid int64

	OpensAt  time.Time // inclusive; UTC, whole milliseconds
	ClosesAt time.Time // exclusive; zero when the sale has no closing time
	Paused   bool      // by a person
}

// Refusal is what the window and the pause alone say to a claim at now, by the
// ledger's clock: NotOpen, Closed, Paused, or 0 when they let it pass (I8).
func (t *Terms) Refusal(now time.Time) Code {
	switch {
	case now.Before(t.OpensAt):
		return NotOpen
	case !t.ClosesAt.IsZero() && !now.Before(t.ClosesAt):
		return Closed
	case t.Paused:
		return Paused
	}
	return 0
}

// Available is the units that can be taken when taken are held; Unlimited when
// the sale has no total. It is never negative otherwise.
func (t *Terms) Available(taken int64) int64 {
	if t.Total == Unlimited {
		return Unlimited
	}
	return max(t.Total-taken, 0)
}

// DefaultMaxOrders is MaxOrders unless given: some attempts more than units.
func (t *Terms) DefaultMaxOrders() int64 {
	if t.MaxPerBuyer == Unlimited {
		return Unlimited
	}
	return min(t.MaxPerBuyer+9, MaxUnits)
}

// Same reports whether other terms are these: those of one version always are.
func (t *Terms) Same(other *Terms) bool {
	a, b := *t, *other
	same := a.OpensAt.Equal(b.OpensAt) && a.ClosesAt.Equal(b.ClosesAt)
	b.OpensAt, b.ClosesAt = a.OpensAt, a.ClosesAt // which are compared as instants
	return same && a == b
}

// Lowers reports whether another total is less than that of the terms.
func (t *Terms) Lowers(total int64) bool {
	return total != Unlimited && (t.Total == Unlimited || total < t.Total)
}

func (t *Terms) validate() error {
	if t.Total != Unlimited && (t.Total < 0 || t.Total > MaxUnits) {
		return fmt.Errorf("total %d: want 0 to %d, or null for no total", t.Total, int64(MaxUnits))
	}
	if t.MaxPerBuyer != Unlimited && (t.MaxPerBuyer < 1 || t.MaxPerBuyer > MaxUnits) {
		return fmt.Errorf("max_per_buyer %d: want 1 to %d, or null for no limit", t.MaxPerBuyer, int64(MaxUnits))
	}
	if t.MaxOrders != Unlimited && (t.MaxOrders < 1 || t.MaxOrders > MaxUnits) {
		return fmt.Errorf("max_orders_per_buyer %d: want 1 to %d, or null for no limit", t.MaxOrders, int64(MaxUnits))
	}
	if t.MaxUnpaid < 0 || t.MaxUnpaid > MaxUnits {
		return fmt.Errorf("max_unpaid_per_buyer %d: want 1 to %d, or null for no limit", t.MaxUnpaid, int64(MaxUnits))
	}
	if t.OpensAt.IsZero() {
		return errors.New("opens_at: want a time, like 2026-11-11T12:00:00.000Z")
	}
	for _, at := range []struct {
		name string
		t    time.Time
	}{{"opens_at", t.OpensAt}, {"closes_at", t.ClosesAt}} {
		if y := at.t.Year(); !at.t.IsZero() && (y < 1970 || y > 9999) {
			return fmt.Errorf("%s: year %d: want 1970 to 9999", at.name, y)
		}
	}
	if !t.ClosesAt.IsZero() && !t.ClosesAt.After(t.OpensAt) {
		return errors.New("closes_at: want a time after opens_at")
	}
	return nil
}
