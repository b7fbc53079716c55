package ledgertest_test

import (
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/ledger/ledgertest"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// The test of a ledger of your own: New says how it is opened on fresh data, here SQLite's.
func Example() {
	harness := ledgertest.Harness{New: func(t testing.TB) ledgertest.Open {
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func(t testing.TB, node string, clock *ledgertest.Clock) sluice.Ledger {
			l, err := sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: node, Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
	}}
	_ = func(t *testing.T) { harness.Run(t) } // your TestConformance
}
