package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Expiry, cancelling, heartbeats and redelivery take locks in one order (see
// the comment of sqlcore). A deadlock would be mended by trying again, and so
// not be seen in the outcome; but the database may wait for a second first, and
// with it all who want to store orders. So here the database is asked.
func testNoCircle(t *testing.T, server *Server) {
	url := server.Start(t).URL()
	const sales, perSale, workers = 4, 100, 4
	handles := make([]port.Store, workers)
	for i := range handles {
		handles[i] = server.open(t, url)
	}
	entries := make([]port.Entry, sales)
	for i := range entries {
		sale := aSale(sluice.SaleID(fmt.Sprintf("sale-%d", i)), sluice.MaxUnits)
		create(t, handles[0], sale)
		entries[i] = Batch(1)
		entries[i].Sale, entries[i].Claims = sale.ID, entries[i].Claims[:perSale]
		for k := range entries[i].Claims {
			entries[i].Claims[k].Order = sale.ID.Order(fmt.Sprintf("%032x", k))
		}
		InsertBatch(t, handles[0], entries[i])
	}
	// All are due, those of the sales in turns, so that a batch is of many.
	execute(t, server.Raw(t, url), fmt.Sprintf("UPDATE orders SET stored_at = %s, expires_at = %s, keep_until = %s",
		server.Earlier("stored_at", "7200"), server.Earlier("expires_at", "3600 + seq"),
		server.Earlier("keep_until", "3600 + seq")))

	var running sync.WaitGroup
	for worker := range workers {
		s := handles[worker]
		running.Go(func() {
			for {
				n, err := expireDue(t.Context(), s, 6)
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
					_, err = s.GiveReleases(t.Context(), 10, func(sluice.SaleID, []port.Release) error { return nil })
				case 2:
					err = s.Heartbeat(t.Context(), port.Server{Node: fmt.Sprintf("node-%d", i)}) // each is new, as at a start
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
