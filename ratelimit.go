package sluice

// Meter is the arithmetic of a rate: the generic cell rate algorithm, in whole
// microseconds. All that is kept of a buyer or an address is one number, the
// moment until which what it has tried is paid for; 0 when it has tried nothing.
// The zero Meter bounds nothing.
type Meter struct {
	Interval int64 // what one try costs; rounded up, so that the rate is never exceeded
	Full     int64 // what all tries together may cost ahead: Interval times requests
}

// Meter returns the arithmetic of the rate.
func (r BuyerRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

// Meter returns the arithmetic of the rate.
func (r AddressRate) Meter() Meter { return newMeter(r.Requests, r.PerS) }

func newMeter(requests, perS int64) Meter {
	if requests == 0 {
		return Meter{}
	}
	interval := (perS*1_000_000 + requests - 1) / requests
	return Meter{Interval: interval, Full: interval * requests}
}

// Try makes one try at now. Wait 0: it is within the rate, and paid is what is
// to be kept. Otherwise it is denied, paid is unchanged, and the next one is
// within the rate after wait, if nothing comes between.
//
// No try under this rate is paid for further ahead than Full. If one is, the
// rate was another then, or the clock: it is forgotten, or a buyer might wait
// for a day under a rate of seconds.
func (m Meter) Try(paid, now int64) (after, wait int64) {
	if paid < now || paid > now+m.Full {
		paid = now
	}
	if wait = paid + m.Interval - m.Full - now; wait > 0 {
		return paid, wait
	}
	return paid + m.Interval, 0
}
