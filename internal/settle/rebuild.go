package settle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// Rebuilder brings a fenced sale back. Every server gathers: it stores what it
// remembers of accepted claims. One of them, under a lease, waits until all
// who live have done so, stores what survives in the journal and in the
// ledger's records, and loads the sale under the next epoch. A promise is either
// saved, or listed: as an order rejected as not_covered, or as a dead letter.
//
// Sold units are not sold again: the store has the orders, its cap refuses
// more, and the load counts them (I1). A person's pause stays, since it is part
// of the terms.
type Rebuilder struct {
	node     string
	store    RebuildStore
	ledger   RebuildLedger
	loader   *Loader
	memory   *Memory
	replayer *Replayer
	idle     func(sluice.SaleID) bool
	log      *slog.Logger

	mu       sync.Mutex // guards the map; each sale's progress belongs to the goroutine that works on it
	sales    map[sluice.SaleID]*progress
	rebuilds atomic.Int64
}

// progress is how far this server has come with the loss of an epoch of a sale.
type progress struct {
	epoch    int64
	gathered time.Time // when it had stored what it remembers; zero before
	waits    string    // servers that the log says are waited for

	refused map[sluice.OrderID]time.Time // when the database first refused a claim for what it is
}

// of returns the progress with the present epoch of a sale, and whether it begins now.
func (r *Rebuilder) of(sale *sluice.Sale) (p *progress, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p = r.sales[sale.ID]; p == nil || p.epoch < sale.Epoch {
		p, begins = &progress{epoch: sale.Epoch, refused: map[sluice.OrderID]time.Time{}}, true
		r.sales[sale.ID] = p
	}
	return p, begins
}

// Rebuilds counts the sales that this server has rebuilt since it started.
func (r *Rebuilder) Rebuilds() int64 { return r.rebuilds.Load() }

// RebuildStore is what a rebuild needs of sluice.Store.
type RebuildStore interface {
	loadStore
	sluice.ClusterStore
	sluice.DeadLetterStore
	sluice.AuditStore
	Insert(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (sluice.Stored, error)
	Change(ctx context.Context, change sluice.Change) (sluice.Order, error)
}

// RebuildLedger is what a rebuild needs of sluice.Ledger.
type RebuildLedger interface {
	Ledger
	sluice.Decider
	sluice.Journal
}

// The rhythm of servers that know of each other.
const (
	// HeartbeatEvery is how often a server says that it lives, and
	// SilentAfter how long a rebuild waits for one that does not.
	HeartbeatEvery = time.Second
	SilentAfter    = 5 * time.Second
	// gatherBatch bounds the claims of one transaction.
	gatherBatch = 2000
)

// NewRebuilder returns a Rebuilder for a server. Idle says that no claim of a
// sale is on its way from this server to the ledger.
func NewRebuilder(node string, store RebuildStore, ledger RebuildLedger, loader *Loader, memory *Memory,
	idle func(sluice.SaleID) bool, log *slog.Logger,
) *Rebuilder {
	return &Rebuilder{
		node: node, store: store, ledger: ledger, loader: loader, memory: memory, idle: idle, log: log,
		replayer: NewReplayer(store, ledger, func(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
			memory.Decided(sale, node, claims, decisions)
		}),
		sales: map[sluice.SaleID]*progress{},
	}
}

// Step does what this server can do now for a fenced sale, and reports whether
// the sale is rebuilt. Call it again while the sale stays fenced, from one
// goroutine per sale.
func (r *Rebuilder) Step(ctx context.Context, sale *sluice.Sale) (rebuilt bool, err error) {
	ready, err := r.Gather(ctx, sale)
	if err != nil || !ready {
		return false, err
	}
	rebuilt, err = r.underLease(ctx, sale.ID, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.Fence == "" || r.loader.Foreign(&now) {
			return err // another server was faster, and what this one saw is old
		}
		if older(sale) {
			if err := r.awaitGathered(ctx, sale); err != nil {
				return err
			}
		}
		return r.rebuild(ctx, sale)
	})
	if err == nil && !rebuilt && older(sale) { // who has the lease waits for this server
		err = r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node, sale.Ledger)
	}
	return rebuilt, err
}

// older reports whether the sale is fenced because its ledger holds it in an older
// format. A server of the version before would load it as it was, as soon as all servers
// have gathered and it has the lease. So one of this version says that it has gathered
// only when it has the lease itself, or another has.
func older(sale *sluice.Sale) bool { return strings.HasPrefix(sale.Fence, sluice.FenceFormat) }

// awaitGathered waits until all other servers have gathered. Not for ever: a server may
// be waiting, under another lease, for this one.
func (r *Rebuilder) awaitGathered(ctx context.Context, sale *sluice.Sale) error {
	if err := r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node, sale.Ledger); err != nil {
		return err
	}
	p, _ := r.of(sale)
	for end := time.Now().Add(2 * SilentAfter); ; {
		if all, err := r.allGathered(ctx, sale, p); err != nil || all {
			return err
		}
		if time.Now().After(end) {
			return errors.New("settle: other servers have not gathered yet")
		}
		select {
		case <-time.After(verifyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Gather is the part of Step before the rebuild: it stores what this server
// remembers of a fenced sale, and reports whether all servers that live have
// done so. What it has stored is not stored again when it is called again.
func (r *Rebuilder) Gather(ctx context.Context, sale *sluice.Sale) (ready bool, err error) {
	p, begins := r.of(sale)
	if begins {
		r.announce(sale)
	}
	if p.gathered.IsZero() {
		done, err := r.gather(ctx, sale)
		if err != nil || !done {
			return false, err
		}
		p.gathered = time.Now()
	}
	if older(sale) {
		return true, nil
	}
	return r.allGathered(ctx, sale, p)
}

// blindAfter is longer than a server goes by the last reading of a sale that it cannot
// read any more.
const blindAfter = 4 * time.Second

// blinding returns how long the other servers may still go by what they last read of the
// sale in its older format. One that saw the store's new epoch beside that would take it
// for a loss, and fence the sale.
func (r *Rebuilder) blinding(ctx context.Context, sale *sluice.Sale) (time.Duration, error) {
	if !older(sale) {
		return 0, nil
	}
	live, err := r.store.LiveNodes(ctx, SilentAfter)
	if slices.ContainsFunc(live, func(node string) bool { return node != r.node }) {
		return blindAfter, err
	}
	return 0, err
}

// announce logs a loss. A rebuild that a person has asked for is none.
func (r *Rebuilder) announce(sale *sluice.Sale) {
	if why, lost := strings.CutPrefix(sale.Fence, sluice.FenceLost+": "); lost {
		r.log.Warn("data of a sale has been lost; the sale is fenced and rebuilt", "sale", sale.ID, "epoch", sale.Epoch,
			"why", why)
	}
}

// Adopt repeats a load that was begun and not finished, and that no server is
// at: one that is holds the lease. It reports whether this server did so, or
// found that another has.
func (r *Rebuilder) Adopt(ctx context.Context, sale *sluice.Sale) (bool, error) {
	return r.underLease(ctx, sale.ID, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.LoadedEpoch != sale.LoadedEpoch {
			return err // another server was faster
		}
		pause, err := r.blinding(ctx, &now) // the row keeps its fence until the load is confirmed
		if err != nil {
			return err
		}
		err = r.loader.load(ctx, sale.ID, pause)
		if errors.Is(err, sluice.ErrSaleLive) || errors.Is(err, sluice.ErrStaleEpoch) {
			err = nil
		}
		return err
	})
}

// gather stores what this server remembers. First no claim of its own may be
// able to be accepted any more: the ledger is fenced, whatever it holds, and
// what was on its way has landed.
func (r *Rebuilder) gather(ctx context.Context, sale *sluice.Sale) (done bool, err error) {
	err = r.ledger.Fence(ctx, sale.ID, sale.Epoch, sale.Fence)
	if err != nil && !errors.Is(err, sluice.ErrNotLoaded) && !errors.Is(err, sluice.ErrStaleEpoch) {
		// A server that reaches the ledger fences the sale; one that does not must
		// not hold up the others.
		r.log.Warn("the ledger cannot be fenced from here", "sale", sale.ID, "error", err)
	}
	if !r.idle(sale.ID) {
		return false, nil
	}
	entries := r.memory.Until(sale.ID, sale.Epoch)
	saved, err := r.remembered(ctx, sale.ID, entries)
	if err != nil {
		return false, err
	}
	if r.loader.Foreign(sale) {
		if err := r.drain(ctx, sale); err != nil {
			return false, err
		}
	}
	r.log.Info("gathered for a rebuild", "sale", sale.ID, "epoch", sale.Epoch, "remembered", len(entries), "saved", saved)
	if older(sale) {
		return true, nil
	}
	return true, r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node, sale.Ledger)
}

// drain stores what waits in the journal of this server's ledger, which another one
// replaces: that one must not load the sale before.
func (r *Rebuilder) drain(ctx context.Context, sale *sluice.Sale) error {
	if _, err := r.loader.leave(ctx, sale); err != nil {
		return err
	}
	var entries []sluice.Entry
	err := r.ledger.PeekJournal(ctx, sale.ID, func(e sluice.Entry) bool {
		entries = append(entries, e)
		return true
	})
	if err == nil {
		_, _, err = r.save(ctx, sale.ID, entries)
	}
	if errors.Is(err, sluice.ErrNotLoaded) {
		err = nil
	}
	return err
}

// Remembers reports whether there is something for Late to do.
func (r *Rebuilder) Remembers(sale *sluice.Sale) bool {
	return r.memory.Before(sale.ID, sale.Epoch)
}

// Late stores, or sets aside to be claimed again, what this server remembers of
// epochs before the sale's: it may have been silent while the sale was
// rebuilt. It reports whether it remembered anything.
func (r *Rebuilder) Late(ctx context.Context, sale *sluice.Sale) (bool, error) {
	entries := r.memory.Until(sale.ID, sale.Epoch-1)
	_, err := r.remembered(ctx, sale.ID, entries)
	return len(entries) > 0, err
}

// remembered saves what this server remembers, and forgets what is stored or set
// aside, and nothing else: what is remembered meanwhile stays (I5), and work that
// is broken off goes on where it was.
func (r *Rebuilder) remembered(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (saved int, err error) {
	saved, done, err := r.save(ctx, sale, entries)
	r.memory.Forget(sale, entries[:done])
	return saved, err
}

// allGathered reports whether every server that lives has gathered. The log
// names those that it takes longer than a heartbeat to wait for.
func (r *Rebuilder) allGathered(ctx context.Context, sale *sluice.Sale, p *progress) (bool, error) {
	live, err := r.store.LiveNodes(ctx, SilentAfter)
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
	missing := slices.DeleteFunc(live, func(node string) bool { return slices.Contains(gathered, node) })
	waits := strings.Join(missing, " ")
	if waits != "" && waits != p.waits && time.Since(p.gathered) >= HeartbeatEvery {
		p.waits = waits
		r.log.Warn("a rebuild waits until other servers have stored what they remember",
			"sale", sale.ID, "epoch", sale.Epoch, "servers", missing)
	}
	return len(missing) == 0, nil
}

// rebuild stores what the journal and the records still have, and loads.
func (r *Rebuilder) rebuild(ctx context.Context, sale *sluice.Sale) error {
	reading, err := r.hold(ctx, sale)
	if err != nil {
		return err
	}
	if err := r.adoptTerms(ctx, sale, &reading); err != nil {
		return err
	}
	survivors, lost, err := r.survey(ctx, sale, &reading)
	if err != nil {
		return err
	}
	r.tell("the store has lost orders that had ended; how they ended is unknown", sale.ID, lost.ended)
	r.tell("the ledger has records of claims that were never decided", sale.ID, lost.undecided)
	saved, _, err := r.save(ctx, sale.ID, survivors)
	if err != nil {
		return err
	}
	restored, _, err := r.save(ctx, sale.ID, lost.entries)
	if err != nil {
		return err
	}
	pause, err := r.blinding(ctx, sale)
	if err != nil {
		return err
	}
	if err := r.loader.load(ctx, sale.ID, pause); err != nil {
		return err
	}
	r.rebuilds.Add(1)
	r.log.Info("a sale is rebuilt", "sale", sale.ID, "why", sale.Fence, "from_journal", saved, "from_records", restored)
	return nil
}

// save stores entries, each claim once, and reports how many of them, from the
// first on, are dealt with. A claim that conflicts with a stored one (the ledger
// gave its place twice), and an entry of an epoch that is over, are set aside, for
// the load to take their units. A claim that the database refuses keeps no other
// from being tried.
func (r *Rebuilder) save(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (saved, done int, err error) {
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
func (r *Rebuilder) saveBut(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry, listed listing) (
	saved, done int, err error,
) {
	alone := 0 // so many are tried one by one, since together they were refused
	for next := 0; next < len(entries); {
		n := batchOf(entries[next:])
		if alone > 0 {
			n = 1
		}
		stored, failed := r.insert(ctx, sale, entries[next:next+n], listed)
		refused := errors.Is(failed, sluice.ErrUnstorable)
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
func batchOf(entries []sluice.Entry) int {
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
	var conflict *sluice.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, sluice.ErrStaleEpoch)
}

// insert stores a batch. One entry that is given up is set aside; of one with several
// claims, only those that are.
func (r *Rebuilder) insert(ctx context.Context, sale sluice.SaleID, batch []sluice.Entry, listed listing) (int, error) {
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
	refused := errors.Is(err, sluice.ErrUnstorable)
	claims := batch[0].Claims
	switch {
	case len(batch) > 1 || !refused && !misplaced(err):
		return 0, err
	case len(claims) > 1 && !errors.Is(err, sluice.ErrStaleEpoch):
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
func split(e *sluice.Entry) []sluice.Entry {
	parts := make([]sluice.Entry, len(e.Claims))
	for i := range parts {
		parts[i] = *e
		parts[i].ID = "" // a part is named by its server and sequence
		parts[i].FirstSeq += int64(i)
		parts[i].Claims = e.Claims[i : i+1]
	}
	return parts
}
