package settle

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
)

// errLeaseLost ends work whose lease went to another server meanwhile.
var errLeaseLost = errors.New("another server has taken over")

// rebuildLease names the lease of the server that loads a sale that was loaded before.
func rebuildLease(sale sluice.SaleID) string { return "rebuild:" + string(sale) }

// underLease runs work if this server gets the lease, and reports whether it
// did. The lease is renewed for as long as the work takes, and given back after
// it. If another server has got it the work's context ends: what the work does
// must be right even so (every step of a load is guarded by its epoch), but two
// servers that load the same sale only hold each other up. A store that does not
// answer ends nothing: it may be busy with the load itself.
func underLease(ctx context.Context, store sluice.ClusterStore, name, holder string, ttl time.Duration,
	work func(context.Context) error,
) (mine bool, err error) {
	mine, err = store.Lease(ctx, name, holder, ttl)
	if err != nil || !mine {
		return false, err
	}
	bound, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		renew(bound, cancel, store, name, holder, ttl)
	}()
	err = work(bound)
	if lost := context.Cause(bound); lost != nil && ctx.Err() == nil {
		err = errors.Join(lost, err)
	}
	cancel(nil)
	<-ended
	giveBack, done := context.WithTimeout(context.WithoutCancel(ctx), ttl)
	defer done()
	return true, errors.Join(err, store.Unlease(giveBack, name, holder))
}

// renew keeps a lease until ctx ends, and cancels when it is lost.
func renew(ctx context.Context, cancel context.CancelCauseFunc, store sluice.ClusterStore, name, holder string,
	ttl time.Duration,
) {
	for range loop.Ticks(ctx, ttl/4, nil) {
		step, done := context.WithTimeout(ctx, ttl/4)
		mine, err := store.Lease(step, name, holder, ttl)
		done()
		if err == nil && !mine {
			cancel(errLeaseLost)
			return
		}
	}
}
