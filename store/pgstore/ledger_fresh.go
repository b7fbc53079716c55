package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// In a rush nearly every batch is claims of buyers who have none, under the terms of the
// batch before. The server decides such a batch before it asks, and one round trip locks
// the sale, compares all that this was decided by, inserts the orders and commits. If
// anything is different, nothing is written, and the batch is decided as any other.

// termsSnapshot is what a batch of new buyers can be decided by, as long as the database
// finds it unchanged: the terms of an epoch. It is known if the last batch fitted, so that
// a sale whose buyers come again is not asked in vain.
type termsSnapshot struct {
	epoch int64
	terms sluice.Terms
}

// fresh decides a batch of new buyers in one round trip. It reports false, with nothing
// written and no transaction open, if the batch must be decided as any other.
func (d *deciding) fresh(ctx context.Context, conn *pgxpool.Conn, id sluice.SaleID, m told) (done bool, err error) {
	s, known := d.l.snapshots.Load(id)
	if !known {
		return false, nil
	}
	defer func() {
		if !done {
			d.l.snapshots.Delete(id)
		}
	}()
	if s.(*termsSnapshot).epoch != m.epoch || len(d.buyers) != len(d.claims) {
		return false, nil
	}
	terms := &s.(*termsSnapshot).terms
	v := terms.Verdict(terms.OpensAt, sluice.Cooldown{})
	n, units := len(d.claims), int64(0)
	orders, buyers, keys, metas := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	quantities := make([]int64, n)
	for i := range d.claims {
		c := &d.claims[i]
		if c.Counters != "" || v.Decide(sluice.Account{}, nil, 0, c).Code != 0 {
			return false, nil
		}
		orders[i], buyers[i], keys[i], metas[i] = string(c.Order), string(c.Buyer), string(c.Key), c.Meta
		quantities[i] = c.Quantity
		units += c.Quantity
	}
	var clock any
	if d.l.now != nil {
		clock = d.l.now()
	}
	batch, inserted := &pgx.Batch{}, 0
	first := port.Record{}
	d.queueLocks(batch, id)
	batch.Queue(insertFresh, id, units, orders, buyers, keys, metas, quantities, m.epoch, terms.Version, d.l.node,
		m.order, n, clock).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&first.Seq, &first.At, &inserted); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	err = d.l.store.session.commit(ctx, conn, batch)
	switch {
	case (dialect{}).Refuses(err): // why is found out where the claims are looked up
		_, undo := conn.Exec(ctx, "ROLLBACK")
		return false, undo
	case err != nil:
		return false, err
	case first.Seq == 0:
		return false, nil
	case inserted != n:
		return true, d.uncovered(ctx, conn, id, m.epoch)
	}
	at := sqlcore.WholeMillis(first.At)
	for i := range d.claims {
		c := &d.claims[i]
		d.decisions[i] = sluice.Decision{
			Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, Seq: first.Seq + int64(i), At: at, Epoch: m.epoch,
			Terms: terms.Version,
		}
	}
	d.l.tell(id, told{m.epoch, first.Seq + int64(n) - 1, d.claims[n-1].Order})
	return true, nil
}

// note remembers what the next batch can be decided by, if this one would have fitted: the
// sale is as it should be, and every claim was a new buyer's and accepted.
func (d *deciding) note(id sluice.SaleID, accepted int64) {
	h := &d.state
	if n := len(d.claims); int(accepted) == n && len(d.buyers) == n && h.promised == 0 && !h.cooldown.Lasts(h.Now) {
		d.l.snapshots.Store(id, &termsSnapshot{h.Epoch, h.Terms})
	}
}

// insertFresh is insertClaims for orders that are decided already, if the sale's rows say
// all that a decision depends on, by the clock of now, and none of the buyers has an order.
const insertFresh = `WITH now AS MATERIALIZED (
		SELECT date_trunc('milliseconds', coalesce($13::timestamptz, clock_timestamp())) AS at
	), sale AS (
		UPDATE sales s SET taken = taken + $2::bigint FROM ledger_sales l, now
		WHERE s.id = $1 AND s.epoch = $8 AND s.loaded_epoch = $8 AND s.fence = '' AND s.archived_at IS NULL
			AND l.sale_id = $1 AND l.epoch = $8 AND l.version = $9 AND l.fence = '' AND l.promised = 0 AND l.reopened = 0
			AND (l.cooldown = 0 OR l.cooldown_until <= now.at) AND NOT l.paused
			AND l.opens_at <= now.at AND (l.closes_at IS NULL OR now.at < l.closes_at)
			AND (l.total IS NULL OR taken + $2 <= l.total) AND (cap IS NULL OR taken + $2 <= cap)
			AND EXISTS (SELECT FROM orders WHERE order_id = $11)
			AND NOT EXISTS (SELECT FROM unnest($4::text[]) AS b (id), LATERAL (SELECT ` + ofBuyer + ` LIMIT 1) o)
		RETURNING price_amount, price_currency, CASE WHEN free THEN 'paid' ELSE 'pending' END AS status,
			l.seq, now.at, date_trunc('milliseconds', clock_timestamp()) AS now,
			payment_window_ms * interval '1 millisecond' AS payment_window,
			payment_grace_ms * interval '1 millisecond' AS payment_grace
	), ledger AS (
		UPDATE ledger_sales SET seq = sale.seq + $12::bigint FROM sale WHERE sale_id = $1
	), placed AS (
		INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
		SELECT c.order_id, $1, c.buyer_id, c.claim_key, c.quantity, c.meta, '', sale.price_amount,
			sale.price_currency, sale.status, '', $8, sale.seq + c.n, $9, $10, sale.at,
			sale.now, sale.now + payment_window, sale.now + payment_window + payment_grace, sale.now
		FROM sale, unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
			WITH ORDINALITY AS c (order_id, buyer_id, claim_key, meta, quantity, n)
		ORDER BY c.n
		RETURNING position
	), stored AS (` + addStored + `)
	SELECT seq + 1, at, coalesce((SELECT orders FROM stored), 0) FROM sale`
