package settle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// coolingFor is a ledger whose sale is in cooldown for that long, by what it says.
type coolingFor struct {
	Ledger
	cooldown time.Duration
}

func (l coolingFor) Read(context.Context, []sluice.SaleID) ([]port.Reading, error) {
	now := time.Now()
	return []port.Reading{{Loaded: true, Now: now, CooldownUntil: now.Add(l.cooldown)}}, nil
}

// An operator waits for the end of a cooldown, and no longer than one takes,
// whatever the ledger's clock says.
func TestWaitForARestIsBounded(t *testing.T) {
	for cooldown, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, time.Hour: sluice.RefusalLease,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := NewControl(nil, coolingFor{cooldown: cooldown}, nil).waitCooldown(t.Context(), "sale")
			if took := time.Since(start); err != nil || took != want {
				t.Errorf("a cooldown of %s: waited %s, %v; want %s", cooldown, took, err, want)
			}
		})
	}
}
