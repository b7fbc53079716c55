package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loglimit"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
)

// However long the store is too slow, and however often each entry fails by
// that, none of them becomes a dead letter.
func TestASlowStoreIsNotTheEntrysFault(t *testing.T) {
	r := newRig(t)
	var tries atomic.Int64
	r.faults.set(func(*port.Entry) error {
		if tries.Add(1) < 300 {
			return fmt.Errorf("%w: canceling statement due to lock timeout", sluice.ErrStoreBusy)
		}
		return nil
	}, nil)
	p := pipeline.New(r.faults, r.faults, pipeline.Options{
		Backoff: time.Millisecond, BackoffMax: 2 * time.Millisecond, Attempts: 3, Patience: time.Nanosecond, MaxClaims: 20,
	})
	defer p.Close(context.Background())
	orders := r.accept(10, 3)
	p.Wake(sale)
	r.drained(orders)
	if letters, err := r.store.DeadLetters(t.Context(), sale); len(letters) != 0 || err != nil {
		t.Errorf("%d entries were set aside because the store was slow, %v", len(letters), err)
	}
}

// A store that is quick enough for small transactions only gets small ones.
func TestASlowStoreGetsLessAtOnce(t *testing.T) {
	r := newRig(t)
	atOnce := 0
	r.faults.atOnce = func(entries []port.Entry) error {
		if atOnce = max(atOnce, len(entries)); len(entries) > 2 {
			return fmt.Errorf("%w: %w", sluice.ErrStoreBusy, context.DeadlineExceeded)
		}
		return nil
	}
	orders := r.accept(40, 2)
	p := r.pipeline()
	p.Wake(sale)
	r.drained(orders)
	if atOnce != 10 {
		t.Errorf("at most %d entries at once, want 10 of 2 claims to be tried", atOnce)
	}
}

// Entries that fail one by one, each for a cause with numbers of its own, write
// a few lines, not one each.
func TestTroubleIsLoggedNowAndThen(t *testing.T) {
	r := newRig(t)
	var tries atomic.Int64
	r.faults.set(func(e *port.Entry) error {
		if tries.Add(1) < 400 {
			return fmt.Errorf("order %s: an unknown constraint", e.Claims[0].Order)
		}
		return nil
	}, nil)
	var lines bytes.Buffer
	limit := loglimit.New(slog.NewTextHandler(&lines, nil)) // as the engine's log is limited
	p := pipeline.New(r.faults, r.faults, pipeline.Options{
		Backoff: time.Millisecond, BackoffMax: 2 * time.Millisecond, MaxClaims: 20, Attempts: 1000, Log: slog.New(limit),
	})
	orders := r.accept(100, 1)
	begun := time.Now()
	p.Wake(sale)
	r.drained(orders)
	if err := p.Close(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	limit.Close()
	most := 2 + int(time.Since(begun)/loglimit.Interval)
	if n := strings.Count(lines.String(), "\n"); n < 1 || n > most {
		t.Errorf("%d lines, want 1 to %d:\n%s", n, most, lines.String())
	}
}
