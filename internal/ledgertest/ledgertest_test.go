package ledgertest

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// TestScriptsReachEverything keeps the random runs from becoming blind: the
// scripts that are always run bring up every code, and the cases that are easy
// to miss.
func TestScriptsReachEverything(t *testing.T) {
	codes := map[sluice.Code]int{}
	seen := map[string]int{}
	for _, seed := range randomSeeds()[:3] {
		script := newScript(seed, scriptSteps)
		for i := range script {
			s := &script[i]
			for _, d := range s.decisions {
				codes[d.Code]++
				if d.Replayed {
					seen["repeat"]++
				}
				if d.Replayed && d.Seq > 0 && i > 0 && s.readings[0].Epoch > 1 {
					seen["repeat after a load"]++
				}
				if d.Code == sluice.BuyerLimit && len(d.Orders) > 1 {
					seen["limit with orders"]++
				}
				if d.Counter != "" {
					seen["counter"]++
				}
			}
			if s.err != nil {
				seen["error: "+s.err.Error()]++
			}
			for _, r := range s.readings {
				if !r.CooldownUntil.IsZero() {
					seen["cooldown"]++
				}
			}
			if s.act == doRestart {
				seen["restart"]++
			}
			seen["released"] += s.released.Applied
			seen["released before"] += s.released.Before
			seen["released and unknown"] += len(s.released.Unknown)
		}
	}
	t.Logf("codes %v, seen %v", codes, seen)
	for _, code := range sluice.Codes() {
		if code <= sluice.Insufficient && code != sluice.SaleNotFound && codes[code] < 5 {
			t.Errorf("%s: %d times, want 5 at least", code, codes[code])
		}
	}
	for _, what := range []string{
		"repeat", "repeat after a load", "limit with orders", "counter", "cooldown", "restart", "released", "released before",
		"released and unknown",
		"error: " + port.ErrStaleEpoch.Error(), "error: " + sluice.ErrBelowTaken.Error(),
	} {
		if seen[what] < 3 {
			t.Errorf("%s: %d times, want 3 at least", what, seen[what])
		}
	}
}
