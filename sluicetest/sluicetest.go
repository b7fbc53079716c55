// Package sluicetest runs Sluice in the tests of a shop.
//
// It works inside a bubble of testing/synctest, where the fifteen minutes after which an unpaid
// order expires pass at once (see the example).
package sluicetest

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
)

// closing is how long an engine may take to store what it has accepted.
const closing = time.Minute

// Open opens an engine for this test alone: embedded, in a temporary folder unless c names
// another, silent unless c has a log. It is closed when the test ends. An engine that cannot be
// opened or closed fails the test.
func Open(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	if c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	e, err := engine.Open(context.Background(), c)
	if err != nil {
		t.Fatalf("sluicetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("sluicetest: %v", err)
		}
	})
	return e
}
