package sqliteledger

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// verdict returns the sale's at this instant.
func (s *sale) verdict(now time.Time) sluice.Verdict {
	return s.terms.Verdict(now, sluice.Cooldown{Code: s.cooldown, Until: s.cooldownUntil})
}

// decide answers one claim of a buyer with this account, in the order of
// precedence. Accepted and not replayed means that it may be accepted; accept
// makes it so.
func (s *sale) decide(v *sluice.Verdict, a *account, c *sluice.Claim) sluice.Decision {
	if i := s.find(a, c.Key); i >= 0 {
		first := s.records.at(int(i)).record(s.id)
		return first.Repeat(c)
	}
	var have sluice.Account
	if a != nil {
		have = sluice.Account{Units: a.units, Orders: int64(a.orders), Unpaid: int64(a.unpaid)}
	}
	d := v.Decide(have, s.counted, s.taken, c)
	switch d.Code {
	case 0:
		return sluice.Decision{
			Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, Seq: s.seq + 1, At: v.Now,
			Epoch: s.epoch, Terms: s.terms.Version,
		}
	case sluice.BuyerLimit:
		d.Orders = s.liveOrders(a)
	}
	return d
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
	if code := s.terms.Reopens(&terms, s.taken, now); code != 0 {
		s.cooldown, s.cooldownUntil = code, now.Add(sluice.RefusalLease)
	}
	s.terms = terms
}

// lost notes what is wrong with the sale's rows; the first finding stands.
func (s *sale) lost(format string, args ...any) {
	if s.damage == "" {
		s.damage = fmt.Sprintf(format, args...)
	}
}
