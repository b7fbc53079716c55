package settle

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Payments, endings and extensions that a server has had the store make. A store that becomes
// an older copy of itself forgets them, and no ledger knows of a payment. So each server
// remembers its own for a while, and makes them again. For a change that is there already that
// does nothing: no change takes an order back to a state that it has left.

// changesKept is how long.
const changesKept = time.Minute

// changed is a change that this server has had the store make.
type changed struct {
	sluice.Change               // with its moment
	claim         sluice.Record // of its order
	to            sluice.Status // of the order since
	at            time.Time     // when it was remembered
}

// changeKey tells changes from repeats.
type changeKey struct {
	order   sluice.OrderID
	action  sluice.Action
	expires int64
}

func (c *changed) key() changeKey { return changeKey{c.Order, c.Action, c.ExpiresAt.UnixMilli()} }

// Changed remembers a change that the store has made, with the order as it is since; the oldest
// are forgotten where all sales together have too many.
func (m *Memory) Changed(order *sluice.Order, change sluice.Change) {
	change.At = order.UpdatedAt
	if expired := order.Replaces(); change.Action == sluice.Pay && expired != "" {
		change.Order, change.Replacement = expired, order.ID // as it was paid first
	}
	c := &changed{Change: change, claim: order.Record(), to: order.Status, at: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, repeated := m.known[c.key()]; !repeated {
		m.known[c.key()] = struct{}{}
		m.changes = append(m.changes, c)
	}
	m.forgetChanges(time.Time{})
}

// forgetChanges forgets those before a moment. The caller holds mu.
func (m *Memory) forgetChanges(before time.Time) {
	n := 0
	for n < len(m.changes) && (m.changes[n].at.Before(before) || len(m.changes)-n > m.max) {
		delete(m.known, m.changes[n].key())
		m.changes[n] = nil
		n++
	}
	m.changes = m.changes[n:]
}

// changesOf returns the changes of a sale's orders that are remembered, oldest first; allChanges
// those of all sales. Both are remembered as long again: the next copy may lack them, too.
func (m *Memory) changesOf(sale sluice.SaleID) []*changed {
	return m.renewed(func(c *changed) bool { return c.claim.Sale == sale })
}

func (m *Memory) allChanges() []*changed { return m.renewed(func(*changed) bool { return true }) }

func (m *Memory) renewed(which func(*changed) bool) (changes []*changed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, c := range m.changes {
		if which(c) {
			c.at = now
			changes = append(changes, c)
		}
	}
	return changes
}

// lost is what Repeat makes again.
type lost struct {
	servers map[string]time.Time // of the store's database, and when each has answered last
	last    string               // of them

	mu    sync.Mutex // guards the two below, which Watch leaves for Repeat
	found []*changed
	begun time.Time

	changes []*changed // those of an order in their sequence
	made    time.Time  // when one was last made, or could not be tried
}

// Watch asks which server of the store's database answers. If it is another one, that may be an
// older copy: Repeat makes all changes of the minute before the last answer again, and they come
// before all that is new. Call it every second, from one goroutine.
func (r *Rebuilder) Watch(ctx context.Context, store sluice.ReplicatedStore) {
	l, now := &r.lost, time.Now()
	server, err := store.Server(ctx)
	if err != nil {
		return
	}
	first := l.last == ""
	switch fresh := l.fresh(server, now); {
	case first: // others may have seen another one a moment ago
		store.Trust(server, now.Add(expiryWaits), now)
	case fresh:
		store.Trust(server, now.Add(expiryWaits), now.Add(changesWait))
		r.failedOver.Store(now.UnixNano())
		l.mu.Lock()
		l.found, l.begun = r.memory.allChanges(), now
		r.log.Info("another server of the database answers, or it was restarted: payments and endings of the last minute "+
			"are made again", "changes", len(l.found))
		l.mu.Unlock()
	}
	r.memory.mu.Lock()
	r.memory.forgetChanges(now.Add(-changesKept))
	r.memory.mu.Unlock()
}

// What waits after a failover, until every server that lives has noticed it and made its changes
// again: that orders expire, so that one that was paid or extended does not; and then buyers'
// and merchants' changes, so that an order which had ended is not paid.
const (
	expiryWaits = 3 * time.Second
	changesWait = SilentAfter
	// triesFor is how long changes are tried again since one was last made.
	triesFor = 10 * time.Minute
)

// fresh notes which server answers, and reports whether it is another one than before. Two
// that take turns are none.
func (l *lost) fresh(server string, now time.Time) bool {
	before, known := l.servers[server]
	fresh := l.last != "" && l.last != server && (!known || now.Sub(before) > changesKept)
	if l.servers == nil || len(l.servers) > 100 {
		l.servers = map[string]time.Time{}
	}
	l.last, l.servers[server] = server, now
	return fresh
}

// Repeat makes the changes that Watch has found, and tries those that cannot be made once more
// with each call (triesFor). Call it every second, from one goroutine.
func (r *Rebuilder) Repeat(ctx context.Context) {
	l := &r.lost
	l.mu.Lock()
	found, since := l.found, time.Since(l.begun)
	l.found = nil
	l.mu.Unlock()
	if len(found) > 0 { // what an earlier failover has left comes first
		again := make(map[*changed]bool, len(found))
		for _, c := range found {
			again[c] = true
		}
		left := slices.DeleteFunc(l.changes, func(c *changed) bool { return again[c] })
		l.changes, l.made = append(left, found...), time.Now()
	}
	var made bool
	l.changes, made, _ = r.makeAgain(ctx, l.changes, since)
	if made {
		l.made = time.Now()
	}
	if time.Since(l.made) > triesFor {
		r.unrepeated(l.changes)
		l.changes = nil
	}
}

// changeLanes is how many changes are made again at a time. Expiry and clients wait only for
// seconds for what a minute has brought.
const changeLanes = 4

// makeAgain tries changes so long after the failover, those of an order one after the other. It
// returns what is left, whether it made any or had no time to try all, and an error. A row that
// is locked, or refused, holds up its sale in its lane; the sale's other orders come first the
// next time.
func (r *Rebuilder) makeAgain(ctx context.Context, changes []*changed, since time.Duration) (
	left []*changed, made bool, failed error,
) {
	var lanes [changeLanes]struct {
		changes []*changed
		made    bool
		failed  error
	}
	for _, c := range changes {
		lane := &lanes[crc32.ChecksumIEEE([]byte(c.Order))%changeLanes]
		lane.changes = append(lane.changes, c)
	}
	var all sync.WaitGroup
	for i := range lanes {
		lane := &lanes[i]
		all.Go(func() { lane.changes, lane.made, lane.failed = r.makeInTurn(ctx, lane.changes, since) })
	}
	all.Wait()
	for i := range lanes {
		left, made, failed = append(left, lanes[i].changes...), made || lanes[i].made, cmp.Or(failed, lanes[i].failed)
	}
	return left, made, failed
}

// makeInTurn is one lane of makeAgain.
func (r *Rebuilder) makeInTurn(ctx context.Context, changes []*changed, since time.Duration) (
	left []*changed, made bool, failed error,
) {
	const untried, waiting, failing = 0, 1, 2 // as they come the next time
	var lists [3][]*changed
	last := map[sluice.OrderID]int{} // where an order's last change is left: none after it comes before it
	leave := func(c *changed, list int) {
		list = max(list, last[c.Order])
		last[c.Order], lists[list] = list, append(lists[list], c)
	}
	stuck := map[sluice.SaleID]bool{}
	for _, c := range changes {
		if stuck[c.claim.Sale] {
			leave(c, waiting)
			continue
		}
		if ctx.Err() != nil {
			made = true
			leave(c, untried)
			continue
		}
		switch done, err := r.changeOnce(ctx, c, since); {
		case err != nil:
			stuck[c.claim.Sale], failed = true, cmp.Or(failed, err)
			leave(c, failing)
		case done:
			made = true
		default:
			leave(c, waiting)
		}
	}
	return slices.Concat(lists[:]...), made, cmp.Or(failed, ctx.Err())
}

// Repeating reports whether servers make changes again, before anything is compared or rebuilt:
// an order that had ended must not come back as one that is live.
func (r *Rebuilder) Repeating() bool {
	return time.Since(time.Unix(0, r.failedOver.Load())) < 2*SilentAfter
}

// unrepeated says which changes could not be made again.
func (r *Rebuilder) unrepeated(changes []*changed) {
	if len(changes) > 0 {
		r.log.Warn("changes of orders that the store had forgotten could not be made again", "count", len(changes),
			"sale", changes[0].claim.Sale, "first", changes[0].Order, "action", changes[0].Action,
			"payment", changes[0].PaymentID)
	}
}

// changeAgain is Repeat for a sale that is fenced, before servers bring claims back: units of
// orders that had ended may have been sold since. It is done when every server that lives has
// said so, by a heartbeat that the copy lacks; one that hangs is not waited for.
func (r *Rebuilder) changeAgain(ctx context.Context, sale *sluice.Sale, p *progress) (done bool, err error) {
	if p.begun.IsZero() {
		p.begun, p.changes, p.tried = time.Now(), r.memory.changesOf(sale.ID), time.Time{}
		p.inserted, p.marked = false, false
	}
	since := time.Since(p.begun)
	if time.Since(p.tried) >= HeartbeatEvery {
		p.tried = time.Now()
		p.changes, _, err = r.makeAgain(ctx, p.changes, since)
		if err != nil && (since < SilentAfter || ctx.Err() != nil) {
			return false, err
		}
		p.inserted = p.inserted || since > SilentAfter+2*HeartbeatEvery && err == nil
	}
	if p.inserted && !p.marked {
		if err := r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node+changesMark, sale.Ledger); err != nil {
			return false, err
		}
		p.marked = true
	}
	if since < 2*SilentAfter {
		return false, nil
	}
	if since > 6*SilentAfter {
		return true, nil
	}
	live, err := r.store.LiveNodes(ctx, SilentAfter)
	if err != nil {
		return false, err
	}
	marks, err := r.store.Gathered(ctx, sale.ID, sale.Epoch)
	return !slices.ContainsFunc(live, func(node string) bool { return !slices.Contains(marks, node+changesMark) }), err
}

// changesMark follows the name of a server that has made its changes of a sale again.
const changesMark = "+changes"

// inserts reports whether an order that the store lacks is inserted for a change, so long after
// the loss: first come the endings of orders that it has, then of those that it lacks, and then
// what keeps units. A payment that found its order ended inserts none: this server cannot say how.
func (c *changed) inserts(since time.Duration) bool {
	switch c.Action {
	case sluice.Cancel, sluice.Reject, sluice.Refund:
		return since > SilentAfter && c.claim.Order == c.Order
	default:
		return since > 2*SilentAfter && c.claim.Order == c.Order && c.to != sluice.RefundDue
	}
}

// insertOf inserts the order of a change as it was accepted, if its epoch is not over.
func (r *Rebuilder) insertOf(ctx context.Context, c *changed) error {
	sale, err := r.store.Sale(ctx, c.claim.Sale)
	if err == nil && sale.Epoch != c.claim.Epoch {
		err = sluice.ErrOrderNotFound
	}
	if err == nil {
		_, _, err = r.save(ctx, sale.ID, []sluice.Entry{restored(&c.claim)})
	}
	return err
}

// changeOnce makes a change again, of an order that is inserted if the store lacks it. It is not
// done where the order is not there, or not as far.
func (r *Rebuilder) changeOnce(ctx context.Context, c *changed, since time.Duration) (done bool, err error) {
	if early, err := r.early(ctx, c); early || err != nil {
		return false, err
	}
	change := c.Change
	change.Retake = false // if its units are gone by now, it is to be refunded
	_, err = r.store.Change(ctx, change)
	if errors.Is(err, sluice.ErrOrderNotFound) && c.inserts(since) {
		if err = r.insertOf(ctx, c); err == nil {
			_, err = r.store.Change(ctx, change)
		}
	}
	_, state := errors.AsType[*sluice.OrderStateError](err)
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return false, nil
	case state: // a payment comes before its refund, maybe from another server; of all else it is too late
		return c.Action != sluice.Refund, nil
	case isRefused(err):
		r.log.Info("a change of an order cannot be made again", "order", c.Order, "action", c.Action, "error", err)
		return true, nil
	}
	return err == nil, err
}

// early reports whether a payment found its order ended, and the ending, which may have been
// another server's, is not there again: now the payment would be one in time. That of an order
// in its place waits for both.
func (r *Rebuilder) early(ctx context.Context, c *changed) (bool, error) {
	if c.Action != sluice.Pay || c.to != sluice.RefundDue && c.Replacement == "" {
		return false, nil
	}
	order, err := r.store.Order(ctx, c.Order)
	if err == nil && c.Replacement != "" {
		_, err = r.store.Order(ctx, c.Replacement)
	}
	if errors.Is(err, sluice.ErrOrderNotFound) {
		return c.Replacement != "", nil
	}
	return order.Status == sluice.Pending && (c.Replacement != "" || c.At.Before(order.KeepUntil)), err
}
