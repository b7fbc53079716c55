package sqlcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// LockFeed holds the row until the transaction ends.
	sqlLockFeed = newStatement("Events.LockFeed", `SELECT last_event FROM event_feed WHERE id = 1 FOR UPDATE`)
	sqlSetFeed  = newStatement("Events.SetFeed", update("event_feed", "last_event")+` WHERE id = 1`)

	// Unnumbered selects the last position of an order (0 if there is none), and
	// whether a change of an order, and an event of a sale, has no number. ORDER BY
	// makes the databases use the index.
	sqlUnnumbered = newStatement("Events.Unnumbered", `SELECT coalesce((SELECT max(position) FROM orders), 0),
		(SELECT position FROM order_changes WHERE event IS NULL ORDER BY event, position LIMIT 1) IS NOT NULL,
		(SELECT position FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT 1) IS NOT NULL`)
	// SalesWithNewOrders selects the sales whose last order is beyond their mark,
	// with the mark (0 if there is none), by id; LiveWithNewOrders those that are
	// not archived.
	sqlSalesWithNewOrders = newStatement("Events.SalesWithNewOrders", withNewOrders("true"))
	sqlLiveWithNewOrders  = newStatement("Events.LiveWithNewOrders", withNewOrders("s.archived_at IS NULL"))
	// NewOrders selects a sale's first orders between two positions, in runs that were stored
	// at one moment.
	sqlNewOrders = newStatement("Events.NewOrders", `SELECT stored_at, min(position), max(position), count(*)
		FROM (SELECT position, stored_at FROM orders FORCE INDEX (orders_of_sale)
			WHERE sale_id = ? AND position > ? AND position <= ? ORDER BY position LIMIT ?) o
		GROUP BY stored_at ORDER BY min(position)`)
	// NewestOrders selects the runs of all sales between two positions, each with its sale's
	// mark, and with the sale's last order up to the first position, or 0 where the mark is not
	// before that. Its arguments are the first position, three times, and the other.
	sqlNewestOrders = newStatement("Events.NewestOrders", `SELECT run.sale_id, coalesce(m.position, 0),
			CASE WHEN m.position >= ? THEN 0 ELSE coalesce((SELECT o.position FROM orders o FORCE INDEX (orders_of_sale)
				WHERE o.sale_id = run.sale_id AND o.position <= ? ORDER BY o.position DESC LIMIT 1), 0) END,
			stored_at, first_position, last_position, orders
		FROM (SELECT sale_id, stored_at, min(position) AS first_position, max(position) AS last_position, count(*) AS orders
			FROM (SELECT position, sale_id, stored_at FROM orders FORCE INDEX (PRIMARY)
				WHERE position > ? AND position <= ?) o
			GROUP BY sale_id, stored_at) run
		LEFT JOIN event_marks m ON m.sale_id = run.sale_id ORDER BY first_position`)
	sqlSetMark = newStatement("Events.SetMark", insertInto("event_marks", "sale_id, position")+`
		ON CONFLICT (sale_id) DO UPDATE SET position = excluded.position`)
	// NewChanges selects changes that have no number, with the sale and position of
	// the order, and its sale's mark (0 if there is none), by position.
	sqlNewChanges = newStatement("Events.NewChanges",
		`SELECT c.position, c.order_id, c.changed_at, o.sale_id, o.position, coalesce(m.position, 0)
		FROM order_changes c JOIN orders o ON o.order_id = c.order_id LEFT JOIN event_marks m ON m.sale_id = o.sale_id
		WHERE c.event IS NULL ORDER BY c.event, c.position LIMIT ?`)
	sqlNewSaleEvents = newStatement("Events.NewSaleEvents",
		`SELECT position, sale_id, created_at FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT ?`)

	// NumberChanges and NumberSaleEvents set the event at each position of the
	// Pairs, if it has none.
	sqlNumberChanges = newStatement("Events.NumberChanges", `UPDATE order_changes SET event = pair.event
		FROM unnest(?::bigint[], ?::bigint[]) AS pair (position, event)
		WHERE order_changes.position = pair.position AND order_changes.event IS NULL`)
	sqlNumberSaleEvents = newStatement("Events.NumberSaleEvents", `UPDATE sale_events SET event = pair.event
		FROM unnest(?::bigint[], ?::bigint[]) AS pair (position, event)
		WHERE sale_events.position = pair.position AND sale_events.event IS NULL`)
)

func withNewOrders(which string) string {
	return `SELECT s.id, coalesce(m.position, 0) FROM sales s LEFT JOIN event_marks m ON m.sale_id = s.id
		WHERE ` + which + ` AND (SELECT o.position FROM orders o FORCE INDEX (orders_of_sale) WHERE o.sale_id = s.id
			ORDER BY o.position DESC LIMIT 1) > coalesce(m.position, 0)
		ORDER BY s.id`
}

// NumberEvents numbers what was committed and has no number.
//
// Numbering is serial: the row of the feed is locked first, and each statement
// after that sees what is committed when it begins. Nothing is skipped (I5 for
// events), though the databases hand out positions before rows are committed:
//
//   - The orders of one sale get their positions under the lock of the sale's
//     row, so they grow in commit order, and a mark per sale is enough. Storing
//     orders writes nothing for the feed.
//   - Changes of orders, and sales, come in any order of positions; each row
//     says by itself whether it has a number. Those of one order are committed
//     in the order of their positions, since the order's row is locked, and
//     those of one sale likewise.
//
// A change of an order that has no number itself waits for the next time: the
// orders are read first, so a change may be seen without its order.
func (s *Store) NumberEvents(ctx context.Context, limit int) (numbered int, err error) {
	defer s.wrap(&err, "number events")
	if limit < 1 {
		return 0, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if s.ReadOnly {
		return 0, errReadOnly
	}
	// Nearly always there is nothing to do, and to see that needs neither a lock
	// nor a look at each sale.
	l, err := s.nextLook(ctx)
	if err != nil || l == nil {
		return 0, err
	}
	var found newRows
	if !l.sure {
		if found, err = s.reads(ctx).findNew(l, limit); err != nil {
			return 0, err
		}
	}
	if l.sure || len(found.orders) > 0 || len(found.changes) > 0 || len(found.sales) > 0 {
		err = s.change(ctx, func(tx *conn) error {
			found, numbered, err = tx.numberEvents(l, limit)
			return err
		})
	}
	if err == nil {
		s.lookout.looked(l, &found)
	}
	return unless(numbered, err)
}

func (q *conn) numberEvents(l *look, limit int) (found newRows, numbered int, err error) {
	last, err := only[int64](q.row(sqlLockFeed))
	if err != nil {
		return found, 0, err
	}
	if found, err = q.findNew(l, limit); err != nil {
		return found, 0, err
	}
	ranges, changes, sales, upto := number(found.inOrder(), last)
	if upto == last {
		return found, 0, nil
	}
	q.addRanges(ranges)
	for _, set := range []struct {
		st    statement
		pairs []Pair
	}{{sqlNumberChanges, changes}, {sqlNumberSaleEvents, sales}} {
		if len(set.pairs) > 0 {
			q.exactly(len(set.pairs), q.s.sql[set.st], q.s.d.Pairs(set.pairs)...)
		}
	}
	for _, o := range found.orders {
		q.exec(sqlSetMark, o.sale, o.upto())
	}
	if !q.changed(sqlSetFeed, upto) {
		err = errors.New("the feed has no row")
	}
	return found, int(upto - last), err
}

// newRows is what has no number yet.
type newRows struct {
	orders         []*newOrders // of each sale that has some
	changes, sales []newRow
	upto           int64 // orders up to this position are among them, but for those committed late
}

// newOrders are the first new ones of a sale, in runs.
type newOrders struct {
	sale sluice.SaleID
	mark int64 // the position after which the orders are new
	runs []orderRun
}

// orderRun is orders that follow each other in their sale, and were stored at one moment.
type orderRun struct {
	first, last int64 // positions
	count       int64
	at          time.Time // not before that of the run before
}

// add appends a run. Those that overlap, as a clock that was set back can make them, become
// one: runs come by their first positions.
func (o *newOrders) add(r orderRun) {
	if n := len(o.runs); n > 0 {
		before := &o.runs[n-1]
		r.at = later(r.at, before.at)
		if r.first < before.last {
			before.last, before.count, before.at = max(before.last, r.last), before.count+r.count, r.at
			return
		}
	}
	o.runs = append(o.runs, r)
}

func (o *newOrders) count() (n int64) {
	for i := range o.runs {
		n += o.runs[i].count
	}
	return n
}

// upto is the new mark.
func (o *newOrders) upto() int64 {
	if n := len(o.runs); n > 0 {
		return o.runs[n-1].last
	}
	return o.mark
}

// at is when the order at a position was stored, zero if it is not one of them.
func (o *newOrders) at(position int64) time.Time {
	i, _ := slices.BinarySearchFunc(o.runs, position, func(r orderRun, p int64) int { return cmp.Compare(r.last, p) })
	if i < len(o.runs) && o.runs[i].first <= position {
		return o.runs[i].at
	}
	return time.Time{}
}

// newRow is a change of an order, or an event of a sale.
type newRow struct {
	position int64
	at       time.Time
	sale     sluice.SaleID
	order    int64 // of a change: the order's position
}

// findNew reads what has no number: orders first, and the sales' own events last, so that
// a sale which is new is not seen after its orders. If the look saw no event of a sale, none
// of the orders is of a sale that is newer than the look: their positions were given before
// it, while the sale's row was locked.
func (q *conn) findNew(l *look, limit int) (found newRows, err error) {
	ask, left := []*newOrders(nil), limit
	if l.orders == sqlNewestOrders {
		found.orders, ask, left = q.newestOrders(l, limit)
	} else {
		found.orders, _ = all(q, l.orders, func(r row) (*newOrders, error) {
			var o newOrders
			return &o, r.Scan(&o.sale, &o.mark)
		})
		ask = slices.Clone(found.orders)
	}
	found.upto = l.upto
	for _, o := range q.readOrders(ask, l.upto, left) {
		found.upto = max(l.seen, min(found.upto, o.upto()))
	}
	found.orders = slices.DeleteFunc(found.orders, func(o *newOrders) bool { return len(o.runs) == 0 })
	if l.changes {
		marks := map[sluice.SaleID]int64{}
		for _, o := range found.orders {
			marks[o.sale] = o.upto()
		}
		q.each(sqlNewChanges, []any{limit}, func(r row) error {
			var c newRow
			var mark int64
			err := r.Scan(&c.position, new(string), moment{&c.at}, &c.sale, &c.order, &mark)
			if c.order <= max(mark, marks[c.sale]) {
				found.changes = append(found.changes, c)
			}
			return err
		})
	}
	if l.sales {
		found.sales, _ = all(q, sqlNewSaleEvents, func(r row) (e newRow, err error) {
			err = r.Scan(&e.position, &e.sale, moment{&e.at})
			return e, err
		}, limit)
	}
	return found, q.err
}

// newestOrders reads the new orders of a look, if they are not more than limit, with one
// statement, however many sales have some. It returns their sales, those among them that are
// to be asked, and for how many orders. A sale is asked if it has orders from before the look
// as well, which were committed late, or if some of those read have their numbers; all are if
// there are too many.
func (q *conn) newestOrders(l *look, limit int) (sales, ask []*newOrders, left int) {
	if l.upto <= l.seen {
		return nil, nil, limit
	}
	of, late, count := map[sluice.SaleID]*newOrders{}, map[sluice.SaleID]bool{}, int64(0)
	q.each(sqlNewestOrders, []any{l.seen, l.seen, l.seen, l.upto}, func(r row) error {
		var o newOrders
		var before int64
		var run orderRun
		err := r.Scan(&o.sale, &o.mark, &before, moment{&run.at}, &run.first, &run.last, &run.count)
		if of[o.sale] == nil {
			of[o.sale], late[o.sale] = &o, before > o.mark
			sales = append(sales, &o)
		}
		of[o.sale].add(run)
		count += run.count
		return err
	})
	left = limit - int(count)
	for _, o := range sales {
		if count > int64(limit) || late[o.sale] || o.runs[0].first <= o.mark {
			left += int(o.count())
			o.runs, ask = nil, append(ask, o)
		}
	}
	return sales, ask, left
}

// readOrders reads the sales' new orders up to a position, about limit in all: a share of each
// sale first, so that none delays the others, then what those that have more can have of the
// rest. It returns the sales that may have more.
func (q *conn) readOrders(pending []*newOrders, upto int64, limit int) []*newOrders {
	for left := limit; len(pending) > 0 && left > 0; {
		share := max(1, left/len(pending))
		pending = slices.DeleteFunc(pending, func(o *newOrders) bool {
			if len(o.runs) > 0 && left <= 0 {
				return false
			}
			had := o.count()
			q.each(sqlNewOrders, []any{o.sale, o.upto(), upto, share}, func(r row) error {
				var run orderRun
				err := r.Scan(moment{&run.at}, &run.first, &run.last, &run.count)
				o.add(run)
				return err
			})
			got := int(o.count() - had)
			left -= got
			return got < share
		})
	}
	return pending
}

// item is what is about to get numbers: a row, or a run of orders.
type item struct {
	kind     int
	position int64 // of a run: its last
	count    int64
	at       time.Time // never before that of the item's forerunners
	sale     sluice.SaleID
	after    int64 // of a run: the position before, or the mark
}

const (
	aSaleEvent = iota
	aRun
	aChange
)

// inOrder returns all items in the order of their times, as far as that leaves
// those of one sale and of one order in their own order: a clock may be set
// back.
func (f *newRows) inOrder() []item {
	var items []item
	latest := map[sluice.SaleID]time.Time{}
	for _, e := range f.sales {
		at := later(e.at, latest[e.sale])
		latest[e.sale] = at
		items = append(items, item{kind: aSaleEvent, position: e.position, count: 1, at: at, sale: e.sale})
	}
	of := map[sluice.SaleID]*newOrders{}
	for _, o := range f.orders {
		of[o.sale] = o
		after := o.mark
		for _, r := range o.runs {
			items = append(items, item{aRun, r.last, r.count, r.at, o.sale, after})
			after = r.last
		}
	}
	changed := map[int64]time.Time{} // by the order's position
	for _, c := range f.changes {
		at := later(c.at, changed[c.order])
		if o := of[c.sale]; o != nil {
			at = later(at, o.at(c.order))
		}
		changed[c.order] = at
		items = append(items, item{kind: aChange, position: c.position, count: 1, at: at})
	}
	slices.SortStableFunc(items, func(a, b item) int { return a.at.Compare(b.at) })
	return items
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// orderRange is a row of order_events: orders that follow each other both in
// their sale and in the feed.
type orderRange struct {
	first, last int64 // events
	sale        sluice.SaleID
	after, upto int64 // positions
}

// number gives the items the numbers after last, and returns the last it gave.
func number(items []item, last int64) (ranges []orderRange, changes, sales []Pair, upto int64) {
	for _, it := range items {
		first := last + 1
		last += it.count
		switch it.kind {
		case aSaleEvent:
			sales = append(sales, Pair{it.position, last})
		case aChange:
			changes = append(changes, Pair{it.position, last})
		default:
			if n := len(ranges); n > 0 {
				if r := &ranges[n-1]; r.last == first-1 && r.sale == it.sale && r.upto == it.after {
					r.last, r.upto = last, it.position
					continue
				}
			}
			ranges = append(ranges, orderRange{first, last, it.sale, it.after, it.position})
		}
	}
	return ranges, changes, sales, last
}

// addRanges inserts rows of order_events, many in one statement.
func (q *conn) addRanges(ranges []orderRange) {
	insert := insertInto("order_events", "first_event, last_event, sale_id, after_position, upto_position")
	for part := range slices.Chunk(ranges, 100) {
		var args []any
		for _, r := range part {
			args = append(args, r.first, r.last, r.sale, r.after, r.upto)
		}
		q.exactly(len(part), q.s.d.SQL(insert+strings.Repeat(", (?, ?, ?, ?, ?)", len(part)-1)), args...)
	}
}
