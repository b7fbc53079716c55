package sluice

import (
	"context"
	"time"
)

// ClusterStore is how the servers of one store know of each other: jobs that
// one of them does at a time, and a rebuild that waits for all of them.
type ClusterStore interface {
	// Lease takes the named lease for holder, or renews it, for ttl by the
	// store's clock. False: another holds it. Nothing may depend on a lease for
	// being correct, only for not being done twice.
	Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// Unlease gives a lease back. It is idempotent.
	Unlease(ctx context.Context, name, holder string) error

	// Heartbeat says that a server lives.
	Heartbeat(ctx context.Context, node string) error
	// LiveNodes returns the servers whose last heartbeat is younger than within.
	LiveNodes(ctx context.Context, within time.Duration) ([]string, error)

	// MarkGathered says that a server has stored every claim it remembers of
	// this epoch of a sale. Gathered returns the servers that have said so.
	MarkGathered(ctx context.Context, sale SaleID, epoch int64, node string) error
	Gathered(ctx context.Context, sale SaleID, epoch int64) ([]string, error)
}
