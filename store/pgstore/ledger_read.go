package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// Read implements port.Reader, with one query. A reading that shows that the
// database is an older copy fences its sale; one that is the first to see a reopening
// lets its cooldown begin.
func (l *ledger) Read(ctx context.Context, ids []sluice.SaleID) (_ []port.Reading, err error) {
	defer l.wrap(&err, "read")
	l.freeSales()
	before := make(map[sluice.SaleID]told, len(ids)) // the question
	for _, id := range ids {
		before[id] = l.toldOf(id)
	}
	all, now, err := l.states(ctx, ids, before)
	if err != nil {
		return nil, err
	}
	readings := make([]port.Reading, len(ids))
	for i, id := range ids {
		h := all[id]
		if h == nil {
			readings[i] = port.Reading{Sale: id, Now: now}
			continue
		}
		if why := h.lost(before[id]); why != "" && h.Fence == "" {
			h.Fence = why
			if _, err := l.exec(ctx, setFence, id, why, h.Epoch); err != nil {
				return nil, err
			}
		}
		if before := h.reopened; h.begins() {
			if _, err := l.exec(ctx, beginCooldown, id, int16(before), h.Terms.Version, h.Seq, int16(h.cooldown.Code),
				h.until(), l.now == nil && h.cooldown.Until.Equal(h.Now.Add(sluice.RefusalLease))); err != nil {
				return nil, err
			}
		}
		readings[i] = h.Reading
		if h.cooldown.Lasts(h.Now) {
			readings[i].CooldownUntil = h.cooldown.Until
		}
	}
	return readings, nil
}

// until is the end of the cooldown as its column has it.
func (h *saleState) until() *time.Time {
	if h.cooldown.Code == 0 {
		return nil
	}
	return &h.cooldown.Until
}

// beginCooldown lets a cooldown begin at the moment of the statement, unless the sale
// has changed since it was read, or a batch of claims has it, which does the same.
const beginCooldown = `UPDATE ledger_sales SET reopened = 0, cooldown = $5,
	cooldown_until = CASE WHEN $7 THEN date_trunc('milliseconds', clock_timestamp()) + interval '500 ms' ELSE $6 END
	WHERE sale_id IN (SELECT sale_id FROM ledger_sales WHERE sale_id = $1 FOR NO KEY UPDATE SKIP LOCKED)
		AND reopened = $2 AND version = $3 AND seq = $4`

func (l *ledger) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if l.store.ReadOnly {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	tag, err := l.pool.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

// states reads sales that the ledger holds, and its clock, and whether it lacks what this server was told before.
func (l *ledger) states(ctx context.Context, ids []sluice.SaleID, before map[sluice.SaleID]told,
) (map[sluice.SaleID]*saleState, time.Time, error) {
	all, now := make(map[sluice.SaleID]*saleState, len(ids)), time.Time{}
	if err := l.ready(ctx); err != nil {
		return nil, now, err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	sales, orders := make([]string, len(ids)), make([]string, len(ids))
	for i, id := range ids {
		sales[i], orders[i] = string(id), string(before[id].order)
	}
	b := &pgx.Batch{}
	b.Queue(readStates, sales, orders).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			h, err := l.scanState(rows)
			if err != nil {
				return err
			}
			all[h.Sale] = &h
		}
		return rows.Err()
	})
	b.Queue(selectNow).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	err := l.pool.SendBatch(ctx, b).Close()
	if l.now != nil {
		now = l.now()
	}
	return all, sqlcore.WholeMillis(now), err
}

// look returns a sale that the ledger holds.
func (l *ledger) look(ctx context.Context, id sluice.SaleID) (*saleState, error) {
	all, _, err := l.states(ctx, []sluice.SaleID{id}, nil)
	if err == nil && all[id] == nil {
		err = port.ErrNotLoaded
	}
	return all[id], err
}

// Records implements port.Reader: the stored orders, and promises without one.
func (l *ledger) Records(ctx context.Context, id sluice.SaleID, yield func(port.Record) bool) (err error) {
	defer l.wrap(&err, "records sale=%s", id)
	h, err := l.look(ctx, id)
	if err != nil {
		return err
	}
	more := true
	once := func(r port.Record) bool {
		more = more && yield(r)
		return more
	}
	if h.promised > 0 {
		if err := l.query(ctx, promisesOfSale, once, id); err != nil || !more {
			return err
		}
	}
	return l.store.Snapshot(ctx, id, func(s port.Snapshot) error {
		return s.Orders(func(o sluice.Order) bool { return once(port.RecordOf(&o)) })
	})
}

// Holders implements port.Reader.
func (l *ledger) Holders(ctx context.Context, id sluice.SaleID, yield func(sluice.BuyerID) bool) (err error) {
	defer l.wrap(&err, "holders sale=%s", id)
	if _, err := l.look(ctx, id); err != nil {
		return err
	}
	rows, err := l.store.pool.Query(ctx, holdersOfSale, id) // a reading must not wait for it
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var b sluice.BuyerID
		if err := rows.Scan(&b); err != nil {
			return err
		}
		if !yield(b) {
			return nil
		}
	}
	return rows.Err()
}

// Find implements port.Reader.
func (l *ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (_ port.Record, err error) {
	defer l.wrap(&err, "find order=%s", order)
	id, ok := order.Sale()
	if !ok {
		return port.Record{}, sluice.ErrOrderNotFound
	}
	h, err := l.look(ctx, id)
	if err != nil {
		return port.Record{}, err
	}
	r, err := l.recordOf(ctx, id, order)
	if err == nil && buyer != "" && r.Buyer != buyer {
		err = sluice.ErrOrderNotFound
	}
	return h.orMissing(r, err)
}

// Recall implements port.Reader.
func (l *ledger) Recall(ctx context.Context, claim sluice.ClaimID) (_ port.Record, err error) {
	defer l.wrap(&err, "recall sale=%s", claim.Sale)
	h, err := l.look(ctx, claim.Sale)
	if err != nil {
		return port.Record{}, err
	}
	return h.orMissing(l.record(ctx, recall, claim.Sale, claim.Buyer, claim.Key))
}

// orMissing returns a record, or the error that it is not there. That of a fenced sale
// is not final: it may have lost claims that a rebuild brings back.
func (h *saleState) orMissing(r port.Record, err error) (port.Record, error) {
	if errors.Is(err, sluice.ErrOrderNotFound) && h.Fence != "" {
		err = fmt.Errorf("the sale is fenced (%s): %w", h.Fence, port.ErrNotLoaded)
	}
	if err != nil {
		return port.Record{}, err
	}
	return r, nil
}

func (l *ledger) recordOf(ctx context.Context, sale sluice.SaleID, order sluice.OrderID) (port.Record, error) {
	return l.record(ctx, find, sale, order)
}

// record returns the one record that a query selects, or ErrOrderNotFound.
func (l *ledger) record(ctx context.Context, query string, args ...any) (found port.Record, err error) {
	err = l.query(ctx, query, func(r port.Record) bool {
		found = r
		return false
	}, args...)
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}

func (l *ledger) query(ctx context.Context, query string, yield func(port.Record) bool, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	rows, err := l.pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return scanRecords(rows, yield)
}

const (
	find = `SELECT ` + orderRecord + ` FROM (SELECT * FROM orders WHERE order_id = $2 LIMIT 1) o WHERE sale_id = $1
		UNION ALL SELECT ` + promisedRecord + ` FROM ledger_promises WHERE sale_id = $1 AND order_id = $2`
	recall = `SELECT ` + orderRecord + ` FROM (VALUES ($2::text, $3::text)) AS c (buyer, key), orders WHERE ` + theClaim + `
		UNION ALL SELECT ` + promisedRecord + ` FROM ledger_promises
			WHERE sale_id = $1 AND buyer_id = $2 AND claim_key = $3`
	promisesOfSale = `SELECT ` + promisedRecord + ` FROM ledger_promises p
		WHERE sale_id = $1 AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = p.order_id)`
	holdersOfSale = `SELECT buyer_id FROM ledger_promises WHERE sale_id = $1
		UNION ALL SELECT buyer_id FROM orders WHERE sale_id = $1`
)

// ReadJournal implements port.Journal. Accepted claims are stored: there is none.
func (l *ledger) ReadJournal(context.Context, port.JournalRead) ([]port.Entry, error) {
	return nil, nil
}

// Ack implements port.Journal.
func (l *ledger) Ack(context.Context, sluice.SaleID, []string) error { return nil }

// PeekJournal implements port.Journal.
func (l *ledger) PeekJournal(context.Context, sluice.SaleID, func(port.Entry) bool) error {
	return nil
}
