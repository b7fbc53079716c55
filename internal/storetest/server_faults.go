package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// The database goes away in the middle and comes back: calls fail meanwhile,
// none of them half-way, and then the same store goes on. A lazily opened
// store does so even if the database was not there at first.
func testComesBack(t *testing.T, server *Server) {
	process := server.Start(t)
	process.Stop(t)
	_, err := server.Open(t.Context(), process.URL(), ServerOptions{})
	if !errors.Is(err, sluice.ErrStoreBusy) {
		t.Fatalf("error %v, want ErrStoreBusy", err)
	}
	s, err := server.Open(t.Context(), process.URL(), ServerOptions{Lazy: true})
	s = Kept(t, s, err)
	if err := s.Ping(t.Context()); !errors.Is(err, sluice.ErrStoreBusy) {
		t.Errorf("ping: %v, want ErrStoreBusy", err)
	}
	process.Start(t)
	await(t, s)
	Load(t, s)

	for name, end := range map[string]func(testing.TB){"stop": process.Stop, "kill": process.Kill} {
		before := Batches(t, s)
		// A writer is at work all the time; it repeats what fails, as the
		// pipeline does.
		ctx, finish := context.WithCancel(t.Context())
		done := make(chan error, 1)
		failed := make(chan struct{}, 1)
		working := make(chan struct{}, 1)
		go func() { done <- write(ctx, s, before+1, working, failed) }()
		<-working
		end(t)
		<-failed
		if err := s.Ping(t.Context()); err == nil {
			t.Errorf("%s: ping: no error", name)
		}
		process.Start(t)
		await(t, s)
		for range 20 {
			<-working
		}
		finish()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := Batches(t, s); after <= before {
			t.Errorf("%s: %d batches before, %d after", name, before, after)
		}
	}
}

// write stores one batch after the other, from the n-th on, until the context
// ends, each until it is stored. It signals what it is doing without waiting
// for anybody.
func write(ctx context.Context, s port.Store, n int, working, failed chan<- struct{}) error {
	defer close(working) // a test that waits for a signal goes on, and sees the error
	defer close(failed)
	for ; ctx.Err() == nil; n++ {
		entry := Batch(n)
		for {
			got, err := s.Insert(context.WithoutCancel(ctx), "phones", []port.Entry{entry})
			if err == nil {
				if got.Inserted+got.Redelivered != batchSize || got.Inserted != 0 && got.Redelivered != 0 {
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
func await(t *testing.T, s port.Store) {
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
