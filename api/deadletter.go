package api

import "github.com/sluicehq/sluice"

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

// DeadLetterList is a list of dead letters, oldest first.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
}

// Replayed says what became of the orders of a dead letter.
type Replayed struct {
	Saved []sluice.OrderID `json:"saved"` // stored, or accepted again
	Lost  []sluice.OrderID `json:"lost"`  // could not be saved
}
