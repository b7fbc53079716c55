package storetest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// I1 for the second time: whatever many servers bring, at once, the store
// holds no more than the total, and exactly the total if more is brought.
func testConcurrentCap(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", 150)
	var entries []port.Entry
	for range 40 {
		entries = append(entries, src.entry(5))
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	total := port.Stored{}
	for worker := range 8 {
		running.Go(func() {
			for i := worker; i < len(entries); i += 8 {
				got, err := handles[worker%3].Insert(t.Context(), "phones", entries[i:i+1])
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total.Inserted += got.Inserted
				total.Rejected = append(total.Rejected, got.Rejected...)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	c := mustBeSound(t, handles[0], "phones")
	if c.Sale.Taken != 150 || len(c.Orders) != 200 || total.Inserted != 200 || len(total.Rejected) != 50 ||
		c.Sale.Fence == "" {
		t.Errorf("taken %d, %d orders; told: %d inserted, %d rejected; fence %q",
			c.Sale.Taken, len(c.Orders), total.Inserted, len(total.Rejected), c.Sale.Fence)
	}
}

// Servers that hold the same entries, cut and ordered differently, store each
// claim once (I5), and none of them fails.
func testConcurrentRedelivery(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	var entries []port.Entry
	for range 12 {
		entries = append(entries, src.entryOf(1, 2, 3, 4))
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	inserted, redelivered := 0, 0
	for worker := range 6 {
		mine := slices.Clone(entries)
		random := rand.New(rand.NewPCG(1, uint64(worker)))
		for i := range mine {
			head, tail := split(mine[i], 1+random.IntN(3))
			mine[i] = head
			mine = append(mine, tail)
		}
		random.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
		running.Go(func() {
			for batch := range slices.Chunk(mine, 5) {
				got, err := handles[worker%3].Insert(t.Context(), "phones", batch)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				inserted += got.Inserted
				redelivered += got.Redelivered
				mu.Unlock()
			}
		})
	}
	running.Wait()
	c := mustBeSound(t, handles[0], "phones")
	if len(c.Orders) != 48 || c.Sale.Taken != 120 || inserted != 48 || redelivered != 5*48 {
		t.Errorf("%d orders, taken %d; told: %d inserted, %d redelivered", len(c.Orders), c.Sale.Taken, inserted, redelivered)
	}
}

// A snapshot shows one moment: its counter and its orders agree while writers
// store, change and reject.
func testSnapshotConsistency(t *testing.T, db Database) {
	s, reader := db.Open(t), db.Open(t)
	src := selling(t, s, "phones", 700)
	var entries []port.Entry
	for range 80 {
		entries = append(entries, src.entry(10))
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for i := worker; i < len(entries); i += 4 {
				if _, err := s.Insert(t.Context(), "phones", entries[i:i+1]); err != nil {
					t.Error(err)
				}
				if i%5 == 0 {
					_, err := s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error { s.Paused = !s.Paused; return nil })
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	go func() { running.Wait(); close(done) }()
	for looks, last := 0, int64(-1); ; looks++ {
		c, err := lookInto(t.Context(), reader, "phones")
		if err == nil {
			err = c.sound()
		}
		if err != nil {
			t.Errorf("look %d: %v", looks, err)
		}
		if c.Sale.Taken < last {
			t.Errorf("look %d: taken went from %d to %d", looks, last, c.Sale.Taken)
		}
		last = c.Sale.Taken
		select {
		case <-done:
			if c := mustBeSound(t, reader, "phones"); c.Sale.Taken != 700 || len(c.Orders) != 800 {
				t.Errorf("taken %d, %d orders", c.Sale.Taken, len(c.Orders))
			}
			return
		default:
		}
	}
}
