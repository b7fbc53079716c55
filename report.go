package sluice

import "time"

// AuditReport is the outcome of an audit of one sale, or of several.
type AuditReport struct {
	Sale     SaleID       `json:"sale_id,omitempty"` // empty: several sales
	OK       bool         `json:"ok"`                // every check that can still be made passed
	Checks   []AuditCheck `json:"checks"`
	InFlight int64        `json:"in_flight"` // accepted claims on their way from the journal to the store

	// Figures are what was compared; nil in a report of several sales.
	Figures *AuditFigures `json:"figures,omitempty"`
}

// AuditCheck is one invariant, recomputed.
type AuditCheck struct {
	ID   string `json:"id"` // I1, I2, I3, I4, I5 or I8
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Unchecked: the check, or a part of it, could not be made, and what could
	// be seen was right. It goes with OK false. Where orders are deleted
	// (Sale.Remains), the report is OK all the same.
	Unchecked bool   `json:"unchecked,omitempty"`
	Detail    string `json:"detail"` // what was compared, with figures; offenders first
}

// Violated reports whether a check was made and failed. A report that is
// neither OK nor violated could not be completed.
func (r *AuditReport) Violated() bool {
	for _, c := range r.Checks {
		if !c.OK && !c.Unchecked {
			return true
		}
	}
	return false
}

// AuditFigures are the sums that an audit compared.
type AuditFigures struct {
	At time.Time `json:"at"` // the ledger's clock at the first reading; zero without a ledger

	// Ledger has the ledger's, at the first reading.
	Ledger struct {
		Loaded     bool   `json:"loaded"`
		Epoch      int64  `json:"epoch"`
		Seq        int64  `json:"seq"`   // of the last accepted claim of the epoch
		Total      *int64 `json:"total"` // null: no total
		Taken      int64  `json:"taken"`
		Claims     int64  `json:"claims"`      // accepted, ended ones too
		LiveClaims int64  `json:"live_claims"` // of Claims, those that hold units
		LiveUnits  int64  `json:"live_units"`
		Fence      string `json:"fence,omitempty"`
		Error      string `json:"error,omitempty"` // why the ledger could not be read
	} `json:"ledger"`

	// Journal counts what is not acknowledged.
	Journal struct {
		Entries int64 `json:"entries"`
		Claims  int64 `json:"claims"`
		Damaged int64 `json:"damaged"` // of Entries
	} `json:"journal"`

	// Store has the store's, of one moment.
	Store struct {
		Epoch       int64            `json:"epoch"`
		Total       *int64           `json:"total"` // null: no total
		Taken       int64            `json:"taken"`
		Orders      int64            `json:"orders"`
		Deleted     int64            `json:"deleted,omitempty"` // of Orders: only their sums are left
		LiveUnits   int64            `json:"live_units"`
		ByStatus    map[Status]int64 `json:"by_status"`
		DeadLetters int64            `json:"dead_letters"` // journal entries set aside
		SetAside    int64            `json:"set_aside"`    // claims in them that have no order
		Fence       string           `json:"fence,omitempty"`
	} `json:"store"`

	// Newer counts the claims and orders after the ledger's first reading,
	// which the next audit will judge.
	Newer int64 `json:"newer"`
}

// DifferenceClass is a kind of difference between ledger and store.
type DifferenceClass string

// The classes of differences.
const (
	// InFlight: on its way, as it should be: in the journal, a release that
	// waits, or newer than the reading.
	InFlight DifferenceClass = "in_flight"
	// LostOrder: an accepted claim that is nowhere else. If it is live, its
	// order is stored from the ledger's record, once.
	LostOrder DifferenceClass = "lost_order"
	// LostRelease: an ended order whose units the ledger still counts, without
	// a release on its way. The release is written again.
	LostRelease DifferenceClass = "lost_release"
	// OrphanHold: units that the ledger counts for an order that cannot be
	// restored: of an epoch before, beyond the cap, or in conflict with what is
	// stored.
	OrphanHold DifferenceClass = "orphan_hold"
	// OrphanOrder: an order of which the ledger has no claim, or whose units it
	// has given back although the order lives.
	OrphanOrder DifferenceClass = "orphan_order"
	// Drift: a counter that is not the sum of what it counts, a claim with other
	// units than its order, or terms that differ at one version. The store's
	// counter is counted again.
	//
	// For the rest of Drift, for OrphanHold and for OrphanOrder the sale is
	// fenced: the ledger holds something wrong, and a rebuild, which follows,
	// loads what is right.
	Drift DifferenceClass = "drift"
)

// DifferenceClasses lists every class.
func DifferenceClasses() []DifferenceClass {
	return []DifferenceClass{InFlight, LostOrder, LostRelease, OrphanHold, OrphanOrder, Drift}
}

// Difference is what was found of one class.
type Difference struct {
	Class    DifferenceClass `json:"class"`
	Count    int64           `json:"count"`
	Repaired int64           `json:"repaired"` // of Count; those for which the sale was fenced are among them
	Orders   []OrderID       `json:"orders"`   // up to 20, never of InFlight
	Details  []string        `json:"details"`  // of Drift: what differs; else why it was not repaired
}

// ReconcileReport is what one reconciliation found and did.
type ReconcileReport struct {
	Sale    SaleID
	At      time.Time // the ledger's clock at the first reading
	Applied bool      // repairs were allowed
	// Skipped says why nothing was compared: the sale is fenced, being loaded,
	// not loaded or archived. Then another part of Sluice has it in hand.
	Skipped     string
	Differences []Difference // one of every class, also when there is none
}

// Of returns what was found of a class.
func (r *ReconcileReport) Of(class DifferenceClass) *Difference {
	for i := range r.Differences {
		if r.Differences[i].Class == class {
			return &r.Differences[i]
		}
	}
	r.Differences = append(r.Differences, Difference{Class: class})
	return &r.Differences[len(r.Differences)-1]
}

// Remaining counts the differences, those in flight apart, that were not
// repaired.
func (r *ReconcileReport) Remaining() (n int64) {
	for i := range r.Differences {
		if d := &r.Differences[i]; d.Class != InFlight {
			n += d.Count - d.Repaired
		}
	}
	return n
}

// Recovery is what a recovery of a sale does, or would do: its store was restored from a copy
// that is older than its ledger, or its ledger is changed.
type Recovery struct {
	Sale SaleID `json:"sale_id"`
	// Why the sale waits for it; empty: there is nothing to recover.
	Why     string `json:"why"`
	Applied bool   `json:"applied"`
	// Ledger is the one that decided until now, if that is changed. If there are Payments, the store is older than
	// it, and what it alone has on record is given up.
	Ledger string `json:"ledger,omitempty"`
	// Terms that the store has forgotten and takes from its ledger, in words; empty: none.
	Terms string `json:"terms,omitempty"`

	Stored      RecoveredOrders `json:"stored"`       // accepted claims that the store lacks
	StoredEnded RecoveredOrders `json:"stored_ended"` // such that have ended: how is unknown
	Ended       RecoveredOrders `json:"ended"`        // stored orders that had ended: how is unknown
	// Payments are the orders of which the store may have forgotten a payment, by what they are
	// afterwards, each with a Reason: send these payments again. RefundDue: one that the store has as
	// paid, and that had ended. Pending: a payment makes it paid. "ended": it becomes RefundDue.
	Payments []RecoveredOrders `json:"payments"`
	// NoExpiryBefore: no order of the sale expires before it, by the store's clock; the zero
	// time unless applied.
	NoExpiryBefore time.Time `json:"no_expiry_before,omitzero"`
}

// RecoveredOrders are the number of some orders, and the first thousand of them.
type RecoveredOrders struct {
	Reason string    `json:"reason,omitempty"` // of Payments
	Count  int64     `json:"count"`
	Orders []OrderID `json:"orders"`
}

// Add counts one.
func (r *RecoveredOrders) Add(order OrderID) {
	if r.Count++; len(r.Orders) < MaxPage {
		r.Orders = append(r.Orders, order)
	}
}

// Erased counts what was erased, and says what waits.
type Erased struct {
	Orders      int64         `json:"orders"`
	DeadLetters int64         `json:"dead_letters"`
	Actions     int64         `json:"admin_actions"`
	Waits       []ErasureWait `json:"waiting"` // empty: all is erased
}

// ErasureWait is a sale in which something of a buyer is not erased yet, and why.
type ErasureWait struct {
	Sale SaleID        `json:"sale_id"`
	Why  ErasureReason `json:"reason"`
}

// ErasureReason is why something of a buyer is not erased yet.
type ErasureReason string

// The reasons. The ledger holds a sale that is not archived, and decides by what
// it holds; a refund needs the payment's id.
const (
	NotArchived ErasureReason = "not_archived"
	OnList      ErasureReason = "on_list" // of a sale that is not archived
	OwedRefund  ErasureReason = "refund_due"

	// Why orders, and not buyers, stay (docs/personal-data.md). The newest order of the store stays until there is
	// a newer one.
	DeadLetterOpen ErasureReason = "dead_letter"
	RecentEvents   ErasureReason = "recent_events" // which the feed still has
	NewestOrder    ErasureReason = "newest_order"
)
