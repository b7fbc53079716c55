package pgstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// Expiry, cancelling and redelivery take locks in one order (see the comment of
// sqlcore). A deadlock would be mended by trying again, and so not be seen in
// the outcome; but the database waits for a second first, and with it all who
// want to store orders. So here the database is asked.
func TestNobodyWaitsInACircle(t *testing.T) {
	server := servertest.StartPostgres(t)
	const sales, perSale, workers = 4, 100, 4
	handles := make([]*pgstore.Store, workers)
	for i := range handles {
		handles[i] = open(t, server.URL())
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
		if _, err := handles[0].Insert(t.Context(), sale.ID, entries[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	// All are due, those of the sales in turns, so that a batch is of many.
	execute(t, server.URL(), `UPDATE orders SET stored_at = stored_at - interval '2 hours',
		expires_at = expires_at - interval '1 hour' - seq * interval '1 second', keep_until = keep_until - interval '1 hour' - seq * interval '1 second'`)

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
				if i%5 == 0 {
					k := (i / 5) % sales
					if _, err := s.Insert(t.Context(), entries[k].Sale, entries[k:k+1]); err != nil {
						t.Error(err)
					}
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
	if n := deadlocks(t, server.URL()); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// deadlocks counts those of the database, once all connections of stores are
// gone: that is when each has told its numbers.
func deadlocks(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for deadline := time.Now().Add(time.Minute); ; {
		var others int
		err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice'), deadlocks
			FROM pg_stat_database WHERE datname = current_database()`).Scan(&others, &n)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d connections are left, %v", others, err)
		}
		if others == 0 {
			return n
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func execute(t testing.TB, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
