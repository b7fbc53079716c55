package api

import (
	"cmp"
	"errors"

	"github.com/sluicehq/sluice"
)

// Rules are a sale's rules as its merchant sees them; null where nothing is
// asked of buyers.
type Rules struct {
	BuyerRate      *sluice.BuyerRate   `json:"buyer_rate"`
	AddressRate    *sluice.AddressRate `json:"address_rate"`
	AdmissionRatio *float64            `json:"admission_ratio"`
	Ticket         *sluice.Ticket      `json:"ticket"`
	Challenge      *sluice.Challenge   `json:"challenge"`
	Risk           *sluice.Risk        `json:"risk"`
	Eligibility    *sluice.Eligibility `json:"eligibility"`
}

// NewRules returns the rules as they stand on the wire.
func NewRules(r *sluice.Rules) Rules {
	return Rules{
		BuyerRate: unlessZero(r.BuyerRate), AddressRate: unlessZero(r.AddressRate),
		AdmissionRatio: unlessZero(r.AdmissionRatio),
		Ticket:         unlessZero(r.Ticket), Challenge: unlessZero(r.Challenge), Risk: unlessZero(r.Risk),
		Eligibility: unlessZero(r.Eligibility),
	}
}

func unlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// PatchRules are the rules in a message that creates or changes a sale: absent
// ones stay as they are, null takes one away.
type PatchRules struct {
	BuyerRate      Nullable[sluice.BuyerRate]   `json:"buyer_rate,omitzero"`
	AddressRate    Nullable[sluice.AddressRate] `json:"address_rate,omitzero"`
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
		p.Risk.Value.TimeoutMS = cmp.Or(p.Risk.Value.TimeoutMS, sluice.DefaultRiskTimeout.Milliseconds())
		p.Risk.Value.OnFailure = cmp.Or(p.Risk.Value.OnFailure, sluice.Deny)
	}
	return cmp.Or(
		setRule(&r.BuyerRate, p.BuyerRate, "buyer_rate: want requests and per_s, or null for no limit"),
		setRule(&r.AddressRate, p.AddressRate, "address_rate: want requests and per_s, or null for no limit"),
		setRule(&r.AdmissionRatio, p.AdmissionRatio, "admission_ratio: want a number above 0, or null for no bound"),
		setRule(&r.Ticket, p.Ticket, "ticket: want before_s, 1 second or more, or null for none"),
		setRule(&r.Challenge, p.Challenge, "challenge: want a difficulty of 1 bit or more, or null for none"),
		setRule(&r.Risk, p.Risk, "risk: want a url, or null for none"),
		setRule(&r.Eligibility, p.Eligibility, "eligibility: want token or list, or null for everybody"),
	)
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
