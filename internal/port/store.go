package port

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Store keeps sales and orders in SQL. It is the second, independent guard of
// the invariants: unique keys and the cap refuse what a ledger that lost data
// might let through. Implementations are safe for concurrent use, by several
// servers on one database too.
type Store interface {
	SaleStore
	OrderStore
	SettleStore
	RestockStore
	LoadStore
	DeadLetterStore
	ClusterStore
	ReconcileStore
	EventStore
	WebhookStore
	ListStore
	AuditStore
	AdminStore
	CurveStore
	ErasureStore

	// Clock returns the store's time, in whole milliseconds: it judges payments
	// and expiry.
	Clock(ctx context.Context) (time.Time, error)
	// Ping says whether the database answers.
	Ping(ctx context.Context) error
	// Close ends the use of the store. It is idempotent.
	Close() error
}

// SaleStore keeps the sales and every version of their terms.
type SaleStore interface {
	// CreateSale adds a valid sale with Terms.Version 1 and Epoch 0, and
	// returns it with its times. ErrSaleExists if the id is taken.
	CreateSale(ctx context.Context, sale sluice.Sale) (sluice.Sale, error)

	// Sale returns one sale. ErrSaleNotFound.
	Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error)

	// Sales returns all sales, by opening time and id. There may be very many.
	Sales(ctx context.Context) ([]sluice.Sale, error)

	// SelectSales returns the sales that the filter selects, by id. Those that
	// do not exist are left out. ErrUnchanged, if the filter allows it.
	SelectSales(ctx context.Context, filter SaleFilter) ([]sluice.Sale, error)

	// ChangeSale reads the sale, lets change edit its descriptive fields and
	// terms, and writes it with Terms.Version raised by one, in one
	// transaction. An error from change is returned as it is, and nothing is
	// written. A new Total below Taken is ErrBelowTaken; an archived sale is
	// ErrArchived; a picture that was not put there is ErrNoPicture. The cap follows a raised total, as with Restock.
	ChangeSale(ctx context.Context, id sluice.SaleID, change func(*sluice.Sale) error) (sluice.Sale, error)

	// PutPicture keeps a picture for a sale, whose Showcase may name it from then on. A
	// picture that ChangeSale no longer names is deleted. ErrSaleNotFound, ErrArchived.
	PutPicture(ctx context.Context, id sluice.SaleID, picture sluice.Picture) error
	// Picture returns the JPEG of this size, SmallPicture or LargePicture. ErrNoPicture.
	Picture(ctx context.Context, id sluice.SaleID, picture string, size int) ([]byte, error)

	// DeleteSale deletes a sale, if its terms have this version, with all that belongs
	// to it: its terms, restocks and lists. Its events stay, and its id can be used
	// again. A *StateError, and nothing is deleted, if the version is another, if the
	// sale has orders or dead letters, is archived, or has more than MaxDeletedBuyers on
	// its lists.
	DeleteSale(ctx context.Context, id sluice.SaleID, version int64) error

	// FenceSale records why the sale's claims must be refused; the first
	// reason stands, but for FenceOlder, which takes the place of others. It changes
	// nothing when epoch is not the sale's.
	FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error

	// TakeSale makes this server's ledger the one that decides about a sale, fences the
	// sale for this reason, and has the servers that live gather. It reports whether it did:
	// not if the sale is this ledger's already, or archived. A *StateError unless this node has
	// sent a heartbeat within so long, and no other server has said within twice as long that
	// it has the ledger before.
	TakeSale(ctx context.Context, id sluice.SaleID, node string, within time.Duration, reason string) (bool, error)
}

// SaleFilter selects sales, in one of four ways.
type SaleFilter struct {
	// Live selects those that are not archived. If Unless is their digest, the answer may be
	// ErrUnchanged instead; the zero digest is of no list.
	Live   bool
	Unless SalesDigest
	// Fenced selects those of the live ones that are fenced, or being loaded.
	Fenced bool
	// IDs selects these.
	IDs []sluice.SaleID
	// Limit selects a page of all: so many after this id.
	After sluice.SaleID
	Limit int
}

// SalesDigest sums up a list of live sales, so that it need not be read again while nothing
// changes: each field is a sum over the rows. Lists that differ in one row have different
// ones, however a row was changed: whatever does not change another sum changes UpdatedAt.
// Several changes may cancel out, so who relies on it reads the list now and then.
type SalesDigest struct {
	Sales, Fenced           int64 // how many
	Versions, Epochs, Taken int64 // Epochs: with the loaded ones
	Caps                    int64 // of those that have one
	// Updated adds up UpdatedAt, in milliseconds since 1970, of which the last nine digits count.
	Updated int64
}

// DigestSales returns the digest of a list of live sales.
func DigestSales(live []sluice.Sale) (d SalesDigest) {
	for i := range live {
		s := &live[i]
		d.Sales++
		if s.Fence != "" {
			d.Fenced++
		}
		d.Versions += s.Version
		d.Epochs += s.Epoch + s.LoadedEpoch
		d.Taken += s.Taken
		if s.Cap != sluice.Unlimited {
			d.Caps += s.Cap
		}
		d.Updated += s.UpdatedAt.UnixMilli() % 1_000_000_000
	}
	return d
}

// RestockStore changes totals while a sale runs.
type RestockStore interface {
	// Restock changes the total by delta, as a new version of the terms; once
	// per sale and restock id, and a repeat returns the sale as it is. The cap
	// is raised with the total at once, and lowered only by ConfirmTotal. Until
	// then the lowering waits for the ledger, and may be taken back.
	// ErrBelowTaken if the new total is below Taken; what Sale.TotalCanBe says;
	// ErrNoTotal for a sale without a total; ErrRestockReused if
	// the id was used with another delta; ErrArchived. The id is 1 to 255 bytes of
	// UTF-8.
	Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error)
	// Restocked returns the sale and whether this restock of it was made, and not
	// taken back. ErrRestockReused.
	Restocked(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sale sluice.Sale, made bool, err error)
	// UndoLowering takes back the lowering that waits, which the ledger refused
	// with this version of the terms: the total is the cap again, as a new
	// version, and the id of the restock that lowered it can be used again. It
	// changes nothing if the sale's version is another, or no lowering waits, and
	// returns the sale as it is. BeginLoad does the same: a ledger that is loaded
	// cannot judge what the one before it accepted (I1).
	UndoLowering(ctx context.Context, id sluice.SaleID, version int64) (sluice.Sale, error)
	// ConfirmTotal lowers the cap to the total, when the ledger has applied
	// this version of the terms. It does nothing if the sale's is another.
	ConfirmTotal(ctx context.Context, id sluice.SaleID, version int64) error
	// Archive marks a closed sale whose orders are all ended or paid, and whose
	// releases are all given, as archived: the ledger may drop it, and the
	// store answers for its claims (Claim). It reports whether the sale is
	// archived now; false, without an error, if something is still to come: the
	// closing time, a pending order, a release, a dead letter. What waits in the
	// ledger's journal the store cannot know. Orders of an archived sale can
	// still be refunded; that writes no release, for no ledger could apply it.
	Archive(ctx context.Context, id sluice.SaleID) (bool, error)
	// Claim returns the order that an accepted claim became. ErrOrderNotFound.
	Claim(ctx context.Context, claim sluice.ClaimID) (sluice.Order, error)
}

// OrderStore takes journal entries and answers for orders.
type OrderStore interface {
	// Insert stores the claims of undamaged entries of one sale in one
	// transaction: each exactly once (I5), with the sale's taken raised by the
	// units of the rows that this transaction inserted, never beyond the cap
	// (I1). Claims beyond it are stored as rejected, reason NotCovered, hold
	// no units, and fence the sale.
	//
	// A redelivery (same order, claim, epoch and sequence) inserts nothing.
	// Any other conflict is evidence that the ledger lost data: a
	// *ConflictError, and nothing of the batch is stored.
	//
	// What the database refuses for what it is, and entries that are not valid, are
	// ErrUnstorable: an entry that meets it a few times is set aside. Trouble that may
	// pass by itself is ErrStoreBusy instead.
	Insert(ctx context.Context, sale sluice.SaleID, entries []Entry) (Stored, error)

	// Order returns a stored order. ErrOrderNotFound.
	Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error)

	// Orders returns a page of stored orders, oldest first, and the cursor of
	// the next page, empty after the last. ErrBadCursor.
	Orders(ctx context.Context, filter sluice.OrderFilter) (page []sluice.Order, next string, err error)

	// CountOrders counts the stored orders of a sale by status. It reads each of them, so nothing asks for it often.
	CountOrders(ctx context.Context, sale sluice.SaleID) (map[sluice.Status]int64, error)
}

// Stored counts what one Insert did.
type Stored struct {
	Inserted    int              // orders, rejected ones too
	Redelivered int              // claims whose order was stored before
	Rejected    []sluice.OrderID // of Inserted, those beyond the cap
}

// SettleStore is the part of a store that ends orders.
type SettleStore interface {
	// Change takes an action on a stored order, as Status.Step says, by one
	// conditional update and the store's clock: of two that race, one wins and
	// the other finds the outcome. In the same transaction it writes the
	// history, and, when units return, lowers the sale's taken and writes the
	// release. A repeat returns the order as it is.
	//
	// A payment belongs to one order, over all servers (but for those that were
	// recorded before there was this rule, and those that are erased or deleted). One that is
	// refused is kept in the history, since money may have moved.
	//
	// Extend moves ExpiresAt and KeepUntil, never back: to a deadline that the order
	// has already, or has passed, it changes nothing.
	//
	// Errors: ErrOrderNotFound, but ErrOrderQueued in a sale that is fenced, since a
	// rebuild may bring the order back; ErrStoreOlder, and nothing is recorded, while the sale is fenced as
	// FenceOlder or FenceRecovered, whatever the store says of the order; *OrderStateError,
	// *PaymentConflictError, *PaymentAmountError, *ExtensionError.
	Change(ctx context.Context, change sluice.Change) (sluice.Order, error)

	// ExpireDue ends up to limit pending orders whose KeepUntil has passed, and
	// returns how many of each sale, also with an error. Until, if given, is called
	// in the transaction with the store's clock, and must not block: orders kept
	// until after the moment that it returns stay. Those of a sale that is fenced stay too: the
	// store may have forgotten payments; and those of a sale that may, if given, does not allow.
	// It must not block. Several servers may call ExpireDue at the same time.
	ExpireDue(ctx context.Context, limit int, may func(sluice.SaleID) bool, until func(now time.Time) time.Time) (
		map[sluice.SaleID]int, error)

	// History returns the changes of an order, the first one first. The order
	// having been stored is the first.
	History(ctx context.Context, order sluice.OrderID) ([]sluice.HistoryEntry, error)

	// GiveReleases hands up to limit releases of one sale to give, and forgets
	// them when it returns nil. Releases in other hands are passed over. If the
	// server dies in between they are handed out again (I6: the ledger applies
	// each once). It returns how many were given.
	GiveReleases(ctx context.Context, limit int, give func(sale sluice.SaleID, releases []Release) error) (int, error)

	// PendingReleases counts the releases of a sale that wait.
	PendingReleases(ctx context.Context, sale sluice.SaleID) (int64, error)
}

// MaxForgotten is how many versions of a sale's terms a store may have forgotten that was restored
// from an older copy: more than the changes of a day, one a second. No server made a version that
// is further ahead: it was written by hand, and the store's terms stay.
const MaxForgotten = 100_000

// LoadStore is the store's part of bringing a sale into a ledger: BeginLoad,
// Ledger.Load, ConfirmLoad, Ledger.Unfence. Claims are accepted only after the
// last, so a crash in between loses nothing and the next server starts over,
// or goes on from Ledger.Load.
type LoadStore interface {
	// BeginLoad gives the sale its next epoch, one that comes after passed as
	// well: a ledger may have seen epochs that a restored store has not. In the
	// same transaction it reads what Load needs. A sale whose last load is
	// confirmed and that is not fenced is live: ErrSaleLive, and nothing changes;
	// nor if the epoch would be beyond MaxEpoch: a *StateError. ErrArchived,
	// ErrSaleNotFound. Terms get the number after any that its claims carry and the store does
	// not know.
	BeginLoad(ctx context.Context, id sluice.SaleID, passed int64) (LoadImage, error)

	// UseLedger says which ledger this server has, and loads into. For a sale that another
	// one decides about, BeginLoad returns ErrOtherLedger.
	UseLedger(name string)

	// ConfirmLoad records that the ledger holds the sale under this epoch, and
	// lifts the store's fence. ErrStaleEpoch if the sale's epoch is another.
	ConfirmLoad(ctx context.Context, id sluice.SaleID, epoch int64) error

	// LastSeq returns the highest sequence stored of this epoch of the sale, 0
	// when there is none. If the ledger's is smaller, the ledger lost data.
	LastSeq(ctx context.Context, id sluice.SaleID, epoch int64) (int64, error)
}

// Server is what a server says of itself with each heartbeat.
type Server struct {
	Node    string `json:"-"`
	Version string `json:"version"`         // of the program
	Admin   string `json:"admin,omitempty"` // where its merchant API is reached; empty: not told
	// Shared has a fingerprint for each setting that the servers of a shop share, by its name:
	// servers that differ in one refuse what the others accept.
	Shared map[string]string `json:"shared"`
	// Left: it has stopped in order. Its silence from then on is no fault; it counts as live until then.
	Left bool `json:"left,omitempty"`
}

// Difference is a server whose settings are not those of another one, though they share them.
type Difference struct {
	Node, Admin string
	Settings    []string // their names, in order
}

// Equal reports whether both are the same.
func (d Difference) Equal(other Difference) bool {
	return d.Node == other.Node && d.Admin == other.Admin && slices.Equal(d.Settings, other.Settings)
}

// String says what differs, without addresses.
func (d Difference) String() string { return d.Node + " has another " + strings.Join(d.Settings, ", ") }

// Nodes returns the names of servers.
func Nodes(servers []Server) []string {
	nodes := make([]string, len(servers))
	for i := range servers {
		nodes[i] = servers[i].Node
	}
	return nodes
}

// ClusterStore is how the servers of one store know of each other: jobs that
// one of them does at a time, and a rebuild that waits for all of them.
type ClusterStore interface {
	// Lease and Unlease work as lock.Backend's, by the store's clock: a lease that
	// ends later than its ttl from now, by more than a second, was taken before that
	// clock stepped back, and has expired. Nothing may depend on a lease for being
	// correct, only for not being done twice.
	Lease(ctx context.Context, name, holder string, fence int64, ttl time.Duration) (int64, error)
	Unlease(ctx context.Context, name, holder string) error

	// Heartbeat says that a server lives, and what it is.
	Heartbeat(ctx context.Context, s Server) error
	// LiveServers returns the servers whose last heartbeat is less than within away
	// from the store's clock, on either side: a heartbeat farther ahead was sent
	// before the clock stepped back. They are ordered by name.
	LiveServers(ctx context.Context, within time.Duration) ([]Server, error)

	// MarkGathered says that a server has stored every claim it remembers of
	// this epoch of a sale, given the ledger that its row named: if that is another one by
	// now, it says nothing, and the server looks at the sale again.
	// Gathered returns the servers that have said so.
	MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node, ledger string) error
	Gathered(ctx context.Context, sale sluice.SaleID, epoch int64) ([]string, error)

	// Tidy deletes what has done its work: lists of buyers of archived sales,
	// leases that ended long ago, marks of rebuilds that are over. Any server may
	// call it at any time.
	Tidy(ctx context.Context) error
}

// ErasureStore takes persons out of what the store keeps of archived sales. What
// named a buyer becomes a keyed hash (WebhookStore.SealSecrets brings the key): the same id is
// the same pseudonym everywhere, so that sums, limits and the audit still hold, and
// without the key a pseudonym cannot be guessed back. Both methods work in small
// transactions, each of which leaves whole orders: after an error, or a crash, call
// them again. ErrNoErasureKey.
type ErasureStore interface {
	// EraseBuyer erases one buyer: id, keys, meta and payment ids of their orders in
	// archived sales, in the histories of these orders and so in their events, and in
	// dead letters; and admin actions that were refused to the buyer's token. It
	// deletes the lists of buyers of archived sales. What cannot be erased yet stays
	// as it is, and is returned.
	EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (sluice.Erased, error)
	// EraseOlder erases the buyers of all sales that were archived longer ago than
	// age, and deletes admin actions that are older than that. Its clock is the earlier
	// of the store's and the caller's own: neither can jump ahead and erase what is young.
	EraseOlder(ctx context.Context, age time.Duration) (sluice.Erased, error)
	// PurgeOlder deletes events that are older than age, by the same clock, the
	// oldest first and as far as every webhook has received them; and of sales that were
	// archived longer ago the orders all of whose events are deleted, with their histories
	// and resolved dead letters. What they count for is kept (Sale.Remains). It needs no
	// key, and works in small transactions as the others do.
	PurgeOlder(ctx context.Context, age time.Duration) (Purged, error)
}

// Purged counts what PurgeOlder deleted, and says what waits.
type Purged struct {
	Orders int64
	Events int64                // that the feed no longer has
	Waits  []sluice.ErasureWait // sales that keep orders, or all of them, for the next time
	Behind []sluice.WebhookID   // that have not received events which are old enough
}
