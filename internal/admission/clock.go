package admission

import (
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// ledgerClock is the ledger's clock as this server knows it: that of the readings of
// all sales, carried on by this server's own monotonic clock, which nobody sets.
//
// A reading bounds it: the ledger looked at its clock after it was asked and
// before it had told. What is known already stays as long as it lies within
// those bounds, so that the clock does not jump with each answer that was slow;
// otherwise it begins anew at the lower bound. So it is exact to the quickest
// answers, and follows a ledger whose clock was set, or another one after a
// failover, with the next reading. The nodes of a cluster are one ledger: where
// their clocks differ, the one that is behind counts, of those told last.
type ledgerClock struct {
	known atomic.Pointer[moment]
}

// moment is one instant by two clocks.
type moment struct {
	ledger, server time.Time
}

func (m *moment) at(now time.Time) time.Time { return m.ledger.Add(now.Sub(m.server)) }

// take learns from readings that were asked for and told at these moments of
// this server's clock. One does it at a time.
func (c *ledgerClock) take(asked, told time.Time, readings []sluice.Reading) {
	var least time.Time // at told it is no earlier
	for i := range readings {
		if now := readings[i].Now; !now.IsZero() && (least.IsZero() || now.Before(least)) {
			least = now
		}
	}
	if least.IsZero() {
		return
	}
	most := least.Add(told.Sub(asked) + time.Millisecond) // a reading's is cut to milliseconds
	if known := c.known.Load(); known != nil {
		if at := known.at(told); !at.Before(least) && !at.After(most) {
			return
		}
	}
	c.known.Store(&moment{ledger: least, server: told})
}
