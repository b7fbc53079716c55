package sluice

import "time"

// Account is what a buyer has of a sale.
type Account struct {
	Units  int64 // of live orders (I3)
	Orders int64 // accepted claims, ended ones too
	Unpaid int64 // of them, those that ended unpaid
}

// Over reports whether one more claim of these units would exceed the limit per
// buyer (I3), or the buyer has had all the orders, or all the unpaid endings, of
// the terms.
func (t *Terms) Over(have Account, quantity int64) bool {
	return t.MaxPerBuyer != Unlimited && have.Units+quantity > t.MaxPerBuyer ||
		t.MaxUnpaid != 0 && have.Unpaid >= t.MaxUnpaid ||
		t.MaxOrders != Unlimited && have.Orders >= t.MaxOrders
}

// Cooldown is the refusal that goes on until Until although it has been lifted
// (RefusalLease). The zero value is none.
type Cooldown struct {
	Code  Code
	Until time.Time
}

// Lasts reports whether there is a cooldown at now.
func (c Cooldown) Lasts(now time.Time) bool { return c.Code != 0 && InCooldown(now, c.Until) }

// Verdict is what is the same for every new claim of a batch: one moment, and what
// window, pause and cooldown say at it.
type Verdict struct {
	Now     time.Time
	terms   *Terms
	refusal Code // what window, pause and cooldown say, or 0 (I8)
	cooling bool // SoldOut goes on although units are available
}

// Verdict returns the one of this moment.
func (t *Terms) Verdict(now time.Time, cooldown Cooldown) Verdict {
	v := Verdict{Now: now, terms: t, refusal: t.Refusal(now)}
	switch {
	case !cooldown.Lasts(now):
	case cooldown.Code == SoldOut:
		v.cooling = true
	case v.refusal == 0 || cooldown.Code < v.refusal: // the earlier in precedence
		v.refusal = cooldown.Code
	}
	return v
}

// Decide answers a claim that repeats none, of a buyer who has this, when so many
// units are taken, and each counter of the claim has counted so many, in the order of
// precedence. The code is 0 if nothing refuses it. The caller adds the orders of a
// refusal by BuyerLimit.
func (v *Verdict) Decide(have Account, counted map[string]int64, taken int64, c *Claim) Decision {
	quantity := c.Quantity
	switch available, full := v.terms.Available(taken), c.Counters.Full(counted, quantity); {
	case v.refusal == NotOpen:
		return Decision{Code: NotOpen, OpensAt: v.terms.OpensAt}
	case v.refusal != 0:
		return Decision{Code: v.refusal}
	case v.terms.Over(have, quantity):
		return Decision{Code: BuyerLimit}
	case full != "":
		return Decision{Code: BuyerLimit, Counter: full}
	case v.cooling || available == 0:
		return Decision{Code: SoldOut}
	case available != Unlimited && available < quantity: // I1
		return Decision{Code: Insufficient}
	}
	return Decision{}
}

// Reopens returns the refusal that a cooldown has to go on with when other terms
// take the place of these, or 0: they lift it now, or before every server knows.
func (t *Terms) Reopens(terms *Terms, taken int64, now time.Time) Code {
	refused, after := t.Refusal(now), terms.Refusal(now)
	if refused == 0 && t.Available(taken) == 0 {
		refused = SoldOut
	}
	switch {
	case refused == 0, after == Closed, after == Paused, refused == SoldOut && after == 0 && terms.Available(taken) == 0:
		return 0
	case after == 0:
		return refused
	case refused == NotOpen && !terms.OpensAt.Before(t.OpensAt), !terms.OpensAt.Before(now.Add(RefusalLease)):
		return 0 // every server knows by then
	}
	return NotOpen
}

// RefusalLease is how long a server may repeat, without asking the ledger, a
// refusal it has read there (sold out, closed, paused, not open). In return
// what the ledger reopens has a cooldown of the same length before it accepts
// again: by then no server still repeats the old refusal, so a claim accepted
// on one server is never refused by another that has not heard yet (I4).
const RefusalLease = 500 * time.Millisecond

// InCooldown reports whether a cooldown that ends at until lasts at now. One that
// would last longer than RefusalLease is over: the ledger's clock has been set
// back since, and the sale must not stand still for as long.
func InCooldown(now, until time.Time) bool {
	return now.Before(until) && !until.After(now.Add(RefusalLease))
}
