package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// maxClaims is how many claims one transaction decides.
const maxClaims = 1000

// Claim implements port.Decider. Up to 1,000 claims are one transaction, in one round
// trip or two.
func (l *ledger) Claim(ctx context.Context, id sluice.SaleID, claims []sluice.Claim) (_ []sluice.Decision, err error) {
	defer l.wrap(&err, "claim sale=%s", id)
	decisions := make([]sluice.Decision, 0, len(claims))
	for batch := range slices.Chunk(claims, maxClaims) {
		budget := maxRefused
		decided, err := l.decideOrSplit(ctx, id, batch, &budget)
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, decided...)
	}
	return decisions, nil
}

// maxRefused bounds the transactions that the database refuses in one call: where it
// refuses every order, halves of halves do not help.
const maxRefused = 32

// decideOrSplit decides a batch in a transaction. If the database refuses what it would
// write, by a constraint or a trigger of an operator, its halves are decided, so that
// one claim does not keep the others of the batch from being decided.
func (l *ledger) decideOrSplit(ctx context.Context, id sluice.SaleID, claims []sluice.Claim, budget *int,
) (decided []sluice.Decision, err error) {
	err = l.on(ctx, id, ledgerTimeout, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		decided, err = l.claim(ctx, conn, id, claims)
		return err
	})
	refused := (dialect{}).Refuses(err)
	if refused {
		*budget--
	}
	if len(claims) == 1 || !refused || *budget < 0 {
		return decided, err
	}
	decided = make([]sluice.Decision, 0, len(claims))
	for half := range slices.Chunk(claims, (len(claims)+1)/2) {
		of, err := l.decideOrSplit(ctx, id, half, budget)
		switch {
		case err == nil:
			decided = append(decided, of...)
		case len(half) == 1 && (dialect{}).Refuses(err):
			decided = append(decided, sluice.Decision{Code: sluice.Unavailable})
		default:
			return nil, err
		}
	}
	return decided, nil
}

// claim decides one batch. Unless one round trip is enough (fresh), all is read in one,
// under the lock of the sale's row; what comes of it is written, and committed, in
// another. A transaction that only refuses is rolled back, which needs no disk. One that
// repeats an acceptance is committed: that waits for a synchronous standby until it has the
// order, which the attempt before, whose wait was broken off, need not have done.
func (l *ledger) claim(ctx context.Context, conn *pgxpool.Conn, id sluice.SaleID, claims []sluice.Claim,
) ([]sluice.Decision, error) {
	m := l.toldOf(id)
	d := l.deciding(claims)
	if done, err := d.fresh(ctx, conn, id, m); done || err != nil {
		return d.decisions, err
	}
	loaded, err := d.read(ctx, conn, id, m)
	if err != nil {
		return nil, err
	}
	var write *pgx.Batch
	inserted := &writing{}
	switch why := d.state.lost(m); {
	case loaded && why != "" && d.state.Fence == "":
		d.refuse(sluice.Unavailable)
		write = &pgx.Batch{}
		write.Queue(setFence, id, why, d.state.Epoch)
	case !loaded || why != "" || d.state.Fence != "" || d.state.rowFence != "" || d.state.rowEpoch != d.state.Epoch ||
		d.state.rowLoaded != d.state.Epoch:
		d.refuse(sluice.Unavailable)
	default:
		if err := d.lookMore(ctx, conn); err != nil {
			return nil, err
		}
		write, inserted = d.decide()
	}
	if write == nil {
		if !slices.ContainsFunc(d.decisions, func(a sluice.Decision) bool { return a.Code == sluice.Accepted }) {
			_, err := conn.Exec(ctx, "ROLLBACK")
			return d.decisions, err
		}
		write = &pgx.Batch{}
	}
	err = l.store.session.commit(ctx, conn, write)
	switch {
	case sqlState(err) == uniqueViolation:
		return nil, l.collided(ctx, conn, &d.state, err)
	case (dialect{}).Refuses(err): // the connection stays
		_, undo := conn.Exec(ctx, "ROLLBACK")
		return nil, errors.Join(err, undo)
	case err != nil:
		return nil, err
	case inserted.got != inserted.want: // the store's own guard (I1): nothing was written
		return d.decisions, d.uncovered(ctx, conn, id, d.state.Epoch)
	}
	d.note(id, inserted.want)
	if d.told.seq > 0 {
		l.tell(id, d.told)
	}
	return d.decisions, nil
}

// uncovered refuses a batch of which not every order was stored, and fences the sale.
func (d *deciding) uncovered(ctx context.Context, conn *pgxpool.Conn, id sluice.SaleID, epoch int64) error {
	d.refuse(sluice.Unavailable)
	why := fmt.Sprintf("%s: the ledger has units of sale %s that the store's cap does not cover", port.FenceLost, id)
	_, err := conn.Exec(ctx, setFence, id, why, epoch)
	return err
}

// collided deals with an order that another one keeps from being stored. If the ledger
// gave it another order's place, it would give the next one as well: it has lost claims.
func (l *ledger) collided(ctx context.Context, conn *pgxpool.Conn, h *saleState, err error) error {
	if _, undo := conn.Exec(ctx, "ROLLBACK"); undo != nil {
		return undo
	}
	if last := int64(0); conn.QueryRow(ctx, lastSeq, h.Sale, h.Epoch).Scan(&last) == nil && last > h.Seq {
		why := fmt.Sprintf("%s: the store holds sequence %d, the ledger ends at %d", port.FenceLost, last, h.Seq)
		_, fenced := conn.Exec(ctx, setFence, h.Sale, why, h.Epoch)
		return fmt.Errorf("%s: %w", why, errOr(fenced, err))
	}
	return err
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// writing says how many orders a batch inserts.
type writing struct{ want, got int64 }

// deciding is one batch of claims.
type deciding struct {
	l         *ledger
	state     saleState
	claims    []sluice.Claim
	decisions []sluice.Decision
	buyers    map[sluice.BuyerID]*buyer // nil: who has no claim
	counted   map[string]int64          // live units of each counter that a claim names
	told      told                      // of the decisions
}

func (l *ledger) deciding(claims []sluice.Claim) *deciding {
	d := &deciding{
		l: l, claims: claims, decisions: make([]sluice.Decision, len(claims)),
		buyers: make(map[sluice.BuyerID]*buyer, len(claims)), counted: map[string]int64{},
	}
	for i := range claims {
		d.buyers[claims[i].Buyer] = nil
		for _, c := range claims[i].Counters.List() {
			d.counted[c.Name] = 0
		}
	}
	return d
}

func (d *deciding) refuse(code sluice.Code) {
	for i := range d.decisions {
		d.decisions[i] = sluice.Decision{Code: code}
	}
}

// read locks the sale and reads it, with the buyers' claims.
func (d *deciding) read(ctx context.Context, conn *pgxpool.Conn, id sluice.SaleID, m told) (loaded bool, err error) {
	asked := make([]string, 0, len(d.buyers))
	for b := range d.buyers {
		asked = append(asked, string(b))
	}
	batch := &pgx.Batch{}
	d.queueLocks(batch, id)
	batch.Queue(readStates, []string{string(id)}, []string{string(m.order)}).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			loaded = true
			if d.state, err = d.l.scanState(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	batch.Queue(claimsOfBuyers, id, asked).Query(func(rows pgx.Rows) error {
		return scanRecords(rows, func(r port.Record) bool {
			d.know(r)
			return true
		})
	})
	if len(d.counted) > 0 {
		batch.Queue(unitsOfCounters, id, slices.Collect(maps.Keys(d.counted))).Query(d.count)
	}
	return loaded, conn.SendBatch(ctx, batch).Close()
}

// queueLocks begins a transaction that holds the sale's rows. What it reads later, the
// clock too, it reads under the locks.
func (d *deciding) queueLocks(batch *pgx.Batch, id sluice.SaleID) {
	batch.Queue("BEGIN")
	d.l.queueLimits(batch)
	batch.Queue(lockSale, id)
	batch.Queue(lockState, id)
}

// decide answers the claims, one after the other, and returns what is to be written;
// nil if nothing is.
func (d *deciding) decide() (*pgx.Batch, *writing) {
	h := &d.state
	begun := h.begins()
	v := h.Terms.Verdict(h.Now, h.cooldown)
	accepted := &sqlcore.Batch{Sale: h.Sale, Epoch: h.Epoch}
	for i := range d.claims {
		c := &d.claims[i]
		b := d.buyers[c.Buyer]
		if b == nil {
			b = &buyer{}
			d.buyers[c.Buyer] = b
		}
		d.decisions[i] = d.one(&v, b, c)
		if a := &d.decisions[i]; a.Code == sluice.Accepted {
			if a.Epoch == h.Epoch && a.Seq > d.told.seq {
				d.told = told{a.Epoch, a.Seq, a.Order}
			}
			if !a.Replayed {
				r := port.Record{
					Claim: *c, Sale: h.Sale, Epoch: h.Epoch, Seq: a.Seq, Terms: a.Terms, At: a.At, Live: true,
				}
				b.add(r)
				h.Seq, h.Taken = a.Seq, h.Taken+c.Quantity
				for _, counter := range c.Counters.List() {
					d.counted[counter.Name] += c.Quantity
				}
				accepted.Claims = append(accepted.Claims, sqlcore.Placed{Record: r, Node: d.l.node})
				accepted.Units += c.Quantity
			}
		}
	}
	if len(accepted.Claims) == 0 && !begun {
		return nil, &writing{}
	}
	state := []any{h.Seq, int16(h.cooldown.Code), h.until(), int16(h.reopened)}
	write, w := &pgx.Batch{}, &writing{want: int64(len(accepted.Claims))}
	if w.want == 0 {
		write.Queue(updateState, append([]any{h.Sale}, state...)...)
		return write, w
	}
	write.Queue(insertClaims, append(fastArgs(accepted), state...)...).Query(scanStored(&w.got))
	return write, w
}

// one decides a claim: it is looked up first (I4).
func (d *deciding) one(v *sluice.Verdict, b *buyer, c *sluice.Claim) sluice.Decision {
	h := &d.state
	if first := b.claim(c.Key); first != nil {
		return first.Repeat(c)
	}
	have := b.Account
	if have.Orders > manyClaims { // not all of them were counted, and limits fail closed
		have = sluice.Account{Units: sluice.MaxUnits, Orders: sluice.MaxUnits, Unpaid: sluice.MaxUnits}
	}
	a := v.Decide(have, d.counted, h.Taken, c)
	switch a.Code {
	case 0:
		return sluice.Decision{
			Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, Seq: h.Seq + 1, At: v.Now, Epoch: h.Epoch,
			Terms: h.Terms.Version,
		}
	case sluice.BuyerLimit:
		for i := range b.claims {
			if r := &b.claims[i]; r.Live {
				a.Orders = append(a.Orders, r.Order)
			}
		}
		slices.Sort(a.Orders)
	}
	return a
}

// Statements of claims. Their first argument is the sale.
const (
	lastSeq = `SELECT coalesce(max(seq), 0) FROM orders WHERE sale_id = $1 AND epoch = $2 AND bucket = 0`

	setFence    = `UPDATE ledger_sales SET fence = $2 WHERE sale_id = $1 AND epoch = $3 AND fence = ''`
	updateState = `UPDATE ledger_sales SET seq = $2, cooldown = $3, cooldown_until = $4, reopened = $5 WHERE sale_id = $1`
	// insertClaims is insertFast with the ledger's row: neither changes without the other.
	insertClaims = insertSale + `, ledger AS (
		UPDATE ledger_sales SET seq = $15, cooldown = $16, cooldown_until = $17, reopened = $18
		FROM sale WHERE sale_id = $1
	), placed AS (` + insertRows + `)` + addStored
)
