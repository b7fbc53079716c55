package admission

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
)

// rates counts the tries of buyers and of addresses on this server.
type rates struct {
	buyers, addresses *meters.Table
	start             time.Time

	// accepted are hashes of claims that were accepted here not long ago, each in the
	// place that it names itself; a later one of the same place replaces it.
	accepted [1 << 17]atomic.Uint64
}

func newRates(most int, start time.Time) *rates {
	return &rates{buyers: meters.New(most), addresses: meters.New(most), start: start}
}

// attempter is a buyer at a sale.
type attempter struct {
	sale  sluice.SaleID
	buyer sluice.BuyerID
}

// neighbours are an address at a sale.
type neighbours struct {
	sale sluice.SaleID
	from Origin
}

// Origin is what counts as one address: of IPv6 the /64, since who has one
// address has all of them; of IPv4 the address, though many may share it.
type Origin struct {
	v6   bool
	bits [8]byte
}

// OriginOf returns an address's origin. Unknown addresses are one origin
// together.
func OriginOf(address netip.Addr) (o Origin) {
	if address = address.Unmap(); address.Is4() {
		four := address.As4()
		copy(o.bits[:], four[:])
		return o
	}
	sixteen := address.As16() // of no address: zero
	o.v6 = true
	copy(o.bits[:], sixteen[:8])
	return o
}

// Wider returns the network of so many bits, a multiple of 8, that an IPv6 origin
// is in: providers give a home a /56 and a company a /48. False: it is an IPv4
// address.
func (o Origin) Wider(bits int) (Origin, bool) {
	for i := bits / 8; i < len(o.bits); i++ {
		o.bits[i] = 0
	}
	return o, o.v6
}

// check counts a try, and returns how long to wait if it is not within the
// rates: until it is within both. Then it counts in neither, so a
// buyer over their own limit does not consume the shared allowance of the
// address, nor the other way round.
func (r *rates) check(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID, address netip.Addr,
	now time.Time,
) (Check, time.Duration) {
	at := now.Sub(r.start).Microseconds()
	byBuyer, byAddress := rules.BuyerRate != (sluice.BuyerRate{}), rules.AddressRate != (sluice.AddressRate{})
	var buyers, addresses int64
	switch {
	case byBuyer && byAddress:
		buyers, addresses = meters.TryBoth(r.buyer(rules, sale, buyer), r.address(rules, sale, address), at)
	case byBuyer:
		a := r.buyer(rules, sale, buyer)
		buyers = a.Table.Try(a.Meter, a.Key, at)
	case byAddress:
		a := r.address(rules, sale, address)
		addresses = a.Table.Try(a.Meter, a.Key, at)
	}
	switch {
	case buyers == 0 && addresses == 0:
		return checkNone, 0
	case buyers >= addresses:
		return CheckBuyerRate, time.Duration(buyers) * time.Microsecond
	}
	return CheckAddressRate, time.Duration(addresses) * time.Microsecond
}

func (r *rates) buyer(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID) meters.Attempt {
	return meters.Attempt{
		Table: r.buyers, Meter: rules.BuyerRate.Meter(),
		Key: meters.Key(r.buyers, attempter{sale, buyer}),
	}
}

func (r *rates) address(rules *sluice.Rules, sale sluice.SaleID, address netip.Addr) meters.Attempt {
	return meters.Attempt{
		Table: r.addresses, Meter: rules.AddressRate.Meter(),
		Key: meters.Key(r.addresses, neighbours{sale, OriginOf(address)}),
	}
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
	rate, name := repeatRate, sale+"/repeat" // no sale is called so
	if id := r.hash(sale, claim); r.accepted[id%uint64(len(r.accepted))].Load() == id {
		rate, name = knownRate, sale+"/known"
	}
	key := meters.Key(r.buyers, attempter{name, claim.Buyer})
	return time.Duration(r.buyers.Try(rate.Meter(), key, now.Sub(r.start).Microseconds())) * time.Microsecond
}

// remember notes a claim that was accepted, the first time or again.
func (r *rates) remember(sale sluice.SaleID, claim *sluice.Claim) {
	id := r.hash(sale, claim)
	r.accepted[id%uint64(len(r.accepted))].Store(id)
}

func (r *rates) hash(sale sluice.SaleID, claim *sluice.Claim) uint64 {
	return meters.Key(r.buyers, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
}

// denied takes back what the address has paid for a try that the rate over all
// servers then denied, and learns from the denial.
func (r *rates) denied(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID, address netip.Addr,
	wait time.Duration, now time.Time,
) {
	r.learn(rules.BuyerRate, sale, buyer, wait, now)
	if rules.AddressRate != (sluice.AddressRate{}) {
		a := r.address(rules, sale, address)
		a.Table.Undo(a.Meter, a.Key)
	}
}

// learn notes that a buyer has used up what all servers allow together: until
// the wait is over they are refused here, without asking again.
func (r *rates) learn(rate sluice.BuyerRate, sale sluice.SaleID, buyer sluice.BuyerID, wait time.Duration,
	now time.Time,
) {
	r.buyers.Learn(rate.Meter(), meters.Key(r.buyers, attempter{sale, buyer}), now.Sub(r.start).Microseconds(),
		wait.Microseconds())
}

// sharedRate is the rate over all servers, zero if there is none.
func sharedRate(rules *sluice.Rules) sluice.BuyerRate {
	if rules.BuyerRate.Shared {
		return rules.BuyerRate
	}
	return sluice.BuyerRate{}
}
