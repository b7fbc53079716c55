package engine_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A database that answers before a commit is safe is named in the log, in /readyz and by the check
// of a sale; the server is ready all the same. Of one that keeps what it commits nothing is said.
func TestADatabaseThatLosesCommits(t *testing.T) {
	t.Parallel()
	for setting, losing := range map[string]bool{"&synchronous_commit=off": true, "": false} {
		log := &logged{}
		e := opened(t, engine.Config{
			DataDir: t.TempDir(), Store: servertest.Postgres(t) + setting, Log: log.logger(),
		})
		onSale(t, e, "phones", 10)
		server := httptest.NewServer(e.Handler())
		t.Cleanup(server.Close)
		c := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
		if losing {
			await(t, "a line of the log", func() bool {
				return len(log.lines("level=WARN", "can lose orders", "setting=synchronous_commit", "value=off")) == 1
			})
		}
		ready, err := c.Ready(t.Context())
		if err != nil || len(ready.StoreRisks) > 0 != losing ||
			losing && !strings.Contains(ready.StoreRisks[0], "synchronous_commit is off") {
			t.Errorf("%q: ready: %+v, %v", setting, ready, err)
		}
		check, err := c.CheckSale(t.Context(), "phones")
		at := slices.IndexFunc(check.Checks, func(c api.Check) bool { return c.Name == "store settings" })
		if err != nil || at < 0 || (check.Checks[at].Status == api.CheckWarn) != losing ||
			losing && check.Checks[at].Right != "synchronous_commit = on" {
			t.Errorf("%q: the check of a sale: %+v, %v", setting, check.Checks, err)
		}
	}
}
