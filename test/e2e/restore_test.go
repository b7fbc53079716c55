package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A database is restored from a dump that was taken in the middle of a rush,
// beside a Redis that knows everything since, as docs/operating.md has it. The sale
// waits for a person, whose recovery brings back the orders that the database forgot;
// nothing is oversold.
func TestADatabaseIsRestored(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"pg_dump", "pg_restore"} {
		servertest.Program(t, "postgres", tool)
	}
	redis, postgres := servertest.StartRedis(t), servertest.StartPostgres(t)
	servers, urls := startCluster(t, 2, backends{redis.URL(), postgres.URL()})
	const buyers, perBuyer = 800, 2 // a buyer has one in each crowd
	const total = int64(buyers) * 3 / 2
	sale := createSale(t, servers[0], total, perBuyer)
	awaitState(t, servers, sale, "open")
	r := seeded(t, 21)
	crowd := loadgen.Options{Sale: sale, Buyers: buyers, Connections: 8}
	rush := startRush(t, crowd, urls[:1], r.Uint64()>>16)
	rush.awaitDecided(rush.planned() / 5)
	dump := filepath.Join(t.TempDir(), "store.dump")
	tool(t, "pg_dump", "--format=custom", "--file="+dump, postgres.URL())
	late := startRush(t, crowd, urls[1:], r.Uint64()>>16) // what they get is surely not in the dump
	outcomes := append(rush.wait(), late.wait()...)
	awaitStored(t, servers[0], sale)
	before := len(storedOrders(t, servers[0], sale))
	for _, s := range servers {
		if code := s.terminate(); code != 0 {
			t.Errorf("exit %d after SIGTERM", code)
		}
	}

	tool(t, "pg_restore", "--clean", "--if-exists", "--dbname="+postgres.URL(), dump)
	for _, s := range servers {
		s.launch()
	}
	for _, s := range servers {
		s.ready()
	}
	await(t, "a sale that waits for a person", func() bool {
		got, err := servers[0].merchant().AdminSale(t.Context(), sale)
		return err == nil && strings.HasPrefix(got.Fence, port.FenceOlder)
	})
	must.Get(servers[1].merchant().RecoverSale(t.Context(), sale, true))(t)
	await(t, "a sale that is rebuilt", func() bool {
		got, err := servers[0].merchant().AdminSale(t.Context(), sale)
		return err == nil && got.Fence == "" && got.Epoch >= 2
	})
	awaitStored(t, servers[0], sale)
	stored := storedOrders(t, servers[0], sale)
	report(t, brokenPromises(outcomes, stored, total, perBuyer))
	if len(stored) != before {
		t.Errorf("%d orders before, %d after", before, len(stored))
	}
	inStep(t, servers[1], sale)
	audit(t, servers[0], sale, 0, "after the restore")
}

// tool runs a program of the database's.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
