package admission

import "github.com/sluicehq/sluice"

// admissible is how many claims of the sale may be on their way at a time, for
// this buyer: the sale's ratio times the units available by the last reading,
// so returned units let more in with the next one; sluice.Unlimited without a
// ratio or a total.
//
// It is never less than one: what this server knows may be out of date, and
// somebody has to find out. Known holders are not held up: they may be
// repeating, and there are no more of them than units (I4).
func admissible(view *View, buyer sluice.BuyerID) int64 {
	ratio, available := view.Sale.Rules.AdmissionRatio, view.Available()
	if ratio == 0 || available == sluice.Unlimited || view.holders.has(buyer) {
		return sluice.Unlimited
	}
	return max(int64(ratio*float64(available)), 1)
}
