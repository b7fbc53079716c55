// Package settle keeps ledger and store consistent: it loads sales, applies
// operators' changes, expires orders, returns units, reconciles, rebuilds and
// archives.
package settle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// loadStore is what this package needs of port.Store.
type loadStore interface {
	port.SaleStore
	port.RestockStore
	port.LoadStore
	DeadLetters(ctx context.Context, sale sluice.SaleID) ([]port.DeadLetter, error)
	SetAside(ctx context.Context, letter port.DeadLetter) error
	ResolveDeadLetter(ctx context.Context, id int64, how string) error
	Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error)
}

// Ledger is what this package needs of port.Ledger.
type Ledger interface {
	port.Keeper
	Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error)
	Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (port.Record, error)
	Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error
}

// current is an error if other servers may have replaced this ledger: it has replicas to
// wait for, which do not confirm what it writes, as behind a network that is cut. What it
// lacks then proves nothing to the store, which the others use as well: neither a fence
// nor a load may follow from it.
func current(ctx context.Context, ledger any, sale sluice.SaleID) error {
	if l, ok := port.As[port.ConfirmingLedger](ledger); ok {
		return l.Confirmed(ctx, sale)
	}
	return nil
}

// Loader brings sales into the ledger and keeps their terms there up to date.
// Any number of servers may do so at the same time: every step is guarded by
// the sale's epoch, and no step refills a live sale.
type Loader struct {
	store   loadStore
	ledger  Ledger
	name    atomic.Pointer[string] // of the ledger; nil: it is not known
	inStore bool                   // it is in the store
}

// Names says which ledger this is.
func (l *Loader) Names(ledger string) { l.name.Store(&ledger) }

// Name returns it; empty if it is not known.
func (l *Loader) Name() string {
	if name := l.name.Load(); name != nil {
		return *name
	}
	return ""
}

// Foreign reports whether another ledger decides about a sale.
func (l *Loader) Foreign(sale *sluice.Sale) bool { return !sale.DecidedBy(l.Name()) }

// NewLoader returns a loader between a store and a ledger.
func NewLoader(store loadStore, ledger Ledger) *Loader { return &Loader{store: store, ledger: ledger} }

// Load brings a sale into the ledger under its next epoch. Claims are accepted
// only after the last of its five steps; a crash before that is repaired by
// the next call of Load or Follow.
//
// Errors: port.ErrSaleLive (it is loaded), port.ErrStaleEpoch (another
// server has begun a load since), and those of store and ledger.
func (l *Loader) Load(ctx context.Context, sale sluice.SaleID) error { return l.load(ctx, sale, 0) }

// load is Load under an epoch after those that are passed over.
func (l *Loader) load(ctx context.Context, sale sluice.SaleID, passed int64) error {
	image, err := l.begin(ctx, sale, passed)
	if err != nil {
		return err
	}
	if err := l.store.ConfirmLoad(ctx, sale, image.Epoch); err != nil {
		if errors.Is(err, sluice.ErrSaleNotFound) { // deleted meanwhile
			err = errors.Join(err, l.ledger.Drop(ctx, sale, image.Epoch))
		}
		return err
	}
	return l.ledger.Unfence(ctx, sale, image.Epoch)
}

// begin does the first two steps. A store that was restored from an older copy
// gives epochs that its ledger has seen; they are passed over.
func (l *Loader) begin(ctx context.Context, sale sluice.SaleID, passed int64) (port.LoadImage, error) {
	if err := errors.Join(current(ctx, l.ledger, sale), l.forgotten(ctx, sale)); err != nil {
		return port.LoadImage{}, err
	}
	for {
		image, err := l.store.BeginLoad(ctx, sale, passed)
		if err != nil {
			return image, err
		}
		if err := l.bring(ctx, &image); err != nil {
			return image, err
		}
		err = l.ledger.Load(ctx, image)
		if err == nil || !errors.Is(err, port.ErrStaleEpoch) {
			return image, err
		}
		if seen := new(port.EpochError); errors.As(err, &seen) { // which it holds no more, or never did
			passed = seen.Seen
			continue
		}
		r, readErr := l.read(ctx, sale)
		now, rowErr := l.store.Sale(ctx, sale)
		if readErr != nil || rowErr != nil || !r.Loaded || r.Epoch < image.Epoch || now.Epoch != image.Epoch {
			return image, err // another server has begun a load since
		}
		passed = r.Epoch
	}
}

// Follow compares what the store and the ledger say of a sale and does what
// is missing: finishes a load, passes on new terms, or fences a sale of which
// the ledger has lost something, or whose terms there are not the store's. It reports whether it did anything, or found
// the row out of date. It is cheap when nothing is missing, and safe to repeat
// on every server: what the row says of another sale, which had the id before, is left.
//
// A sale whose load is not confirmed is left alone: a server is about to load
// it. If none does for a while, see Rebuilder.Adopt.
func (l *Loader) Follow(ctx context.Context, sale *sluice.Sale, reading *port.Reading) (changed bool, err error) {
	// The first case that applies is the sale's state, and each relies on those before it.
	switch {
	case !sale.ArchivedAt.IsZero():
		return false, nil // the ledger may have forgotten it
	case l.Foreign(sale):
		return l.leave(ctx, sale)
	case sale.LoadedEpoch < sale.Epoch || sale.Epoch == 0:
		return false, nil // its load is under way, or waits for Rebuilder.Adopt

	// The store has confirmed the load of its epoch.
	case sale.Fence != "" && reading.Loaded && reading.Fence == "" && (reading.Epoch == sale.Epoch || Outdated(sale)):
		return true, l.fenceLedger(ctx, sale, reading)
	case sale.Fence != "":
		return false, nil // waits for its rebuild, or for a person

	// The store has no fence.
	case reading.Loaded && reading.Epoch > sale.Epoch:
		return true, l.ahead(ctx, sale, reading)
	case !reading.Loaded || reading.Epoch < sale.Epoch:
		return true, l.missing(ctx, sale)

	// Both have the same epoch.
	case reading.Fence == port.FenceLoading: // confirmed, so the load was complete: the last step is missing
		return true, l.finish(ctx, sale)
	case reading.Fence == OtherDecides+sale.Ledger:
		return l.leftByMistake(ctx, sale, reading)
	case strings.HasPrefix(reading.Fence, OtherDecides): // leave has written it
		return true, l.fenceOlder(ctx, sale, reading, "the store has forgotten that "+reading.Fence)
	case reading.Fence != "": // a script, which waits for no replica, has fenced it
		return true, l.fence(ctx, sale, reading.Fence, sale.Epoch)

	// The ledger has no fence.
	case reading.Terms.Version < sale.Terms.Version:
		return true, l.passOn(ctx, sale)
	case !reading.Terms.Same(&sale.Terms):
		return true, l.otherTerms(ctx, sale.ID)
	case sale.Cap != sale.Total: // both have the same terms
		return true, l.confirmTotal(ctx, sale)
	}
	return false, nil
}

// fenceLedger gives the ledger the fence that the store has.
func (l *Loader) fenceLedger(ctx context.Context, sale *sluice.Sale, reading *port.Reading) error {
	_, same, err := l.again(ctx, sale)
	if same {
		err = l.ledger.Fence(ctx, sale.ID, reading.Epoch, sale.Fence)
	}
	return err
}

// passOn applies the store's terms, which are newer than the ledger's.
func (l *Loader) passOn(ctx context.Context, sale *sluice.Sale) error {
	now, same, err := l.again(ctx, sale)
	if same {
		_, err = l.apply(ctx, &now)
	}
	return err
}

// leave fences what this ledger still has of a sale that another one decides about.
func (l *Loader) leave(ctx context.Context, sale *sluice.Sale) (changed bool, err error) {
	reading, err := l.read(ctx, sale.ID)
	if err != nil || !reading.Loaded || reading.Fence != "" {
		return false, err
	}
	now, err := l.store.Sale(ctx, sale.ID)
	if err != nil || !l.Foreign(&now) {
		return false, err
	}
	err = l.ledger.Fence(ctx, sale.ID, reading.Epoch, OtherDecides+now.Ledger)
	return true, err
}

// leftByMistake deals with a ledger that is fenced as if another one decided, and that other one is
// the sale's. Either it has got a new name, which this server has not heard and another one has. Or
// it is the sale's own: it came back in place of another one, and a server that still took it for
// that has fenced it. Then it is rebuilt.
func (l *Loader) leftByMistake(ctx context.Context, sale *sluice.Sale, reading *port.Reading) (
	changed bool, err error,
) {
	ledger, ok := port.As[port.NamedLedger](l.ledger)
	if !ok {
		return false, nil
	}
	if name, _, err := ledger.Name(ctx); err != nil || name != sale.Ledger {
		return false, err
	}
	return true, l.lost(ctx, sale, reading, "it was taken for another ledger, which was there for a while")
}

// OtherDecides starts the fence of a ledger that another one has replaced, and is followed by the name of that one.
// An older copy of the store may name the former again.
const OtherDecides = "another ledger decides: "

// otherTerms fences a sale whose ledger decides by terms that the store does not
// have. What Follow was given may be of two moments, so both are read again, in
// the order that makes sure (foreignTerms).
func (l *Loader) otherTerms(ctx context.Context, id sluice.SaleID) error {
	r, err := l.read(ctx, id)
	if err != nil || !r.Loaded || r.Fence != "" {
		return err
	}
	sale, err := l.store.Sale(ctx, id)
	if err != nil || sale.Epoch != r.Epoch {
		return err
	}
	switch why, ahead := foreignTerms(&r.Terms, &sale.Terms); {
	case ahead:
		return l.fenceOlder(ctx, &sale, &r, why)
	case why != "":
		return l.lost(ctx, &sale, &r, why)
	}
	return nil
}

// foreignTerms says why the terms by which a ledger decides are not the store's,
// if they are not. A version never changes and is in the store before it is
// applied, so the ledger must have been read before the store. Terms of an older
// version than the store's are on their way to be replaced. Ahead: the store must be older.
func foreignTerms(ledger, store *sluice.Terms) (why string, ahead bool) {
	switch more := ledger.Version - store.Version; {
	case more > port.MaxForgotten:
		return fmt.Sprintf("the ledger decides by version %d of the terms, which no server has made", ledger.Version), false
	case more > 0:
		return versionAhead(ledger.Version, store.Version), true
	case more == 0 && !ledger.Same(store):
		return fmt.Sprintf("version %d of the terms: the store has %s, the ledger %s", store.Version, describeTerms(store),
			describeTerms(ledger)), false
	}
	return "", false
}

func describeTerms(t *sluice.Terms) string {
	closes := "never"
	if !t.ClosesAt.IsZero() {
		closes = t.ClosesAt.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("total %d, %d units, %d orders and %d unpaid endings a buyer, opens %s, closes %s, paused %v",
		t.Total, t.MaxPerBuyer, t.MaxOrders, t.MaxUnpaid, t.OpensAt.Format(time.RFC3339Nano), closes, t.Paused)
}

// apply passes the terms of a row on to the ledger, and lets the store's cap
// follow. If their total is below what is taken, the lowering is taken back in
// the store, and the terms that come of it are passed on: refused is true. Sale
// becomes the row that was passed on. This is the only place that takes back a
// lowering by the ledger's word, and the store does it once per version.
func (l *Loader) apply(ctx context.Context, sale *sluice.Sale) (refused bool, err error) {
	for {
		err := l.ledger.Apply(ctx, sale.ID, sale.Epoch, sale.Terms)
		if !errors.Is(err, sluice.ErrBelowTaken) {
			if err == nil && sale.Cap != sale.Total {
				err = l.confirmTotal(ctx, sale)
			}
			return refused, err
		}
		now, undo := l.store.UndoLowering(ctx, sale.ID, sale.Version)
		if undo != nil {
			return refused, undo
		}
		if now.Version == sale.Version { // no lowering waits: the ledger has taken more than the store lets it
			return refused, err
		}
		*sale, refused = now, true
	}
}

// Verify compares the sequences: a store that holds an order with a later one
// than the ledger's last proves that the ledger lost accepted claims. It costs
// a query, so it is for the first time that a server sees a sale, and for a
// ledger whose sequence went backwards.
func (l *Loader) Verify(ctx context.Context, sale *sluice.Sale) error {
	stored, err := l.store.LastSeq(ctx, sale.ID, sale.Epoch)
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		r, err := l.read(ctx, sale.ID) // after the store: it can only be ahead
		if err != nil || !r.Loaded || r.Epoch != sale.Epoch || r.Seq >= stored {
			return err
		}
		if again {
			return l.lost(ctx, sale, &r, fmt.Sprintf("the store holds sequence %d, the ledger ends at %d", stored, r.Seq))
		}
		select { // a reading may be a moment behind the journal
		case <-time.After(verifyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const verifyPause = 100 * time.Millisecond

func (l *Loader) read(ctx context.Context, sale sluice.SaleID) (port.Reading, error) {
	readings, err := l.ledger.Read(ctx, []sluice.SaleID{sale})
	if err != nil {
		return port.Reading{}, err
	}
	return readings[0], nil
}

// finish lifts the fence of a load that is confirmed, and no other fence: the
// caller's reading may be old.
func (l *Loader) finish(ctx context.Context, sale *sluice.Sale) error {
	_, same, err := l.again(ctx, sale)
	if !same {
		return err
	}
	r, err := l.read(ctx, sale.ID)
	if err != nil || r.Epoch != sale.Epoch || r.Fence != port.FenceLoading {
		return err
	}
	return l.ledger.Unfence(ctx, sale.ID, sale.Epoch)
}

// confirmTotal lowers the store's cap, since the ledger has the lower total.
func (l *Loader) confirmTotal(ctx context.Context, sale *sluice.Sale) error {
	if err := current(ctx, l.ledger, sale.ID); err != nil {
		return err
	}
	return l.store.ConfirmTotal(ctx, sale.ID, sale.Version)
}

// missing fences a sale that the ledger does not hold, or under an older epoch. What
// Follow was given may have been read before the load that the row speaks of.
func (l *Loader) missing(ctx context.Context, sale *sluice.Sale) error {
	r, err := l.read(ctx, sale.ID)
	switch {
	case err != nil:
		return err
	case !r.Loaded:
		return l.lost(ctx, sale, &r, "the ledger does not hold the sale")
	case r.Epoch < sale.Epoch:
		return l.lost(ctx, sale, &r, fmt.Sprintf("the ledger holds epoch %d of the sale, the store knows of %d", r.Epoch,
			sale.Epoch))
	}
	return nil
}

// lost fences a sale of which the ledger has lost something, under whichever epoch
// the ledger holds, if it holds any.
func (l *Loader) lost(ctx context.Context, sale *sluice.Sale, reading *port.Reading, why string) error {
	return l.fence(ctx, sale, port.FenceLost+": "+why, sale.Epoch, reading.Epoch)
}

// rebuildTakes is how long a rebuild may take.
const rebuildTakes = time.Minute

// rebuildFor has a sale rebuilt that has units for claims of a dead letter and refuses them because it is closed,
// paused or not open yet: the load brings them in (bring). It stops no buyer: the sale refuses all claims until
// well after it. False: there are no units for any of them. An error: it refuses them for the moment only; try again.
func (l *Loader) rebuildFor(ctx context.Context, sale *sluice.Sale, letter int64, claims []sluice.Claim) (bool, error) {
	r, err := l.read(ctx, sale.ID)
	if err != nil {
		return false, err
	}
	now, same, err := l.again(ctx, sale)
	if err != nil {
		return false, err
	}
	unsure := !same || l.Foreign(&now) || r.Err != nil || !r.Loaded || r.Epoch != now.Epoch
	left := r.Terms.Available(r.Taken)
	fits := func(c sluice.Claim) bool { return left == sluice.Unlimited || c.Quantity <= left }
	if !unsure && !slices.ContainsFunc(claims, fits) {
		return false, nil
	}
	refused, stays := now.Refusal(r.Now), now.Refusal(r.Now.Add(rebuildTakes)) != 0
	if unsure || refused == 0 || !stays {
		return false, fmt.Errorf("settle: dead letter %d: the sale refuses its claims for a moment; try again later", letter)
	}
	why := fmt.Sprintf("%s: the sale was %s when dead letter %d was to be claimed again", port.FenceLate, refused, letter)
	return true, l.fence(ctx, &now, why, now.Epoch)
}

// fence fences the sale on both sides, unless the row was out of date: then
// another server has loaded or archived the sale meanwhile. The ledger is first. A
// server that a network cuts off together with an old primary sees a loss for as
// long as it is alone, and must not stop the sale for those who sell it: no replica
// confirms its fence.
func (l *Loader) fence(ctx context.Context, sale *sluice.Sale, reason string, epochs ...int64) error {
	if _, same, err := l.again(ctx, sale); !same {
		return err
	}
	// A fence that changes nothing writes nothing, which WAIT does not cover from Redis 7.2 on.
	if err := current(ctx, l.ledger, sale.ID); err != nil {
		return err
	}
	for _, epoch := range epochs {
		err := l.ledger.Fence(ctx, sale.ID, epoch, reason)
		if err != nil && !errors.Is(err, port.ErrNotLoaded) && !errors.Is(err, port.ErrStaleEpoch) {
			return err
		}
	}
	return l.store.FenceSale(ctx, sale.ID, sale.Epoch, reason)
}

// again reads a sale's row again, and reports whether it is still that of this epoch of
// this sale, which may have been loaded, archived or deleted since.
func (l *Loader) again(ctx context.Context, sale *sluice.Sale) (now sluice.Sale, same bool, err error) {
	now, err = l.store.Sale(ctx, sale.ID)
	if errors.Is(err, sluice.ErrSaleNotFound) {
		return now, false, nil
	}
	same = err == nil && now.Epoch == sale.Epoch && now.CreatedAt.Equal(sale.CreatedAt) && now.ArchivedAt.IsZero()
	return now, same, err
}

// ahead distinguishes a row that was read a moment too early from a store that
// was restored from an older copy.
func (l *Loader) ahead(ctx context.Context, sale *sluice.Sale, reading *port.Reading) error {
	now, err := l.store.Sale(ctx, sale.ID)
	if err != nil || now.Epoch >= reading.Epoch || now.Fence != "" {
		return err
	}
	return l.fenceOlder(ctx, &now, reading, epochAhead(reading.Epoch, now.Epoch))
}

func epochAhead(ledger, store int64) string {
	return fmt.Sprintf("the ledger holds epoch %d of the sale, the store only knows of %d", ledger, store)
}
