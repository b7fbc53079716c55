package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// testSnapshotOfEndings: what the audit checks I6 with.
func testSnapshotOfEndings(t *testing.T, db Database) {
	s := db.Open(t)
	releases := ended(t, s, "phones", 3)
	ended(t, s, "tablets", 2) // another sale's are not in it
	src := source{sale: "phones", epoch: 1, seq: 3, made: 3}
	src.store(t, s, 2)
	lives := look(t, s, "phones").Orders[3:]
	change(t, s, want(lives[0].ID, sluice.Pay)) // a payment ends nothing

	check := func(when string, returning int) {
		t.Helper()
		times, waiting := map[sluice.OrderID]int64{}, map[sluice.OrderID]bool{}
		must.Succeed(t, s.Snapshot(t.Context(), "phones", func(snap port.Snapshot) error {
			n := 0
			if err := snap.Endings(func(sluice.OrderID, int64) bool { n++; return false }); err != nil || n != 1 {
				t.Errorf("%s: stopped after %d endings, %v; want 1", when, n, err)
			}
			if err := snap.Endings(func(id sluice.OrderID, n int64) bool { times[id] = n; return true }); err != nil {
				return err
			}
			return snap.Returning(func(id sluice.OrderID) bool { waiting[id] = true; return true })
		}))
		if len(times) != len(releases) || len(waiting) != returning {
			t.Errorf("%s: %d orders ended, the units of %d are in the outbox; want %d and %d", when, len(times), len(waiting),
				len(releases), returning)
		}
		for _, r := range releases {
			if times[r.Order] != 1 || returning > 0 && !waiting[r.Order] {
				t.Errorf("%s: order %s ended %d times, in the outbox: %v", when, r.Order, times[r.Order], waiting[r.Order])
			}
		}
	}
	check("ended", len(releases))
	for range 2 {
		must.Get(s.GiveReleases(t.Context(), 10, func(sluice.SaleID, []port.Release) error { return nil }))(t)
	}
	check("given back", 0)
	change(t, s, sluice.Change{Order: releases[0].Order, Action: sluice.Pay, PaymentID: "late", By: "test"})
	check("paid too late", 0) // refund_due is no second end
}

// However many audits read, the server's heartbeat and the pipeline get through.
func testReadingLeavesAConnection(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	inside, leave := make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	for range 40 { // more than any pool
		reading.Go(func() {
			err := s.Snapshot(t.Context(), "phones", func(port.Snapshot) error {
				select {
				case inside <- struct{}{}:
				case <-leave:
				}
				<-leave
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	<-inside
	for full := false; !full; { // no more get a connection
		select {
		case <-inside:
		case <-time.After(200 * time.Millisecond):
			full = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Heartbeat(ctx, port.Server{Node: "a"}); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	src := source{sale: "phones", epoch: 1}
	if _, err := s.Insert(ctx, "phones", []port.Entry{src.entry(1)}); err != nil {
		t.Errorf("insert: %v", err)
	}
	close(leave)
	reading.Wait()
}
