package sluice

import (
	"context"
	"time"
)

// Permitter counts the permits of all servers of one ledger. A permit is the
// permission to send one claim to the ledger under a shared admission ratio. It
// ends with the decision, whatever that is. Ledgers implement it;
// implementations are safe for concurrent use.
type Permitter interface {
	// Permits leases permits of a sale to this server, and returns how many: as
	// many as it wants, and no more than are left. Over all servers those in use
	// are then at most the ratio times the units available, and at least one; the
	// same when nothing can be accepted because of a cooldown. A sale without a
	// total has any number.
	//
	// Each call says how many are in use, which replaces what was known of this
	// server: so a lost answer leases nothing for longer than until the next
	// call. A server makes one call of a sale at a time.
	//
	// Permits are void PermitLease after the call, by the ledger's clock, unless a
	// later call has named them as in use. A load of the sale voids all. They
	// only bound traffic and need not survive the ledger's data: no promise
	// depends on them.
	//
	// ErrNotLoaded if the ledger does not hold the sale, or holds it fenced. An
	// error means that no permit was leased that may be used.
	Permits(ctx context.Context, sale SaleID, ask PermitAsk) (int64, error)
}

// PermitAsk is what a server says and wants when it leases permits.
type PermitAsk struct {
	Ratio float64 // of permits in use to units available
	Used  int64   // permits of this server whose claims are not decided yet
	Want  int64   // more
}

// PermitLease is how long a server may use the permits of one call, from
// before it made the call. So it stops before the ledger gives them to others.
const PermitLease = 3 * time.Second

// maxPermits bounds the permits of a sale, so that sums stay exact in every
// ledger. No server has as many claims in flight.
const maxPermits = 1_000_000_000

// PermitsOf returns how many permits of a sale may be in use.
func PermitsOf(ratio float64, available int64) int64 {
	return max(int64(min(ratio*float64(available), maxPermits)), 1)
}
