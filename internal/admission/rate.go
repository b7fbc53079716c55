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
	buyers, addresses *meters.Table
	start             time.Time

	// accepted are hashes of claims that were accepted here not long ago, each in the
	// cell that it names itself; a later one of the same cell replaces it.
	accepted hashCells
}

func newRates(most int, start time.Time) *rates {
	return &rates{
		buyers: meters.New(most), addresses: meters.New(most), start: start,
		accepted: newHashCells(),
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

// neighbours are an address at a sale.
type neighbours struct {
	sale sluice.SaleID
	from Network
}

// Network is what counts as one address: of IPv6 the /64, since who has one
// address has all of them; of IPv4 the address, though many may share it.
type Network struct {
	v6   bool
	bits [8]byte
}

// NetworkOf returns an address's origin. Unknown addresses are one origin
// together.
func NetworkOf(address netip.Addr) (o Network) {
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

// String returns the network of the origin, like 192.0.2.1 or 2001:db8:0:1::/64.
func (o Network) String() string {
	if !o.v6 {
		return netip.AddrFrom4([4]byte(o.bits[:4])).String()
	}
	var sixteen [16]byte
	copy(sixteen[:], o.bits[:])
	return netip.PrefixFrom(netip.AddrFrom16(sixteen), 64).String()
}

// Wider returns the network of so many bits, a multiple of 8, that an IPv6 origin
// is in: providers give a home a /56 and a company a /48. False: it is an IPv4
// address.
func (o Network) Wider(bits int) (Network, bool) {
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
) (check, time.Duration) {
	buyers, addresses := meters.TryBoth(r.buyer(rules, sale, buyer), r.address(rules, sale, address),
		now.Sub(r.start).Microseconds())
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

func (r *rates) address(rules *sluice.Rules, sale sluice.SaleID, address netip.Addr) meters.Attempt {
	return meters.AttemptOf(r.addresses, rules.AddressRate.Meter(), neighbours{sale, NetworkOf(address)})
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
	r.address(rules, sale, address).Denied(at, wait.Address.Microseconds())
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
