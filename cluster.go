package sluice

import (
	"context"
	"time"
)

// ClusterStore is how the servers of one store know of each other: jobs that
// one of them does at a time, and a rebuild that waits for all of them.
type ClusterStore interface {
	// Lease takes the named lease for holder, or renews it, for ttl by the
	// store's clock. False: another holds it. All servers ask for one name with
	// one ttl: a lease that ends later than ttl from now, by more than a second,
	// was taken before the store's clock stepped back, and has expired. Nothing
	// may depend on a lease for being correct, only for not being done twice.
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// Unlease gives a lease back. It is idempotent.
	Unlease(ctx context.Context, name, holder string) error

	// Heartbeat says that a server lives.
	Heartbeat(ctx context.Context, node string) error
	// LiveNodes returns the servers whose last heartbeat is less than within away
	// from the store's clock, on either side: a heartbeat farther ahead was sent
	// before the clock stepped back.
	LiveNodes(ctx context.Context, within time.Duration) ([]string, error)

	// MarkGathered says that a server has stored every claim it remembers of
	// this epoch of a sale. Gathered returns the servers that have said so.
	MarkGathered(ctx context.Context, sale SaleID, epoch int64, node string) error
	Gathered(ctx context.Context, sale SaleID, epoch int64) ([]string, error)

	// Tidy deletes what has done its work: lists of buyers of archived sales,
	// leases that ended long ago, marks of rebuilds that are over. Any server may
	// call it at any time.
	Tidy(ctx context.Context) error
}
