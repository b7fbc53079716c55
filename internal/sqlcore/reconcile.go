package sqlcore

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	sqlReleaseOf = newStatement("ReleaseOf", `SELECT count(*) FROM releases WHERE order_id = ?`)
	sqlLiveUnits = newStatement("LiveUnits",
		`SELECT coalesce(sum(quantity), 0) FROM orders WHERE sale_id = ? AND status IN ('pending', 'paid')`)
	sqlSetTaken = newStatement("SetTaken", update("sales", "taken, updated_at")+` WHERE id = ?`)

	// What waits, by sale: its id, how many, and since when the first one waits.
	sqlWaitingLetters = newStatement("Backlog.DeadLetters",
		`SELECT sale_id, count(*), min(created_at) FROM dead_letters WHERE resolved_at IS NULL GROUP BY sale_id`)
	sqlReleaseBacklog = newStatement("Backlog.Releases",
		`SELECT sale_id, count(*), min(created_at) FROM releases GROUP BY sale_id`)
	sqlOverdue = newStatement("Backlog.Overdue",
		`SELECT sale_id, count(*), min(keep_until) FROM orders FORCE INDEX (orders_to_expire)
		WHERE status = 'pending' AND keep_until < ? GROUP BY sale_id`)
)

// ReissueRelease writes the release of an ended order again. It locks the order
// and then its sale, as an ending does.
func (s *Store) ReissueRelease(ctx context.Context, id sluice.OrderID, epoch int64) (written bool, err error) {
	defer s.wrap(&err, "write a release again order=%s", id)
	of, ok := id.Sale()
	if !ok { // no order has this id; the database need not see it
		return false, sluice.ErrOrderNotFound
	}
	err = s.change(ctx, func(tx *conn) error {
		written = false
		order := tx.lockOrder(id)
		if order.Status.Live() || tx.firstStatus(&order) == sluice.Rejected {
			return nil
		}
		if sale := tx.lockSale(of); sale.Epoch != epoch || !sale.ArchivedAt.IsZero() {
			return nil
		}
		if waiting, err := only[int](tx.row(sqlReleaseOf, id)); err != nil || waiting > 0 {
			return err
		}
		written = true
		tx.addReleases([]string{string(id)})
		return nil
	})
	return written && err == nil, err
}

// RecountTaken sets taken to the units of the live orders. Whatever changes them
// holds the sale's row when it does, so under its lock they stand still.
func (s *Store) RecountTaken(ctx context.Context, id sluice.SaleID) (before, after int64, err error) {
	defer s.wrap(&err, "count taken again sale=%s", id)
	err = s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		before = sale.Taken
		if err := tx.row(sqlLiveUnits, id).Scan(&after); err != nil {
			return err
		}
		if sale.Remains != nil {
			after += sale.Remains.Live()
		}
		if before == after {
			return nil
		}
		if sale.Cap != sluice.Unlimited && after > sale.Cap { // I1
			return fmt.Errorf("live orders hold %d units, more than the cap of %d", after, sale.Cap)
		}
		return tx.set(sqlSetTaken, after, storeNow, id)
	})
	if err != nil {
		return 0, 0, err
	}
	return before, after, nil
}

// Backlog counts what waits.
func (s *Store) Backlog(ctx context.Context) (backlog port.Backlog, err error) {
	defer s.wrap(&err, "count the backlog")
	backlog.Sales = map[sluice.SaleID]port.SaleBacklog{}
	err = s.view(ctx, func(tx *conn) error {
		backlog.At = tx.now()
		count := func(st statement, args []any, add func(b *port.SaleBacklog, n int64, since time.Time)) {
			tx.each(st, args, func(r row) error {
				var id sluice.SaleID
				var n int64
				var since time.Time
				err := r.Scan(&id, &n, moment{&since})
				b := backlog.Sales[id]
				add(&b, n, since)
				backlog.Sales[id] = b
				return err
			})
		}
		count(sqlWaitingLetters, nil, func(b *port.SaleBacklog, n int64, _ time.Time) { b.DeadLetters = n })
		count(sqlReleaseBacklog, nil, func(b *port.SaleBacklog, n int64, since time.Time) {
			b.Releases, b.OldestRelease = n, since
		})
		count(sqlOverdue, []any{backlog.At}, func(b *port.SaleBacklog, n int64, since time.Time) {
			b.Overdue, b.OldestDue = n, since
		})
		return nil
	})
	return backlog, err
}
