package settle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// clockMargin is how far clocks may differ, and how far the store's clock may
// jump, without a consequence. It is below the grace that payments usually have.
const clockMargin = 5 * time.Second

// clocks compares the store's clock with the ledger's and with this server's own,
// whenever the store's is read to expire orders, and limits the pace at which
// orders expire: an order whose deadline passes only because the store's clock
// jumped ahead has not had its time.
//
// Expiry goes by the store's clock as long as that goes on as this server's
// monotonic clock does. After a jump ahead it goes by the store's clock as it was
// before the jump, carried on at twice the pace of real time until it has caught
// up. At the first reading, a clock ahead of both others counts as having jumped.
type clocks struct {
	ledger func() time.Time // the ledger's clock now; the zero time: unknown
	report func(Clocks)
	log    *slog.Logger

	mu       sync.Mutex // guards all below
	until    time.Time  // expiry was at it, by the store's clock ...
	at       time.Time  // ... at this moment of the monotonic clock
	behind   bool       // expiry is behind the store's clock
	disagree bool
}

// Clocks says how far other clocks are ahead of a server's own, and how far its
// expiry is behind the store's clock.
type Clocks struct{ Store, Ledger, Behind time.Duration }

// compare says how the clocks differ: the store's, which was read between asked and
// received, the ledger's at received, or the zero time, and this server's.
func compare(store, asked, received, ledger time.Time) (c Clocks) {
	switch {
	case store.After(received):
		c.Store = store.Sub(received)
	case store.Before(asked):
		c.Store = store.Sub(asked)
	}
	if !ledger.IsZero() {
		c.Ledger = ledger.Sub(received)
	}
	return c
}

func (c *Clocks) disagree() bool {
	return max(c.Store.Abs(), c.Ledger.Abs(), (c.Store-c.Ledger).Abs()) > clockMargin
}

// CheckClocks reads the store's clock, and is an error if the clocks disagree: what
// deletes by age, for ever, waits until they are right. Ledger is as in EnderOptions.
func CheckClocks(
	ctx context.Context, store interface {
		Clock(ctx context.Context) (time.Time, error)
	}, ledger func() time.Time,
) error {
	asked := time.Now()
	now, err := store.Clock(ctx)
	if err != nil {
		return err
	}
	if c := compare(now, asked, time.Now(), ledger()); c.disagree() {
		return fmt.Errorf("the clocks of ledger, store and this server disagree, "+
			"the ledger's is %v ahead and the store's %v: set them right, with NTP",
			c.Ledger.Round(time.Millisecond), c.Store.Round(time.Millisecond))
	}
	return nil
}

// judge returns the moment of the store's clock up to which orders may expire. The
// store read now from its clock after this server began to ask, at asked.
func (c *clocks) judge(now, asked time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	received, ledger := time.Now(), c.ledger()
	if c.at.IsZero() {
		c.until, c.at = now, received
		if first := latest(received, ledger); !ledger.IsZero() && now.After(first.Add(clockMargin)) {
			c.until = first.Round(0).UTC() // without the monotonic clock
		}
	}
	passed := max(received.Sub(c.at), 0)
	if now.After(c.until.Add(passed + clockMargin)) {
		c.until, c.at = c.until.Add(2*passed), received
		if c.until.After(now) {
			c.until = now
		}
	} else { // a step back is followed at once: it ends no order early
		c.until, c.at = now, asked
	}
	c.tell(now, asked, received, ledger)
	return c.until.Truncate(time.Millisecond)
}

// tell reports how the clocks differ, and logs when that changes.
func (c *clocks) tell(now, asked, received, ledger time.Time) {
	s := compare(now, asked, received, ledger)
	s.Behind = now.Sub(c.until)
	c.report(s)
	if disagree := s.disagree(); disagree != c.disagree {
		c.disagree = disagree
		if disagree {
			c.log.Warn("the clocks of ledger, store and this server disagree: set them right, with NTP",
				"ledger_ahead", s.Ledger.Round(time.Millisecond), "store_ahead", s.Store.Round(time.Millisecond))
		} else {
			c.log.Info("the clocks of ledger, store and this server agree again")
		}
	}
	if behind := s.Behind > 0; behind != c.behind {
		c.behind = behind
		if behind {
			c.log.Warn("the store's clock is ahead of where it should be: orders expire by the clock before the jump, until "+
				"that has caught up",
				"behind", s.Behind.Round(time.Millisecond))
		} else {
			c.log.Info("orders expire by the store's clock again")
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
