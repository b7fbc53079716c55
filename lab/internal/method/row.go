package method

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

var rowMethod = Method{
	Name: "row", Title: "Row lock in PostgreSQL",
	Does: "SELECT ... FOR UPDATE, UPDATE and INSERT in one transaction: what S3 names as what collapses",
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		s := &row{}
		return s, s.open(ctx, on)
	},
}

// row has the stock in the database. Every buyer waits for the same row.
type row struct{ base }

func (s *row) WarmUp(ctx context.Context, units int64) error {
	_, err := s.db.Exec(ctx, "CREATE TABLE goods (id text PRIMARY KEY, stock bigint NOT NULL)")
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, "INSERT INTO goods VALUES ($1, $2)", good, units)
	return err
}

var errSoldOut = errors.New("sold out")

func (s *row) Buy(ctx context.Context, buyer, _ string) (Answer, error) {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var stock int64
		err := tx.QueryRow(ctx, "SELECT stock FROM goods WHERE id = $1 FOR UPDATE", good).Scan(&stock)
		if err != nil {
			return err
		}
		if stock <= 0 {
			return errSoldOut
		}
		if _, err := tx.Exec(ctx, "UPDATE goods SET stock = stock - 1 WHERE id = $1", good); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO orders (id, buyer) VALUES ($1, $2)", s.orderID(), buyer)
		return err
	})
	switch {
	case errors.Is(err, errSoldOut):
		return SoldOut, nil
	case err != nil:
		return "", err
	}
	return Accepted, nil
}
