package sqlcore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
)

// Order returns a stored order.
func (s *Store) Order(ctx context.Context, id sluice.OrderID) (order sluice.Order, err error) {
	defer s.wrap(&err, "read order")
	if _, ok := id.Sale(); !ok { // it is nobody's; the database need not see it
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	if err := s.enter(ctx); err != nil {
		return sluice.Order{}, err
	}
	order, _, err = ScanOrder(s.read.QueryRowContext(ctx, s.sql.SelectOrder, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = sluice.ErrOrderNotFound
	}
	if err != nil {
		return sluice.Order{}, err
	}
	return order, nil
}

// Orders returns a page of stored orders.
func (s *Store) Orders(ctx context.Context, filter sluice.OrderFilter) (page []sluice.Order, next string, err error) {
	defer s.wrap(&err, "list orders")
	if filter.Limit < 1 || filter.Limit > sluice.MaxPage {
		return nil, "", fmt.Errorf("limit %d: want 1 to %d", filter.Limit, sluice.MaxPage)
	}
	after, err := decodeCursor(filter.Cursor)
	if err != nil {
		return nil, "", err
	}
	if !findable(&filter) {
		return nil, "", nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	query, args := PageQuery(s.d, &filter, after)
	last := int64(0)
	err = each(ctx, s.read, query, args, func(r *sql.Rows) error {
		order, position, err := ScanOrder(r)
		if len(page) == filter.Limit { // one more was asked for, to know of the next page
			next = encodeCursor(last)
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

// findable reports whether a filter can match anything. What cannot be an id is
// not shown to the database, which might take offence at its bytes.
func findable(f *sluice.OrderFilter) bool {
	return (f.Sale == "" || f.Sale.Validate() == nil) && (f.Buyer == "" || f.Buyer.Validate() == nil) &&
		cleanText(string(f.Status)) == string(f.Status)
}

// PageHinter is a dialect that needs to be told by which index it finds a page
// of orders.
type PageHinter interface {
	PageHint(f *sluice.OrderFilter) string
}

// PageQuery is composed, so that each combination of filters is a statement of
// its own and the database plans it by the index that it deserves: with a buyer,
// by the buyer's claims. To read the sale, or all orders, in order of position
// until there are enough of the buyer's is what databases guess to be cheaper,
// and it is a scan for everyone who has few. So that index is made useless.
func PageQuery(d Dialect, f *sluice.OrderFilter, after int64) (string, []any) {
	query := strings.Builder{}
	args := []any{after}
	position := "position"
	if f.Buyer != "" {
		position = "position + 0"
	}
	query.WriteString("SELECT " + OrderColumns + " FROM orders")
	if h, ok := d.(PageHinter); ok {
		query.WriteString(h.PageHint(f))
	}
	query.WriteString(" WHERE " + position + " > " + d.Arg(1))
	for _, by := range []struct{ column, value string }{
		{"sale_id", string(f.Sale)}, {"buyer_id", string(f.Buyer)}, {"status", string(f.Status)},
	} {
		if by.value != "" {
			args = append(args, by.value)
			query.WriteString(" AND " + by.column + " = " + d.Arg(len(args)))
		}
	}
	args = append(args, f.Limit+1)
	query.WriteString(" ORDER BY " + position + " LIMIT " + d.Arg(len(args)))
	return query.String(), args
}

// A cursor is the position of the last order of a page, made opaque so that
// nobody computes with it.
const cursorPrefix = "position:"

func encodeCursor(position int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + strconv.FormatInt(position, 10)))
}

func decodeCursor(cursor string) (position int64, err error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, sluice.ErrBadCursor
	}
	digits, _ := strings.CutPrefix(string(text), cursorPrefix)
	position, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || position < 1 || encodeCursor(position) != cursor {
		return 0, sluice.ErrBadCursor
	}
	return position, nil
}
