package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Orders and events that are old enough are deleted, in small transactions.
//
// The feed is cut first: it loses its oldest events, and says from then on which one
// is its first. An order goes only after all its events are cut, so the feed never
// names an order that is gone. What a deleted order counts for is added to the sale's
// remains in the same transaction: the remains and the orders that are left are all
// orders of the sale, at every moment, so a crash or a second server does no harm.
//
// The first transaction gives the sale the next epoch, which no ledger has: a claim
// that an old copy of a ledger brings has an epoch that has passed, and cannot
// become a second order (I5).
//
// The order with the highest position of the store stays: SQLite would give its
// position to another order, and a reader of pages would pass over that one.

var (
	sqlFeed     = newStatement("Purge.Feed", `SELECT first_event, last_event FROM event_feed WHERE id = 1`)
	sqlLockCut  = newStatement("Purge.LockCut", `SELECT first_event FROM event_feed WHERE id = 1 FOR UPDATE`)
	sqlSetFirst = newStatement("Purge.SetFirst", update("event_feed", "first_event")+` WHERE id = 1`)
	// Behind is the first event that a webhook still needs, by what it has not
	// received: 0 if there is none.
	sqlBehind = newStatement("Purge.Behind",
		`SELECT coalesce(min(event), 0) FROM webhook_deliveries WHERE webhook_id = ? AND state = 'pending'`)
	sqlForgetFailed = newStatement("Purge.ForgetFailed",
		`DELETE FROM webhook_deliveries WHERE webhook_id = ? AND state = 'failed' AND event < ?`)
	sqlFirstRange = newStatement("Purge.FirstRange",
		`SELECT coalesce(min(event), 0) FROM order_events WHERE event > 0`)
	sqlDeleteRanges   = newStatement("Purge.DeleteRanges", `DELETE FROM order_events WHERE event >= ? AND event < ?`)
	sqlFirstSaleEvent = newStatement("Purge.FirstSaleEvent",
		`SELECT coalesce(min(event), 0) FROM sale_events WHERE event > 0`)
	sqlDeleteSaleEvents = newStatement("Purge.DeleteSaleEvents", `DELETE FROM sale_events WHERE event >= ? AND event < ?`)

	// ToPurge is the next sale, by id, that was archived before a time and still has
	// what is to be deleted.
	sqlToPurge = newStatement("Purge.ToPurge", `SELECT id FROM sales FORCE INDEX (sales_to_purge)
		WHERE purged_at IS NULL AND archived_at < ? AND id > ? ORDER BY id LIMIT 1`)
	// LastRange is the last event that is an order of the sale, beyond all if it has no number
	// yet: they get theirs in the order of their positions.
	sqlLastRange = newStatement("Purge.LastRange", `SELECT coalesce(event, 9223372036854775807) FROM order_events
		FORCE INDEX (order_events_of_sale) WHERE sale_id = ? ORDER BY upto_position DESC LIMIT 1`)
	sqlNewestOrder = newStatement("Purge.NewestOrder", `SELECT coalesce(max(position), 0) FROM orders`)
	// HaveEvents selects the orders of a list that have a change whose event the feed
	// still has, or which has none yet.
	sqlHaveEvents = newStatement("Purge.HaveEvents", `SELECT DISTINCT c.order_id FROM order_changes c
		WHERE c.order_id = ANY (?::text[]) AND (c.event IS NULL OR c.event >= ?)`)
	sqlDeleteChanges  = newStatement("Purge.DeleteChanges", `DELETE FROM order_changes WHERE order_id = ANY (?::text[])`)
	sqlDeletePayments = newStatement("Purge.DeletePayments", `DELETE FROM payments WHERE order_id = ANY (?::text[])`)
	sqlDeleteOrders   = newStatement("Purge.DeleteOrders", `DELETE FROM orders WHERE order_id = ANY (?::text[])`)
	sqlSetRemains     = newStatement("Purge.SetRemains", update("sales", "epoch, remains")+` WHERE id = ?`)
	sqlOldestOrder    = newStatement("Purge.OldestOrder",
		`SELECT position FROM orders FORCE INDEX (orders_of_sale)
		WHERE sale_id = ? AND position > 0 ORDER BY position LIMIT 1`)
	sqlDeleteLetters = newStatement("Purge.DeleteLetters",
		`DELETE FROM dead_letters WHERE sale_id = ? AND resolved_at IS NOT NULL`)
	sqlSetPurged = newStatement("Purge.SetPurged", update("sales", "purged_at")+` WHERE id = ?`)
)

// Sizes of one transaction: orders, and numbers of events.
const (
	purgeOrders = 200
	purgeEvents = 5000
)

// purger is one call of PurgeOlder.
type purger struct {
	s      *Store
	before time.Time
	first  int64 // event of the feed
	done   *port.Purged
}

// PurgeOlder deletes what is old enough.
func (s *Store) PurgeOlder(ctx context.Context, age time.Duration) (done port.Purged, err error) {
	defer s.wrap(&err, "delete what is older than %v", age)
	before, err := s.ago(ctx, age)
	if err != nil {
		return done, err
	}
	p := &purger{s: s, before: before, done: &done}
	if err := p.cut(ctx); err != nil {
		return done, err
	}
	failed := p.events(ctx)
	for id := sluice.SaleID(""); ; {
		id, err = only[sluice.SaleID](s.reads(ctx).row(sqlToPurge, p.before, id))
		if errors.Is(err, sql.ErrNoRows) {
			return done, failed
		}
		if err != nil {
			return done, cmp.Or(failed, err)
		}
		if err := p.sale(ctx, id); err != nil { // which keeps no other from its turn
			failed = cmp.Or(failed, fmt.Errorf("sale %s: %w", id, err))
		}
	}
}

// step runs a transaction, and then rests as long as it took: the other half of the
// database's time is for what sells.
func (p *purger) step(ctx context.Context, do func(*conn) error) error {
	begun := time.Now()
	if err := p.s.change(ctx, do); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Since(begun)):
		return nil
	}
}

func (p *purger) wait(sale sluice.SaleID, why sluice.ErasureReason) {
	if w := (sluice.ErasureWait{Sale: sale, Why: why}); !slices.Contains(p.done.Waits, w) {
		p.done.Waits = append(p.done.Waits, w)
	}
}

// cut takes the events that are old enough off the beginning of the feed, as far as
// every webhook has received them, or has given up. The last event stays, for readers who
// have come as far as that.
func (p *purger) cut(ctx context.Context) error {
	var last int64
	if err := p.s.reads(ctx).row(sqlFeed).Scan(&p.first, &last); err != nil {
		return err
	}
	// Numbers follow time, but for clocks that are set back: halving finds a place
	// between an event that is old enough and one that is not.
	upto := p.first
	for beyond := last; upto < beyond; {
		middle := upto + (beyond-upto)/2
		page, err := p.s.Events(ctx, middle-1, 1)
		if gone := (*sluice.EventsGoneError)(nil); errors.As(err, &gone) { // another server has cut it
			upto = gone.First
			continue
		}
		if err != nil {
			return err
		}
		if page[0].At.Before(p.before) {
			upto = middle + 1
		} else {
			beyond = middle
		}
	}
	if upto == p.first {
		return nil
	}
	return p.step(ctx, func(tx *conn) error {
		// What moves a webhook backwards holds the row of the feed, too.
		first, err := only[int64](tx.row(sqlLockCut))
		if err != nil {
			return err
		}
		p.first, p.done.Behind = upto, nil
		hooks, err := all(tx, sqlWebhooks, scanWebhook)
		for i := range hooks {
			needs := hooks[i].Cursor + 1
			if waiting, _ := only[int64](tx.row(sqlBehind, hooks[i].ID)); waiting > 0 {
				needs = min(needs, waiting)
			}
			if needs < upto {
				p.first, p.done.Behind = min(p.first, needs), append(p.done.Behind, hooks[i].ID)
			}
		}
		p.first = max(first, p.first)
		p.done.Events = p.first - first
		if err != nil || p.first == first {
			return err
		}
		for i := range hooks {
			tx.exec(sqlForgetFailed, hooks[i].ID, p.first)
		}
		return tx.set(sqlSetFirst, p.first)
	})
}

// events deletes the rows of events before the first one of the feed. Those of changes
// are histories of orders, and go with them.
func (p *purger) events(ctx context.Context) error {
	for _, rows := range []struct{ oldest, remove statement }{
		{sqlFirstRange, sqlDeleteRanges}, {sqlFirstSaleEvent, sqlDeleteSaleEvents},
	} {
		for {
			from, err := only[int64](p.s.reads(ctx).row(rows.oldest))
			if err != nil {
				return err
			}
			if from == 0 || from >= p.first {
				break
			}
			if err := p.step(ctx, func(tx *conn) error {
				return tx.exec(rows.remove, from, min(from+purgeEvents, p.first))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sale deletes the orders of an archived sale, with their histories and dead letters.
func (p *purger) sale(ctx context.Context, id sluice.SaleID) error {
	letters, err := p.s.DeadLetters(ctx, id)
	if err != nil {
		return err
	}
	if len(letters) > 0 {
		p.wait(id, sluice.DeadLetterOpen)
		return nil
	}
	for after := int64(0); ; {
		var deleted int64
		var upto int64
		var waits []sluice.ErasureReason
		err := p.step(ctx, func(tx *conn) (err error) {
			upto, deleted, waits, err = tx.purge(id, after, p.first)
			return err
		})
		if err != nil {
			return err
		}
		p.done.Orders += deleted
		for _, why := range waits {
			p.wait(id, why)
		}
		if upto == after {
			return nil
		}
		after = upto
	}
}

// purge deletes the next orders of a sale after a position, and returns the position
// of the last one that it has looked at: after, if there is none. It locks the orders
// before their sale, as an ending does.
func (q *conn) purge(id sluice.SaleID, after, first int64) (
	upto, deleted int64, waits []sluice.ErasureReason, err error,
) {
	var page []sluice.Order
	var positions []int64
	q.each(sqlLockOrdersOfSale, []any{id, after, purgeOrders}, func(r row) error {
		order, position, err := scanOrderAt(r)
		page, positions = append(page, order), append(positions, position)
		return err
	})
	sale := q.lockSale(id)
	if q.err != nil || sale.ArchivedAt.IsZero() {
		return after, 0, nil, q.err
	}
	if len(page) == 0 {
		return after, 0, nil, q.purged(&sale)
	}
	upto = positions[len(positions)-1]
	lastRange, _ := only[int64](q.row(sqlLastRange, id))
	newest, err := only[int64](q.row(sqlNewestOrder))
	if q.fail(err) != nil {
		return after, 0, nil, q.err
	}
	if lastRange >= first {
		return after, 0, []sluice.ErasureReason{sluice.RecentEvents}, nil
	}
	ids := make([]string, len(page))
	for i := range page {
		ids[i] = string(page[i].ID)
	}
	recent, _ := all(q, sqlHaveEvents, only[string], slices.Clone(ids), first)
	gone := make([]string, 0, len(page))
	remains := sluice.Remains{}
	if sale.Remains != nil {
		remains = *sale.Remains
	}
	for i := range page {
		o := &page[i]
		switch {
		case o.Status == sluice.RefundDue, o.Status == sluice.Pending:
			waits = append(waits, sluice.OwedRefund)
		case slices.Contains(recent, string(o.ID)):
			waits = append(waits, sluice.RecentEvents)
		case positions[i] == newest:
			waits = append(waits, sluice.NewestOrder)
		default:
			gone = append(gone, ids[i])
			remains.Add(o, q.firstStatus(o) == sluice.Rejected)
		}
	}
	if len(gone) > 0 {
		q.setRemains(&sale, &remains)
		q.exec(sqlDeleteChanges, gone)
		q.exec(sqlDeletePayments, gone)
		q.exactly(len(gone), q.s.sql[sqlDeleteOrders], gone)
	}
	return upto, int64(len(gone)), waits, q.err
}

// setRemains writes what remains of a sale, which is locked. With the first order that
// is deleted the sale gets the next epoch.
func (q *conn) setRemains(sale *sluice.Sale, remains *sluice.Remains) {
	if sale.Remains == nil {
		sale.Epoch++
	}
	text, err := json.Marshal(remains)
	q.fail(err)
	q.set(sqlSetRemains, sale.Epoch, string(text), sale.ID)
}

// purged notes that nothing is left of a sale, which is locked, if that is so: another
// server may have deleted what this one was waiting for, and have left the rest.
func (q *conn) purged(sale *sluice.Sale) error {
	if _, err := only[int64](q.row(sqlOldestOrder, sale.ID)); !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if sale.Remains == nil {
		q.setRemains(sale, &sluice.Remains{})
	}
	q.exec(sqlDeleteLetters, sale.ID)
	return q.set(sqlSetPurged, storeNow, sale.ID)
}
