package main

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// The usual script does what source S2 says, on a real Redis.
func TestUsualScript(t *testing.T) {
	c, err := dialRedis(servertest.StartRedis(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	sha, err := loadUsual(c, 2)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(user string) (int64, error) {
		return c.count("EVALSHA", sha, "3", stockKey, buyersKey, streamKey, voucher, user, "2024110500012345")
	}
	for _, step := range []struct {
		user string
		want int64
	}{{"A", 0}, {"A", 2}, {"B", 0}, {"C", 1}, {"A", 1}} {
		if got, err := claim(step.user); err != nil || got != step.want {
			t.Errorf("user %s: %d, %v; want %d", step.user, got, err, step.want)
		}
	}
	for _, left := range []struct {
		command, key string
		want         int64
	}{{"GET", stockKey, 0}, {"SCARD", buyersKey, 2}, {"XLEN", streamKey, 2}} {
		if got, err := c.count(left.command, left.key); err != nil || got != left.want {
			t.Errorf("%s %s: %d, %v; want %d", left.command, left.key, got, err, left.want)
		}
	}
	if _, err := c.call("DEL", stockKey); err != nil {
		t.Fatal(err)
	}
	if got, err := claim("D"); err == nil {
		t.Errorf("without a stock: %d, want an error", got)
	}
}

// A round whose counts are not right is a failed round.
func TestChecksFindWhatIsWrong(t *testing.T) {
	c, err := dialRedis(servertest.StartRedis(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	sha, err := loadUsual(c, usualStock)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := usualWorker(c, sha, newCrowd(1), 0, 10, 0, nil)(); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if err := checkUsual(c, 10); err != nil {
		t.Error(err)
	}
	var repeated atomic.Int64
	again := usualWorker(c, sha, newCrowd(2), 1, 15, someRepeats, &repeated)
	for range 4 { // 60 requests, of which every 20th repeats the one before
		if n, err := again(); n != 15 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := checkUsual(c, 10+57); err != nil || repeated.Load() != 3 {
		t.Error(err, repeated.Load())
	}
	if err := checkUsual(c, 68); err == nil {
		t.Error("an order that is missing was not found")
	}
	if _, err := usualWorker(c, sha, newCrowd(1), 0, 1, 0, nil)(); err == nil {
		t.Error("a buyer who was refused counts as accepted")
	}

	ledger, err := sqliteledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
		sqliteledger.Options{Node: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	r := &round{
		options: options{warm: time.Millisecond, long: 30 * time.Millisecond, callers: 20, batch: 10},
		crowd:   newCrowd(1),
	}
	f, err := r.batched(t.Context(), ledger, 10, someRepeats, nil)
	if err != nil || f.perSecond <= 0 {
		t.Fatal(f, err)
	}
	readings, err := ledger.Read(t.Context(), []sluice.SaleID{ledgerSale})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []int64{-1, 1} {
		if err := checkLedger(t.Context(), ledger, readings[0].Taken+wrong); err == nil {
			t.Errorf("a count that is %d off was not found", wrong)
		}
	}
}

// The server process sells, refuses by itself, and its audit counts orders.
func TestServerProcess(t *testing.T) {
	g := &httpGroup{crowd: newCrowd(1), pool: &pool{secret: poolSecret}}
	p, err := (&round{dir: t.TempDir()}).start(t.Context(), poolSecret, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	if err := p.sell(t.Context(), g.pool.secret, g.crowd, 0, 20); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitRefusals(t.Context(), g.pool.secret, g.crowd, 20); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitStored(t.Context()); err != nil {
		t.Fatal(err)
	}
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
