package settle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// calmFor is a ledger whose sale rests for that long, by what it says.
type calmFor struct {
	Ledger
	rest time.Duration
}

func (l calmFor) Read(context.Context, []sluice.SaleID) ([]sluice.Reading, error) {
	now := time.Now()
	return []sluice.Reading{{Loaded: true, Now: now, Calm: now.Add(l.rest)}}, nil
}

// An operator waits for the end of a rest, and no longer than a rest takes,
// whatever the ledger's clock says.
func TestWaitForARestIsBounded(t *testing.T) {
	for rest, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, time.Hour: sluice.RefusalLease,
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := NewControl(nil, calmFor{rest: rest}, nil).waitCalm(t.Context(), "sale")
			if took := time.Since(start); err != nil || took != want {
				t.Errorf("a rest of %s: waited %s, %v; want %s", rest, took, err, want)
			}
		})
	}
}
