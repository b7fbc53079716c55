package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// keep calls do with a sale that the ledger holds under this epoch, in a transaction
// that holds its rows.
func (l *ledger) keep(ctx context.Context, id sluice.SaleID, epoch int64,
	do func(ctx context.Context, tx pgx.Tx, h *saleState) error,
) error {
	return l.within(ctx, id, ledgerTimeout, func(ctx context.Context, tx pgx.Tx) error {
		h, err := l.lock(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case !h.Loaded:
			return port.ErrNotLoaded
		case h.Epoch != epoch:
			return port.ErrStaleEpoch
		}
		return do(ctx, tx, &h)
	})
}

// lock holds a sale's rows; one that the ledger does not hold is not Loaded.
func (l *ledger) lock(ctx context.Context, tx pgx.Tx, id sluice.SaleID) (saleState, error) {
	batch := &pgx.Batch{}
	batch.Queue(lockSale, id)
	batch.Queue(lockState, id)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return saleState{}, err
	}
	h, err := l.scanState(tx.QueryRow(ctx, readStates, []string{string(id)}, []string{""}))
	if errors.Is(err, pgx.ErrNoRows) {
		return saleState{}, nil
	}
	return h, err
}

// Load implements port.Keeper. The image's claims that are stored are on record
// already; the others, of dead letters, become promises.
func (l *ledger) Load(ctx context.Context, image port.LoadImage) (err error) {
	defer l.wrap(&err, "load sale=%s epoch=%d", image.Sale, image.Epoch)
	if seen := l.toldOf(image.Sale).epoch; seen >= image.Epoch {
		if readings, err := l.Read(ctx, []sluice.SaleID{image.Sale}); err != nil || readings[0].Epoch < image.Epoch {
			return errOr(err, &port.EpochError{Seen: seen}) // by this server; the database is an older copy
		}
	}
	var promised []*port.Record
	units := int64(0)
	for i := range image.Records {
		if r := &image.Records[i]; r.Epoch == image.Epoch {
			promised = append(promised, r)
			units += r.Quantity
		}
	}
	return l.within(ctx, image.Sale, loadTimeout, func(ctx context.Context, tx pgx.Tx) error {
		row := int64(0) // the row's epoch
		if err := tx.QueryRow(ctx, lockEpoch, image.Sale).Scan(&row); err != nil {
			return notThere(err, sluice.ErrSaleNotFound)
		}
		before := int64(0)
		if err := notThere(tx.QueryRow(ctx, ledgerEpoch, image.Sale).Scan(&before), nil); err != nil {
			return err
		}
		if row != image.Epoch || before >= image.Epoch {
			return port.ErrStaleEpoch // another server has begun a load since
		}
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM ledger_promises WHERE sale_id = $1`, image.Sale)
		b.Queue(`DELETE FROM ledger_sales WHERE sale_id = $1`, image.Sale)
		b.Queue(insertState, append([]any{image.Sale, image.Epoch, image.Seq(), port.FenceLoading, units},
			termsArgs(&image.Terms)...)...)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		// By a statement for each thousand, and not by COPY: while rows of that are on their way, a server that
		// lives looks like one that hangs (freeSales).
		for some := range slices.Chunk(promised, maxClaims) {
			if err := l.promise(ctx, tx, &image, some); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *ledger) promise(ctx context.Context, tx pgx.Tx, image *port.LoadImage, some []*port.Record) error {
	n := len(some)
	buyers, keys, orders := make([]string, n), make([]string, n), make([]string, n)
	metas, counters := make([]string, n), make([]string, n)
	quantities, seqs, terms, at := make([]int64, n), make([]int64, n), make([]int64, n), make([]time.Time, n)
	for i, r := range some {
		buyers[i], keys[i], orders[i] = string(r.Buyer), string(r.Key), string(r.Order)
		metas[i], counters[i] = r.Meta, string(r.Counters)
		quantities[i], seqs[i], terms[i], at[i] = r.Quantity, r.Seq, r.Terms, sqlcore.WholeMillis(r.At)
	}
	_, err := tx.Exec(ctx, insertPromises, image.Sale, image.Epoch, buyers, keys, orders, metas, counters, quantities,
		seqs, terms, at)
	return err
}

// notThere maps pgx.ErrNoRows to another error.
func notThere(err, otherwise error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return otherwise
	}
	return err
}

const (
	lockEpoch   = `SELECT epoch FROM sales WHERE id = $1 FOR NO KEY UPDATE`
	ledgerEpoch = `SELECT epoch FROM ledger_sales WHERE sale_id = $1 FOR UPDATE`
	insertState = `INSERT INTO ledger_sales (sale_id, epoch, seq, fence, promised,
		version, total, max_per_buyer, max_orders, max_unpaid, opens_at, closes_at, paused)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
	insertPromises = `INSERT INTO ledger_promises
			(sale_id, epoch, buyer_id, claim_key, order_id, meta, counters, quantity, seq, terms, accepted_at)
		SELECT $1, $2, p.* FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
			$9::bigint[], $10::bigint[], $11::timestamptz[]) AS p`
	setTerms = `UPDATE ledger_sales SET cooldown = $2, cooldown_until = $3, reopened = $4, version = $5, total = $6,
		max_per_buyer = $7, max_orders = $8, max_unpaid = $9, opens_at = $10, closes_at = $11, paused = $12
		WHERE sale_id = $1`
	changeFence = `UPDATE ledger_sales SET fence = $2 WHERE sale_id = $1`
)

// termsArgs are the values of a version of the terms, in the order of the columns.
func termsArgs(t *sluice.Terms) []any {
	limit := func(v, none int64) *int64 {
		if v == none {
			return nil
		}
		return &v
	}
	var closes any
	if !t.ClosesAt.IsZero() {
		closes = sqlcore.WholeMillis(t.ClosesAt)
	}
	return []any{
		t.Version, limit(t.Total, sluice.Unlimited), limit(t.MaxPerBuyer, sluice.Unlimited),
		limit(t.MaxOrders, sluice.Unlimited), limit(t.MaxUnpaid, 0), sqlcore.WholeMillis(t.OpensAt), closes, t.Paused,
	}
}

// Apply implements port.Keeper.
func (l *ledger) Apply(ctx context.Context, id sluice.SaleID, epoch int64, terms sluice.Terms) (err error) {
	defer l.wrap(&err, "apply sale=%s version=%d", id, terms.Version)
	reopened := false
	err = l.keep(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, h *saleState) error {
		switch {
		case terms.Version <= h.Terms.Version:
			return nil
		case h.Fence != "" && h.Terms.Lowers(terms.Total):
			return port.ErrStaleEpoch
		case terms.Total != sluice.Unlimited && terms.Total < h.Taken: // I1
			return sluice.ErrBelowTaken
		}
		h.begins()
		if code := h.Terms.Reopens(&terms, h.Taken, h.Now); code != 0 {
			h.reopened, reopened = code, true
		}
		_, err := tx.Exec(ctx, setTerms, append([]any{id, int16(h.cooldown.Code), h.until(), int16(h.reopened)},
			termsArgs(&terms)...)...)
		return err
	})
	if err == nil && reopened { // and this is done already: a reader will do it, too
		_, _ = l.Read(ctx, []sluice.SaleID{id})
	}
	return err
}

// Fence implements port.Keeper. An empty reason is an error.
func (l *ledger) Fence(ctx context.Context, id sluice.SaleID, epoch int64, reason string) (err error) {
	defer l.wrap(&err, "fence sale=%s", id)
	if reason == "" {
		return errors.New("a fence needs a reason")
	}
	return l.keep(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, _ *saleState) error {
		_, err := tx.Exec(ctx, setFence, id, reason, epoch)
		return err
	})
}

// Unfence implements port.Keeper.
func (l *ledger) Unfence(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer l.wrap(&err, "unfence sale=%s", id)
	return l.keep(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, _ *saleState) error {
		_, err := tx.Exec(ctx, changeFence, id, "")
		return err
	})
}

// Drop implements port.Keeper. The orders are the store's, and stay.
func (l *ledger) Drop(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer l.wrap(&err, "drop sale=%s epoch=%d", id, epoch)
	err = l.keep(ctx, id, epoch, func(ctx context.Context, tx pgx.Tx, _ *saleState) error {
		b := &pgx.Batch{}
		for _, table := range []string{"ledger_promises", "ledger_rates", "ledger_sales"} {
			b.Queue(`DELETE FROM `+table+` WHERE sale_id = $1`, id)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if errors.Is(err, port.ErrNotLoaded) {
		err = nil
	}
	if err == nil {
		l.told.Delete(id)
		l.snapshots.Delete(id)
	}
	return err
}

// Release implements port.Releaser. An order gives its units back in the transaction
// that ends it, so what comes here was written while another ledger had the sale, or
// none: it changes nothing.
func (l *ledger) Release(ctx context.Context, id sluice.SaleID, releases []port.Release,
) (answer port.Released, err error) {
	defer l.wrap(&err, "release sale=%s", id)
	h, err := l.look(ctx, id)
	switch {
	case err != nil:
		return answer, err
	case h.Fence != "":
		return answer, port.ErrStaleEpoch
	}
	if slices.ContainsFunc(releases, func(r port.Release) bool { return r.Epoch > h.Epoch }) {
		return answer, port.ErrStaleEpoch
	}
	for i := range releases {
		switch r := &releases[i]; {
		case r.Epoch < h.Epoch:
			answer.Before++
			continue
		default:
			first, err := l.recordOf(ctx, id, r.Order)
			switch {
			case errors.Is(err, sluice.ErrOrderNotFound), err == nil && (first.Buyer != r.Buyer || first.Key != r.Key):
				answer.Unknown = append(answer.Unknown, r.Order)
			case err != nil:
				return port.Released{}, err
			case first.Live:
				return port.Released{}, fmt.Errorf("order %s has not ended", r.Order)
			default:
				answer.Before++
			}
		}
	}
	return answer, nil
}
