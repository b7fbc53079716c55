package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// The database goes away in the middle and comes back: calls fail meanwhile,
// none of them half-way, and then the same store goes on. A lazily opened
// store does so even if the database was not there at first.
func TestDatabaseGoesAndComesBack(t *testing.T) {
	server := servertest.StartPostgres(t)
	server.Stop(t)
	_, err := pgstore.Open(t.Context(), server.URL(), pgstore.Options{})
	if !errors.Is(err, pgstore.ErrUnreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	s, err := pgstore.Open(t.Context(), server.URL(), pgstore.Options{Lazy: true})
	s = kept(t, s, err)
	if err := s.Ping(t.Context()); !errors.Is(err, pgstore.ErrUnreachable) || !errors.Is(s.NotReady(), pgstore.ErrUnreachable) {
		t.Errorf("ping: %v, not ready: %v", err, s.NotReady())
	}
	server.Start(t)
	await(t, s)
	if why := s.NotReady(); why != nil {
		t.Errorf("not ready: %v", why)
	}
	load(t, s)

	for name, end := range map[string]func(testing.TB){"stop": server.Stop, "kill": server.Kill} {
		before := orders(t, s)
		// A writer is at work all the time; it repeats what fails, as the
		// pipeline does.
		ctx, finish := context.WithCancel(t.Context())
		done := make(chan error, 1)
		failed := make(chan struct{}, 1)
		working := make(chan struct{}, 1)
		go func() { done <- write(ctx, s, before, working, failed) }()
		<-working
		end(t)
		<-failed
		if err := s.Ping(t.Context()); err == nil {
			t.Errorf("%s: ping: no error", name)
		}
		server.Start(t)
		await(t, s)
		for range 20 {
			<-working
		}
		finish()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := orders(t, s); after <= before {
			t.Errorf("%s: %d orders before, %d after", name, before, after)
		}
	}
}

// write stores one batch after the other until the context ends, each until it
// is stored. It signals what it is doing without waiting for anybody.
func write(ctx context.Context, s sluice.Store, stored int, working, failed chan<- struct{}) error {
	defer close(working) // whoever waits for a signal goes on, and sees the error
	defer close(failed)
	for n := stored/perBatch + 1; ctx.Err() == nil; n++ {
		entry := benchEntry(n)
		for {
			got, err := s.Insert(context.WithoutCancel(ctx), "phones", []sluice.Entry{entry})
			if err == nil {
				if got.Inserted+got.Redelivered != perBatch || got.Inserted != 0 && got.Redelivered != 0 {
					return errors.New("a batch was stored in part")
				}
				break
			}
			signal(failed)
			time.Sleep(time.Millisecond)
		}
		signal(working)
	}
	return nil
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// await pings until the store answers.
func await(t *testing.T, s sluice.Store) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := s.Ping(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func load(t testing.TB, s sluice.Store) {
	t.Helper()
	if _, err := s.CreateSale(t.Context(), aSale(sluice.Unlimited)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BeginLoad(t.Context(), "phones"); err != nil {
		t.Fatal(err)
	}
	if err := s.ConfirmLoad(t.Context(), "phones", 1); err != nil {
		t.Fatal(err)
	}
}

// orders counts the stored orders, and checks that they are whole batches, once
// each.
func orders(t *testing.T, s sluice.Store) int {
	t.Helper()
	var seqs []int64
	err := s.Snapshot(t.Context(), "phones", func(snap sluice.Snapshot) error {
		err := snap.Orders(func(o sluice.Order) bool { seqs = append(seqs, o.Seq); return true })
		if snap.Sale().Taken != int64(len(seqs)) {
			t.Errorf("taken %d, %d orders (I2)", snap.Sale().Taken, len(seqs))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(seqs)
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("sequence %d is at place %d (I5)", seq, i+1)
		}
	}
	if len(seqs)%perBatch != 0 {
		t.Errorf("%d orders are no whole batches", len(seqs))
	}
	return len(seqs)
}
