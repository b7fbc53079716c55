package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// replicaWatch watches whether the ledger has the replicas that claims wait for: before a sale
// opens there is no claim by which an operator would see that they are missing.
type replicaWatch struct {
	ledger port.ReplicatedLedger
	log    *slog.Logger
	last   atomic.Pointer[error] // what the last look has found
}

// newReplicaWatch returns nil if claims wait for no replicas.
func newReplicaWatch(ledger port.Ledger, c *Config) *replicaWatch {
	replicated, ok := port.As[port.ReplicatedLedger](ledger)
	if !ok || c.WaitReplicas <= 0 {
		return nil
	}
	return &replicaWatch{ledger: replicated, log: c.Log}
}

// now is what the last look has found.
func (w *replicaWatch) now() error {
	if err := w.last.Load(); err != nil {
		return *err
	}
	return nil
}

// replicasEvery is how often a server looks.
const replicasEvery = 5 * time.Second

func (w *replicaWatch) run(ctx context.Context) {
	trouble := loop.Trouble{
		Log: w.log, Begins: "too few replicas for wait_replicas: claims of some sales are not accepted",
		Ceases: "there are enough replicas for wait_replicas again",
	}
	for range loop.Every(ctx, replicasEvery) {
		err := w.ledger.CheckReplicas(ctx)
		w.last.Store(&err)
		trouble.Note(err)
	}
}
