package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// counting calls do in a transaction that alone counts tries of a sale. It holds no row
// that claims need, and waits for no disk.
func (l *ledger) counting(ctx context.Context, id sluice.SaleID, do func(ctx context.Context, tx pgx.Tx) error) error {
	return l.within(ctx, id, ledgerTimeout, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, countAlone, id); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

const (
	countAlone = `SELECT pg_advisory_xact_lock(hashtextextended($1, 1)),
		set_config('synchronous_commit', 'off', true)`
	micros    = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	paidUntil = `SELECT who, paid FROM ledger_rates WHERE sale_id = $1 AND who = ANY ($2::text[])`
	pay       = `INSERT INTO ledger_rates (sale_id, who, paid) SELECT $1, * FROM unnest($2::text[], $3::bigint[])
		ON CONFLICT (sale_id, who) DO UPDATE SET paid = excluded.paid`
	forgetPaid = `DELETE FROM ledger_rates r USING (
			SELECT sale_id, who FROM ledger_rates WHERE paid < $1 FOR UPDATE SKIP LOCKED
		) AS past WHERE r.sale_id = past.sale_id AND r.who = past.who`
)

// Allow implements port.RateLimiter. The counts are rows of their own, which do not
// survive a crash of the database.
func (l *ledger) Allow(ctx context.Context, id sluice.SaleID, rates port.Rates, tries []port.Try,
) (waits []port.Wait, err error) {
	defer l.wrap(&err, "rate sale=%s", id)
	byBuyer, byAddress := rates.Buyer.Meter(), rates.Address.Meter()
	waits = make([]port.Wait, len(tries))
	if len(tries) == 0 || byBuyer == (sluice.Meter{}) && byAddress == (sluice.Meter{}) {
		return waits, nil
	}
	buyerOf := func(t *port.Try) string { return "b" + string(t.Buyer) }
	addressOf := func(t *port.Try) string { return "a" + t.Address }
	asked := make([]string, 0, 2*len(tries))
	for i := range tries {
		asked = append(asked, buyerOf(&tries[i]), addressOf(&tries[i]))
	}
	err = l.counting(ctx, id, func(ctx context.Context, tx pgx.Tx) error {
		paid, changed, now := map[string]int64{}, map[string]bool{}, int64(0)
		b := &pgx.Batch{}
		b.Queue(micros).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
		b.Queue(paidUntil, id, asked).Query(func(rows pgx.Rows) error {
			var who string
			var until int64
			_, err := pgx.ForEachRow(rows, []any{&who, &until}, func() error {
				paid[who] = until
				return nil
			})
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if l.now != nil {
			now = l.now().UnixMicro()
		}
		for i := range tries {
			buyer, address := buyerOf(&tries[i]), addressOf(&tries[i])
			after, wait := try(byBuyer, paid[buyer], now)
			afterOf, waitOf := try(byAddress, paid[address], now)
			waits[i] = port.Wait{
				Buyer: time.Duration(wait) * time.Microsecond, Address: time.Duration(waitOf) * time.Microsecond,
			}
			if wait > 0 || waitOf > 0 {
				continue
			}
			if byBuyer != (sluice.Meter{}) {
				paid[buyer], changed[buyer] = after, true
			}
			if byAddress != (sluice.Meter{}) {
				paid[address], changed[address] = afterOf, true
			}
		}
		if len(changed) == 0 {
			return nil
		}
		var who []string
		var until []int64
		for name := range changed {
			who, until = append(who, name), append(until, paid[name])
		}
		_, err := tx.Exec(ctx, pay, id, who, until)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.sweep()
	return waits, nil
}

// try is Meter.Try; without a rate nothing is denied.
func try(m sluice.Meter, paid, now int64) (after, wait int64) {
	if m == (sluice.Meter{}) {
		return 0, 0
	}
	return m.Try(paid, now)
}

// sweep deletes, now and then, what is paid for, beside the caller.
func (l *ledger) sweep() {
	if l.now == nil {
		l.beside.every(time.Minute, &l.beside.swept, func(now time.Time) {
			_, _ = l.exec(context.Background(), forgetPaid, now.Add(-time.Minute).UnixMicro())
		})
	}
}
