package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server is killed with SIGKILL again and again in the middle of a rush and
// comes back; buyers keep their keys and try again. Whatever the moment, each
// promise is one order (I4, I5), and no limit is broken (I1, I3).
func TestCrashes(t *testing.T) {
	for name, on := range campaignBackends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared, r := on(t), seeded(t, 1)
			crashRound(t, shared, r)
			if servertest.IsNightly() {
				crashRound(t, shared, r) // a second sale, beside what the first has left
			}
		})
	}
}

// The same for as long as SLUICE_TEST_SOAK says.
func TestSoakCrashes(t *testing.T) { campaign(t, crashRound) }

// crashRound is one sale with kills at random moments.
func crashRound(t *testing.T, on backends, r *rand.Rand) {
	t.Helper()
	s := startServer(t, on)
	buyers := size(4000, 1500)
	perBuyer := 1 + r.Int64N(2)
	total := int64(buyers)/4 + r.Int64N(int64(buyers)) // sometimes enough for all
	sale := createSale(t, s, total, perBuyer)
	crowd := loadgen.Options{Sale: sale, Buyers: buyers, Again: r.Float64(), Connections: 1 + r.IntN(64)}
	rush := startRush(t, crowd, []string{s.url}, r.Uint64()>>16)

	moments := make([]int64, size(6, 4)) // counted in decided tries
	for i := range moments {
		moments[i] = r.Int64N(rush.planned() * 9 / 10)
	}
	slices.Sort(moments)
	for i, moment := range moments {
		if !rush.awaitDecided(moment) {
			break
		}
		time.Sleep(rand.N(3 * time.Millisecond)) // between two answers, too
		s.kill()
		if i%3 == 2 {
			audit(t, s, sale, 0, "of what a killed server left")
		}
		s.launch()
		if i%3 == 1 { // and once more while it recovers
			time.Sleep(rand.N(60 * time.Millisecond))
			s.kill()
			s.launch()
		}
		s.ready()
		if i%3 == 0 {
			audit(t, s, sale, 0, "during the rush")
		}
	}
	verify(t, s, rush, total, perBuyer)
	if code := s.terminate(); code != 0 {
		t.Errorf("exit %d after SIGTERM", code)
	}
	audit(t, s, sale, 0, "with the server down")
}
