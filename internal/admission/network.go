package admission

import (
	"net/netip"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
)

// Network is what counts as one address: of IPv6 the /64, since who has one
// address has all of them; of IPv4 the address, though many may share it. Providers
// give a home a /56 and a company a /48, so these have limits as well: Times those of
// an address.
type Network struct {
	bits   uint8 // 32: an IPv4 address
	prefix [8]byte
}

// networks is how many of an address have limits, at most.
const networks = 3

// NetworkOf returns an address's network. Unknown addresses are one network
// together.
func NetworkOf(address netip.Addr) (n Network) {
	if address = address.Unmap(); address.Is4() {
		four := address.As4()
		n.bits = 32
		copy(n.prefix[:], four[:])
		return n
	}
	sixteen := address.As16() // of no address: zero
	n.bits = 64
	copy(n.prefix[:], sixteen[:8])
	return n
}

// Wider returns the next wider network that has a limit; false: there is none.
func (n Network) Wider() (Network, bool) {
	if n.bits != 64 && n.bits != 56 {
		return Network{}, false
	}
	n.bits -= 8
	n.prefix[n.bits/8] = 0
	return n, true
}

// Times is how many times the limit of an address the network has.
func (n Network) Times() int {
	switch n.bits {
	case 56:
		return 2
	case 48:
		return 4
	}
	return 1
}

// String returns the network, like 192.0.2.1 or 2001:db8:0:1::/64.
func (n Network) String() string {
	if n.bits == 32 {
		return netip.AddrFrom4([4]byte(n.prefix[:4])).String()
	}
	var sixteen [16]byte
	copy(sixteen[:], n.prefix[:])
	return netip.PrefixFrom(netip.AddrFrom16(sixteen), int(n.bits)).String()
}

// neighbours are a network at a sale.
type neighbours struct {
	sale sluice.SaleID
	from Network
}

// NetworkMeters count the tries of addresses and of the networks that they are in, each kind in a
// table of its own, so that all can be locked in one order.
type NetworkMeters [networks]*meters.Table

// Attempts returns the attempts of an address, by a rate of its own, at a sale: one for each of
// its networks, and zero ones. A try counts in all of them or in none (meters.TryAll).
func (m *NetworkMeters) Attempts(
	rate sluice.AddressRate, sale sluice.SaleID, address netip.Addr,
) (all [networks]meters.Attempt) {
	if rate == (sluice.AddressRate{}) {
		return all
	}
	i := 0
	for n, ok := NetworkOf(address), true; ok; n, ok = n.Wider() {
		wider := rate
		wider.Requests *= int64(n.Times())
		all[i] = meters.AttemptOf(m[i], wider.Meter(), neighbours{sale, n})
		i++
	}
	return all
}
