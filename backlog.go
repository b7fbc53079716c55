package sluice

import (
	"context"
	"time"
)

// BacklogStore counts what a store's sales wait for, for metrics and alarms.
type BacklogStore interface {
	// Backlog returns what waits now, all of it of one moment.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is what waits in a store at one moment.
type Backlog struct {
	At    time.Time              // by the store's clock
	Sales map[SaleID]SaleBacklog // those that something waits of
}

// SaleBacklog is what waits of one sale.
type SaleBacklog struct {
	// DeadLetters are journal entries set aside and not dealt with.
	DeadLetters int64
	// Releases of ended orders are not with the ledger yet; OldestRelease is
	// when the first of them ended, zero without any.
	Releases      int64
	OldestRelease time.Time
	// Overdue orders are pending although their KeepUntil has passed; OldestDue
	// is the first KeepUntil, zero without any.
	Overdue   int64
	OldestDue time.Time
}
