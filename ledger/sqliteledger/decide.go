package sqliteledger

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// verdict is what is the same for every claim of a batch.
type verdict struct {
	now      time.Time
	standing sluice.Code // what window, pause and cooldown say to every new claim, or 0 (I8)
	cooling  bool        // SoldOut goes on although units are available
}

// verdict returns the sale's at this instant.
func (s *sale) verdict(now time.Time) verdict {
	v := verdict{now: now, standing: s.terms.Refusal(now)}
	if s.cooldown == 0 || !sluice.InCooldown(now, s.cooldownUntil) {
		return v
	}
	if s.cooldown == sluice.SoldOut {
		v.cooling = true
	} else if v.standing == 0 || s.cooldown < v.standing { // the earlier in precedence
		v.standing = s.cooldown
	}
	return v
}

// decide answers one claim of a buyer with this account, in the order of
// precedence. Accepted and not replayed means that it may be accepted; accept
// makes it so.
func (s *sale) decide(v *verdict, a *account, c *sluice.Claim) sluice.Decision {
	if i := s.find(a, c.Key); i >= 0 {
		first := s.records.at(int(i)).record(s.id)
		return first.Repeat(c)
	}
	if v.standing != 0 {
		d := sluice.Decision{Code: v.standing}
		if v.standing == sluice.NotOpen {
			d.OpensAt = s.terms.OpensAt
		}
		return d
	}
	if s.overLimit(a, c.Quantity) {
		return sluice.Decision{Code: sluice.BuyerLimit, Orders: s.liveOrders(a)}
	}
	switch available := s.terms.Available(s.taken); {
	case v.cooling || available == 0:
		return sluice.Decision{Code: sluice.SoldOut}
	case available != sluice.Unlimited && available < c.Quantity: // I1
		return sluice.Decision{Code: sluice.Insufficient}
	}
	return sluice.Decision{
		Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, Seq: s.seq + 1, At: v.now,
		Epoch: s.epoch, Terms: s.terms.Version,
	}
}

// overLimit reports whether the claim would exceed the limit per buyer (I3), or
// the buyer has had all the orders, or all the unpaid endings, of the terms.
func (s *sale) overLimit(a *account, quantity int64) bool {
	var have account
	if a != nil {
		have = *a
	}
	if s.terms.MaxPerBuyer != sluice.Unlimited && have.units+quantity > s.terms.MaxPerBuyer {
		return true
	}
	if s.terms.MaxUnpaid != 0 && int64(have.unpaid) >= s.terms.MaxUnpaid {
		return true
	}
	return s.terms.MaxOrders != sluice.Unlimited && int64(have.orders) >= s.terms.MaxOrders
}

// accept takes the units of a claim and remembers it as the next of the
// sequence.
func (s *sale) accept(a *account, c *sluice.Claim, line string, b *batch) {
	s.seq++
	s.taken += c.Quantity
	s.remember(a, c, line, s.seq, b, true, false)
}

// changeTerms makes the terms the ones that decide, and begins a cooldown if
// they reopen the sale, now or before every server knows.
func (s *sale) changeTerms(terms sluice.Terms, now time.Time) {
	before, after := s.terms.Refusal(now), terms.Refusal(now)
	until := now.Add(sluice.RefusalLease)
	switch {
	case after == 0 && before != 0:
		s.cooldown, s.cooldownUntil = before, until
	case after == 0 && s.terms.Available(s.taken) == 0 && terms.Available(s.taken) != 0:
		s.cooldown, s.cooldownUntil = sluice.SoldOut, until
	case after == sluice.NotOpen && before == sluice.NotOpen &&
		terms.OpensAt.Before(s.terms.OpensAt) && terms.OpensAt.Before(until):
		s.cooldown, s.cooldownUntil = sluice.NotOpen, until // the opening has moved nearer than the lease
	}
	s.terms = terms
}

// lost notes what is wrong with the sale's rows; the first finding stands.
func (s *sale) lost(format string, args ...any) {
	if s.damage == "" {
		s.damage = fmt.Sprintf(format, args...)
	}
}
