package admission

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
	"github.com/sluicehq/sluice/internal/port"
)

// rates counts the tries of buyers and of addresses on this server.
type rates struct {
	buyers    *meters.Table
	addresses NetworkMeters
	start     time.Time

	// accepted are hashes of claims that were accepted here not long ago, each in the
	// cell that it names itself; a later one of the same cell replaces it.
	accepted hashCells
}

func newRates(most int, start time.Time) *rates {
	return &rates{
		buyers: meters.New(most), start: start,
		addresses: NetworkMeters{meters.New(most), meters.New(most), meters.New(most)},
		accepted:  newHashCells(),
	}
}

// hashCells returns the cell of a hash. There are 131,072, from the first use on: an idle server
// has none in its memory.
type hashCells func(hash uint64) *atomic.Uint64

func newHashCells() hashCells {
	all := sync.OnceValue(func() *[1 << 17]atomic.Uint64 { return new([1 << 17]atomic.Uint64) })
	return func(hash uint64) *atomic.Uint64 { return &all()[hash%(1<<17)] }
}

// attempter is a buyer at a sale.
type attempter struct {
	sale  sluice.SaleID
	buyer sluice.BuyerID
}

// check counts a try, and returns how long to wait if it is not within the
// rates: until it is within both. Then it counts in neither, so a
// buyer over their own limit does not consume the shared allowance of the
// address, nor the other way round.
func (r *rates) check(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID, address netip.Addr,
	now time.Time,
) (check, time.Duration) {
	at := r.addresses.Attempts(rules.AddressRate, sale, address)
	waits := meters.TryAll(now.Sub(r.start).Microseconds(), r.buyer(rules, sale, buyer), at[0], at[1], at[2])
	buyers, addresses := waits[0], max(waits[1], waits[2], waits[3])
	switch {
	case buyers == 0 && addresses == 0:
		return checkNone, 0
	case buyers >= addresses:
		return checkBuyerRate, time.Duration(buyers) * time.Microsecond
	}
	return checkAddressRate, time.Duration(addresses) * time.Microsecond
}

func (r *rates) buyer(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID) meters.Attempt {
	return meters.AttemptOf(r.buyers, rules.BuyerRate.Meter(), attempter{sale, buyer})
}

// repeatRate is how often one buyer may have the ledger asked, on each server,
// for nothing but whether a claim that would be refused repeats an accepted
// one: often enough for a client that retries, and too seldom for a holder's
// flood to reach the ledger. Claims that this server knows as accepted have
// knownRate, apart from it: the buyer's other attempts do not hold them up.
var (
	repeatRate = sluice.BuyerRate{Requests: 10, PerS: 10}
	knownRate  = sluice.BuyerRate{Requests: 100, PerS: 100}
)

// repeat counts a claim that asks the ledger under one of these rates, and returns
// how long to wait if it is not within it.
func (r *rates) repeat(sale sluice.SaleID, claim *sluice.Claim, now time.Time) time.Duration {
	rate, key := repeatRate, meters.Key(r.buyers, attempter{sale + "/repeat", claim.Buyer}) // no sale is called so
	if r.knows(sale, claim) {
		rate, key = knownRate, meters.Key(r.buyers, attempter{sale + "/known", claim.Buyer})
	}
	return time.Duration(r.buyers.Try(rate.Meter(), key, now.Sub(r.start).Microseconds())) * time.Microsecond
}

// knows reports whether this server remembers the claim as accepted.
func (r *rates) knows(sale sluice.SaleID, claim *sluice.Claim) bool {
	id := r.hash(sale, claim)
	return r.accepted(id).Load() == id
}

// remember notes a claim that was accepted, the first time or again.
func (r *rates) remember(sale sluice.SaleID, claim *sluice.Claim) {
	id := r.hash(sale, claim)
	r.accepted(id).Store(id)
}

func (r *rates) hash(sale sluice.SaleID, claim *sluice.Claim) uint64 {
	return meters.Key(r.buyers, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
}

// denied takes back what a try has paid here that the rates over all servers then
// denied. Buyers who have used up what all servers allow together are refused here,
// without asking again, until the wait is over.
func (r *rates) denied(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID, address netip.Addr,
	wait port.Wait, now time.Time,
) {
	at := now.Sub(r.start).Microseconds()
	r.buyer(rules, sale, buyer).Denied(at, wait.Buyer.Microseconds())
	for i, attempt := range r.addresses.Attempts(rules.AddressRate, sale, address) {
		if i > 0 {
			wait.Address = 0 // the ledger counts addresses; the networks that they are in each server counts
		}
		attempt.Denied(at, wait.Address.Microseconds())
	}
}

// sharedRates are the rates over all servers, zero where there is none.
func sharedRates(rules *sluice.Rules) (rates port.Rates) {
	if rules.BuyerRate.Shared {
		rates.Buyer = rules.BuyerRate
	}
	if rules.AddressRate.Shared {
		rates.Address = rules.AddressRate
	}
	return rates
}
