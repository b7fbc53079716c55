package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A third of the winners pay, a third cancel, a third let it expire, and the
// units that return are bought again: the binary, on real servers. (In process,
// also on SQLite: cmd/sluice.)
func TestDemoLifecycleOnServers(t *testing.T) {
	for name, store := range map[string]func(testing.TB) string{
		"postgres": servertest.Postgres, "mysql": servertest.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const stock = 60
			code, stdout, stderr := command(t, "demo", "--lifecycle", "--json", "--payment-window", "3s", "--ledger",
				servertest.Redis(t), "--store", store(t),
				"--buyers", "2000", "--stock", strconv.Itoa(stock))
			if code != 0 || stderr != "" {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var out struct {
				demoOutput
				Lifecycle *loadgen.Lifecycle `json:"lifecycle"`
			}
			if err := json.Unmarshal([]byte(stdout), &out); err != nil || out.Lifecycle == nil {
				t.Fatalf("%v: %s", err, stdout)
			}
			life := out.Lifecycle
			if !out.Audit.OK || life.Paid+life.Available != stock || life.Cancelled == 0 || life.Expired == 0 ||
				life.SoldAgain == 0 || life.Accepted != life.Paid+life.Returned || out.OrdersStored != life.Accepted {
				t.Errorf("%s", stdout)
			}
			for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
				if !slices.ContainsFunc(out.Audit.Checks, func(c sluice.AuditCheck) bool { return c.ID == id }) {
					t.Errorf("the audit does not check %s", id)
				}
			}
		})
	}
}
