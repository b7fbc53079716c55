package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	sqlLastEvent = newStatement("Events.LastEvent", `SELECT last_event FROM event_feed WHERE id = 1`)

	// The events of a window, after a number and up to one, each with its number. OrderEvents
	// takes the end twice.
	sqlOrderEvents = newStatement("Events.OrderEvents",
		`SELECT event - orders + 1, event, sale_id, after_position, upto_position FROM order_events
		WHERE event > ? AND event - orders < ?
			AND event <= coalesce((SELECT min(event) FROM order_events WHERE event >= ?), 9223372036854775807)
		ORDER BY event`)
	sqlChangeEvents = newStatement("Events.ChangeEvents",
		`SELECT c.event, c.from_status, c.to_status, c.action, c.changed_at, c.why, c.refused, `+OrderColumns+`
		FROM (SELECT event, order_id AS of_order, from_status, to_status, action, changed_at, reason AS why, refused
			FROM order_changes
			WHERE event > ? AND event <= ?) c
		STRAIGHT_JOIN orders ON orders.order_id = c.of_order`)
	sqlSaleEvents = newStatement("Events.SaleEvents",
		`SELECT event, type, created_at, sale FROM sale_events WHERE event > ? AND event <= ?`)
	// FirstStatus is that before the first change; no row if there was none.
	sqlFirstStatus = newStatement("Events.FirstStatus",
		`SELECT from_status FROM order_changes WHERE order_id = ? ORDER BY position LIMIT 1`)
	sqlAddSaleEvent = newStatement("Events.AddSaleEvent", insertInto("sale_events", "sale_id, type, created_at, sale"))
)

// LastEvent returns the last number given.
func (s *Store) LastEvent(ctx context.Context) (last int64, err error) {
	defer s.wrap(&err, "read the last event")
	return only[int64](s.reads(ctx).row(sqlLastEvent))
}

// Events returns a page of the feed. Numbers are dense, so the page is known
// before it is read, and a number that is missing is an error and never passed
// over.
func (s *Store) Events(ctx context.Context, after int64, limit int) (page []sluice.Event, err error) {
	defer s.wrap(&err, "read events after %d", after)
	if limit < 1 || limit > sluice.MaxPage {
		return nil, fmt.Errorf("limit %d: want 1 to %d", limit, sluice.MaxPage)
	}
	err = s.view(ctx, func(tx *conn) error {
		var first, last int64
		if err := tx.row(sqlFeed).Scan(&first, &last); err != nil {
			return err
		}
		if after < 0 || after > last {
			return fmt.Errorf("the last event is %d: %w", last, sluice.ErrBadCursor)
		}
		if after < first-1 {
			return &sluice.EventsGoneError{First: first}
		}
		page = make([]sluice.Event, min(last-after, int64(limit)))
		if len(page) == 0 {
			return nil
		}
		return tx.readEvents(after, page)
	})
	return unless(page, err)
}

// readEvents fills the page with the events after the given number.
func (q *conn) readEvents(after int64, page []sluice.Event) error {
	upto := after + int64(len(page))
	set := func(e sluice.Event) error {
		at := e.Seq - after - 1
		if at < 0 || at >= int64(len(page)) || page[at].Seq != 0 {
			return fmt.Errorf("event %d is there twice, or not asked for", e.Seq)
		}
		page[at] = e
		return nil
	}
	q.readCreated(after, upto, set)
	q.each(sqlChangeEvents, []any{after, upto}, func(r row) error {
		seq, change, refused := int64(0), sluice.HistoryEntry{}, ""
		order, err := scanOrder(prefixed{r, []any{
			&seq, &change.From, &change.To, &change.Action, moment{&change.At}, &change.Reason, &refused,
		}})
		if err != nil {
			return err
		}
		if err := readSubject(&change, refused); err != nil {
			return err
		}
		return set(sluice.NewOrderEvent(seq, order, change))
	})
	q.each(sqlSaleEvents, []any{after, upto}, func(r row) error {
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

// orderRange is orders that were stored together, which follow each other both in their
// sale and in the feed.
type orderRange struct {
	first, last int64 // events
	sale        sluice.SaleID
	after, upto int64 // positions
}

// readCreated reads the events that orders were stored.
func (q *conn) readCreated(after, upto int64, set func(sluice.Event) error) {
	ranges, _ := all(q, sqlOrderEvents, func(r row) (o orderRange, err error) {
		err = r.Scan(&o.first, &o.last, &o.sale, &o.after, &o.upto)
		return o, err
	}, after, upto, upto)
	for part := range slices.Chunk(ranges, rangesAtOnce) {
		q.fail(q.readRanges(part, func(seq int64, o *sluice.Order) error {
			if seq <= after || seq > upto {
				return nil
			}
			change := sluice.HistoryEntry{At: o.StoredAt, From: sluice.Queued, To: q.firstStatus(o)}
			return set(sluice.NewOrderEvent(seq, *o, change))
		}))
	}
}

// readRanges calls do with each order of the ranges, and its event. Each range
// is a query of its own, all in one statement: not every database looks up a
// range of positions by index if it comes from another table.
func (q *conn) readRanges(ranges []orderRange, do func(seq int64, o *sluice.Order) error) error {
	var query strings.Builder
	var args []any
	for i, r := range ranges {
		if i > 0 {
			query.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&query, "SELECT %d AS part, "+OrderColumns+
			" FROM orders WHERE sale_id = ? AND position > ? AND position <= ?", i)
		args = append(args, r.sale, r.after, r.upto)
	}
	type placed struct {
		part     int
		position int64
		order    sluice.Order
	}
	var all []placed
	err := q.eachOf(q.s.d.SQL(query.String()), args, func(r row) (err error) {
		var p placed
		p.order, p.position, err = scanOrderAt(prefixed{r, []any{&p.part}})
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
func (q *conn) firstStatus(o *sluice.Order) sluice.Status {
	if o.Free() {
		return sluice.Paid
	}
	if o.Reason != sluice.NotCovered {
		return sluice.Pending
	}
	from, err := only[sluice.Status](q.row(sqlFirstStatus, o.ID))
	if errors.Is(err, sql.ErrNoRows) {
		return o.Status
	}
	return from
}

// addSaleEvent writes an event of a sale, in the transaction that changes it
// and that holds its row.
func (q *conn) addSaleEvent(kind sluice.EventType, sale *sluice.Sale, at time.Time) error {
	row, err := json.Marshal(sale)
	if err != nil {
		return err
	}
	return q.set(sqlAddSaleEvent, sale.ID, string(kind), at, string(row))
}

// addSaleEventOf is addSaleEvent of the sale as the transaction has left it.
func (q *conn) addSaleEventOf(kind sluice.EventType, id sluice.SaleID, at time.Time) error {
	sale := q.lockSale(id)
	return q.addSaleEvent(kind, &sale, at)
}
