package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// LockFeed holds the row until the transaction ends.
	sqlLockFeed = newStatement("Events.LockFeed", `SELECT last_event FROM event_feed WHERE id = 1 FOR UPDATE`)
	sqlSetFeed  = newStatement("Events.SetFeed", update("event_feed", "last_event")+` WHERE id = 1`)

	// Unnumbered selects the last position of an order (0 if there is none), and
	// whether a change of an order or an event of a sale has no number. ORDER BY
	// makes the databases use the index.
	sqlUnnumbered = newStatement("Events.Unnumbered", `SELECT coalesce((SELECT max(position) FROM orders), 0), coalesce(
		(SELECT position FROM order_changes WHERE event IS NULL ORDER BY event, position LIMIT 1),
		(SELECT position FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT 1)) IS NOT NULL`)
	// SalesWithNewOrders selects the sales whose last order is beyond their mark,
	// with the mark (0 if there is none), by id; LiveWithNewOrders those that are
	// not archived; SalesOfNewest all that have one of the first orders after a position.
	sqlSalesOfNewest = newStatement("Events.SalesOfNewest", `SELECT o.sale_id, coalesce(m.position, 0)
		FROM (SELECT DISTINCT sale_id FROM (SELECT sale_id FROM orders FORCE INDEX (PRIMARY)
			WHERE position > ? ORDER BY position LIMIT ?) newest) o
		LEFT JOIN event_marks m ON m.sale_id = o.sale_id ORDER BY o.sale_id`)
	sqlSalesWithNewOrders = newStatement("Events.SalesWithNewOrders", withNewOrders("true"))
	sqlLiveWithNewOrders  = newStatement("Events.LiveWithNewOrders", withNewOrders("s.archived_at IS NULL"))
	sqlNewOrders          = newStatement("Events.NewOrders", `SELECT position, stored_at FROM orders
		FORCE INDEX (orders_of_sale) WHERE sale_id = ? AND position > ? ORDER BY position LIMIT ?`)
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
		if found, err = s.reads(ctx).findNew(l, 1); err != nil {
			return 0, err
		}
	}
	if l.sure || len(found.marks) > 0 || len(found.changes) > 0 || len(found.sales) > 0 {
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
	items := found.inOrder()
	if len(items) == 0 {
		return found, 0, nil
	}
	ranges, changes, sales := number(items, last)
	q.addRanges(ranges)
	for _, set := range []struct {
		st    statement
		pairs []Pair
	}{{sqlNumberChanges, changes}, {sqlNumberSaleEvents, sales}} {
		if len(set.pairs) > 0 {
			q.exactly(len(set.pairs), q.s.sql[set.st], q.s.d.Pairs(set.pairs)...)
		}
	}
	for _, m := range found.marks {
		q.exec(sqlSetMark, m.sale, m.upto)
	}
	if !q.changed(sqlSetFeed, last+int64(len(items))) {
		err = errors.New("the feed has no row")
	}
	return found, len(items), err
}

// newRows is what has no number yet.
type newRows struct {
	marks          []newOrders // of sales that have new orders
	changes, sales []newRow
	more           bool // of a sale there may be more orders
}

type newOrders struct {
	sale   sluice.SaleID
	mark   int64 // the position after which the orders are new
	upto   int64 // the new mark
	orders []newRow
}

// newRow is an order, a change of one, or an event of a sale.
type newRow struct {
	position int64
	at       time.Time
	sale     sluice.SaleID // not of an order: there it is of the newOrders
	order    int64         // of a change: the order's position
}

// lookout is what a store knows of orders that may have no number.
type lookout struct {
	mu     sync.Mutex
	newest int64     // the last position of an order
	seen   int64     // orders up to this position have a number, unless they were committed late
	since  time.Time // when newest appeared, or when orders committed late were found last
	clean  bool      // a look found none, so late that no transaction from before can have stored any since
	live   time.Time // when the orders of all live sales were looked through
	all    time.Time // when those of archived sales were, too
	leave  bool      // a sale may have been archived since
}

const (
	// lastCommit is how long live sales are looked through after an order has
	// appeared: another one may have got its position before, and be committed later.
	// That happens every lateEvery: it asks of each sale, however few of them sell.
	lastCommit = 2 * changeTimeout
	lateEvery  = 2 * time.Second
	// newestOrders is up to how many positions are looked through for the sales
	// that sell now: several turns of a rush. If there are more, all live sales are.
	newestOrders = 5000
	// numberAllEvery is how often archived sales are looked through for orders
	// without a number: one can have some only if it was archived before they were
	// numbered. That leaves an event of the sale, and is looked for at once.
	numberAllEvery = time.Minute
)

// look is a search for what has no number.
type look struct {
	at    time.Time
	upto  int64     // the last position of an order before
	sales statement // selects the sales whose orders are looked at
	args  []any
	sure  bool // that there is something: a new order, unless another server has numbered it
}

// nextLook returns where anything may be without a number, nil if nothing is. It
// asks one question, however many sales there are.
func (s *Store) nextLook(ctx context.Context) (*look, error) {
	next := &look{at: time.Now()}
	var waiting bool
	if err := s.reads(ctx).row(sqlUnnumbered).Scan(&next.upto, &waiting); err != nil {
		return nil, err
	}
	l := &s.lookout
	l.mu.Lock()
	defer l.mu.Unlock()
	if next.upto != l.newest {
		l.newest, l.since, l.clean = next.upto, next.at, false
	}
	behind := next.upto - l.seen
	switch {
	case l.leave || next.at.Sub(l.all) > numberAllEvery:
		next.sales = sqlSalesWithNewOrders
	case behind < 0 || behind > newestOrders || !l.clean && next.at.Sub(l.live) > lateEvery:
		next.sales = sqlLiveWithNewOrders
	case behind > 0 || waiting:
		next.sales, next.args, next.sure = sqlSalesOfNewest, []any{l.seen, newestOrders}, behind > 0
	default:
		return nil, nil
	}
	return next, nil
}

// looked notes what a look has found, once that has its numbers.
func (l *lookout) looked(at *look, found *newRows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = len(found.sales) > 0
	if !found.more {
		l.seen = at.upto
	}
	if at.sales == sqlSalesOfNewest {
		return
	}
	l.live = at.at
	if at.sales == sqlSalesWithNewOrders {
		l.all = at.at
	}
	if len(found.marks) > 0 {
		l.since, l.clean = at.at, false
	} else if at.at.Sub(l.since) > lastCommit {
		l.clean = true
	}
}

// findNew reads what has no number: orders first, and the sales' own events
// last, so that a sale which is new is not seen after its orders.
func (q *conn) findNew(l *look, limit int) (found newRows, err error) {
	found.marks, _ = all(q, l.sales, func(r row) (m newOrders, err error) {
		err = r.Scan(&m.sale, &m.mark)
		return m, err
	}, l.args...)
	found.more = q.readOrders(found.marks, limit)
	marks := map[sluice.SaleID]int64{}
	for i := range found.marks {
		marks[found.marks[i].sale] = found.marks[i].upto
	}
	found.marks = slices.DeleteFunc(found.marks, func(m newOrders) bool { return len(m.orders) == 0 })
	q.each(sqlNewChanges, []any{limit}, func(r row) error {
		var c newRow
		var mark int64
		err := r.Scan(&c.position, new(string), moment{&c.at}, &c.sale, &c.order, &mark)
		if c.order <= max(mark, marks[c.sale]) {
			found.changes = append(found.changes, c)
		}
		return err
	})
	found.sales, err = all(q, sqlNewSaleEvents, func(r row) (e newRow, err error) {
		err = r.Scan(&e.position, &e.sale, moment{&e.at})
		return e, err
	}, limit)
	return found, err
}

// readOrders reads the sales' new orders, about limit in all: a share of each sale first, so
// that none delays the others, then what those that have more can have of the rest. It
// reports whether there may be more.
func (q *conn) readOrders(sales []newOrders, limit int) bool {
	var pending []*newOrders // that may have more
	for i := range sales {
		m := &sales[i]
		m.upto, pending = m.mark, append(pending, m)
	}
	for left := limit; len(pending) > 0 && left > 0; {
		share := max(1, left/len(pending))
		pending = slices.DeleteFunc(pending, func(m *newOrders) bool {
			had := len(m.orders)
			if had > 0 && left <= 0 {
				return false
			}
			q.each(sqlNewOrders, []any{m.sale, m.upto, share}, func(r row) error {
				var o newRow
				err := r.Scan(&o.position, moment{&o.at})
				m.orders, m.upto = append(m.orders, o), o.position
				return err
			})
			got := len(m.orders) - had
			left -= got
			return got < share
		})
	}
	return len(pending) > 0
}

// item is a row that is about to get a number.
type item struct {
	kind     int
	position int64
	at       time.Time // never before that of the row's forerunners
	sale     sluice.SaleID
	after    int64 // of an order: the position before, or the mark
}

const (
	aSaleEvent = iota
	anOrder
	aChange
)

// inOrder returns all rows in the order of their times, as far as that leaves
// the rows of one sale and of one order in their own order: a clock may be set
// back.
func (f *newRows) inOrder() []item {
	var items []item
	latest := map[sluice.SaleID]time.Time{}
	for _, e := range f.sales {
		at := later(e.at, latest[e.sale])
		latest[e.sale] = at
		items = append(items, item{kind: aSaleEvent, position: e.position, at: at, sale: e.sale})
	}
	stored := map[int64]time.Time{} // by the order's position
	for i := range f.marks {
		m := &f.marks[i]
		after, at := m.mark, time.Time{}
		for _, o := range m.orders {
			at = later(o.at, at)
			stored[o.position] = at
			items = append(items, item{kind: anOrder, position: o.position, at: at, sale: m.sale, after: after})
			after = o.position
		}
	}
	for _, c := range f.changes {
		at := later(c.at, stored[c.order])
		stored[c.order] = at
		items = append(items, item{kind: aChange, position: c.position, at: at})
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

// number gives the items the numbers after last.
func number(items []item, last int64) (ranges []orderRange, changes, sales []Pair) {
	for _, it := range items {
		last++
		switch it.kind {
		case aSaleEvent:
			sales = append(sales, Pair{it.position, last})
		case aChange:
			changes = append(changes, Pair{it.position, last})
		default:
			if n := len(ranges); n > 0 {
				if r := &ranges[n-1]; r.last == last-1 && r.sale == it.sale && r.upto == it.after {
					r.last, r.upto = last, it.position
					continue
				}
			}
			ranges = append(ranges, orderRange{last, last, it.sale, it.after, it.position})
		}
	}
	return ranges, changes, sales
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
