package sluice

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Money is an amount in the currency's minor unit (cents, fen).
type Money struct {
	Amount   int64  `json:"amount" wire:"required"`   // a forgotten one would be a gift
	Currency string `json:"currency" wire:"required"` // ISO 4217, three upper-case letters
}

// Sale is one item, sold at a price, in a quantity, during a window. It is the
// store's row; the ledger holds its Terms.
type Sale struct {
	ID        SaleID
	SKU       string
	Title     string
	Price     Money
	ListPrice Money // the former price; zero when there is none
	// Free: there is nothing to pay, so its orders are paid when they are stored. The price is 0 then.
	Free bool

	Showcase `json:"-"` // how buyers see it; too much for each event of the sale

	Terms

	PaymentWindow time.Duration // from stored to expired
	PaymentGrace  time.Duration // how much longer the units are kept

	Rules Rules // what the layers before the ledger ask of buyers

	// Epoch counts the loads of the sale into a ledger; 0 before the first.
	// LoadedEpoch follows it once the load is complete.
	Epoch       int64
	LoadedEpoch int64
	// Fence says why claims are refused as unavailable until the sale is
	// rebuilt; empty when they are not.
	Fence string
	// Ledger names the ledger that decides about the sale, since its last load. Any other
	// one answers Unavailable. Empty before the first load.
	Ledger string
	// Taken is the store's own count of units of stored live orders. It never
	// exceeds Cap (I1 for the second time), nor the ledger's count unless
	// the ledger lost data.
	Taken int64
	// Cap is what the store itself lets be taken (I1): Total, or more while a
	// lowered total has not reached the ledger, since claims accepted before
	// may still be on their way. Unlimited without a total.
	Cap int64

	CreatedAt  time.Time
	UpdatedAt  time.Time
	ArchivedAt time.Time // zero unless archived: the ledger has forgotten the sale

	// Remains is what is kept of orders that are deleted (docs/personal-data.md); nil
	// unless some are.
	Remains *Remains `json:"-"`
}

// DecidedBy reports whether the ledger of this name may decide about the sale. Where
// either name is not known, only the epoch distinguishes them.
func (s *Sale) DecidedBy(ledger string) bool {
	return s.Ledger == "" || ledger == "" || s.Ledger == ledger
}

// MaxPaymentWindow bounds how long an order may wait for its payment, extended too.
const MaxPaymentWindow = 30 * 24 * time.Hour

// NewSale returns a sale of so many units, of which one buyer may hold so many (or
// Unlimited), with the defaults of what an API request or a command does not say; what
// identifies and describes it, and its window, are missing.
func NewSale(total, maxPerBuyer int64) Sale {
	s := Sale{
		PaymentWindow: 15 * time.Minute, PaymentGrace: 30 * time.Second,
		Terms: Terms{Version: 1, Total: total, MaxPerBuyer: maxPerBuyer, MaxUnpaid: 2},
	}
	s.MaxOrders = s.DefaultMaxOrders()
	return s
}

// TotalCanBe returns nil if the total can be changed to this now. A lower total
// is the ledger's to decide (I1), so the sale must be loaded and not fenced, else
// ErrTotalUndecided. While one waits for the ledger (Cap is above Total) the total
// stays, so that the lowering can be taken back alone: ErrLoweringWaits. A sale
// that no ledger ever held has nothing to be decided.
func (s *Sale) TotalCanBe(total int64) error {
	switch {
	case total == s.Total || s.Epoch == 0:
		return nil
	case s.Cap != s.Total:
		return ErrLoweringWaits
	case s.Terms.Lowers(total) && (s.LoadedEpoch != s.Epoch || s.Fence != ""):
		return ErrTotalUndecided
	}
	return nil
}

// Validate says what is wrong with a sale before it is created or changed, and
// what would be right.
func (s *Sale) Validate() error {
	if err := s.ID.Validate(); err != nil {
		return err
	}
	// The title first: where no sku is given, it is the title.
	for _, text := range []struct{ name, value string }{{"title", s.Title}, {"sku", s.SKU}} {
		if n := len(text.value); n == 0 || n > 256 || !utf8.ValidString(text.value) {
			return fmt.Errorf("%s: want 1 to 256 bytes of UTF-8", text.name)
		}
		if strings.IndexFunc(text.value, unicode.IsControl) >= 0 {
			return fmt.Errorf("%s: want no control characters", text.name)
		}
		if !strings.ContainsFunc(text.value, visible) || strings.ContainsFunc(text.value, turns) {
			return fmt.Errorf("%s: want characters that can be seen, and none that change the direction of others", text.name)
		}
	}
	if err := s.Price.validate("price"); err != nil {
		return err
	}
	if s.Free && s.Price.Amount != 0 {
		return fmt.Errorf("free: want a price of 0 with it, have %s", s.Price)
	}
	if s.ListPrice != (Money{}) {
		if err := s.ListPrice.validate("list_price"); err != nil {
			return err
		}
		if s.ListPrice.Currency != s.Price.Currency {
			return fmt.Errorf("list_price: currency %s differs from the price's %s", s.ListPrice.Currency, s.Price.Currency)
		}
	}
	if err := s.Terms.validate(); err != nil {
		return err
	}
	if s.PaymentWindow < time.Second || s.PaymentWindow > MaxPaymentWindow {
		return errors.New("payment_window_s: want 1 to 2592000 (30 days)")
	}
	if s.PaymentGrace < 0 || s.PaymentGrace > 24*time.Hour {
		return errors.New("payment_grace_s: want 0 to 86400 (a day)")
	}
	if err := s.Showcase.validate(); err != nil {
		return err
	}
	return s.Rules.Validate()
}

// maxPrice leaves room for the amount of the largest order in an int64.
const maxPrice = math.MaxInt64 / MaxQuantity

func (m Money) validate(field string) error {
	if m.Amount < 0 || m.Amount > maxPrice {
		return fmt.Errorf("%s: amount %d: want 0 to %d, in minor units", field, m.Amount, int64(maxPrice))
	}
	if code := strings.ToUpper(m.Currency); code != m.Currency && currency(code) {
		return fmt.Errorf("%s: currency %q: did you mean %s?", field, m.Currency, code)
	}
	if !currency(m.Currency) {
		return fmt.Errorf("%s: currency %q: want three upper-case letters, like CNY", field, shorten(m.Currency))
	}
	return nil
}

// currency reports whether a text has the form of a code of ISO 4217.
func currency(code string) bool {
	return len(code) == 3 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// State is the state of a sale that readers see.
type State string

// The states of a sale.
const (
	StateUpcoming    State = "upcoming"
	StateOpen        State = "open"
	StatePaused      State = "paused"
	StateSoldOut     State = "sold_out"
	StateClosed      State = "closed"
	StateUnavailable State = "unavailable"
)

// Rules are what the layers before the ledger ask of a sale's buyers. They
// decide who is heard, never who wins, so they are no part of the Terms: they may
// change at any moment, and no audit judges by them. The zero value asks
// nothing, and so does each field by itself.
//
// Rules are comparable. Their JSON is what stores keep.
type Rules struct {
	// BuyerRate bounds the tries of one buyer, AddressRate those that come from
	// one address (of IPv6: from one /64; from a /56 twice, a /48 four times as many).
	BuyerRate   BuyerRate   `json:"buyer_rate,omitzero"`
	AddressRate AddressRate `json:"address_rate,omitzero"`
	// AdmissionRatio bounds the claims in flight: over all servers, at most the ratio
	// times the units available. Each server admits its share, one of the live
	// servers', and at least one claim. 0: no bound.
	AdmissionRatio float64 `json:"admission_ratio,omitzero"`
	// Ticket asks for a purchase ticket, Challenge for a proof of work before
	// it, Risk for the word of the merchant's own service.
	Ticket    Ticket    `json:"ticket,omitzero"`
	Challenge Challenge `json:"challenge,omitzero"`
	Risk      Risk      `json:"risk,omitzero"`
	// Eligibility says who may buy at all; empty: everybody.
	Eligibility Eligibility `json:"eligibility,omitzero"`
	// Visibility says who finds the sale, Availability what they read of its units.
	Visibility   Visibility   `json:"visibility,omitzero"`
	Availability Availability `json:"availability,omitzero"`
	// Limits bound what buyers have together. They alone decide who wins: the ledger counts,
	// the audit judges, and they stay as they were when the sale was created. So does
	// LimitSalt, which Create gives it.
	Limits    Limits `json:"limits,omitzero"`
	LimitSalt string `json:"limit_salt,omitzero"`
}

// Visibility says which buyers find a sale. The merchant always does.
type Visibility string

// The ways to be found. The zero Visibility is Listed.
const (
	Listed   Visibility = ""
	Unlisted Visibility = "unlisted" // by its id alone, in no list
	Hidden   Visibility = "hidden"   // not at all: to buyers it does not exist
)

// Availability says what the public reads of a sale's units. The merchant reads
// all of it.
type Availability string

// What can be read. The zero Availability is Exact.
const (
	Exact Availability = ""
	// Some: whether there are units, and no number of them.
	Some Availability = "some"
	// None: nothing. A buyer learns from their own claim that the sale is sold out.
	None Availability = "none"
)

// BuyerRate is Requests tries per PerS seconds, and as many at once. Shared:
// over all servers together; otherwise each server counts by itself.
type BuyerRate struct {
	Requests int64 `json:"requests"`
	PerS     int64 `json:"per_s"`
	Shared   bool  `json:"shared"`
}

// AddressRate is Requests tries per PerS seconds, and as many at once. Shared: as
// that of BuyerRate.
type AddressRate struct {
	Requests int64 `json:"requests"`
	PerS     int64 `json:"per_s"`
	Shared   bool  `json:"shared"`
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

// Risk: the server asks the merchant's own service at URL before it issues a
// ticket, and waits TimeoutMS milliseconds at most; OnFailure says what happens
// to the buyer when the service does not answer. An empty URL: no check.
type Risk struct {
	URL       string    `json:"url"`
	TimeoutMS int64     `json:"timeout_ms"`
	OnFailure OnFailure `json:"on_failure"`
}

// WithDefaults fills in what is not given: a second, and Deny.
func (r Risk) WithDefaults() Risk {
	r.TimeoutMS, r.OnFailure = cmp.Or(r.TimeoutMS, 1000), cmp.Or(r.OnFailure, Deny)
	return r
}

// OnFailure is what happens to a buyer whom the risk service has not judged.
type OnFailure string

// The two policies. Deny is the default.
const (
	Allow OnFailure = "allow"
	Deny  OnFailure = "deny"
)

// Eligibility says how a buyer shows that the sale is for them.
type Eligibility string

// The ways to be eligible; without one everybody is.
const (
	// EligibleToken: the buyer's token says so.
	EligibleToken Eligibility = "token"
	// EligibleList: the buyer is on the list that the merchant uploaded.
	EligibleList Eligibility = "list"
)

// Bounds of the rules.
const (
	maxRateRequests   = 1_000_000
	maxRatePerS       = 86_400 // a day
	maxAdmissionRatio = 1_000_000
	maxTicketBeforeS  = 7 * 86_400 // a week
	MaxDifficulty     = 30         // bits; each doubles the work
	maxRiskURL        = 512        // bytes
	maxRiskTimeoutMS  = 10_000
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
	if ratio := r.AdmissionRatio; ratio != 0 && !(ratio >= 0.001 && ratio <= maxAdmissionRatio) || math.Signbit(ratio) {
		return fmt.Errorf("admission_ratio %v: want 0.001 to %d, or null for no bound", ratio, maxAdmissionRatio)
	}
	if n := r.Ticket.BeforeS; n < 0 || n > maxTicketBeforeS {
		return fmt.Errorf("ticket: before_s %d: want 1 to %d (a week)", n, maxTicketBeforeS)
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
	case "", EligibleToken, EligibleList:
	default:
		return fmt.Errorf("eligibility %q: want token or list, or null for everybody", shorten(string(r.Eligibility)))
	}
	switch r.Visibility {
	case Listed, Unlisted, Hidden:
	default:
		return fmt.Errorf("visibility %q: want listed, unlisted or hidden", shorten(string(r.Visibility)))
	}
	switch r.Availability {
	case Exact, Some, None:
	default:
		return fmt.Errorf("availability %q: want exact, some or none", shorten(string(r.Availability)))
	}
	if err := r.Limits.validate(); err != nil {
		return err
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
	if requests < 1 || requests > maxRateRequests {
		return fmt.Errorf("%s: requests %d: want 1 to %d", field, requests, maxRateRequests)
	}
	if perS < 1 || perS > maxRatePerS {
		return fmt.Errorf("%s: per_s %d: want 1 to %d seconds (a day)", field, perS, maxRatePerS)
	}
	return nil
}

func (r *Risk) validate() error {
	u, err := url.Parse(r.URL)
	switch {
	case len(r.URL) > maxRiskURL:
		return fmt.Errorf("url of %d bytes: want at most %d", len(r.URL), maxRiskURL)
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("url %q: want an address like https://risk.shop.example/check", shorten(r.URL))
	case u.User != nil:
		return errors.New("url: want no user name or password in it; everyone who may see the sale would see them")
	case r.TimeoutMS < 1 || r.TimeoutMS > maxRiskTimeoutMS:
		return fmt.Errorf("timeout_ms %d: want 1 to %d", r.TimeoutMS, maxRiskTimeoutMS)
	case r.OnFailure != Allow && r.OnFailure != Deny:
		return fmt.Errorf("on_failure %q: want allow or deny", shorten(string(r.OnFailure)))
	}
	return nil
}
