package admission

import (
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// Check is a step of the gate that refuses claims.
type Check uint8

// The checks, in order: cheapest first, and what is known for sure first of
// all. docs/gate.md tells what each costs.
const (
	checkNone Check = iota
	// CheckSale: no such sale.
	CheckSale
	// CheckState: fenced, or by window, pause, or sold out.
	CheckState
	// CheckRepeat: the claim would be refused unless it repeats an accepted one,
	// and the buyer has had that asked too often on this server.
	CheckRepeat
	// CheckSlots: the server has as many claims on their way as it may.
	CheckSlots
	// CheckBuyerRate and CheckAddressRate: they try too often on this server.
	CheckBuyerRate
	CheckAddressRate
	// CheckEntry: not let in, see Eligibility.
	CheckEligibility
	// CheckRatio: the sale has as many claims on their way as its units allow.
	CheckRatio
	// CheckQueue: as many claims wait for the ledger as may.
	CheckQueue
	// CheckSharedRate: the buyer tries too often, over all servers.
	CheckSharedRate

	numChecks
)

var checkNames = [numChecks]string{
	CheckSale: "sale", CheckState: "state", CheckRepeat: "repeat", CheckSlots: "places", CheckBuyerRate: "buyer_rate",
	CheckAddressRate: "address_rate", CheckEligibility: "entry", CheckRatio: "ratio", CheckQueue: "queue", CheckSharedRate: "shared_rate",
}

// String returns the check's name in metrics, for instance "buyer_rate".
func (c Check) String() string { return checkNames[c] }

// Checks lists the checks, in order.
func Checks() []Check {
	all := make([]Check, 0, numChecks-1)
	for c := checkNone + 1; c < numChecks; c++ {
		all = append(all, c)
	}
	return all
}

// tally counts refusals by check.
type tally [numChecks]struct {
	n atomic.Int64
	_ [56]byte // a cache line each
}

// refused counts a refusal, and passes it on.
func (t *tally) refused(by Check, decision sluice.Decision) (sluice.Decision, error) {
	t[by].n.Add(1)
	return decision, nil
}

// Refused returns how many claims each check has refused on this server, by
// its name. What the ledger has refused is not among them.
func (g *Gate) Refused() map[string]int64 {
	all := make(map[string]int64, numChecks-1)
	for _, c := range Checks() {
		all[c.String()] = g.tally[c].n.Load()
	}
	return all
}
