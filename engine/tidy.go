package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice"
)

// tidyEvery is how often one of the servers deletes what has done its work in
// the store, and tidyTimeout bounds it; the next one goes on.
const (
	tidyEvery   = time.Hour
	tidyTimeout = 10 * time.Minute
)

func tidy(ctx context.Context, store sluice.ClusterStore, node string, log *slog.Logger) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		if err := tidyOnce(ctx, store, node); err != nil && ctx.Err() == nil && !errors.Is(err, sluice.ErrStoreBusy) {
			log.Warn("what is over is not deleted from the store for now", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func tidyOnce(ctx context.Context, store sluice.ClusterStore, node string) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	// The lease is kept until the next time, so that the others need not.
	mine, err := store.Lease(ctx, "tidy", node, tidyEvery-time.Minute)
	if err != nil || !mine {
		return err
	}
	return store.Tidy(ctx)
}
