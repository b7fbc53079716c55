package settle

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/lock"
)

// leaseFor is how long the others wait for a server that has died in a rebuild.
const leaseFor = 15 * time.Second

// rebuildLease, with a sale, is the lease of who loads it.
const rebuildLease = "rebuild:"

// underLease loads a sale that was loaded before, if this server gets the lease,
// and reports whether it did. Every step of a load is guarded by its epoch, so the
// work is right even without the lease, but two servers that load the same sale
// only hold each other up. A store that does not answer ends nothing: it may be
// busy with the load itself.
func (r *Rebuilder) underLease(ctx context.Context, sale sluice.SaleID, work func(context.Context) error,
) (bool, error) {
	locker := lock.Locker{Backend: r.store, TTL: leaseFor, Owner: r.node, Patient: true}
	err := locker.Do(ctx, rebuildLease+string(sale), func(ctx context.Context, _ int64) error { return work(ctx) })
	if errors.Is(err, lock.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}
