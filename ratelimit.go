package sluice

import (
	"context"
	"time"
)

// RateLimiter counts the tries of buyers, and of addresses, over all servers of
// one ledger, so that asking another server does not help. Ledgers implement
// it; implementations are safe for concurrent use.
type RateLimiter interface {
	// Allow counts the tries, in order, by the ledger's clock, and returns as
	// many answers: zero for a try within the rates, which is counted by each of
	// them; for any other how long until the next one may be made. A try that one
	// of the rates denies counts in none of them and writes nothing, so trying on
	// costs no time.
	//
	// Counts are kept for as long as they matter and no longer, and never
	// survive the ledger's data: they only bound request rates, no promise
	// depends on them. The sale need not be loaded.
	//
	// An error means that it is not known which tries were counted. Limits fail
	// closed: a try without an answer must not pass.
	Allow(ctx context.Context, sale SaleID, rates Rates, tries []Try) ([]Wait, error)
}

// Rates are those that all servers count together; a zero one bounds nothing.
type Rates struct {
	Buyer   BuyerRate
	Address AddressRate
}

// Try is one try. Address names what counts as one address.
type Try struct {
	Buyer   BuyerID
	Address string
}

// Wait is how long a try has to wait, for each rate that denies it.
type Wait struct{ Buyer, Address time.Duration }

// Longest is the wait until a try is within both rates, zero for one that is.
func (w Wait) Longest() time.Duration { return max(w.Buyer, w.Address) }

// Meter is the arithmetic of a rate: the generic cell rate algorithm, in whole
// microseconds. All that is kept of a buyer or an address is one number, the
// moment until which what it has tried is paid for; 0 when it has tried nothing.
// The zero Meter is that of no rate.
type Meter struct {
	Interval int64 // what one try costs; rounded up, so that the rate is never exceeded
	Full     int64 // what all tries together may cost ahead: Interval times requests
}

// Meter returns the arithmetic of the rate.
func (r BuyerRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

// Meter returns the arithmetic of the rate.
func (r AddressRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

func newMeter(requests, perS int64) Meter {
	if requests == 0 {
		return Meter{}
	}
	interval := (perS*1_000_000 + requests - 1) / requests
	return Meter{Interval: interval, Full: interval * requests}
}

// Try makes one try at now. Wait 0: it is within the rate, and paid is what is
// to be kept. Otherwise it is denied, paid is unchanged, and the next one is
// within the rate after wait, if nothing comes between.
//
// No try under this rate is paid for further ahead than Full. If one is, the
// rate was another then, or the clock: it is forgotten, or a buyer might wait
// for a day under a rate of seconds.
func (m Meter) Try(paid, now int64) (after, wait int64) {
	if paid < now || paid > now+m.Full {
		paid = now
	}
	if wait = paid + m.Interval - m.Full - now; wait > 0 {
		return paid, wait
	}
	return paid + m.Interval, 0
}
