package e2e

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// SIGTERM in the middle of a rush: what was accepted is stored before the
// server exits with 0.
func TestTerminate(t *testing.T) {
	for name, on := range campaignBackends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, on(t))
			const buyers, perBuyer = 2000, 1
			const total = int64(buyers)
			sale := createSale(t, s, total, perBuyer)
			rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers}, []string{s.url}, 21)

			for n := range int64(3) {
				if !rush.awaitDecided(rush.planned() * (n + 1) / 5) {
					t.Fatal("the rush was over too soon")
				}
				if code := s.terminate(); code != 0 {
					t.Errorf("exit %d after SIGTERM", code)
				}
				if a := audit(t, s, sale, 0, "after a clean stop"); a.InFlight != 0 {
					t.Errorf("the server left %d orders that are not stored", a.InFlight)
				}
				s.start()
			}
			verify(t, s, rush, total, perBuyer)
		})
	}
}

// With the database down there is nothing to drain into: the server says so,
// exits with 0 in time, and the next one stores what is in the journal.
func TestTerminateWithoutDatabase(t *testing.T) {
	t.Parallel()
	postgres := servertest.StartPostgres(t)
	s := startServer(t, backends{servertest.Redis(t), postgres.URL()}, "--shutdown-timeout", "1s")
	const total, perBuyer = 5000, 1
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 3000, Rate: 300}, []string{s.url}, 22)

	rush.awaitDecided(200)
	postgres.Kill(t) // at once: a stop may take as long as the rush
	at := rush.accepted()
	await(t, "claims accepted without a database", func() bool { return rush.accepted() >= at+200 })
	if code := s.terminate(); code != 0 {
		t.Errorf("exit %d after SIGTERM", code)
	}
	if log := s.log(); !strings.Contains(log, "the journal keeps it for the next start") {
		t.Errorf("the log does not say that something is left:\n%s", log)
	}
	postgres.Start(t)
	if a := audit(t, s, sale, 0, "of what the server left"); a.InFlight == 0 {
		t.Error("nothing is in flight, and nothing could be stored")
	}
	s.start()
	verify(t, s, rush, total, perBuyer)
}
