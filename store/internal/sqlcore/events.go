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

	// Unnumbered selects the last position of an order (0 if there is none), and
	// whether a change of an order or an event of a sale has no number.
	Unnumbered string
	// SalesWithNewOrders selects the sales whose last order is beyond their
	// mark, with the mark (0 if there is none), by id.
	SalesWithNewOrders string
	LiveWithNewOrders  string // the same, of sales that are not archived
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

// Unnumbered is the same for all databases. ORDER BY makes them use the index.
const Unnumbered = `SELECT coalesce((SELECT max(position) FROM orders), 0), coalesce(
	(SELECT position FROM order_changes WHERE event IS NULL ORDER BY event, position LIMIT 1),
	(SELECT position FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT 1)) IS NOT NULL`

// Pair is a row's position, and the number of the event that it is.
type Pair struct{ Position, Event int64 }

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
