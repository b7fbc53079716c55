package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// attendance watches whether the ledger has the replicas that claims wait for: before a sale
// opens there is no claim by which an operator would see that they are missing.
type attendance struct {
	ledger port.AttendedLedger
	log    *slog.Logger
	last   atomic.Pointer[error] // what the last look has found
}

// newAttendance returns nil if claims wait for no replicas.
func newAttendance(ledger port.Ledger, c *Config) *attendance {
	attended, ok := port.As[port.AttendedLedger](ledger)
	if !ok || c.WaitReplicas <= 0 {
		return nil
	}
	return &attendance{ledger: attended, log: c.Log}
}

// now is what the last look has found.
func (a *attendance) now() error {
	if err := a.last.Load(); err != nil {
		return *err
	}
	return nil
}

// attendEvery is how often a server looks.
const attendEvery = 5 * time.Second

func (a *attendance) run(ctx context.Context) {
	trouble := loop.Trouble{
		Log: a.log, Begins: "too few replicas for wait_replicas: claims of some sales are not accepted",
		Ceases: "there are enough replicas for wait_replicas again",
	}
	for range loop.Every(ctx, attendEvery) {
		err := a.ledger.Attended(ctx)
		a.last.Store(&err)
		trouble.Note(err)
	}
}
