package sqlcore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluicehq/sluice"
)

// Snapshot calls read with a view of one sale, all of it of one moment.
func (s *Store) Snapshot(ctx context.Context, id sluice.SaleID, read func(sluice.Snapshot) error) (err error) {
	var judged error // by read; it is returned as it is
	err = s.viewWithin(ctx, longTimeout, func(tx *sql.Tx) error {
		snap := &snapshot{ctx: ctx, store: s, tx: tx}
		var err error
		if snap.sale, err = oneSale(tx.QueryRowContext(ctx, s.sql.SelectSale, id)); err != nil {
			return err
		}
		err = each(ctx, tx, s.sql.SelectTerms, []any{id}, func(r *sql.Rows) error {
			terms, err := scanTerms(r)
			snap.terms = append(snap.terms, terms)
			return err
		})
		if err != nil {
			return err
		}
		judged = read(snap)
		return judged
	})
	if judged == nil {
		s.wrap(&err, "snapshot sale=%s", id)
	}
	return err
}

type snapshot struct {
	ctx   context.Context // of the call that the snapshot lives in
	store *Store
	tx    *sql.Tx
	sale  sluice.Sale
	terms []sluice.Terms
}

func (n *snapshot) Sale() sluice.Sale { return n.sale }

func (n *snapshot) TermsVersions() []sluice.Terms { return n.terms }

func (n *snapshot) Orders(yield func(sluice.Order) bool) (err error) {
	defer n.store.wrap(&err, "snapshot orders sale=%s", n.sale.ID)
	return n.store.ordersOfSale(n.ctx, n.tx, n.sale.ID, yield)
}

func (n *snapshot) DeadLetters() (all []sluice.DeadLetter, err error) {
	defer n.store.wrap(&err, "snapshot dead letters sale=%s", n.sale.ID)
	return deadLetters(n.ctx, n.tx, n.store.sql.DeadLettersOfSale, n.sale.ID)
}

func (n *snapshot) Endings(yield func(order sluice.OrderID, times int64) bool) (err error) {
	defer n.store.wrap(&err, "snapshot endings sale=%s", n.sale.ID)
	return n.until(n.store.sql.EndingsOfSale, func(r *sql.Rows) (bool, error) {
		var order sluice.OrderID
		var times int64
		if err := r.Scan(&order, &times); err != nil {
			return false, err
		}
		return yield(order, times), nil
	})
}

func (n *snapshot) Returning(yield func(order sluice.OrderID) bool) (err error) {
	defer n.store.wrap(&err, "snapshot outbox sale=%s", n.sale.ID)
	return n.until(n.store.sql.ReturningOfSale, func(r *sql.Rows) (bool, error) {
		var order sluice.OrderID
		if err := r.Scan(&order); err != nil {
			return false, err
		}
		return yield(order), nil
	})
}

var errEnough = errors.New("enough")

// until reads the sale's rows until one is enough.
func (n *snapshot) until(query string, one func(*sql.Rows) (bool, error)) error {
	err := each(n.ctx, n.tx, query, []any{n.sale.ID}, func(r *sql.Rows) error {
		more, err := one(r)
		if err == nil && !more {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// pageOfSale bounds the memory of reading a sale.
const pageOfSale = 2000

// ordersOfSale calls yield with the orders of a sale, oldest first, until it
// returns false. It reads in pages, so that yield may use the transaction.
func (s *Store) ordersOfSale(ctx context.Context, tx *sql.Tx, id sluice.SaleID, yield func(sluice.Order) bool) error {
	page := make([]sluice.Order, 0, pageOfSale)
	for after := int64(0); ; {
		page = page[:0]
		err := each(ctx, tx, s.sql.OrdersOfSale, []any{id, after, pageOfSale}, func(r *sql.Rows) error {
			order, position, err := ScanOrder(r)
			page, after = append(page, order), position
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if !yield(page[i]) {
				return nil
			}
		}
		if len(page) < pageOfSale {
			return nil
		}
	}
}
