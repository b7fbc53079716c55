package sqlcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// LockFeed holds the row until the transaction ends.
	sqlLockFeed = newStatement("Events.LockFeed", `SELECT last_event FROM event_feed WHERE id = 1 FOR UPDATE`)
	sqlSetFeed  = newStatement("Events.SetFeed", update("event_feed", "last_event")+` WHERE id = 1`)

	// Unnumbered selects whether anything has no number. ORDER BY makes the databases use
	// the indexes.
	sqlUnnumbered = newStatement("Events.Unnumbered", `SELECT coalesce(
		(SELECT position FROM order_changes WHERE event IS NULL ORDER BY event, position LIMIT 1),
		(SELECT position FROM order_events WHERE event IS NULL ORDER BY event, position LIMIT 1),
		(SELECT position FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT 1)) IS NOT NULL`)
	// New selects what has no number, as of one moment: its kind, position, how many events it
	// is, and when and of which sale. With a change it selects the position of its order, and
	// of the row that says when that was stored, if it has no number either; else 0. Its
	// arguments are how many of each kind it selects, the first ones by position.
	sqlNew = newStatement("Events.New", `SELECT 2 AS kind, c.position, 1 AS events, c.changed_at AS at, o.sale_id,
			o.position AS of_order, coalesce((SELECT CASE WHEN e.event IS NULL THEN e.position END
				FROM order_events e FORCE INDEX (order_events_of_sale)
				WHERE e.sale_id = o.sale_id AND e.upto_position >= o.position ORDER BY e.upto_position LIMIT 1), 0) AS stored
		FROM (SELECT position, order_id, changed_at FROM order_changes FORCE INDEX (order_changes_event)
			WHERE event IS NULL ORDER BY event, position LIMIT ?) c
		STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id) ON o.order_id = c.order_id
		UNION ALL SELECT 1, position, orders, stored_at, sale_id, 0, 0
		FROM (SELECT position, orders, stored_at, sale_id FROM order_events
			WHERE event IS NULL ORDER BY event, position LIMIT ?) stored
		UNION ALL SELECT 0, position, 1, created_at, sale_id, 0, 0
		FROM (SELECT position, created_at, sale_id FROM sale_events
			WHERE event IS NULL ORDER BY event, position LIMIT ?) created`)

	// Each sets the event at each position of the Pairs, if it has none.
	sqlNumber = [...]statement{
		saleEvent:    newStatement("Events.NumberSaleEvents", setEvents("sale_events")),
		ordersStored: newStatement("Events.NumberOrders", setEvents("order_events")),
		orderChange:  newStatement("Events.NumberChanges", setEvents("order_changes")),
	}
)

func setEvents(table string) string {
	return `UPDATE ` + table + ` SET event = pair.event
		FROM unnest(?::bigint[], ?::bigint[]) AS pair (position, event)
		WHERE ` + table + `.position = pair.position AND ` + table + `.event IS NULL`
}

// NumberEvents numbers what was committed and has no number.
//
// Numbering is serial: the row of the feed is locked first, and the statement after that
// sees what is committed when it begins. The databases hand out positions before rows are
// committed, but nothing is skipped (I5 for events): each row says by itself whether it has
// a number. Rows of one subject are committed in the order of their positions, since its
// row is locked: that of the sale for its own events and for storing its orders, that of
// the order for its changes.
func (s *Store) NumberEvents(ctx context.Context, limit int) (numbered int, err error) {
	defer s.wrap(&err, "number events")
	if limit < 1 {
		return 0, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if s.ReadOnly {
		return 0, errReadOnly
	}
	// Nearly always there is nothing to do, and to see that needs no lock.
	if some, err := only[bool](s.reads(ctx).row(sqlUnnumbered)); err != nil || !some {
		return 0, err
	}
	err = s.change(ctx, func(tx *conn) error {
		numbered, err = tx.numberEvents(limit)
		return err
	})
	return unless(numbered, err)
}

func (q *conn) numberEvents(limit int) (numbered int, err error) {
	last, err := only[int64](q.row(sqlLockFeed))
	if err != nil {
		return 0, err
	}
	items := q.findNew(limit)
	if q.err != nil || len(items) == 0 {
		return 0, q.err
	}
	pairs, upto := number(items, last)
	for kind, of := range pairs {
		if len(of) > 0 {
			q.exactly(len(of), q.s.sql[sqlNumber[kind]], q.s.d.Pairs(of)...)
		}
	}
	if !q.changed(sqlSetFeed, upto) {
		q.fail(errors.New("the feed has no row"))
	}
	return int(upto - last), q.err
}

// kind is which table an item is a row of, as Events.New says it.
type kind int

const (
	saleEvent    kind = iota
	ordersStored      // of one sale, that were stored together
	orderChange
)

// item is a row that has no number.
type item struct {
	kind     kind
	position int64
	count    int64 // of the events that it is
	at       time.Time
	sale     sluice.SaleID
	order    int64 // of a change: the order's position
	stored   int64 // of a change: the position of the orders among which its order is, if they have no number
}

// findNew reads what can have a number now, as of one moment: an order is committed before
// its changes, a sale before its orders, and what ended an order before what its units were
// sold for. An order that is not among those that the limit leaves has its changes wait.
func (q *conn) findNew(limit int) []item {
	found, _ := all(q, sqlNew, func(r row) (it item, err error) {
		return it, r.Scan(&it.kind, &it.position, &it.count, moment{&it.at}, &it.sale, &it.order, &it.stored)
	}, limit, limit, limit)
	slices.SortFunc(found, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.position, b.position))
	})
	changes, upto := 0, int64(0) // of the changes that were read, the last orders that they are of
	for _, it := range found {
		if it.kind == orderChange {
			changes, upto = changes+1, max(upto, it.stored)
		}
	}
	count, has := map[kind]int64{}, map[int64]bool{0: true}
	return slices.DeleteFunc(found, func(it item) bool {
		switch {
		case count[saleEvent] == int64(limit) && it.kind != saleEvent:
			return true // a sale of what else there is may be missing
		case it.kind == ordersStored && (count[it.kind] >= int64(limit) || changes == limit && it.position > upto):
			return true // endings whose units it was sold for may be among the changes that the limit leaves
		case it.kind == ordersStored:
			has[it.position] = true
		case it.kind == orderChange && !has[it.stored]:
			return true
		}
		count[it.kind] += it.count
		return false
	})
}

// number gives the items the numbers after last, in the order of their times, as far as that
// leaves those of one subject in their own order: a clock may be set back. At one moment come
// changes of orders that have their numbers before what may have been sold for it. It returns
// the pairs of each kind, and the last number.
func number(items []item, last int64) (pairs [len(sqlNumber)][]Pair, upto int64) {
	type subject struct {
		kind  kind
		sale  sluice.SaleID
		order int64
	}
	latest, stored := map[subject]time.Time{}, map[int64]time.Time{}
	for i := range items {
		it := &items[i]
		of := subject{it.kind, it.sale, it.order}
		it.at = later(it.at, later(latest[of], stored[it.stored]))
		latest[of] = it.at
		if it.kind == ordersStored {
			stored[it.position] = it.at
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.turn(), b.turn()))
	})
	for _, it := range items {
		last += it.count
		pairs[it.kind] = append(pairs[it.kind], Pair{it.position, last})
	}
	return pairs, last
}

// turn is the place among items of one moment.
func (it *item) turn() int {
	if it.kind == orderChange && it.stored == 0 {
		return 1
	}
	return 2 * int(it.kind)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
