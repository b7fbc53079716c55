package e2e

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
)

// demoOutput is what `sluice demo --json` prints, read as another program
// would.
type demoOutput struct {
	SaleID         string             `json:"sale_id"`
	Ledger         string             `json:"ledger"`
	Store          string             `json:"store"`
	Decisions      map[string]int64   `json:"decisions"`
	Errors         int64              `json:"errors"`
	OrdersStored   int64              `json:"orders_stored"`
	DistinctBuyers int64              `json:"distinct_buyers"`
	Audit          sluice.AuditReport `json:"audit"`
}

// The demo on Redis and PostgreSQL, and on PostgreSQL alone. (On SQLite: scripts/demo.txtar.)
func TestDemoOnServers(t *testing.T) {
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		demoOn(t, sharedBackends(t), "redis://")
	})
	t.Run("postgres alone", func(t *testing.T) {
		t.Parallel()
		demoOn(t, postgresAlone(t), "store")
	})
}

func demoOn(t *testing.T, on backends, ledger string) {
	t.Helper()
	const stock = 500
	code, stdout, stderr := command(t, "demo", "--json", "--ledger", on.ledger, "--store", on.store,
		"--buyers", "20000", "--stock", strconv.Itoa(stock))
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var out demoOutput
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("want one JSON object, have %v: %s", err, stdout)
	}
	want := int64(stock)
	if out.Decisions["accepted"] != want || out.OrdersStored != want || out.DistinctBuyers != want || out.Errors != 0 ||
		!out.Audit.OK {
		t.Errorf("%s", stdout)
	}
	for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
		if !slices.ContainsFunc(out.Audit.Checks, func(c sluice.AuditCheck) bool { return c.ID == id }) {
			t.Errorf("the audit does not check %s", id)
		}
	}
	if !strings.HasPrefix(out.Ledger, ledger) || !strings.HasPrefix(out.Store, "postgres://") ||
		strings.Contains(stdout, "sluice-test") {
		t.Errorf("ledger %s, store %s", out.Ledger, out.Store)
	}
	// Its sale stays there, closed, and still adds up.
	if code, stdout, _ := command(t, append([]string{"audit", "--sale", out.SaleID}, on.flags(t.TempDir())...)...); code !=
		0 {
		t.Errorf("audit: exit %d\n%s", code, stdout)
	}
}
