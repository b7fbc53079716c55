// Package storelock keeps locks in the table leases of a store of Sluice: see
// [lock.Backend].
//
// A program imports the store's package, as it does for an engine:
//
//	import _ "github.com/sluicehq/sluice/store/pgstore"
package storelock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/lock"
)

// Backend is a lock.Backend in a database.
type Backend struct{ store port.Store }

var _ lock.Backend = (*Backend)(nil)

// Open opens the store with this URL, like sqlite:PATH, postgres://USER@HOST/DATABASE or
// mysql://USER@HOST/DATABASE, and creates its tables if they are missing. The database
// may be one that servers of Sluice use at the same time, unless it is a file of theirs.
func Open(ctx context.Context, url string) (*Backend, error) {
	driver := port.StoreDriverOf(url)
	if driver == nil {
		scheme, _, _ := strings.Cut(url, ":") // the rest may hold a password
		return nil, fmt.Errorf("storelock: no store is imported that opens %q", scheme)
	}
	store, err := driver.Open(ctx, url, false)
	if err != nil {
		return nil, err
	}
	return &Backend{store}, nil
}

// Lease takes or renews a lock, by the database's clock.
func (b *Backend) Lease(ctx context.Context, name, owner string, fence int64, ttl time.Duration) (int64, error) {
	return b.store.Lease(ctx, name, owner, fence, ttl)
}

// Unlease gives a lock back.
func (b *Backend) Unlease(ctx context.Context, name, owner string) error {
	return b.store.Unlease(ctx, name, owner)
}

// Close closes the store. Locks that are held end with their ttl.
func (b *Backend) Close() error { return b.store.Close() }
