package sqlcore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluicehq/sluice"
)

// The networks that the claims of orders came from, where a sale limits their live
// orders (sluice.Terms.MaxLivePerAddress): what a load has to tell the ledger. A table
// of its own: orders of other sales cost nothing, and it goes when the sale is archived.

// AddAddresses inserts what AddressList makes: sale, list.
const AddAddresses = `INSERT INTO order_addresses (order_id, sale_id, address)
	SELECT substr(list.id, 17), ?, substr(list.id, 1, 16) FROM unnest(?::text[]) AS list (id) WHERE true
	ON CONFLICT (order_id) DO NOTHING`

var (
	sqlAddAddresses    = newStatement("Addresses.Add", AddAddresses)
	sqlAddressesOfSale = newStatement("Addresses.OfSale",
		`SELECT order_id, address FROM order_addresses WHERE sale_id = ?`)
	// NextSale is the next sale that has any, SomeOfSale are a few of its orders.
	sqlNextAddressed = newStatement("Addresses.NextSale", `SELECT sale_id FROM order_addresses
		WHERE sale_id > ? ORDER BY sale_id LIMIT 1`)
	sqlSomeAddressed   = newStatement("Addresses.SomeOfSale", `SELECT order_id FROM order_addresses WHERE sale_id = ? LIMIT ?`)
	sqlForgetAddresses = newStatement("Addresses.Forget", `DELETE FROM order_addresses WHERE order_id = ANY (?::text[])`)
)

// AddressList is what AddAddresses takes: of each claim that has an address, that and its
// order.
func AddressList(claims []Placed) (list []string) {
	for i := range claims {
		if c := &claims[i]; c.Address != "" {
			list = append(list, string(c.Address)+string(c.Order))
		}
	}
	return list
}

// addAddresses keeps the addresses of orders that the transaction inserts.
func (q *conn) addAddresses(orders []NewOrder) {
	var list []string
	for i := range orders {
		if o := &orders[i]; o.Address != "" && o.Status.Live() {
			list = append(list, string(o.Address)+string(o.ID))
		}
	}
	if len(list) > 0 {
		q.exec(sqlAddAddresses, orders[0].Sale, list)
	}
}

// addressesOf returns those of a sale's orders.
func (q *conn) addressesOf(sale sluice.SaleID) (map[sluice.OrderID]sluice.AddressKey, error) {
	of := map[sluice.OrderID]sluice.AddressKey{}
	return of, q.each(sqlAddressesOfSale, []any{sale}, func(r row) error {
		var order sluice.OrderID
		var address sluice.AddressKey
		err := r.Scan(&order, &address)
		of[order] = address
		return err
	})
}

// someAddresses is how many one transaction deletes.
const someAddresses = 1000

// dropArchivedAddresses deletes those of archived sales.
func (s *Store) dropArchivedAddresses(ctx context.Context) error {
	for id := sluice.SaleID(""); ; {
		next, err := only[sluice.SaleID](s.reads(ctx).row(sqlNextAddressed, id))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		id = next
		sale, err := s.Sale(ctx, id)
		if err != nil && !errors.Is(err, sluice.ErrSaleNotFound) {
			return err
		}
		for n := someAddresses; n == someAddresses && (err != nil || !sale.ArchivedAt.IsZero()); {
			orders, err := all(s.reads(ctx), sqlSomeAddressed, only[string], id, someAddresses)
			if n = len(orders); err == nil && n > 0 {
				err = s.change(ctx, func(tx *conn) error { return tx.exec(sqlForgetAddresses, orders) })
			}
			if err != nil {
				return err
			}
		}
	}
}
