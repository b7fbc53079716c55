package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Gather is the part of Step before the rebuild: it stores what this server
// remembers of a fenced sale, and reports whether all servers that live have
// done so. A second call stores nothing that the first has stored.
func (r *Rebuilder) Gather(ctx context.Context, sale *sluice.Sale) (ready bool, err error) {
	p, begins := r.of(sale)
	if begins {
		r.announce(sale)
	}
	if !p.doubted { // before the ledger is fenced: as it is, it proves more
		outdated, err := r.outdated(ctx, sale)
		if outdated {
			return false, err
		}
		p.doubted = err == nil // a ledger that is out of reach from here holds up no other server
	}
	if p.gathered.IsZero() {
		done, err := r.gather(ctx, sale)
		if err != nil || !done {
			return false, err
		}
		p.gathered = time.Now()
	}
	return r.allGathered(ctx, sale, p)
}

// outdated fences a sale for a person if its store is older than its ledger: a backup's copy is
// fenced, and may stand beside a ledger that went on.
func (r *Rebuilder) outdated(ctx context.Context, sale *sluice.Sale) (bool, error) {
	if recovered(sale) || r.loader.inStore || r.loader.Foreign(sale) {
		return false, nil
	}
	found, err := r.doubt(ctx, sale)
	if err != nil || found.storeOlder == "" {
		return false, err
	}
	return true, r.loader.fenceOlder(ctx, sale, &found.reading, found.storeOlder)
}

// gather stores what this server remembers. First no claim of its own may be
// able to be accepted any more: the ledger is fenced, whatever it holds, and
// what was on its way has landed.
func (r *Rebuilder) gather(ctx context.Context, sale *sluice.Sale) (done bool, err error) {
	why := sale.Fence
	if r.loader.Foreign(sale) {
		why = OtherDecides + sale.Ledger
	}
	err = r.ledger.Fence(ctx, sale.ID, sale.Epoch, why)
	if err != nil && !errors.Is(err, port.ErrNotLoaded) && !errors.Is(err, port.ErrStaleEpoch) {
		// A server that reaches the ledger fences the sale; one that does not must
		// not hold up the others.
		r.log.Warn("the ledger cannot be fenced from here", "sale", sale.ID, "error", err)
	}
	if !r.idle(sale.ID) {
		return false, nil
	}
	if err := r.remindTerms(ctx, sale.ID); err != nil { // before claims that rely on them
		return false, err
	}
	entries := r.memory.Until(sale.ID, sale.Epoch)
	saved, err := r.saveMemory(ctx, sale, entries)
	if err != nil {
		return false, err
	}
	if err := r.ahead(ctx, sale); err != nil {
		return false, err
	}
	r.log.Info("gathered for a rebuild", "sale", sale.ID, "epoch", sale.Epoch, "remembered", len(entries), "saved", saved)
	return true, r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node, sale.Ledger)
}

// remindTerms gives the store the terms that this server was told and that the store, which is
// the ledger too, has forgotten. Without them claims would be rejected that a larger total
// covered, and units sold that were taken away (I1, I8).
func (r *Rebuilder) remindTerms(ctx context.Context, id sluice.SaleID) error {
	if !r.loader.inStore {
		return nil
	}
	sale, err := r.store.Sale(ctx, id)
	if err != nil {
		return err
	}
	if terms, are := r.memory.termsBeyond(&sale); are {
		return r.adoptTerms(ctx, &sale, &terms)
	}
	return nil
}

// ahead sets aside what this server remembers of epochs that an older copy of the store has
// not heard of: the load gives it places in the next epoch, before anybody gets its units.
// A row that is merely out of date is no such copy.
func (r *Rebuilder) ahead(ctx context.Context, sale *sluice.Sale) error {
	entries := r.memory.After(sale.ID, sale.Epoch)
	if len(entries) == 0 || r.memory.keep == 0 {
		return nil
	}
	if now, err := r.store.Sale(ctx, sale.ID); err != nil || now.Epoch != sale.Epoch {
		return err
	}
	for _, e := range entries {
		lost := fmt.Errorf("accepted in epoch %d, which the store has lost", e.Epoch)
		// With the time, since two copies may each give an epoch again.
		e.ID = fmt.Sprintf("%s/%d/%d+%d/%d", e.Node, e.Epoch, e.FirstSeq, len(e.Claims), e.At.UnixMilli())
		e.Epoch = sale.Epoch
		if err := r.store.SetAside(ctx, e.DeadLetter(lost)); err != nil {
			return err
		}
	}
	return nil
}

// Remembers reports whether there is something for SaveRemembered to do.
func (r *Rebuilder) Remembers(sale *sluice.Sale) bool {
	return r.memory.Before(sale.ID, sale.Epoch)
}

// SaveRemembered stores, or sets aside to be claimed again, what this server remembers of
// epochs before the sale's: it may have been silent while the sale was
// rebuilt. It reports whether it remembered anything.
func (r *Rebuilder) SaveRemembered(ctx context.Context, sale *sluice.Sale) (bool, error) {
	entries := r.memory.Unsaved(sale.ID, sale.Epoch)
	_, err := r.saveMemory(ctx, sale, entries)
	return len(entries) > 0, err
}

// saveMemory saves what this server remembers, and notes what is stored or set
// aside, and nothing else: what is remembered meanwhile stays (I5), and work that
// is broken off goes on where it was.
func (r *Rebuilder) saveMemory(ctx context.Context, sale *sluice.Sale, entries []port.Entry) (saved int, err error) {
	saved, done, err := r.save(ctx, sale.ID, entries)
	r.memory.Saved(sale.ID, sale.Epoch, entries[:done])
	return saved, err
}

// allGathered reports whether every server that lives has gathered. The log
// names those that it takes longer than a heartbeat to wait for. A store that was down has no
// recent heartbeat of any server: they get time to send theirs.
func (r *Rebuilder) allGathered(ctx context.Context, sale *sluice.Sale, p *progress) (bool, error) {
	if r.copied(sale) && time.Since(p.gathered) < 2*SilentAfter || time.Since(r.missed()) < SilentAfter {
		return false, nil
	}
	live, err := r.store.LiveServers(ctx, SilentAfter)
	if err != nil {
		return false, err
	}
	gathered, err := r.store.Gathered(ctx, sale.ID, sale.Epoch)
	if err != nil {
		return false, err
	}
	if !slices.Contains(gathered, r.node) { // the store was restored since: it is another loss
		r.announce(sale)
		p.gathered = time.Time{}
		return false, nil
	}
	missing := slices.DeleteFunc(port.Nodes(live), func(node string) bool { return slices.Contains(gathered, node) })
	waits := strings.Join(missing, " ")
	if waits != "" && waits != p.waits && time.Since(p.gathered) >= HeartbeatEvery {
		p.waits = waits
		r.log.Warn("a rebuild waits until other servers have stored what they remember",
			"sale", sale.ID, "epoch", sale.Epoch, "servers", missing)
	}
	return len(missing) == 0, nil
}

// copied reports whether the loss may be that the database, which was the ledger, has
// become an older copy of itself. Its heartbeats are then as old, so a server that lives is
// known by those that it sends from now on; the first of them may wait for a connection
// that hangs.
func (r *Rebuilder) copied(sale *sluice.Sale) bool {
	return r.memory.keep > 0 && strings.HasPrefix(sale.Fence, port.FenceLost)
}

// save stores entries, each claim once, and reports how many of them, from the
// first on, are dealt with. A claim that conflicts with a stored one (the ledger
// gave its place twice), and an entry of an epoch that is over, are set aside, for
// the load to take their units. A claim that the database refuses keeps no other
// from being tried.
func (r *Rebuilder) save(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (saved, done int, err error) {
	return r.saveBut(ctx, sale, entries, sync.OnceValues(func() (map[sluice.OrderID]bool, error) {
		return r.listed(ctx, sale)
	}))
}

// listed returns the orders that dead letters promise. The load takes their units, so
// there is nothing to wait for, and nothing to set aside, where a journal or a server
// remembers them too.
func (r *Rebuilder) listed(ctx context.Context, sale sluice.SaleID) (map[sluice.OrderID]bool, error) {
	letters, err := r.store.DeadLetters(ctx, sale)
	return promisedIn(letters, 0), err
}

// listing is what listed returns, read when it is first asked for.
type listing func() (map[sluice.OrderID]bool, error)

// saveBut is save, but for what is listed.
func (r *Rebuilder) saveBut(ctx context.Context, sale sluice.SaleID, entries []port.Entry, listed listing) (
	saved, done int, err error,
) {
	alone := 0 // so many are tried one by one, since together they were refused
	for next := 0; next < len(entries); {
		n := batchOf(entries[next:])
		if alone > 0 {
			n = 1
		}
		stored, failed := r.insert(ctx, sale, entries[next:next+n], listed)
		refused := errors.Is(failed, port.ErrUnstorable)
		switch {
		case n > 1 && (refused || misplaced(failed)):
			alone = n
			continue
		case failed != nil && !refused:
			return saved, done, failed
		case failed != nil && err == nil:
			err, done = failed, next
		}
		if saved, next, alone = saved+stored, next+n, alone-1; err == nil {
			done = next
		}
	}
	return saved, done, err
}

// batchOf returns how many of the entries one transaction takes; one that is
// damaged stands alone.
func batchOf(entries []port.Entry) int {
	n, claims := 1, len(entries[0].Claims)
	for entries[0].Damage == nil && n < len(entries) && entries[n].Damage == nil &&
		claims+len(entries[n].Claims) <= gatherBatch {
		claims += len(entries[n].Claims)
		n++
	}
	return n
}

// How long a rebuild waits for a database that refuses a claim for what it is, since an
// operator may end that: refusedFor if the database has taken others of the epoch, and
// refusedAll if it has taken none. After that the claim is set aside, rather than to keep
// all others from the sale. That gives nothing away, also if the database refuses all of
// them: the load takes the units of a letter, and only a replay stays to be done.
const (
	refusedFor = 5 * time.Second
	refusedAll = time.Minute
)

// givenUp reports whether the store does not take these claims as they are, and is not
// to be waited for.
func (r *Rebuilder) givenUp(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) (bool, error) {
	r.mu.Lock()
	p := r.sales[sale]
	if p == nil { // not in a rebuild
		r.mu.Unlock()
		return false, nil
	}
	waited := refusedAll
	for i := range claims {
		since, known := p.refused[claims[i].Order]
		if !known {
			since = time.Now()
			p.refused[claims[i].Order] = since
		}
		waited = min(waited, time.Since(since))
	}
	r.mu.Unlock()
	if waited < refusedFor || waited >= refusedAll {
		return waited >= refusedAll, nil
	}
	last, err := r.store.LastSeq(ctx, sale, p.epoch)
	return last > 0, err
}

// misplaced reports whether the store does not take an entry where it stands.
func misplaced(err error) bool {
	var conflict *port.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, port.ErrStaleEpoch)
}

// insert stores a batch. One entry that is given up is set aside; of one with several
// claims, only those that are.
func (r *Rebuilder) insert(ctx context.Context, sale sluice.SaleID, batch []port.Entry, listed listing) (int, error) {
	if batch[0].Damage != nil {
		return 0, r.store.SetAside(ctx, batch[0].DeadLetter(batch[0].Damage))
	}
	if len(batch) == 1 && len(batch[0].Claims) == 1 {
		if wrong := batch[0].Validate(); wrong != nil { // it is not the database that refuses it
			r.log.Warn("the ledger has claims that no server writes; they are left out", "sale", sale,
				"order", batch[0].Claims[0].Order, "error", wrong)
			return 0, nil
		}
	}
	stored, err := r.store.Insert(ctx, sale, batch)
	if err == nil {
		return stored.Inserted - len(stored.Rejected), nil
	}
	refused := errors.Is(err, port.ErrUnstorable)
	claims := batch[0].Claims
	switch {
	case len(batch) > 1 || !refused && !misplaced(err):
		return 0, err
	case len(claims) > 1 && !errors.Is(err, port.ErrStaleEpoch):
		saved, _, err := r.saveBut(ctx, sale, split(&batch[0]), listed)
		return saved, err
	}
	orders, failed := listed()
	if failed != nil || !slices.ContainsFunc(claims, func(c sluice.Claim) bool { return !orders[c.Order] }) {
		return 0, failed
	}
	if refused {
		if up, failed := r.givenUp(ctx, sale, claims); failed != nil || !up {
			return 0, cmp.Or(failed, err)
		}
	}
	return 0, r.store.SetAside(ctx, batch[0].DeadLetter(err))
}

// split cuts an entry into its claims, which are then tried one by one.
func split(e *port.Entry) []port.Entry {
	parts := make([]port.Entry, len(e.Claims))
	for i := range parts {
		parts[i] = *e
		parts[i].ID = "" // a part is named by its server and place
		parts[i].FirstSeq += int64(i)
		parts[i].Claims = e.Claims[i : i+1]
	}
	return parts
}
