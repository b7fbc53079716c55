package api

import "github.com/sluicehq/sluice"

// AdminAction is one request by which an admin changed something, or tried to
// without being allowed to.
type AdminAction struct {
	ID        int64          `json:"id"`
	At        Time           `json:"at"`
	By        string         `json:"by"` // the name of the key; "buyer:..." if it was a buyer's token
	Route     string         `json:"route"`
	Path      string         `json:"path"`
	SaleID    sluice.SaleID  `json:"sale_id,omitempty"`
	OrderID   sluice.OrderID `json:"order_id,omitempty"`
	Status    int            `json:"status"`         // of HTTP
	Code      string         `json:"code,omitempty"` // of the problem; absent if it was done
	RequestID string         `json:"request_id"`
	Address   string         `json:"address"`
	Node      string         `json:"node"`
}

// AdminActionPage is a page of them, the newest first.
type AdminActionPage struct {
	Actions    []AdminAction `json:"actions"`
	NextCursor string        `json:"next_cursor"` // empty after the last page
}

// DeadLetter is a journal entry that could not be stored. Claims holds its
// lines as the journal has them.
type DeadLetter struct {
	ID        int64         `json:"id"`
	SaleID    sluice.SaleID `json:"sale_id"`
	EntryID   string        `json:"entry_id"`
	Reason    string        `json:"reason"`
	Claims    string        `json:"claims"`
	Epoch     int64         `json:"epoch"`
	FirstSeq  int64         `json:"first_seq"`
	Node      string        `json:"node"`
	At        *Time         `json:"accepted_at"`
	CreatedAt Time          `json:"created_at"`
	// When and how it was resolved; null and empty while it is not.
	ResolvedAt *Time  `json:"resolved_at"`
	Resolution string `json:"resolution"`
}

// DeadLetterList is a page of dead letters, oldest first.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	NextCursor  string       `json:"next_cursor"` // empty after the last page
}

// Replayed says what became of the orders of a dead letter.
type Replayed struct {
	Saved []sluice.OrderID `json:"saved"` // stored, or accepted again
	Lost  []sluice.OrderID `json:"lost"`  // could not be saved
	// Waiting: the sale is closed, paused or not open yet, and is loaded again with them, in
	// some seconds; the letter is listed until then.
	Waiting []sluice.OrderID `json:"waiting"`
}

// EraseBuyer asks to erase a buyer. The id is in the body, not in the path: paths are
// recorded.
type EraseBuyer struct {
	BuyerID sluice.BuyerID `json:"buyer_id"`
}

// Reconcile is the body of a reconciliation: with Apply false, which is the
// default, it only looks.
type Reconcile struct {
	Apply bool `json:"apply"`
}

// Recover is the body of a recovery: with Apply false, which is the default, it only says
// what it would do.
type Recover struct {
	Apply bool `json:"apply"`
}

// ReconcileReport is what a reconciliation of one sale found and did.
type ReconcileReport struct {
	SaleID  sluice.SaleID `json:"sale_id"`
	At      *Time         `json:"at"`      // the ledger's clock; null if it was not asked
	Applied bool          `json:"applied"` // repairs were allowed
	// Skipped says why nothing was compared; empty if it was.
	Skipped     string              `json:"skipped"`
	Remaining   int64               `json:"remaining"` // differences not repaired, those in flight apart
	Differences []sluice.Difference `json:"differences"`
}
