package sqlcore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sluicehq/sluice"
)

// byImport is the node of imported orders: who stored them, in their history.
const byImport = "import"

var sqlLastOrder = newStatement("Import.LastOrder", `SELECT position FROM orders FORCE INDEX (orders_of_sale)
	WHERE sale_id = ? AND position > 0 ORDER BY position DESC LIMIT 1`)

// Import stores orders that another system has sold. The lock of the sale's row keeps
// out what would load it, or change its terms. The orders take places of an epoch in
// which no claim was accepted.
//
// The events of the sale's orders begin after them: it has no others, or its version
// would be another. A numbering that is under way ends first, or it could read the orders
// and not yet the mark.
func (s *Store) Import(ctx context.Context, b sluice.Import) (err error) {
	defer s.wrap(&err, "import sale=%s", b.Sale)
	return s.changeSale(ctx, b.Sale, func(tx *conn, sale *sluice.Sale) error {
		if sale.Version != b.Version || sale.Epoch != b.Epoch || !sale.ArchivedAt.IsZero() ||
			sale.Fence != "" && sale.Fence != b.Fence {
			return stateUnless(nil, b.Sale, "it was changed at the same moment; look at it, and try again")
		}
		last, err := only[sql.NullInt64](tx.row(sqlLastSeq, b.Sale, b.Epoch))
		now := tx.now()
		if tx.fail(err) != nil {
			return tx.err
		}
		units := int64(0)
		orders := make([]NewOrder, len(b.Orders))
		for i := range b.Orders {
			p := Placed{Node: byImport, Record: sluice.Record{
				Claim: b.Orders[i].Claim(b.Sale), Sale: b.Sale, Epoch: b.Epoch, Seq: last.Int64 + int64(i) + 1,
				Terms: sluice.ImportedTerms, At: WholeMillis(b.At), Live: true,
			}}
			if err := p.Validate(); err != nil {
				return fmt.Errorf("%w: %w", sluice.ErrUnstorable, err)
			}
			orders[i] = p.order(sale, now)
			units += p.Quantity
		}
		if !tx.changed(sqlTake, units, b.Sale, units) && tx.err == nil {
			return stateUnless(nil, b.Sale, fmt.Sprintf("%d units are taken of %d, which leaves no %d", sale.Taken, sale.Cap,
				units))
		}
		if n := tx.insertOrders(orders); n != len(orders) && tx.err == nil {
			return stateUnless(nil, b.Sale, "some of the orders are there already")
		}
		_, err = only[int64](tx.row(sqlLockFeed))
		tx.fail(err)
		position, err := only[int64](tx.row(sqlLastOrder, b.Sale))
		tx.fail(err)
		tx.exec(sqlSetMark, b.Sale, position)
		if sale.Fence == "" && tx.changed(sqlFenceSale, b.Fence, now, b.Sale, b.Epoch) {
			return tx.addSaleEventOf(sluice.EventSaleUnavailable, b.Sale, now)
		}
		return tx.err
	})
}
