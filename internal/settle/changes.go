package settle

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
)

// Payments, endings and extensions that a server has had the store make. A store that becomes
// an older copy of itself forgets them, and no ledger knows of a payment. So each server
// remembers its own for a while, and makes them again; for a change that is there already that
// does nothing.

// changesKept is how long.
const changesKept = time.Minute

// changed is a change that this server has had the store make, and the claim of its order.
type changed struct {
	sluice.Change
	claim sluice.Record
	at    time.Time
}

// changeKey tells changes from repeats.
type changeKey struct {
	order   sluice.OrderID
	action  sluice.Action
	expires int64
}

func (c *changed) key() changeKey { return changeKey{c.Order, c.Action, c.ExpiresAt.UnixMilli()} }

// Changed remembers a change that the store has made, with the order as it is since; the
// oldest are forgotten, also where all sales together have too many.
func (m *Memory) Changed(order *sluice.Order, change sluice.Change) {
	c := changed{change, order.Record(), time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, repeated := m.known[c.key()]; !repeated {
		m.known[c.key()] = struct{}{}
		m.changes = append(m.changes, c)
	}
	m.forgetChanges(c.at.Add(-changesKept))
}

// forgetChanges forgets those before a moment. The caller holds mu.
func (m *Memory) forgetChanges(before time.Time) {
	n := 0
	for n < len(m.changes) && (m.changes[n].at.Before(before) || len(m.changes)-n > m.max) {
		delete(m.known, m.changes[n].key())
		m.changes[n] = changed{}
		n++
	}
	m.changes = m.changes[n:]
}

// changesOf returns the changes of a sale's orders that are remembered, oldest first, and
// remembers them as long again. Without a sale they are those of all.
func (m *Memory) changesOf(sale sluice.SaleID) (changes []changed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i := range m.changes {
		if c := &m.changes[i]; sale == "" || c.claim.Sale == sale {
			c.at = now
			changes = append(changes, *c)
		}
	}
	return changes
}

// FailedOver has Repeat make all changes again that this server remembers: another server of the
// store's database answers, which may be an older copy.
func (r *Rebuilder) FailedOver() { r.lost, r.lostSince = r.memory.changesOf(""), time.Now() }

// Repeat makes the changes that FailedOver found again, and tries those that cannot be made once
// more when it is called again, within a minute: their orders may be those of a rebuild, or wait
// for another server's change. A locked row holds up its own sale. It is for one goroutine, as
// FailedOver is.
func (r *Rebuilder) Repeat(ctx context.Context) {
	if len(r.lost) == 0 {
		return
	}
	var untried, waiting []changed
	blocked := map[sluice.SaleID]bool{}
	for i := range r.lost {
		c := &r.lost[i]
		switch sale := c.claim.Sale; {
		case blocked[sale]:
			waiting = append(waiting, *c)
		case ctx.Err() != nil:
			untried = append(untried, *c)
		default:
			done, err := r.changeOnce(ctx, sale, c, false)
			blocked[sale] = err != nil
			if !done {
				waiting = append(waiting, *c)
			}
		}
	}
	if r.lost = append(untried, waiting...); len(r.lost) > 0 && time.Since(r.lostSince) > changesKept {
		r.unrepeated(r.lost)
		r.lost = nil
	}
}

// unrepeated says which changes were not made again.
func (r *Rebuilder) unrepeated(changes []changed) {
	r.log.Info("changes of orders that were not made again, or had been followed by others", "count", len(changes),
		"sale", changes[0].claim.Sale, "first", changes[0].Order, "action", changes[0].Action)
}

// changeAgain is Repeat for a sale that is fenced, before this server brings claims back: units
// of orders that had ended may have been sold since. For the same reason orders that the store
// lacks come after those that it has.
func (r *Rebuilder) changeAgain(ctx context.Context, sale *sluice.Sale, p *progress) error {
	if p.begun.IsZero() {
		p.begun, p.changes, p.tried, p.inserted = time.Now(), r.memory.changesOf(sale.ID), time.Time{}, false
	}
	if time.Since(p.tried) < HeartbeatEvery {
		return nil
	}
	p.tried = time.Now()
	insert := time.Since(p.begun) > SilentAfter/2
	var waiting []changed
	for i := range p.changes {
		c := &p.changes[i]
		done, err := r.changeOnce(ctx, sale.ID, c, insert)
		if err != nil && (ctx.Err() != nil || time.Since(p.begun) < 2*SilentAfter) { // later one row may be locked
			p.changes = append(waiting, p.changes[i:]...)
			return err
		}
		if !done {
			waiting = append(waiting, *c)
		}
	}
	p.changes, p.inserted = waiting, p.inserted || insert
	return nil
}

// changeOnce makes a change again, of an order that it inserts if the store lacks it and that
// is asked for. It is not done where the order is not there, or not as far.
func (r *Rebuilder) changeOnce(ctx context.Context, sale sluice.SaleID, c *changed, insert bool) (
	done bool, err error,
) {
	change := c.Change
	change.Retake = false // if its units are gone by now, it is to be refunded
	_, err = r.store.Change(ctx, change)
	if insert && errors.Is(err, sluice.ErrOrderNotFound) && c.claim.Order == c.Order {
		if _, _, err = r.save(ctx, sale, []sluice.Entry{restored(&c.claim)}); err != nil {
			return false, err
		}
		_, err = r.store.Change(ctx, change)
	}
	_, state := errors.AsType[*sluice.OrderStateError](err)
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound), state:
		return false, nil
	case isRefused(err):
		r.log.Info("a change of an order cannot be made again", "order", c.Order, "action", c.Action, "error", err)
		return true, nil
	}
	return err == nil, err
}
