package sqlcore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

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
	if look, err := s.mayBeNew(ctx); err != nil || !look {
		return 0, err
	}
	if found, err := s.findNew(ctx, s.read, 1); err != nil || len(found.marks) == 0 && len(found.changes) == 0 && len(found.sales) == 0 {
		return 0, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		numbered, err = s.numberEvents(ctx, tx, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return numbered, nil
}

func (s *Store) numberEvents(ctx context.Context, tx *sql.Tx, limit int) (int, error) {
	var last int64
	if err := tx.QueryRowContext(ctx, s.events.LockFeed).Scan(&last); err != nil {
		return 0, err
	}
	found, err := s.findNew(ctx, tx, limit)
	if err != nil {
		return 0, err
	}
	items := found.inOrder()
	if len(items) == 0 {
		return 0, nil
	}
	ranges, changes, sales := number(items, last)
	if err := s.addRanges(ctx, tx, ranges); err != nil {
		return 0, err
	}
	for _, set := range []struct {
		query string
		pairs []Pair
	}{{s.events.NumberChanges, changes}, {s.events.NumberSaleEvents, sales}} {
		if len(set.pairs) > 0 {
			if err := execAll(ctx, tx, len(set.pairs), set.query, s.d.Pairs(set.pairs)...); err != nil {
				return 0, err
			}
		}
	}
	for _, m := range found.marks {
		if _, err := tx.ExecContext(ctx, s.events.SetMark, m.sale, m.upto); err != nil {
			return 0, err
		}
	}
	moved, err := exec(ctx, tx, s.events.SetFeed, last+int64(len(items)))
	if err == nil && !moved {
		err = fmt.Errorf("the feed has no row")
	}
	return len(items), err
}

// newRows is what has no number yet.
type newRows struct {
	marks   []newOrders // of sales that have new orders
	changes []newChange
	sales   []newSaleEvent
}

type newOrders struct {
	sale   sluice.SaleID
	mark   int64 // the position after which the orders are new
	upto   int64 // the new mark
	orders []newOrder
}

type newOrder struct {
	position int64
	at       time.Time
}

type newChange struct {
	position      int64
	order         sluice.OrderID
	at            time.Time
	orderPosition int64
}

type newSaleEvent struct {
	position int64
	sale     sluice.SaleID
	at       time.Time
}

// lookout is what a store knows of orders that may have no number.
type lookout struct {
	mu     sync.Mutex
	newest int64     // the last position of an order
	since  time.Time // when that appeared, or when orders without a number were found last
	clean  bool      // a look found none, so late that no transaction from before can have stored any since
	all    time.Time // when the orders of all sales, archived ones too, were looked through
	leave  bool      // a sale may have been archived since
}

const (
	// lastCommit is how long live sales are looked through after an order has
	// appeared: another one may have got its position before, and be committed later.
	lastCommit = 2 * changeTimeout
	// numberAllEvery is how often archived sales are looked through for orders
	// without a number: one can have some only if it was archived before they were
	// numbered. That leaves an event of the sale, and is looked for at once.
	numberAllEvery = time.Minute
)

// mayBeNew reports whether anything may be without a number. It asks one
// question, however many sales there are.
func (s *Store) mayBeNew(ctx context.Context) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	var newest int64
	var waiting bool
	if err := s.read.QueryRowContext(ctx, s.events.Unnumbered).Scan(&newest, &waiting); err != nil {
		return false, err
	}
	l, now := &s.lookout, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if newest != l.newest {
		l.newest, l.since, l.clean = newest, now, false
	}
	return waiting || !l.clean || l.leave || now.Sub(l.all) > numberAllEvery, nil
}

// everywhere reports whether a look must include archived sales.
func (l *lookout) everywhere(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leave || now.Sub(l.all) > numberAllEvery
}

// looked notes what a look that began at now has found.
func (l *lookout) looked(now time.Time, found *newRows, everywhere bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(found.marks) > 0 {
		l.since, l.clean = now, false
	} else if now.Sub(l.since) > lastCommit {
		l.clean = true
	}
	l.leave = len(found.sales) > 0
	if everywhere {
		l.all = now
	}
}

// findNew reads what has no number: orders first, and the sales' own events
// last, so that a sale which is new is not seen after its orders.
func (s *Store) findNew(ctx context.Context, q querier, limit int) (found newRows, err error) {
	if err := s.enter(ctx); err != nil {
		return found, err
	}
	query, now := s.events.LiveWithNewOrders, time.Now()
	everywhere := s.lookout.everywhere(now)
	if everywhere {
		query = s.events.SalesWithNewOrders
	}
	err = each(ctx, q, query, nil, func(r *sql.Rows) error {
		var m newOrders
		err := r.Scan(&m.sale, &m.mark)
		found.marks = append(found.marks, m)
		return err
	})
	if err != nil {
		return found, err
	}
	marks := map[sluice.SaleID]int64{}
	for i := range found.marks {
		m := &found.marks[i]
		share := max(1, limit/len(found.marks)) // no sale keeps the others waiting
		err := each(ctx, q, s.events.NewOrders, []any{m.sale, m.mark, share}, func(r *sql.Rows) error {
			var o newOrder
			err := r.Scan(&o.position, moment{&o.at})
			m.orders, m.upto = append(m.orders, o), o.position
			return err
		})
		if err != nil {
			return found, err
		}
		marks[m.sale] = m.upto
	}
	found.marks = slices.DeleteFunc(found.marks, func(m newOrders) bool { return len(m.orders) == 0 })
	err = each(ctx, q, s.events.NewChanges, []any{limit}, func(r *sql.Rows) error {
		var c newChange
		var sale sluice.SaleID
		var mark int64
		err := r.Scan(&c.position, &c.order, moment{&c.at}, &sale, &c.orderPosition, &mark)
		if c.orderPosition <= max(mark, marks[sale]) {
			found.changes = append(found.changes, c)
		}
		return err
	})
	if err != nil {
		return found, err
	}
	err = each(ctx, q, s.events.NewSaleEvents, []any{limit}, func(r *sql.Rows) error {
		var e newSaleEvent
		err := r.Scan(&e.position, &e.sale, moment{&e.at})
		found.sales = append(found.sales, e)
		return err
	})
	if err == nil {
		s.lookout.looked(now, &found, everywhere)
	}
	return found, err
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
		at := later(c.at, stored[c.orderPosition])
		stored[c.orderPosition] = at
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
func (s *Store) addRanges(ctx context.Context, tx *sql.Tx, ranges []orderRange) error {
	for part := range slices.Chunk(ranges, 100) {
		var query strings.Builder
		query.WriteString("INSERT INTO order_events (first_event, last_event, sale_id, after_position, upto_position) VALUES ")
		var args []any
		for i, r := range part {
			if i > 0 {
				query.WriteString(", ")
			}
			n := len(args)
			fmt.Fprintf(&query, "(%s, %s, %s, %s, %s)", s.d.Arg(n+1), s.d.Arg(n+2), s.d.Arg(n+3), s.d.Arg(n+4), s.d.Arg(n+5))
			args = append(args, r.first, r.last, r.sale, r.after, r.upto)
		}
		if err := execAll(ctx, tx, len(part), query.String(), args...); err != nil {
			return err
		}
	}
	return nil
}
