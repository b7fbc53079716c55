package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/floor"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// Sluice's way: callers who claim one unit each through the batcher, and wait
// for their own answer, as HTTP requests do.

const (
	ledgerSale  = sluice.SaleID(shopSale)
	ledgerTotal = 1_000_000_000

	// callers is how many claims are under way at a time.
	callers = 3200

	// The batch sizes that the engine uses for each ledger.
	redisBatch, sqliteBatch = 1000, 2000
)

const (
	batchedName = "Redis ledger, batched, no fsync"
	writerName  = "Redis, the same written, nothing decided, no fsync"
	sqliteName  = "embedded ledger, batched, fsync always"
)

func openRedisGroup(context.Context, *options) ([]side, func(), error) {
	return []side{batchedSide(), writerSide(), sqliteSide()}, func() {}, nil
}

// startRedis starts a Redis of one round's own: empty, with an append-only file in the
// round's folder. Fsync is its appendfsync: "no" leaves the disk to the operating system,
// "always" is one fsync per turn of Redis' loop, before it answers. The file is not
// rewritten while it is measured.
func startRedis(dir, fsync string) (*servertest.RedisServer, error) {
	return servertest.NewRedis(dir, "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0")
}

func batchedSide() side {
	return side{
		name: batchedName, own: true,
		does: fmt.Sprintf("redisledger behind the batcher, %d callers with a claim each, batches of at most %d, of which "+
			"each 250 are one EVALSHA", callers, redisBatch),
		run: func(ctx context.Context, r *round) (figure, error) {
			server, err := startRedis(r.dir, "no")
			if err != nil {
				return figure{}, err
			}
			defer server.Close()
			ledger, err := redisledger.Open(ctx, server.URL(), redisledger.Options{Node: "bench"})
			if err != nil {
				return figure{}, err
			}
			defer ledger.Close()
			return r.batched(ctx, ledger, redisBatch, map[string]int{"client": os.Getpid(), "redis": server.Pid()})
		},
	}
}

func writerSide() side {
	return side{
		name: writerName,
		does: fmt.Sprintf("as redisledger behind the batcher, with the same %d callers and batches: buyers' records are "+
			"looked for, and returned where they are; else record and journal are written, and every claim counts as "+
			"accepted", callers),
		run: func(ctx context.Context, r *round) (figure, error) {
			server, err := startRedis(r.dir, "no")
			if err != nil {
				return figure{}, err
			}
			defer server.Close()
			w, err := floor.NewWriter(ctx, server.URL())
			if err != nil {
				return figure{}, err
			}
			defer w.Close()
			pids := map[string]int{"client": os.Getpid(), "redis": server.Pid()}
			return r.decided(ctx, w, redisBatch, pids, func(accepted int64) error {
				return w.Check(ctx, ledgerSale, accepted)
			})
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
			return r.batched(ctx, ledger, sqliteBatch, map[string]int{"client_and_ledger": os.Getpid()})
		},
	}
}

// loadSale brings an open sale into a ledger.
func loadSale(ctx context.Context, ledger port.Ledger, sale sluice.SaleID) error {
	opened := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	terms := sluice.Terms{Version: 1, Total: ledgerTotal, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: opened}
	if err := ledger.Load(ctx, port.LoadImage{Sale: sale, Epoch: 1, Terms: terms}); err != nil {
		return err
	}
	return ledger.Unfence(ctx, sale, 1)
}

// batched measures a ledger behind the batcher.
func (r *round) batched(ctx context.Context, ledger port.Ledger, maxBatch int, pids map[string]int) (figure, error) {
	if err := loadSale(ctx, ledger, ledgerSale); err != nil {
		return figure{}, err
	}
	return r.decided(ctx, ledger, maxBatch, pids, func(accepted int64) error {
		return checkLedger(ctx, ledger, accepted)
	})
}

// decided is batched for anything that decides; check compares what it has with what was
// accepted.
func (r *round) decided(
	ctx context.Context, ledger port.Decider, maxBatch int, pids map[string]int, check func(accepted int64) error,
) (figure, error) {
	var calls, claims atomic.Int64
	batcher := admission.NewBatcher(ledger, admission.BatcherOptions{
		MaxBatch: maxBatch,
		Decided: func(_ sluice.SaleID, _ []sluice.Claim, decisions []sluice.Decision) {
			calls.Add(1)
			claims.Add(int64(len(decisions)))
		},
	})
	workers := make([]work, callers)
	for i := range workers {
		own, cancel := context.WithCancel(ctx) // as every HTTP request has its own
		defer cancel()
		workers[i] = caller(own, batcher, r.crowd, int64(i))
	}
	f, total, err := r.drive(ctx, workers, pids)
	if err == nil {
		err = batcher.Close(ctx)
	}
	if err == nil {
		err = check(total)
	}
	if err == nil {
		f.also["claims_per_call"] = float64(claims.Load()) / float64(calls.Load())
	}
	return f, err
}

// caller claims a unit for every buyer whose number is its own.
func caller(ctx context.Context, batcher *admission.Batcher, buyers crowd.Crowd, n int64) work {
	return func() (int, error) {
		claim := sluice.Claim{Quantity: 1}
		claim.Buyer, claim.Key = buyers.Attempt(n)
		n += callers
		decision, err := batcher.Claim(ctx, ledgerSale, claim)
		if err != nil {
			return 0, err
		}
		if decision.Code != sluice.Accepted || decision.Replayed {
			return 0, fmt.Errorf("claim %d: %s, replayed %t; want it accepted", n-callers, decision.Code, decision.Replayed)
		}
		return 1, nil
	}
}

// checkLedger compares what was accepted with what the ledger has: units,
// sequence, buyers, and the journal, claim by claim.
func checkLedger(ctx context.Context, ledger port.Ledger, accepted int64) error {
	readings, err := ledger.Read(ctx, []sluice.SaleID{ledgerSale})
	if err != nil {
		return err
	}
	if r := readings[0]; !r.Loaded || r.Fence != "" || r.Taken != accepted || r.Seq != accepted {
		return fmt.Errorf("accepted %d, but the ledger has taken %d units up to sequence %d, fence %q", accepted, r.Taken,
			r.Seq, r.Fence)
	}
	holders := map[sluice.BuyerID]bool{} // true: also in the journal
	err = ledger.Holders(ctx, ledgerSale, func(b sluice.BuyerID) bool {
		holders[b] = false
		return true
	})
	if err != nil {
		return err
	}
	next, wrong := int64(1), error(nil)
	err = ledger.PeekJournal(ctx, ledgerSale, func(e port.Entry) bool {
		if e.Damage != nil || e.FirstSeq != next {
			wrong = fmt.Errorf("journal entry %s starts at sequence %d, want %d (damage: %v)", e.ID, e.FirstSeq, next, e.Damage)
		}
		next += int64(len(e.Claims))
		for _, c := range e.Claims {
			if twice, held := holders[c.Buyer]; !held || twice {
				wrong = fmt.Errorf("journal entry %s: %s is not among the buyers, or is there twice", e.ID, c.Buyer)
			}
			holders[c.Buyer] = true
		}
		return wrong == nil
	})
	if err = cmp.Or(err, wrong); err == nil && (next-1 != accepted || int64(len(holders)) != accepted) {
		err = fmt.Errorf("accepted %d, but the journal holds %d claims, the ledger %d buyers", accepted, next-1, len(holders))
	}
	return err
}
