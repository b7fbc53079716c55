package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// The database goes away in the middle and comes back: calls fail meanwhile,
// none of them half-way, and then the same store goes on. A lazily opened
// store does so even if the database was not there at first.
func testComesBack(t *testing.T, server *Server) {
	process := server.Start(t)
	process.Stop(t)
	_, err := server.Open(t.Context(), process.URL(), ServerOptions{})
	if !errors.Is(err, server.Unreachable) {
		t.Fatalf("error %v, want ErrUnreachable", err)
	}
	s, err := server.Open(t.Context(), process.URL(), ServerOptions{Lazy: true})
	s = Kept(t, s, err)
	if err := s.Ping(t.Context()); !errors.Is(err, server.Unreachable) || !errors.Is(s.NotReady(), server.Unreachable) {
		t.Errorf("ping: %v, not ready: %v", err, s.NotReady())
	}
	process.Start(t)
	await(t, s)
	if why := s.NotReady(); why != nil {
		t.Errorf("not ready: %v", why)
	}
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
func write(ctx context.Context, s sluice.Store, n int, working, failed chan<- struct{}) error {
	defer close(working) // whoever waits for a signal goes on, and sees the error
	defer close(failed)
	for ; ctx.Err() == nil; n++ {
		entry := Batch(n)
		for {
			got, err := s.Insert(context.WithoutCancel(ctx), "phones", []sluice.Entry{entry})
			if err == nil {
				if got.Inserted+got.Redelivered != BatchSize || got.Inserted != 0 && got.Redelivered != 0 {
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
func await(t *testing.T, s ServerStore) {
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

// Load creates the sale "phones", which has no total, and loads it, so that it
// can take batches.
func Load(t testing.TB, s sluice.Store) {
	t.Helper()
	create(t, s, aSale("phones", sluice.Unlimited))
}

// BatchSize is how many claims a Batch has.
const BatchSize = 500

// Batch returns the n-th entry, from 1, of the sale "phones": one unit each for
// new buyers, whose ids and keys are scattered as real ones are.
func Batch(n int) sluice.Entry {
	e := sluice.Entry{
		ID: fmt.Sprint(n), Sale: "phones", Epoch: 1, Node: "node-1", Terms: 1, At: time.Now(),
		FirstSeq: int64((n-1)*BatchSize + 1), Claims: make([]sluice.Claim, BatchSize),
	}
	for i := range e.Claims {
		at := e.FirstSeq + int64(i)
		e.Claims[i] = sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%x", at*0x9e3779b97f4a7c1%0xffffffff)), Key: sluice.Key(fmt.Sprintf("key-%08x", at*2654435761%0xffffffff)),
			Quantity: 1, Order: sluice.MakeOrderID("phones", fmt.Sprintf("%032x", at)), Meta: `{"channel":"app"}`,
		}
	}
	return e
}

// InsertBatch stores an entry of new claims.
func InsertBatch(t testing.TB, s sluice.Store, e sluice.Entry) {
	t.Helper()
	got, err := s.Insert(t.Context(), e.Sale, []sluice.Entry{e})
	if err != nil || got.Inserted != len(e.Claims) {
		t.Fatalf("%d of %d claims inserted, %v", got.Inserted, len(e.Claims), err)
	}
}

// Batches counts the stored batches. It checks that they are whole, once each,
// and that the counter agrees.
func Batches(t testing.TB, s sluice.Store) int {
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
	if len(seqs)%BatchSize != 0 {
		t.Errorf("%d orders are no whole batches", len(seqs))
	}
	return len(seqs) / BatchSize
}

// Expiry, cancelling, heartbeats and redelivery take locks in one order (see
// the comment of sqlcore). A deadlock would be mended by trying again, and so
// not be seen in the outcome; but the database may wait for a second first, and
// with it all who want to store orders. So here the database is asked.
func testNoCircle(t *testing.T, server *Server) {
	url := server.Start(t).URL()
	const sales, perSale, workers = 4, 100, 4
	handles := make([]ServerStore, workers)
	for i := range handles {
		handles[i] = server.open(t, url)
	}
	entries := make([]sluice.Entry, sales)
	for i := range entries {
		sale := aSale(sluice.SaleID(fmt.Sprintf("sale-%d", i)), sluice.MaxUnits)
		create(t, handles[0], sale)
		entries[i] = Batch(1)
		entries[i].Sale, entries[i].Claims = sale.ID, entries[i].Claims[:perSale]
		for k := range entries[i].Claims {
			entries[i].Claims[k].Order = sluice.MakeOrderID(sale.ID, fmt.Sprintf("%032x", k))
		}
		InsertBatch(t, handles[0], entries[i])
	}
	// All are due, those of the sales in turns, so that a batch is of many.
	execute(t, server.Raw(t, url), fmt.Sprintf("UPDATE orders SET stored_at = %s, expires_at = %s, keep_until = %s",
		server.Earlier("stored_at", "7200"), server.Earlier("expires_at", "3600 + seq"), server.Earlier("keep_until", "3600 + seq")))

	var running sync.WaitGroup
	for worker := range workers {
		s := handles[worker]
		running.Go(func() {
			for {
				n, err := s.ExpireDue(t.Context(), 6)
				if err != nil {
					t.Error(err)
				}
				if n == 0 {
					return
				}
			}
		})
		running.Go(func() {
			for i := worker; i < sales*perSale; i += workers {
				order := entries[i%sales].Claims[perSale-1-i/sales].Order
				_, err := s.Change(t.Context(), sluice.Change{Order: order, Action: sluice.Cancel})
				if refused := (*sluice.OrderStateError)(nil); err != nil && !errors.As(err, &refused) {
					t.Error(err)
				}
				switch i % 5 {
				case 0:
					k := i / 5 % sales
					_, err = s.Insert(t.Context(), entries[k].Sale, entries[k:k+1])
				case 1:
					_, err = s.GiveReleases(t.Context(), 10, func(sluice.SaleID, []sluice.Release) error { return nil })
				case 2:
					err = s.Heartbeat(t.Context(), fmt.Sprintf("node-%d", i)) // each is new, as at a start
				default:
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for _, s := range handles {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := server.Deadlocks(t, url); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}
