package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// conn runs statements: all in one transaction, or, if it has none, each by
// itself and within queryTimeout. An argument that is a time, a []string or
// storeNow becomes what the dialect makes of it.
//
// It keeps its first error: no statement runs after that, each returns it, and
// the transaction is not committed. So a caller looks at an error where it decides
// something by what was read, and not after every change.
type conn struct {
	s   *Store
	ctx context.Context // of the call that the conn lives in
	tx  *sql.Tx
	err error
}

// reads runs statements that read, outside of transactions.
func (s *Store) reads(ctx context.Context) *conn { return &conn{s: s, ctx: ctx} }

// fail keeps an error, unless there is one, and returns the first.
func (q *conn) fail(err error) error {
	q.err = cmp.Or(q.err, err)
	return q.err
}

// now reads the store's clock; without an answer it is the zero time.
func (q *conn) now() time.Time {
	if q.err != nil {
		return time.Time{}
	}
	var now time.Time
	var err error
	if q.tx != nil {
		now, err = q.s.d.Now(q.ctx, q.tx)
	} else if err = q.s.enter(q.ctx); err == nil {
		ctx, cancel := context.WithTimeout(q.ctx, queryTimeout)
		defer cancel()
		now, err = q.s.d.Now(ctx, q.s.read)
	}
	q.fail(err)
	return now
}

// storeNow is an argument: the store's clock just before the statement is sent,
// so after every lock that the transaction has waited for.
var storeNow any = clockReading{}

type clockReading struct{}

// bind makes arguments what the dialect takes, where they are: only one
// statement uses them.
func (q *conn) bind(args []any) error {
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			args[i] = q.s.d.Time(WholeMillis(v))
		case []string:
			args[i] = q.s.d.List(v)
		case clockReading:
			args[i] = q.s.d.Time(q.now())
		}
	}
	return q.err
}

// errEnough ends each before the last row.
var errEnough = errors.New("enough")

// each calls scan for every row of a query.
func (q *conn) each(st statement, args []any, scan func(row) error) error {
	return q.eachOf(q.s.sql[st], args, scan)
}

func (q *conn) eachOf(query string, args []any, scan func(row) error) error {
	if err := q.bind(args); err != nil {
		return err
	}
	var rows *sql.Rows
	var err error
	if q.tx != nil {
		rows, err = q.tx.QueryContext(q.ctx, query, args...)
	} else {
		if err := q.s.enter(q.ctx); err != nil {
			return q.fail(err)
		}
		ctx, cancel := context.WithTimeout(q.ctx, queryTimeout)
		defer cancel()
		rows, err = q.s.read.QueryContext(ctx, query, args...)
	}
	if err = eachRow(rows, err, scan); errors.Is(err, errEnough) {
		err = nil
	}
	return q.fail(err)
}

// eachRow calls scan for every row of what a query has returned.
func eachRow(rows *sql.Rows, err error, scan func(row) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// AppendOrders appends the orders of what a query of OrderColumns has returned.
func AppendOrders(all []sluice.Order, rows *sql.Rows, err error) ([]sluice.Order, error) {
	err = eachRow(rows, err, func(r row) error {
		order, err := scanOrder(r)
		all = append(all, order)
		return err
	})
	return all, err
}

// all returns the rows of a query.
func all[T any](q *conn, st statement, scan func(row) (T, error), args ...any) (list []T, err error) {
	err = q.each(st, args, func(r row) error {
		v, err := scan(r)
		list = append(list, v)
		return err
	})
	return list, err
}

// one returns the row of a query that selects one at most, or the error none.
func one[T any](q *conn, none error, st statement, scan func(row) (T, error), args ...any) (T, error) {
	v, err := scan(q.row(st, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = none
	}
	return unless(v, q.fail(err))
}

// unless returns v, but nothing of it with an error.
func unless[T any](v T, err error) (T, error) {
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// only scans a row of one column.
func only[T any](r row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// row returns the row of a query that selects one at most. It is read when it is
// scanned, which fails with sql.ErrNoRows if there is none.
func (q *conn) row(st statement, args ...any) row { return lateRow{q, st, args} }

type lateRow struct {
	q    *conn
	st   statement
	args []any
}

func (r lateRow) Scan(dest ...any) error {
	found := false
	err := r.q.each(r.st, r.args, func(r row) error {
		found = true
		return r.Scan(dest...)
	})
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// count runs a statement and returns how many rows it has changed; 0 with an error.
func (q *conn) count(st statement, args ...any) int64 { return q.countOf(q.s.sql[st], args) }

func (q *conn) countOf(query string, args []any) (n int64) {
	if q.bind(args) != nil {
		return 0
	}
	result, err := q.tx.ExecContext(q.ctx, query, args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	q.fail(err)
	return n
}

// exec runs a statement that changes any number of rows.
func (q *conn) exec(st statement, args ...any) error {
	q.count(st, args...)
	return q.err
}

// changed runs a statement that must change exactly one row, or none: it reports
// which.
func (q *conn) changed(st statement, args ...any) bool {
	n := q.count(st, args...)
	if n > 1 {
		q.fail(fmt.Errorf("%d rows changed instead of one", n))
	}
	return n == 1
}

// set is changed for a caller that need not know.
func (q *conn) set(st statement, args ...any) error {
	q.changed(st, args...)
	return q.err
}

// exactly runs a statement that must change n rows.
func (q *conn) exactly(n int, query string, args ...any) error {
	if changed := q.countOf(query, args); changed != int64(n) {
		q.fail(fmt.Errorf("%d rows changed instead of %d", changed, n))
	}
	return q.err
}
