package api

import (
	"cmp"
	"errors"

	"github.com/sluicehq/sluice"
)

// Admission bounds the claims that are on their way to a decision to Ratio times
// the units available: on each server, or over all servers together.
type Admission struct {
	Ratio  float64 `json:"ratio"`
	Shared bool    `json:"shared"`
}

// Rules are a sale's rules as its merchant sees them; null where nothing is
// asked of buyers. AdmissionRatio is the ratio of an Admission that is not shared:
// an older name, which programs may keep using.
type Rules struct {
	BuyerRate      *sluice.BuyerRate   `json:"buyer_rate"`
	AddressRate    *sluice.AddressRate `json:"address_rate"`
	Admission      *Admission          `json:"admission"`
	AdmissionRatio *float64            `json:"admission_ratio"`
	Ticket         *sluice.Ticket      `json:"ticket"`
	Challenge      *sluice.Challenge   `json:"challenge"`
	Risk           *sluice.Risk        `json:"risk"`
	Eligibility    *sluice.Eligibility `json:"eligibility"`
}

// PatchRules are the rules in a message that creates or changes a sale: absent
// ones stay as they are, null takes one away.
type PatchRules struct {
	BuyerRate      Nullable[sluice.BuyerRate]   `json:"buyer_rate,omitzero"`
	AddressRate    Nullable[sluice.AddressRate] `json:"address_rate,omitzero"`
	Admission      Nullable[Admission]          `json:"admission,omitzero"`
	AdmissionRatio Nullable[float64]            `json:"admission_ratio,omitzero"`
	Ticket         Nullable[sluice.Ticket]      `json:"ticket,omitzero"`
	Challenge      Nullable[sluice.Challenge]   `json:"challenge,omitzero"`
	Risk           Nullable[sluice.Risk]        `json:"risk,omitzero"`
	Eligibility    Nullable[sluice.Eligibility] `json:"eligibility,omitzero"`
}

// apply edits the rules. What it leaves wrong, Rules.Validate says: except for
// values that mean "off" inside the program and are no way to say so.
func (p *PatchRules) apply(r *sluice.Rules) error {
	if p.Risk.Set && !p.Risk.Null { // what may be left out of it
		p.Risk.Value = p.Risk.Value.WithDefaults()
	}
	return cmp.Or(
		setRule(&r.BuyerRate, p.BuyerRate, "buyer_rate: want requests and per_s, or null for no limit"),
		setRule(&r.AddressRate, p.AddressRate, "address_rate: want requests and per_s, or null for no limit"),
		p.applyAdmission(r),
		setRule(&r.Ticket, p.Ticket, "ticket: want before_s, 1 second or more, or null for none"),
		setRule(&r.Challenge, p.Challenge, "challenge: want a difficulty of 1 bit or more, or null for none"),
		setRule(&r.Risk, p.Risk, "risk: want a url, or null for none"),
		setRule(&r.Eligibility, p.Eligibility, "eligibility: want token or list, or null for everybody"),
	)
}

// TrafficOnly reports whether the message changes nothing but how much traffic a
// sale lets through: rates and admission.
func (p *PatchSale) TrafficOnly() bool {
	rest := *p
	rest.BuyerRate, rest.AddressRate = Nullable[sluice.BuyerRate]{}, Nullable[sluice.AddressRate]{}
	rest.Admission, rest.AdmissionRatio = Nullable[Admission]{}, Nullable[float64]{}
	return rest == PatchSale{}
}

// applyAdmission edits the admission. A ratio under the older name is that of each
// server; null takes such a one away, and leaves one that is shared.
func (p *PatchRules) applyAdmission(r *sluice.Rules) error {
	of, old := Admission{r.AdmissionRatio, r.AdmissionShared}, p.AdmissionRatio
	var err error
	if old.Set && (!old.Null || !of.Shared) {
		of = Admission{}
		err = setRule(&of.Ratio, old, "admission_ratio: want a number above 0, or null for no bound")
	}
	err = cmp.Or(err, setRule(&of, p.Admission, "admission: want a ratio above 0, or null for no bound"))
	if err == nil && p.Admission.Set && old.Set && !old.Null && of != (Admission{Ratio: old.Value}) {
		err = errors.New("admission, admission_ratio: want one of them, since the second is the older name of the first")
	}
	r.AdmissionRatio, r.AdmissionShared = of.Ratio, of.Shared
	return err
}

func setRule[T comparable](dst *T, n Nullable[T], zero string) error {
	switch {
	case !n.Set:
	case !n.Null && n.Value == *new(T):
		return errors.New(zero)
	default:
		*dst = n.Value // null: the zero value, off
	}
	return nil
}
