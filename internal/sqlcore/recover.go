package sqlcore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// FenceOlder takes the place of other fences, but not of a recovery's.
	sqlFenceOlder = newStatement("FenceOlder", update("sales", "fence, updated_at")+`
		WHERE id = ? AND epoch = ? AND fence NOT LIKE '`+port.FenceOlder+`%' AND fence NOT LIKE '`+port.FenceRecovered+`%'`)
	sqlSetFence = newStatement("SetFence", update("sales", "fence, updated_at")+` WHERE id = ?`)
	// KeepLonger and PayLater move what is earlier to a moment.
	sqlKeepLonger = newStatement("KeepLonger", update("orders", "keep_until")+`
		WHERE sale_id = ? AND status = 'pending' AND keep_until < ?`)
	sqlPayLater = newStatement("PayLater", update("orders", "expires_at")+`
		WHERE sale_id = ? AND status = 'pending' AND expires_at < ?`)
)

// insertEndedBatch is how many claims one transaction of InsertEnded stores.
const insertEndedBatch = 500

// InsertEnded stores claims that have ended. Their orders never hold units here, so the cap
// is not asked, and nothing is released.
func (s *Store) InsertEnded(ctx context.Context, id sluice.SaleID, ended []port.Record, by, reason string,
) (left []sluice.OrderID, err error) {
	defer s.wrap(&err, "insert ended sale=%s", id)
	by, reason = cleanText(by), cleanText(reason)
	for part := range slices.Chunk(ended, insertEndedBatch) {
		var conflicts []sluice.OrderID
		err := s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) (err error) {
			conflicts, err = tx.insertEnded(sale, part, by, reason)
			return err
		})
		if err != nil {
			return left, err
		}
		left = append(left, conflicts...)
	}
	return left, nil
}

func (q *conn) insertEnded(sale *sluice.Sale, ended []port.Record, by, reason string) (
	left []sluice.OrderID, err error,
) {
	batch := &Batch{Sale: sale.ID}
	for i := range ended {
		batch.Claims = append(batch.Claims, Placed{Record: ended[i], Entry: "record", Node: by})
	}
	existing, err := q.s.d.Existing(q.ctx, q.tx, batch)
	if err = q.fail(err); err != nil {
		return nil, err
	}
	now, known := q.now(), newIndex(existing, len(ended))
	var orders []NewOrder
	for i := range batch.Claims {
		c := &batch.Claims[i]
		before, conflict := known.find(c)
		switch {
		case conflict != nil, c.Validate() != nil:
			left = append(left, c.Order)
		case before == nil:
			o := c.order(sale, now)
			o.Unpaid = c.Unpaid
			orders = append(orders, o)
			known.add(&orders[len(orders)-1].Order)
		}
	}
	if len(orders) == 0 {
		return left, q.err
	}
	if n := q.insertOrders(orders); n != len(orders) {
		return nil, errors.Join(q.err, port.ErrUnstorable)
	}
	for i := range orders {
		o := &orders[i].Order
		to, action := sluice.Cancelled, sluice.Cancel
		if o.Status == sluice.Paid { // of a free sale: that is how it ends
			to, action = sluice.Refunded, sluice.Refund
		}
		q.set(sqlChangeOrder, string(to), "", "", now, o.Unpaid, o.ID, string(o.Status), now, false)
		q.addHistory(o, now, sluice.HistoryEntry{From: o.Status, To: to, Action: action, By: by, Reason: reason})
	}
	return left, q.err
}

// EndAgain ends an order that has ended in the ledger, and was forgotten to have. It is a change of the
// order like any other, but for the fence that refuses those.
func (s *Store) EndAgain(ctx context.Context, ended *port.Record, by, reason string) (err error) {
	defer s.wrap(&err, "end again order=%s", ended.Order)
	c := sluice.Change{Order: ended.Order, Action: sluice.Cancel, By: cleanText(by), Reason: cleanText(reason)}
	return s.change(ctx, func(tx *conn) error {
		o := tx.lockOrder(c.Order)
		now := tx.now()
		if tx.err != nil {
			return tx.err
		}
		late, to := !now.Before(o.KeepUntil), sluice.Cancelled
		switch {
		case !o.Status.Live(): // it has ended meanwhile
			return nil
		case o.Free():
			c.Action, to = sluice.Refund, sluice.Refunded
		case o.Status == sluice.Paid:
			to = sluice.RefundDue
		case ended.Unpaid && late:
			c.Action, to = sluice.Expire, sluice.Expired
		}
		o.Unpaid = ended.Unpaid
		return tx.takeStep(&c, &o, sluice.Step{To: to, Releases: true}, now, late)
	})
}

// Recovered moves the deadlines and gives the sale to its rebuild, both or neither.
func (s *Store) Recovered(ctx context.Context, id sluice.SaleID, epoch int64, reason string, keep time.Duration,
) (until time.Time, err error) {
	defer s.wrap(&err, "recovered sale=%s", id)
	reason = cleanText(reason)
	err = s.changeWithin(ctx, longTimeout, onSale(id, func(tx *conn, sale *sluice.Sale) error {
		if sale.Epoch != epoch {
			return port.ErrStaleEpoch
		}
		now := tx.now()
		until = now.Add(keep)
		tx.exec(sqlKeepLonger, until, id, until)
		tx.exec(sqlPayLater, until, id, until)
		return tx.set(sqlSetFence, port.FenceRecovered+": "+reason, now, id)
	}))
	return unless(until, err)
}
