package mysqlstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// Expiry, cancelling, heartbeats and redelivery take locks in one order (see
// the comment of sqlcore). A deadlock would be mended by trying again, and so
// not be seen in the outcome; so here the database is asked.
func TestNobodyWaitsInACircle(t *testing.T) {
	url := servertest.StartMySQL(t).URL()
	const sales, perSale, workers = 4, 100, 4
	handles := make([]*mysqlstore.Store, workers)
	for i := range handles {
		handles[i] = open(t, url)
	}
	entries := make([]sluice.Entry, sales)
	for i := range entries {
		sale := aSale(sluice.MaxUnits)
		sale.ID = sluice.SaleID(fmt.Sprintf("sale-%d", i))
		if _, err := handles[0].CreateSale(t.Context(), sale); err != nil {
			t.Fatal(err)
		}
		entries[i] = benchEntry(1)
		entries[i].Sale, entries[i].Claims = sale.ID, entries[i].Claims[:perSale]
		for k := range entries[i].Claims {
			entries[i].Claims[k].Order = sluice.MakeOrderID(sale.ID, fmt.Sprintf("%032x", k))
		}
		if err := insert(t, handles[0], entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	// All are due, those of the sales in turns, so that a batch is of many.
	execute(t, mysqlstore.RawDB(handles[0]), `UPDATE orders SET stored_at = stored_at - INTERVAL 2 HOUR,
		expires_at = expires_at - INTERVAL 3600 + seq SECOND, keep_until = keep_until - INTERVAL 3600 + seq SECOND`)
	before := deadlocks(t, handles[0])

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
					_, err = s.Insert(t.Context(), entries[worker].Sale, entries[worker:worker+1])
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
	if n := deadlocks(t, handles[0]) - before; n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// deadlocks counts those of a MariaDB since it started.
func deadlocks(t *testing.T, s *mysqlstore.Store) (n int) {
	t.Helper()
	var name string
	if err := mysqlstore.RawDB(s).QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
