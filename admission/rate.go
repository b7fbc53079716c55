package admission

import (
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
)

// rates counts the tries of buyers and of addresses on this server.
type rates struct {
	buyers, addresses *meters.Table
	start             time.Time
}

func newRates(most int, start time.Time) *rates {
	return &rates{buyers: meters.New(most), addresses: meters.New(most), start: start}
}

// attempter is a buyer at a sale.
type attempter struct {
	sale  sluice.SaleID
	buyer sluice.BuyerID
}

// origin is an address at a sale. Of IPv6 it is the /64, since who has one
// address has all of them; of IPv4 the address, since many share one.
type origin struct {
	sale sluice.SaleID
	v6   bool
	bits [8]byte
}

func originOf(sale sluice.SaleID, address netip.Addr) origin {
	o := origin{sale: sale}
	if address = address.Unmap(); address.Is4() {
		four := address.As4()
		copy(o.bits[:], four[:])
		return o
	}
	// An address that nobody could tell is all such together.
	sixteen := address.WithZone("").As16()
	o.v6 = true
	copy(o.bits[:], sixteen[:8])
	return o
}

// check counts a try, and returns how long to wait if it is not within the
// rates. The buyer comes first: whoever tries too often by himself uses up
// nothing of what his neighbours share with him.
func (r *rates) check(rules *sluice.Rules, sale sluice.SaleID, buyer sluice.BuyerID, address netip.Addr, now time.Time) (Check, time.Duration) {
	at := now.Sub(r.start).Microseconds()
	if rate := rules.BuyerRate; rate != (sluice.BuyerRate{}) {
		if wait := r.buyers.Try(rate.Meter(), meters.Key(r.buyers, attempter{sale, buyer}), at); wait > 0 {
			return CheckBuyerRate, time.Duration(wait) * time.Microsecond
		}
	}
	if rate := rules.AddressRate; rate != (sluice.AddressRate{}) {
		if wait := r.addresses.Try(rate.Meter(), meters.Key(r.addresses, originOf(sale, address)), at); wait > 0 {
			return CheckAddressRate, time.Duration(wait) * time.Microsecond
		}
	}
	return checkNone, 0
}

// learn notes that a buyer has used up what all servers allow together: until
// the wait is over they are refused here, without asking again.
func (r *rates) learn(rate sluice.BuyerRate, sale sluice.SaleID, buyer sluice.BuyerID, wait time.Duration, now time.Time) {
	r.buyers.Learn(rate.Meter(), meters.Key(r.buyers, attempter{sale, buyer}), now.Sub(r.start).Microseconds(), wait.Microseconds())
}
