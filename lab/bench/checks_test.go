package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/ledger/sqliteledger"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// A round whose counts are not right is a failed round.
func TestChecksFindWhatIsWrong(t *testing.T) {
	ledger := must.Get(sqliteledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
		sqliteledger.Options{Node: "bench"}))(t)
	defer ledger.Close()
	r := &round{
		options: options{warm: time.Millisecond, long: 30 * time.Millisecond},
		crowd:   crowd.New(1),
	}
	f, err := r.batched(t.Context(), ledger, sqliteBatch, nil)
	if err != nil || f.perSecond <= 0 {
		t.Fatal(f, err)
	}
	readings := must.Get(ledger.Read(t.Context(), []sluice.SaleID{ledgerSale}))(t)
	for _, wrong := range []int64{-1, 1} {
		if err := checkLedger(t.Context(), ledger, readings[0].Taken+wrong); err == nil {
			t.Errorf("a count that is %d off was not found", wrong)
		}
	}
}

// The server process sells, refuses by itself, and its audit counts orders.
func TestServerProcess(t *testing.T) {
	g := &httpGroup{crowd: crowd.New(1), pool: &pool{secret: poolSecret}}
	p := must.Get((&round{dir: t.TempDir()}).start(t.Context(), poolSecret, 20))(t)
	defer p.stop()
	must.Succeed(t, p.sell(t.Context(), g.pool.secret, g.crowd, 0, 20))
	must.Succeed(t, p.awaitRefusals(t.Context(), g.pool.secret, g.crowd, 20))
	must.Succeed(t, p.awaitStored(t.Context()))
	if err := p.audit(t.Context(), 20, 20); err != nil {
		t.Error(err)
	}
	if err := p.audit(t.Context(), 21, 100); err == nil {
		t.Error("an order too few was not found")
	}
	if err := p.sell(t.Context(), g.pool.secret, g.crowd, 1000, 1); err == nil {
		t.Error("a sold-out sale sold a unit")
	}
	if c, err := p.counts(t.Context()); err != nil || c.accepted != 20 || c.soldOut < 2 ||
		c.claims != c.accepted+c.soldOut {
		t.Errorf("counts: %+v, %v", c, err)
	}
}
