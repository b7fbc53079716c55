package port

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// RateLimiter counts the tries of buyers, and of addresses, over all servers of
// one ledger, so that asking another server does not help. Ledgers implement
// it; implementations are safe for concurrent use.
type RateLimiter interface {
	// Allow counts the tries, in order, by the ledger's clock, and returns as
	// many answers: zero for a try within the rates, which is counted by each of
	// them; for any other how long until the next one may be made. A try that one
	// of the rates denies counts in none of them and writes nothing, so trying on
	// costs no time.
	//
	// Counts are kept for as long as they matter and no longer, and never
	// survive the ledger's data: they only bound request rates, no promise
	// depends on them. The sale need not be loaded.
	//
	// An error means that it is not known which tries were counted. Limits fail
	// closed: a try without an answer must not pass.
	Allow(ctx context.Context, sale sluice.SaleID, rates Rates, tries []Try) ([]Wait, error)
}

// Rates holds the rates that all servers count together; a zero one bounds nothing.
type Rates struct {
	Buyer   sluice.BuyerRate
	Address sluice.AddressRate
}

// Try is one try. Address names what counts as one address.
type Try struct {
	Buyer   sluice.BuyerID
	Address string
}

// Wait is how long a try has to wait, for each rate that denies it.
type Wait struct{ Buyer, Address time.Duration }

// Longest is the wait until a try is within both rates, zero for one that is.
func (w Wait) Longest() time.Duration { return max(w.Buyer, w.Address) }
