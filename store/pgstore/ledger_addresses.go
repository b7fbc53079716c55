package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

// The live orders of the networks that claims come from are those of order_addresses
// whose order has not ended: counted under the lock of the sale's row, and only for
// claims that say where they come from. A row without an order is of a promise.

const (
	liveNearby = `SELECT a.address, count(*) FROM order_addresses a LEFT JOIN orders o ON o.order_id = a.order_id
		WHERE a.sale_id = $1 AND a.address = ANY ($2::text[])
			AND (o.order_id IS NULL OR o.status IN ('pending', 'paid')) GROUP BY a.address`
	// forgetEnded keeps the rows of an address about as few as its live orders.
	forgetEnded = `DELETE FROM order_addresses a USING orders o
		WHERE a.sale_id = $1 AND a.address = ANY ($2::text[]) AND o.order_id = a.order_id AND o.status NOT IN ('pending', 'paid')`
	forgetUnknown = `DELETE FROM order_addresses a
		WHERE a.sale_id = $1 AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = a.order_id)`
	addressesOf = `SELECT order_id, address FROM order_addresses WHERE sale_id = $1`
)

// addressesIn returns the addresses of claims, each once.
func addressesIn(claims []sluice.Claim) (asked []string) {
	for i := range claims {
		if address := claims[i].Address; address != "" {
			asked = append(asked, string(address))
		}
	}
	slices.Sort(asked)
	return slices.Compact(asked)
}

// queueNearby has a batch that holds the sale count the live orders of the claims' addresses.
func (d *deciding) queueNearby(batch *pgx.Batch, id sluice.SaleID) {
	asked := addressesIn(d.claims)
	if len(asked) == 0 {
		return
	}
	d.nearby = make(map[sluice.AddressKey]int64, len(asked))
	batch.Queue(liveNearby, id, asked).Query(func(rows pgx.Rows) error {
		var address sluice.AddressKey
		var live int64
		_, err := pgx.ForEachRow(rows, []any{&address, &live}, func() error {
			d.nearby[address] = live
			return nil
		})
		return err
	})
}

// queueNear keeps the addresses of the orders that are inserted.
func (d *deciding) queueNear(write *pgx.Batch, accepted *sqlcore.Batch) {
	if len(d.nearby) > 0 {
		write.Queue(forgetEnded, accepted.Sale, addressesIn(d.claims))
		queueAddresses(write, accepted)
	}
}

// queuePromised keeps the addresses of the image's promises. Those of stored orders are
// there.
func queuePromised(write *pgx.Batch, image *sluice.LoadImage) {
	promised := &sqlcore.Batch{Sale: image.Sale}
	for i := range image.Records {
		if r := &image.Records[i]; r.Epoch == image.Epoch {
			promised.Claims = append(promised.Claims, sqlcore.Placed{Record: *r})
		}
	}
	write.Queue(forgetUnknown, image.Sale)
	queueAddresses(write, promised)
}

// addresses returns those of a sale's orders.
func (l *Ledger) addresses(ctx context.Context, id sluice.SaleID) (map[sluice.OrderID]sluice.AddressKey, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	rows, err := l.store.pool.Query(ctx, addressesOf, id) // as Holders
	if err != nil {
		return nil, err
	}
	of := map[sluice.OrderID]sluice.AddressKey{}
	var order sluice.OrderID
	var address sluice.AddressKey
	_, err = pgx.ForEachRow(rows, []any{&order, &address}, func() error {
		of[order] = address
		return nil
	})
	return of, err
}
