package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	sqlSelectOrder = newStatement("SelectOrder", `SELECT `+OrderColumns+` FROM orders WHERE order_id = ?`)
	sqlSelectClaim = newStatement("SelectClaim", `SELECT `+OrderColumns+` FROM orders FORCE INDEX (orders_claim)
		WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?`)
	sqlCountOrders = newStatement("CountOrders",
		`SELECT status, count(*) FROM orders FORCE INDEX (orders_of_sale) WHERE sale_id = ? GROUP BY status`)
	// History selects one row at least if the order is there.
	sqlHistory = newStatement("History", `SELECT `+historyColumns+`
		FROM orders LEFT JOIN order_changes c ON c.order_id = orders.order_id
		WHERE orders.order_id = ? ORDER BY c.position`)
)

// Order returns a stored order.
func (s *Store) Order(ctx context.Context, id sluice.OrderID) (order sluice.Order, err error) {
	defer s.wrap(&err, "read order")
	if _, ok := id.Sale(); !ok { // no order has this id; the database need not see it
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	return one(s.reads(ctx), sluice.ErrOrderNotFound, sqlSelectOrder, scanOrder, id)
}

// Claim returns the order that an accepted claim became.
func (s *Store) Claim(ctx context.Context, claim sluice.ClaimID) (order sluice.Order, err error) {
	defer s.wrap(&err, "read claim sale=%s", claim.Sale)
	if claim.Sale.Validate() != nil || claim.Buyer.Validate() != nil || claim.Key.Validate() != nil { // as with Order
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	return one(s.reads(ctx), sluice.ErrOrderNotFound, sqlSelectClaim, scanOrder, claim.Buyer, claim.Sale, claim.Key)
}

// Orders returns a page of stored orders.
func (s *Store) Orders(ctx context.Context, filter sluice.OrderFilter) (page []sluice.Order, next string, err error) {
	defer s.wrap(&err, "list orders")
	if filter.Limit < 1 || filter.Limit > sluice.MaxPage {
		return nil, "", fmt.Errorf("limit %d: want 1 to %d", filter.Limit, sluice.MaxPage)
	}
	if !findable(&filter) {
		return nil, "", nil
	}
	if filter.Payment != "" {
		page, err = s.paidBy(ctx, &filter)
		return page, "", err
	}
	list := cursorList(fmt.Sprintf("orders %s %s", filter.Sale, filter.Status))
	after, err := s.afterOrder(ctx, &filter, list)
	if err != nil {
		return nil, "", err
	}
	query, args := PageQuery(&filter, after)
	last := int64(0)
	err = s.reads(ctx).eachOf(s.d.SQL(query), args, func(r row) error {
		order, position, err := scanOrderAt(r)
		if len(page) == filter.Limit { // one more was asked for, to know of the next page
			if next = list.at(last); filter.Buyer != "" {
				next = list.cursor(string(page[len(page)-1].ID))
			}
			return err
		}
		page, last = append(page, order), position
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// CountOrders counts the stored orders of a sale by status.
func (s *Store) CountOrders(ctx context.Context, sale sluice.SaleID) (counts map[sluice.Status]int64, err error) {
	defer s.wrap(&err, "count orders sale=%s", sale)
	counts = map[sluice.Status]int64{}
	err = s.reads(ctx).each(sqlCountOrders, []any{sale}, func(r row) error {
		var status sluice.Status
		var n int64
		err := r.Scan(&status, &n)
		counts[status] = n
		return err
	})
	return counts, err
}

// paidBy returns the order that a payment is of, if it is as the filter says.
func (s *Store) paidBy(ctx context.Context, f *sluice.OrderFilter) ([]sluice.Order, error) {
	id, err := only[sluice.OrderID](s.reads(ctx).row(sqlPaidOrder, f.Payment))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := s.Order(ctx, id)
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return nil, nil
	case err != nil, f.Sale != "" && o.Sale != f.Sale, f.Buyer != "" && o.Buyer != f.Buyer,
		f.Status != "" && o.Status != f.Status:
		return nil, err
	}
	return []sluice.Order{o}, nil
}

// findable reports whether a filter can match anything. The database
// never sees a text that cannot be an id: it might refuse the bytes.
func findable(f *sluice.OrderFilter) bool {
	return (f.Sale == "" || f.Sale.Validate() == nil) && (f.Buyer == "" || f.Buyer.Validate() == nil) &&
		cleanText(string(f.Status)) == string(f.Status) && cleanText(f.Payment) == f.Payment
}

// PageQuery is composed, so that each combination of filters is a statement of
// its own and the database plans it by the index that it deserves: with a buyer,
// by the buyer's claims. To read the sale, or all orders, in order of position
// until there are enough of the buyer's is what databases guess to be cheaper,
// and it is a scan for everyone who has few. So that index is made useless.
// MariaDB needs hints as well: going by its own statistics, it reads a whole big
// sale for the few orders that a buyer has there.
func PageQuery(f *sluice.OrderFilter, after int64) (string, []any) {
	position, index := "position", ""
	switch {
	case f.Buyer != "":
		position, index = "position + 0", " FORCE INDEX (orders_claim)"
	case f.Sale != "":
		index = " FORCE INDEX (orders_of_sale)"
	}
	query, args := "SELECT "+OrderColumns+" FROM orders"+index+" WHERE "+position+" > ?", []any{after}
	for _, by := range []struct{ column, value string }{
		{"sale_id", string(f.Sale)}, {"buyer_id", string(f.Buyer)}, {"status", string(f.Status)},
	} {
		if by.value != "" {
			query, args = query+" AND "+by.column+" = ?", append(args, by.value)
		}
	}
	return query + " ORDER BY " + position + " LIMIT ?", append(args, f.Limit+1)
}

// afterOrder returns the position that a page starts after. A buyer's cursor names
// the page's last order, not its position: positions count the orders of all sales,
// so two of them would tell a buyer how well the shop sells.
func (s *Store) afterOrder(ctx context.Context, f *sluice.OrderFilter, list cursorList) (position int64, err error) {
	if f.Buyer == "" || f.Cursor == "" {
		return list.position(f.Cursor)
	}
	id, err := list.value(f.Cursor)
	if err != nil {
		return 0, err
	}
	if _, ok := sluice.OrderID(id).Sale(); !ok {
		return 0, sluice.ErrBadCursor
	}
	return one(s.reads(ctx), sluice.ErrBadCursor, sqlSelectOrder, func(r row) (int64, error) {
		order, position, err := scanOrderAt(r)
		if err == nil && order.Buyer != f.Buyer {
			err = sluice.ErrBadCursor
		}
		return position, err
	}, id)
}

// A cursor names the last row of a page, made opaque so that clients do not
// compute with it. It belongs to one list, with one filter.
type cursorList string

func (l cursorList) cursor(value string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(l) + ":" + value))
}

func (l cursorList) value(cursor string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	value, ok := strings.CutPrefix(string(text), string(l)+":")
	if err != nil || !ok || l.cursor(value) != cursor {
		return "", sluice.ErrBadCursor
	}
	return value, nil
}

func (l cursorList) at(position int64) string { return l.cursor(strconv.FormatInt(position, 10)) }

// position of the last row before, 0 without a cursor.
func (l cursorList) position(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	digits, err := l.value(cursor)
	if err != nil {
		return 0, err
	}
	position, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || position < 1 || l.at(position) != cursor {
		return 0, sluice.ErrBadCursor
	}
	return position, nil
}

// History returns the changes of an order. The first one, its being stored,
// has no row of its own, to keep storing fast: it follows from the order.
func (s *Store) History(ctx context.Context, id sluice.OrderID) (entries []sluice.HistoryEntry, err error) {
	defer s.wrap(&err, "history order=%s", id)
	if _, ok := id.Sale(); !ok {
		return nil, sluice.ErrOrderNotFound
	}
	err = s.reads(ctx).each(sqlHistory, []any{id}, func(r row) error {
		first, change, err := scanHistory(r, id)
		if len(entries) == 0 {
			entries = append(entries, first)
		}
		if change != nil {
			entries = append(entries, *change)
		}
		return err
	})
	if err == nil && len(entries) == 0 {
		err = sluice.ErrOrderNotFound
	}
	return unless(entries, err)
}

// scanHistory reads a row of historyColumns: what the order was stored as, if
// this is the first row, and a change, nil if there was none.
func scanHistory(r row, id sluice.OrderID) (first sluice.HistoryEntry, change *sluice.HistoryEntry, err error) {
	var storedAt, changedAt time.Time
	var node, reason string
	var status sluice.Status
	var from, to, action, by, why, payment, refused sql.NullString
	err = r.Scan(&node, moment{&storedAt}, &status, &reason,
		moment{&changedAt}, &from, &to, &action, &by, &why, &payment, &refused)
	if from.Valid {
		change = &sluice.HistoryEntry{
			Order: id, At: changedAt, From: sluice.Status(from.String), To: sluice.Status(to.String),
			Action: sluice.Action(action.String), By: by.String, Reason: why.String, PaymentID: payment.String,
		}
		err = cmp.Or(err, readSubject(change, refused.String))
		status = change.From
	}
	first = sluice.HistoryEntry{Order: id, At: storedAt, From: sluice.Queued, To: status, By: node}
	if status == sluice.Rejected {
		first.Reason = reason
	}
	return first, change, err
}
