package engine_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/must"
)

// The database refuses the orders of some buyers, who were promised units: dead
// letters. The sale sells out, and buyers keep asking while it is rebuilt, at an
// operator's request, at once again, and after the loss of Redis, while the database goes
// on refusing. The promises keep their units, and have one letter each.
func TestDeadLettersKeepTheirUnits(t *testing.T) {
	t.Parallel()
	const total, refused = 40, 10
	f := newFleet(t, 2, total)
	ctx := t.Context()
	db := must.Get(pgx.Connect(ctx, f.store))(t)
	defer db.Close(context.Background())
	do := func(sql string) {
		t.Helper()
		must.Get(db.Exec(ctx, sql))(t)
	}
	do(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF NEW.buyer_id < 'buyer-00010' THEN RAISE EXCEPTION 'not these'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION refuse()`)
	promised := map[int]string{}
	buy := func(buyer int) {
		t.Helper()
		status, order := f.claim(buyer%2, buyer)
		if status != http.StatusAccepted {
			t.Fatalf("buyer %d: %d", buyer, status)
		}
		promised[buyer] = order
	}
	for buyer := range refused {
		buy(buyer)
	}
	for buyer := refused; buyer < total; buyer++ { // attempts count while others are stored
		buy(buyer)
		time.Sleep(100 * time.Millisecond)
	}
	count := func(sql string) (n int) {
		t.Helper()
		must.Succeed(t, db.QueryRow(ctx, sql).Scan(&n))
		return n
	}
	f.until("the dead letters", func() bool {
		sale, err := f.clients[0].AdminSale(ctx, f.sale)
		return err == nil && sale.Backlog == 0 && count("SELECT count(*) FROM dead_letters") > 0
	})

	var strangers sync.WaitGroup
	var stop atomic.Bool
	var sold atomic.Int64
	for g := range 4 {
		strangers.Go(func() {
			for buyer := 1000 * (g + 1); !stop.Load(); buyer++ {
				if status, _ := f.claim(g%2, buyer); status == http.StatusAccepted {
					sold.Add(1)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	rebuilt := func(epoch int64) {
		t.Helper()
		f.until("the rebuild", func() bool {
			sale, err := f.clients[0].AdminSale(ctx, f.sale)
			return err == nil && sale.Epoch >= epoch && sale.Fence == "" && sale.State != "unavailable"
		})
		time.Sleep(time.Second) // the strangers ask
		for buyer, order := range promised {
			if !f.keeps(0, buyer, order) {
				t.Errorf("in epoch %d", epoch)
			}
		}
	}
	time.Sleep(2 * time.Second) // the servers read that the journal is empty, and remember the claims no longer
	lose := newOlderCopy(t, f.store)
	lose.exec("UPDATE sales SET fence = 'lost: by a test'")
	rebuilt(2)
	lose.exec("UPDATE sales SET fence = 'lost: by a test'") // while the servers remember the repeats
	rebuilt(3)
	f.flush()
	rebuilt(4)
	if n := count("SELECT count(*) FROM dead_letters WHERE resolved_at IS NULL"); n > refused {
		t.Errorf("%d letters for %d claims", n, refused)
	}
	do("DROP TRIGGER refuse ON orders")
	letters := must.Get(f.clients[0].DeadLetters(ctx, f.sale))(t)
	for i := range letters {
		if _, err := f.clients[i%2].ReplayDeadLetter(ctx, letters[i].ID); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	strangers.Wait()
	if n := sold.Load(); n > 0 {
		t.Errorf("%d units were sold a second time", n)
	}

	f.until("the orders", func() bool {
		return count("SELECT count(*) FROM orders WHERE status = 'pending'") == total &&
			count("SELECT count(*) FROM dead_letters WHERE resolved_at IS NULL") == 0
	})
	f.until("the audit to be complete", func() bool {
		report, err := f.engines[0].Audit(ctx, f.sale)
		return err == nil && report.OK
	})
}
