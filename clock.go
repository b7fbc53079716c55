package sluice

import (
	"context"
	"time"
)

// ClockStore tells the store's clock, which judges payments and expiry.
type ClockStore interface {
	// Clock returns the store's time, in whole milliseconds.
	Clock(ctx context.Context) (time.Time, error)
}
