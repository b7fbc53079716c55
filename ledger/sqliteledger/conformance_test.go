package sqliteledger_test

import (
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/internal/ledgertest"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// harness opens ledgers on one file in a temporary folder. One process, one
// ledger: SharedNodes is false.
var harness = ledgertest.Harness{New: func(t testing.TB) ledgertest.Open {
	path := filepath.Join(t.TempDir(), "ledger.db")
	return func(t testing.TB, node string, clock *ledgertest.Clock) port.Ledger {
		t.Helper()
		l := must.Get(sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: node, Now: clock.Now}))(t)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
}}

func TestConformance(t *testing.T) { harness.Run(t) }
