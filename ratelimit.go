package sluice

import (
	"context"
	"time"
)

// RateLimiter counts the tries of buyers over all servers of one ledger, so that
// asking another server does not help. Ledgers implement it; implementations
// are safe for concurrent use.
type RateLimiter interface {
	// Allow counts one try of each buyer, in order, by the ledger's clock, and
	// returns as many answers: zero for a try within the rate, which is
	// counted; for any other how long until the next one may be made. A try
	// that is denied writes nothing, so trying on costs no time.
	//
	// Counts are kept for as long as they matter and no longer, and never
	// survive the ledger's data: they only bound request rates, no promise
	// depends on them. The sale need not be loaded.
	//
	// An error means that it is not known which tries were counted. Limits fail
	// closed: a buyer without an answer must not pass.
	Allow(ctx context.Context, sale SaleID, rate BuyerRate, buyers []BuyerID) ([]time.Duration, error)
}

// Meter is the arithmetic of a rate: the generic cell rate algorithm, in whole
// microseconds. All that is kept of a buyer or an address is one number, the
// moment until which what it has tried is paid for; 0 when it has tried nothing.
type Meter struct {
	Interval int64 // what one try costs; rounded up, so that the rate is never exceeded
	Full     int64 // what all tries together may cost ahead: Interval times requests
}

// Meter returns the arithmetic of the rate.
func (r BuyerRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

// Meter returns the arithmetic of the rate.
func (r AddressRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

func newMeter(requests, perS int64) Meter {
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
