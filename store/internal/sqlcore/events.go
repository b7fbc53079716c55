package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// EventStatements is the SQL of the feed; as with Statements.
type EventStatements struct {
	LockFeed  string // no arguments; last_event, and holds the row until the transaction ends
	SetFeed   string // last_event
	LastEvent string // no arguments

	// SalesWithNewOrders selects the sales whose last order is beyond their
	// mark, with the mark (0 if there is none), by id.
	SalesWithNewOrders string
	NewOrders          string // sale, position after which, limit; position, stored_at, by position
	SetMark            string // sale, position; inserts or updates
	// NewChanges selects changes that have no number: position, order_id,
	// changed_at, and of the order sale_id, position and its sale's mark (0 if
	// there is none), by position.
	NewChanges    string // limit
	NewSaleEvents string // limit; position, sale_id, created_at, by position

	// NumberChanges and NumberSaleEvents set the event at each position, if it
	// has none; the arguments are those of Dialect.Pairs.
	NumberChanges    string
	NumberSaleEvents string
	AddSaleEvent     string // sale_id, type, created_at, sale

	// The events of a window, each with its number.
	OrderEvents  string // after, upto, limit; first_event, last_event, sale_id, after_position, upto_position, by number
	ChangeEvents string // after, upto; event, from_status, to_status, changed_at, refused, OrderColumns
	SaleEvents   string // after, upto; event, type, created_at, sale
	FirstStatus  string // order_id; from_status of its first change; no row if there was none
}

// Pair is a row's position, and the number of the event that it is.
type Pair struct{ Position, Event int64 }

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
	// Nearly always there is nothing to do, and to see that needs no lock.
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

// findNew reads what has no number: orders first, and the sales' own events
// last, so that a sale which is new is not seen after its orders.
func (s *Store) findNew(ctx context.Context, q querier, limit int) (found newRows, err error) {
	if err := s.enter(ctx); err != nil {
		return found, err
	}
	err = each(ctx, q, s.events.SalesWithNewOrders, nil, func(r *sql.Rows) error {
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

// addSaleEvent writes an event of a sale, in the transaction that changes it
// and that holds its row.
func (s *Store) addSaleEvent(ctx context.Context, tx *sql.Tx, kind sluice.EventType, sale *sluice.Sale, at time.Time) error {
	row, err := json.Marshal(sale)
	if err != nil {
		return err
	}
	_, err = exec(ctx, tx, s.events.AddSaleEvent, sale.ID, string(kind), s.d.Time(at), string(row))
	return err
}

// addSaleEventOf is addSaleEvent of the sale as the transaction has left it.
func (s *Store) addSaleEventOf(ctx context.Context, tx *sql.Tx, kind sluice.EventType, id sluice.SaleID, at time.Time) error {
	sale, err := s.lockSale(ctx, tx, id)
	if err != nil {
		return err
	}
	return s.addSaleEvent(ctx, tx, kind, &sale, at)
}

// LastEvent returns the last number given.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	defer s.wrap(&err, "read the last event")
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	err = s.read.QueryRowContext(ctx, s.events.LastEvent).Scan(&last)
	return last, err
}

// Events returns a page of the feed. Numbers are dense, so the page is known
// before it is read, and a number that is missing is an error and never passed
// over.
func (s *Store) Events(ctx context.Context, after int64, limit int) (page []sluice.Event, err error) {
	defer s.wrap(&err, "read events after %d", after)
	if limit < 1 || limit > sluice.MaxPage {
		return nil, fmt.Errorf("limit %d: want 1 to %d", limit, sluice.MaxPage)
	}
	err = s.view(ctx, func(tx *sql.Tx) error {
		var last int64
		if err := tx.QueryRowContext(ctx, s.events.LastEvent).Scan(&last); err != nil {
			return err
		}
		if after < 0 || after > last {
			return fmt.Errorf("the last event is %d: %w", last, sluice.ErrBadCursor)
		}
		page = make([]sluice.Event, min(last-after, int64(limit)))
		if len(page) == 0 {
			return nil
		}
		return s.readEvents(ctx, tx, after, page)
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// readEvents fills the page with the events after the given number.
func (s *Store) readEvents(ctx context.Context, tx *sql.Tx, after int64, page []sluice.Event) error {
	upto := after + int64(len(page))
	set := func(e sluice.Event) error {
		at := e.Seq - after - 1
		if at < 0 || at >= int64(len(page)) || page[at].Seq != 0 {
			return fmt.Errorf("event %d is there twice, or not asked for", e.Seq)
		}
		page[at] = e
		return nil
	}
	if err := s.readCreated(ctx, tx, after, upto, len(page), set); err != nil {
		return err
	}
	err := each(ctx, tx, s.events.ChangeEvents, []any{after, upto}, func(r *sql.Rows) error {
		seq, change, refused := int64(0), sluice.HistoryEntry{}, ""
		order, _, err := ScanOrder(prefixed{r, []any{&seq, &change.From, &change.To, moment{&change.At}, &refused}})
		if err != nil {
			return err
		}
		change.PaymentID = refused
		return set(sluice.NewOrderEvent(seq, order, change))
	})
	if err != nil {
		return err
	}
	err = each(ctx, tx, s.events.SaleEvents, []any{after, upto}, func(r *sql.Rows) error {
		var e sluice.Event
		var row []byte
		if err := r.Scan(&e.Seq, &e.Type, moment{&e.At}, &row); err != nil {
			return err
		}
		if err := json.Unmarshal(row, &e.Sale); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
		return set(e)
	})
	if err != nil {
		return err
	}
	for i := range page {
		if page[i].Seq == 0 {
			return fmt.Errorf("event %d is missing", after+int64(i)+1)
		}
	}
	return nil
}

// prefixed scans columns before those that the row's reader expects.
type prefixed struct {
	row
	first []any
}

func (p prefixed) Scan(dest ...any) error { return p.row.Scan(slices.Concat(p.first, dest)...) }

// rangesAtOnce is how many ranges one statement reads.
const rangesAtOnce = 20

// readCreated reads the events that orders were stored.
func (s *Store) readCreated(ctx context.Context, tx *sql.Tx, after, upto int64, limit int, set func(sluice.Event) error) error {
	var ranges []orderRange
	err := each(ctx, tx, s.events.OrderEvents, []any{after, upto, limit}, func(r *sql.Rows) error {
		var o orderRange
		err := r.Scan(&o.first, &o.last, &o.sale, &o.after, &o.upto)
		ranges = append(ranges, o)
		return err
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ranges, rangesAtOnce) {
		if err := s.readRanges(ctx, tx, part, func(seq int64, o *sluice.Order) error {
			if seq <= after || seq > upto {
				return nil
			}
			status, err := s.firstStatus(ctx, tx, o)
			if err != nil {
				return err
			}
			return set(sluice.NewOrderEvent(seq, *o, sluice.HistoryEntry{At: o.StoredAt, From: sluice.Queued, To: status}))
		}); err != nil {
			return err
		}
	}
	return nil
}

// readRanges calls do with each order of the ranges, and its event. Each range
// is a query of its own, all in one statement: not every database looks up a
// range of positions by index if it comes from another table.
func (s *Store) readRanges(ctx context.Context, tx *sql.Tx, ranges []orderRange, do func(seq int64, o *sluice.Order) error) error {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		n := len(args)
		fmt.Fprintf(&query, "SELECT %d AS part, %s FROM orders WHERE sale_id = %s AND position > %s AND position <= %s",
			i, OrderColumns, s.d.Arg(n+1), s.d.Arg(n+2), s.d.Arg(n+3))
		args = append(args, r.sale, r.after, r.upto)
	}
	type placed struct {
		part     int
		position int64
		order    sluice.Order
	}
	var all []placed
	err := each(ctx, tx, query.String(), args, func(r *sql.Rows) (err error) {
		var p placed
		p.order, p.position, err = ScanOrder(prefixed{r, []any{&p.part}})
		all = append(all, p)
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.position, b.position))
	})
	next, part := int64(0), -1
	for i := range all {
		p := &all[i]
		if p.part != part {
			next, part = ranges[p.part].first, p.part
		}
		if next > ranges[part].last {
			return fmt.Errorf("more orders than events %d to %d", ranges[part].first, ranges[part].last)
		}
		if err := do(next, &p.order); err != nil {
			return err
		}
		next++
	}
	return nil
}

// firstStatus returns what an order was stored as. Only the reason that the
// store itself gives makes it necessary to look.
func (s *Store) firstStatus(ctx context.Context, tx *sql.Tx, o *sluice.Order) (sluice.Status, error) {
	if o.Reason != sluice.NotCovered {
		return sluice.Pending, nil
	}
	var from sluice.Status
	switch err := tx.QueryRowContext(ctx, s.events.FirstStatus, o.ID).Scan(&from); err {
	case nil:
		return from, nil
	case sql.ErrNoRows:
		return o.Status, nil
	default:
		return "", err
	}
}
