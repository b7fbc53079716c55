package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// Sluice's way: callers who claim one unit each through the batcher, and wait
// for their own answer, as HTTP requests do.

const (
	ledgerSale  = sluice.SaleID(shopSale)
	ledgerTotal = 1_000_000_000

	// callers is how many claims are under way at a time: as many as the
	// pipelined baseline has.
	callers = usualConnections * usualDepth

	// Batch sizes are those that the engine uses for each ledger.
	redisBatch, sqliteBatch = 1000, 2000
)

func batchedName(fsync string, repeats int) string {
	return "Redis ledger, batched" + suffix(fsync, repeats)
}

const sqliteName = "embedded ledger, batched, fsync always"

func batchedSide(fsync string, repeats int) side {
	return side{
		name: batchedName(fsync, repeats), own: true,
		does: fmt.Sprintf("redisledger behind the batcher, %d callers with a claim each, batches of at most %d, of which "+
			"each 250 are one EVALSHA", callers, redisBatch),
		run: func(ctx context.Context, r *round) (figure, error) {
			server, err := startRedis(r.dir, fsync)
			if err != nil {
				return figure{}, err
			}
			defer server.Close()
			ledger, err := redisledger.Open(ctx, server.URL(), redisledger.Options{Node: "bench"})
			if err != nil {
				return figure{}, err
			}
			defer ledger.Close()
			pids := map[string]int{"client": os.Getpid(), "redis": server.Pid()}
			return r.batched(ctx, ledger, redisBatch, repeats, pids)
		},
	}
}

func sqliteSide() side {
	return side{
		name: sqliteName, own: true,
		does: fmt.Sprintf("sqliteledger behind the batcher, %d callers with a claim each, one fsync per batch of at most %d",
			callers, sqliteBatch),
		run: func(ctx context.Context, r *round) (figure, error) {
			ledger, err := sqliteledger.Open(ctx, filepath.Join(r.dir, "ledger.db"), sqliteledger.Options{Node: "bench"})
			if err != nil {
				return figure{}, err
			}
			defer ledger.Close()
			return r.batched(ctx, ledger, sqliteBatch, 0, map[string]int{"client_and_ledger": os.Getpid()})
		},
	}
}

func openRedisGroup(context.Context, *options) ([]side, func(), error) {
	return append(redisSides("no"), sqliteSide()), func() {}, nil
}

func openFsyncGroup(context.Context, *options) ([]side, func(), error) {
	return redisSides("always"), func() {}, nil
}

func redisSides(fsync string) (all []side) {
	for _, repeats := range []int{0, someRepeats} {
		all = append(all, usualSides(fsync, repeats)...)
		all = append(all, batchedSide(fsync, repeats), writerSide(fsync, repeats))
	}
	return all
}

// loadSale brings an open sale into a ledger.
func loadSale(ctx context.Context, ledger sluice.Ledger, sale sluice.SaleID) error {
	opened := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	terms := sluice.Terms{Version: 1, Total: ledgerTotal, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: opened}
	if err := ledger.Load(ctx, sluice.LoadImage{Sale: sale, Epoch: 1, Terms: terms}); err != nil {
		return err
	}
	return ledger.Unfence(ctx, sale, 1)
}

// batched measures a ledger behind the batcher. A percentage of claims are repeats.
func (r *round) batched(
	ctx context.Context, ledger sluice.Ledger, maxBatch, percent int, pids map[string]int,
) (figure, error) {
	if err := loadSale(ctx, ledger, ledgerSale); err != nil {
		return figure{}, err
	}
	return r.decided(ctx, ledger, maxBatch, percent, pids, func(accepted int64) error {
		return checkLedger(ctx, ledger, accepted)
	})
}

// decided is batched for anything that decides; check compares what it has with what was
// accepted.
func (r *round) decided(
	ctx context.Context, ledger sluice.Decider, maxBatch, percent int, pids map[string]int,
	check func(accepted int64) error,
) (figure, error) {
	if r.batch > 0 {
		maxBatch = r.batch
	}
	var calls, claims, repeated atomic.Int64
	batcher := admission.NewBatcher(ledger, admission.BatcherOptions{
		MaxBatch: maxBatch, Calls: r.flights,
		Decided: func(_ sluice.SaleID, _ []sluice.Claim, decisions []sluice.Decision) {
			calls.Add(1)
			claims.Add(int64(len(decisions)))
		},
	})
	workers := make([]work, r.callers)
	for i := range workers {
		own, cancel := context.WithCancel(ctx) // as every HTTP request has its own
		defer cancel()
		workers[i] = caller(own, batcher, r.crowd, int64(i), int64(r.callers), percent, &repeated)
	}
	f, total, err := r.drive(ctx, workers, pids)
	if err == nil {
		err = batcher.Close(ctx)
	}
	if err == nil {
		err = check(total - repeated.Load())
	}
	if err == nil {
		f.also["claims_per_call"] = float64(claims.Load()) / float64(calls.Load())
	}
	return f, err
}

// caller claims a unit for every step-th buyer.
func caller(
	ctx context.Context, batcher *admission.Batcher, buyers crowd, first, step int64, percent int, repeated *atomic.Int64,
) work {
	n, sent := first, 0
	var order sluice.OrderID // of the last claim
	return func() (int, error) {
		again := repeats(percent, sent)
		if again {
			n -= step
			repeated.Add(1)
		}
		sent++
		claim := sluice.Claim{Quantity: 1}
		claim.Buyer, claim.Key = buyers.attempt(n)
		n += step
		decision, err := batcher.Claim(ctx, ledgerSale, claim)
		if err != nil {
			return 0, err
		}
		if decision.Code != sluice.Accepted || decision.Replayed != again || again && decision.Order != order {
			return 0, fmt.Errorf("claim %d: %s, order %q, replayed %t; want it accepted, and a repeat as %q", n-step,
				decision.Code, decision.Order, decision.Replayed, order)
		}
		order = decision.Order
		return 1, nil
	}
}

// checkLedger compares what was accepted with what the ledger has: units,
// sequence, buyers, and the journal, claim by claim.
func checkLedger(ctx context.Context, ledger sluice.Ledger, accepted int64) error {
	readings, err := ledger.Read(ctx, []sluice.SaleID{ledgerSale})
	if err != nil {
		return err
	}
	if r := readings[0]; !r.Loaded || r.Fence != "" || r.Taken != accepted || r.Seq != accepted {
		return fmt.Errorf("accepted %d, but the ledger has taken %d units up to sequence %d, fence %q", accepted, r.Taken,
			r.Seq, r.Fence)
	}
	holders := map[sluice.BuyerID]struct{}{}
	err = ledger.Holders(ctx, ledgerSale, func(b sluice.BuyerID) bool {
		holders[b] = struct{}{}
		return true
	})
	if err != nil {
		return err
	}
	if int64(len(holders)) != accepted {
		return fmt.Errorf("accepted %d, but the ledger knows %d buyers", accepted, len(holders))
	}
	var next int64 = 1
	var damage error
	err = ledger.PeekJournal(ctx, ledgerSale, func(e sluice.Entry) bool {
		if e.Damage != nil || e.FirstSeq != next {
			damage = fmt.Errorf("journal entry %s starts at sequence %d, want %d (damage: %v)", e.ID, e.FirstSeq, next, e.Damage)
			return false
		}
		next += int64(len(e.Claims))
		return !slices.ContainsFunc(e.Claims, func(c sluice.Claim) bool {
			if _, ok := holders[c.Buyer]; !ok {
				damage = fmt.Errorf("journal entry %s: %s is not among the buyers", e.ID, c.Buyer)
			}
			delete(holders, c.Buyer)
			return damage != nil
		})
	})
	if err == nil {
		err = damage
	}
	if err == nil && next-1 != accepted {
		err = fmt.Errorf("accepted %d, but the journal holds %d claims", accepted, next-1)
	}
	return err
}
