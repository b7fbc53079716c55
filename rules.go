package sluice

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"
)

// Rules are what the layers before the ledger ask of a sale's buyers. They
// decide who is heard, never who wins, so they are no part of the Terms: they may
// change at any moment, and no audit judges by them. The zero value asks
// nothing, and so does each field by itself.
//
// Rules are comparable. Their JSON is what stores keep and the API shows.
type Rules struct {
	// BuyerRate bounds the tries of one buyer, AddressRate those that come from
	// one address (of IPv6: from one /64).
	BuyerRate   BuyerRate   `json:"buyer_rate,omitzero"`
	AddressRate AddressRate `json:"address_rate,omitzero"`
	// AdmissionRatio bounds the claims that are on their way to a decision, per
	// server: at most the ratio times the units available. 0: no bound.
	AdmissionRatio float64 `json:"admission_ratio,omitzero"`
	// Ticket asks for a purchase ticket, Challenge for a proof of work before
	// it, Risk for the word of the merchant's own service.
	Ticket    Ticket    `json:"ticket,omitzero"`
	Challenge Challenge `json:"challenge,omitzero"`
	Risk      Risk      `json:"risk,omitzero"`
	// Eligibility says who may buy at all; empty: everybody.
	Eligibility Eligibility `json:"eligibility,omitzero"`
}

// BuyerRate is Requests tries per PerS seconds, and as many at once. Shared:
// over all servers together; otherwise each server counts by itself.
type BuyerRate struct {
	Requests int64 `json:"requests"`
	PerS     int64 `json:"per_s"`
	Shared   bool  `json:"shared"`
}

// AddressRate is Requests tries per PerS seconds, and as many at once, counted
// by each server by itself.
type AddressRate struct {
	Requests int64 `json:"requests"`
	PerS     int64 `json:"per_s"`
}

// Ticket: claims carry a purchase ticket, which is handed out from BeforeS
// seconds before the opening on. 0: no ticket is asked for.
type Ticket struct {
	BeforeS int64 `json:"before_s"`
}

// Challenge: who wants a ticket proves work first, of Difficulty leading zero
// bits. 0: no proof is asked for.
type Challenge struct {
	Difficulty int64 `json:"difficulty"`
}

// Risk: the merchant's own service at URL is asked before a ticket is handed
// out, for TimeoutMS milliseconds at most; OnFailure says what happens to the
// buyer when it does not answer. An empty URL: nobody is asked.
type Risk struct {
	URL       string    `json:"url"`
	TimeoutMS int64     `json:"timeout_ms"`
	OnFailure OnFailure `json:"on_failure"`
}

// OnFailure is what happens to a buyer whom nobody has judged.
type OnFailure string

// The two policies. Deny is the default.
const (
	Allow OnFailure = "allow"
	Deny  OnFailure = "deny"
)

// DefaultRiskTimeout is how long a risk service is waited for, unless given.
const DefaultRiskTimeout = time.Second

// Eligibility says how a buyer shows that the sale is for them.
type Eligibility string

// The ways to be eligible.
const (
	// EligibleAll: everybody is.
	EligibleAll Eligibility = ""
	// EligibleToken: the buyer's token says so.
	EligibleToken Eligibility = "token"
	// EligibleList: the buyer is on the list that the merchant uploaded.
	EligibleList Eligibility = "list"
)

// Bounds of the rules.
const (
	MaxRateRequests   = 1_000_000
	MaxRatePerS       = 86_400 // a day
	MaxAdmissionRatio = 1_000_000
	MaxTicketBeforeS  = 7 * 86_400 // a week
	MaxDifficulty     = 30         // bits; each doubles the work
	MaxRiskURL        = 512        // bytes
	MaxRiskTimeoutMS  = 10_000
)

// Validate says which rule is wrong, and what would be right.
func (r *Rules) Validate() error {
	if r.BuyerRate != (BuyerRate{}) {
		if err := validateRate("buyer_rate", r.BuyerRate.Requests, r.BuyerRate.PerS); err != nil {
			return err
		}
	}
	if r.AddressRate != (AddressRate{}) {
		if err := validateRate("address_rate", r.AddressRate.Requests, r.AddressRate.PerS); err != nil {
			return err
		}
	}
	// Not a NaN either.
	if ratio := r.AdmissionRatio; ratio != 0 && !(ratio >= 0.001 && ratio <= MaxAdmissionRatio) || math.Signbit(ratio) {
		return fmt.Errorf("admission_ratio %v: want 0.001 to %d, or null for no bound", ratio, MaxAdmissionRatio)
	}
	if n := r.Ticket.BeforeS; n < 0 || n > MaxTicketBeforeS {
		return fmt.Errorf("ticket: before_s %d: want 1 to %d (a week)", n, MaxTicketBeforeS)
	}
	if n := r.Challenge.Difficulty; n < 0 || n > MaxDifficulty {
		return fmt.Errorf("challenge: difficulty %d: want 1 to %d bits", n, MaxDifficulty)
	}
	if r.Risk != (Risk{}) {
		if err := r.Risk.validate(); err != nil {
			return fmt.Errorf("risk: %w", err)
		}
	}
	switch r.Eligibility {
	case EligibleAll, EligibleToken, EligibleList:
	default:
		return fmt.Errorf("eligibility %q: want token or list, or null for everybody", shorten(string(r.Eligibility)))
	}
	// A challenge or a risk service that guards nothing would be a surprise.
	if r.Ticket == (Ticket{}) {
		switch {
		case r.Challenge != (Challenge{}):
			return errors.New("challenge: it is asked for before the ticket; want a ticket too")
		case r.Risk != (Risk{}):
			return errors.New("risk: the service is asked before the ticket; want a ticket too")
		}
	}
	return nil
}

func validateRate(field string, requests, perS int64) error {
	if requests < 1 || requests > MaxRateRequests {
		return fmt.Errorf("%s: requests %d: want 1 to %d", field, requests, MaxRateRequests)
	}
	if perS < 1 || perS > MaxRatePerS {
		return fmt.Errorf("%s: per_s %d: want 1 to %d seconds (a day)", field, perS, MaxRatePerS)
	}
	return nil
}

func (r *Risk) validate() error {
	u, err := url.Parse(r.URL)
	switch {
	case len(r.URL) > MaxRiskURL:
		return fmt.Errorf("url of %d bytes: want at most %d", len(r.URL), MaxRiskURL)
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url %q: want an address like https://risk.shop.example/check", shorten(r.URL))
	case u.User != nil:
		return errors.New("url: want no user name or password in it; it is shown to whoever may see the sale")
	case r.TimeoutMS < 1 || r.TimeoutMS > MaxRiskTimeoutMS:
		return fmt.Errorf("timeout_ms %d: want 1 to %d", r.TimeoutMS, MaxRiskTimeoutMS)
	case r.OnFailure != Allow && r.OnFailure != Deny:
		return fmt.Errorf("on_failure %q: want allow or deny", shorten(string(r.OnFailure)))
	}
	return nil
}
