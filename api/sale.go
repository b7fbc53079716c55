package api

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Sale is what everybody may know of a sale. Limits that the sale does not
// have are null; available is null as well while it is not known.
type Sale struct {
	ID          sluice.SaleID `json:"id"`
	SKU         string        `json:"sku"`
	Title       string        `json:"title"`
	Price       sluice.Money  `json:"price"`
	ListPrice   *sluice.Money `json:"list_price"`
	Free        bool          `json:"free,omitempty"` // there is nothing to pay: orders are paid when they are stored
	Total       *int64        `json:"total"`
	Available   *int64        `json:"available"`
	MaxPerBuyer *int64        `json:"max_per_buyer"`
	OpensAt     Time          `json:"opens_at"`
	ClosesAt    *Time         `json:"closes_at"`
	State       sluice.State  `json:"state"`
	ServerTime  Time          `json:"server_time"` // of the reading; of the answer, to its merchant

	// TicketsFrom is from when on purchase tickets are handed out; absent if
	// the sale asks for none.
	TicketsFrom *Time `json:"tickets_from,omitempty"`
	// Shows is what the public reads of the units, "some" or "none"; absent if all.
	// Then total and available are null.
	Shows sluice.Availability `json:"shows,omitempty"`
	// Showcase is how buyers see the sale. Public lists and streams leave out the descriptions.
	sluice.Showcase
}

// AdminSale is a sale as its merchant sees it.
type AdminSale struct {
	Sale
	// AsOf is when the ledger last answered for the sale, by its clock: the moment of state and
	// units. Null if it never has, and of an archived sale. Well before server_time, it
	// does not answer, or the sale is idle and was not shown by itself.
	AsOf              *Time          `json:"as_of"`
	MaxOrdersPerBuyer *int64         `json:"max_orders_per_buyer"`
	MaxUnpaidPerBuyer *int64         `json:"max_unpaid_per_buyer"`
	Limits            []sluice.Limit `json:"limits"` // by what the shop signs of buyers
	PaymentWindowS    int64          `json:"payment_window_s"`
	PaymentGraceS     int64          `json:"payment_grace_s"`
	Paused            bool           `json:"paused"`
	TermsVersion      int64          `json:"terms_version"`
	Loaded            bool           `json:"loaded"`       // the ledger holds it
	Epoch             int64          `json:"epoch"`        // of the store
	Seq               int64          `json:"seq"`          // last sequence in the ledger
	Taken             int64          `json:"taken"`        // units, by the ledger
	StoredTaken       int64          `json:"stored_taken"` // units, by the store
	Backlog           int64          `json:"backlog"`      // journal entries not stored yet
	Fence             string         `json:"fence"`        // why claims are unavailable; empty when they are not
	CreatedAt         Time           `json:"created_at"`
	UpdatedAt         Time           `json:"updated_at"`
	ArchivedAt        *Time          `json:"archived_at"` // null unless the ledger has forgotten the sale
	// DeletedOrders is what is left of orders that order_retention deleted; absent unless
	// some are.
	DeletedOrders *DeletedOrders `json:"deleted_orders,omitempty"`
	// Claims is what became of the claims that came to the server that answers; absent
	// where a sale is not shown by itself.
	Claims *ClaimCounts `json:"claims,omitempty"`
	// Orders is how many orders the store has of each status, as of some time before; absent where
	// a sale is not shown by itself, and until the store has counted them within a second.
	Orders *OrderCounts `json:"orders,omitempty"`
	Rules
}

// ClaimCounts are the answers of one server to claims since it started, by code, and
// how many of those claims were refused for who or what sent them, by reason.
type ClaimCounts struct {
	Node    string           `json:"node"`
	Since   Time             `json:"since"`
	Answers map[string]int64 `json:"answers"`
	Refused map[string]int64 `json:"refused"`
}

// OrderCounts are the stored orders of a sale by status, without those that order_retention
// deleted.
type OrderCounts struct {
	At       Time                    `json:"at"` // when they were counted
	ByStatus map[sluice.Status]int64 `json:"by_status"`
}

// DeletedOrders is what is left of orders that are deleted.
type DeletedOrders struct {
	At   *Time        `json:"at"` // when the last one was; null while some are left
	Sums []sluice.Sum `json:"sums"`
	// Unreadable: the sums are damaged in the store, and the sale alone cannot be shown.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Restock changes the total by delta, once per id.
type Restock struct {
	ID    string `json:"id"`
	Delta int64  `json:"delta"`
}

// SaleDeleted names a sale that is no more.
type SaleDeleted struct {
	Deleted sluice.SaleID `json:"deleted"`
}

// SaleList is a list of public sales, AdminSaleList a page of the merchant's, by id.
type (
	SaleList struct {
		Sales []Sale `json:"sales"`
	}
	AdminSaleList struct {
		Sales      []AdminSale `json:"sales"`
		NextCursor string      `json:"next_cursor"` // empty after the last page
	}
)

// CreateSale asks for a new sale. total and max_per_buyer must be said, if only
// as null (no such limit); an absent closes_at is null.
type CreateSale struct {
	ID                Opt[sluice.SaleID]     `json:"id,omitzero"` // absent: the server makes one
	SKU               string                 `json:"sku"`
	Title             string                 `json:"title"`
	Price             Opt[sluice.Money]      `json:"price,omitzero"`
	ListPrice         Nullable[sluice.Money] `json:"list_price,omitzero"`
	Free              Opt[bool]              `json:"free,omitzero"` // true: the price is 0, and orders are paid when stored
	Total             Nullable[int64]        `json:"total,omitzero"`
	MaxPerBuyer       Nullable[int64]        `json:"max_per_buyer,omitzero"`
	OpensAt           Opt[Time]              `json:"opens_at,omitzero"`
	ClosesAt          Nullable[Time]         `json:"closes_at,omitzero"`
	PaymentWindowS    Opt[int64]             `json:"payment_window_s,omitzero"`
	PaymentGraceS     Opt[int64]             `json:"payment_grace_s,omitzero"`
	MaxOrdersPerBuyer Nullable[int64]        `json:"max_orders_per_buyer,omitzero"`
	MaxUnpaidPerBuyer Nullable[int64]        `json:"max_unpaid_per_buyer,omitzero"` // absent: as sluice.NewSale has it
	// Limits by what the shop signs of buyers, up to three; a sale keeps them as they are.
	Limits Nullable[[]sluice.Limit] `json:"limits,omitzero"`
	PatchShowcase
	PatchRules
}

// Domain returns the sale asked for, valid, with defaults filled in. newID
// names it when the request does not.
func (c *CreateSale) Domain(newID func() sluice.SaleID) (sluice.Sale, error) {
	switch {
	case !c.Price.Set:
		return sluice.Sale{}, errors.New("price: is missing")
	case !c.Total.Set:
		return sluice.Sale{}, errors.New("total: is missing; null means no total")
	case !c.MaxPerBuyer.Set:
		return sluice.Sale{}, errors.New("max_per_buyer: is missing; null means no limit")
	case !c.OpensAt.Set:
		return sluice.Sale{}, errors.New("opens_at: is missing; a time in the past opens the sale at once")
	}
	s := sluice.NewSale(sluice.Unlimited, sluice.Unlimited)
	s.SKU, s.Title = c.SKU, c.Title
	if c.ID.Set {
		s.ID = c.ID.Value
	} else {
		s.ID = newID()
	}
	patch := PatchSale{
		Price: c.Price, ListPrice: c.ListPrice, Free: c.Free, Total: c.Total, MaxPerBuyer: c.MaxPerBuyer,
		OpensAt: c.OpensAt, ClosesAt: c.ClosesAt,
		PaymentWindowS: c.PaymentWindowS, PaymentGraceS: c.PaymentGraceS, MaxOrdersPerBuyer: c.MaxOrdersPerBuyer,
		MaxUnpaidPerBuyer: c.MaxUnpaidPerBuyer, PatchShowcase: c.PatchShowcase, PatchRules: c.PatchRules,
	}
	if err := cmp.Or(setLimits(&s.Rules.Limits, c.Limits), patch.Apply(&s)); err != nil {
		return sluice.Sale{}, err
	}
	return s, nil
}

// PatchSale changes a sale; absent fields stay as they are.
type PatchSale struct {
	SKU               Opt[string]            `json:"sku,omitzero"`
	Title             Opt[string]            `json:"title,omitzero"`
	Price             Opt[sluice.Money]      `json:"price,omitzero"`
	ListPrice         Nullable[sluice.Money] `json:"list_price,omitzero"`
	Free              Opt[bool]              `json:"free,omitzero"` // of orders that are stored from then on
	Total             Nullable[int64]        `json:"total,omitzero"`
	MaxPerBuyer       Nullable[int64]        `json:"max_per_buyer,omitzero"`
	OpensAt           Opt[Time]              `json:"opens_at,omitzero"`
	ClosesAt          Nullable[Time]         `json:"closes_at,omitzero"`
	PaymentWindowS    Opt[int64]             `json:"payment_window_s,omitzero"`
	PaymentGraceS     Opt[int64]             `json:"payment_grace_s,omitzero"`
	MaxOrdersPerBuyer Nullable[int64]        `json:"max_orders_per_buyer,omitzero"`
	MaxUnpaidPerBuyer Nullable[int64]        `json:"max_unpaid_per_buyer,omitzero"`
	PatchShowcase
	PatchRules
}

// PatchShowcase is the showcase in a message that creates or changes a sale: absent fields stay as
// they are, empty ones take away. Pictures are uploaded to a sale that exists; a message can name
// them in another order, leave some out, or add addresses.
type PatchShowcase struct {
	Description  Opt[string]          `json:"description,omitzero"`
	Titles       Opt[sluice.Texts]    `json:"titles,omitzero"`
	Descriptions Opt[sluice.Texts]    `json:"descriptions,omitzero"`
	Badge        Opt[string]          `json:"badge,omitzero"`
	Pictures     Opt[sluice.Pictures] `json:"pictures,omitzero"`
}

func (p *PatchShowcase) apply(s *sluice.Showcase) {
	set(&s.Description, p.Description)
	set(&s.Titles, p.Titles)
	set(&s.Descriptions, p.Descriptions)
	set(&s.Badge, p.Badge)
	set(&s.Pictures, p.Pictures)
}

// Apply edits the sale and says what is wrong with the outcome. As long as
// max_orders_per_buyer has its default it follows max_per_buyer.
func (p *PatchSale) Apply(s *sluice.Sale) error {
	followed := s.MaxOrders == s.DefaultMaxOrders()
	set(&s.SKU, p.SKU)
	set(&s.Title, p.Title)
	p.PatchShowcase.apply(&s.Showcase)
	if p.Price.Set {
		s.Price = p.Price.Value
		if err := checkCurrency("price", s.Price); err != nil {
			return err
		}
	}
	if p.ListPrice.Set {
		s.ListPrice = p.ListPrice.Value // null: the zero value, none
		if !p.ListPrice.Null && p.ListPrice.Value == (sluice.Money{}) {
			return errors.New("list_price: want money, or null for none")
		}
		if err := checkCurrency("list_price", s.ListPrice); err != nil {
			return err
		}
	}
	set(&s.Free, p.Free)
	wrong := cmp.Or(setLimit(&s.Total, p.Total, "total"), setLimit(&s.MaxPerBuyer, p.MaxPerBuyer, "max_per_buyer"))
	if followed {
		s.MaxOrders = s.DefaultMaxOrders()
	}
	wrong = cmp.Or(wrong, setLimit(&s.MaxOrders, p.MaxOrdersPerBuyer, "max_orders_per_buyer"))
	if n := p.MaxUnpaidPerBuyer; n.Set {
		if wrong == nil && !n.Null && n.Value < 1 {
			wrong = fmt.Errorf("max_unpaid_per_buyer %d: want 1 to %d, or null for no limit", n.Value, int64(sluice.MaxUnits))
		}
		s.MaxUnpaid = n.Value // null: 0, none
	}
	if p.OpensAt.Set {
		s.OpensAt = p.OpensAt.Value.Time
	}
	if p.ClosesAt.Set {
		s.ClosesAt = p.ClosesAt.Value.Time // null: the zero time, none
	}
	wrong = cmp.Or(wrong,
		setSeconds(&s.PaymentWindow, p.PaymentWindowS, "payment_window_s"),
		setSeconds(&s.PaymentGrace, p.PaymentGraceS, "payment_grace_s"),
		p.PatchRules.apply(&s.Rules),
	)
	if wrong != nil {
		return wrong
	}
	return s.Validate()
}

func set[T any](dst *T, o Opt[T]) {
	if o.Set {
		*dst = o.Value
	}
}

// setLimit keeps a negative number, above all -1, from becoming Unlimited.
func setLimit(dst *int64, n Nullable[int64], field string) error {
	switch {
	case !n.Set:
	case n.Null:
		*dst = sluice.Unlimited
	case n.Value < 0:
		return errors.New(field + ": want 0 or more, or null for no limit")
	default:
		*dst = n.Value
	}
	return nil
}

// setSeconds bounds the number before it is multiplied.
func setSeconds(dst *time.Duration, o Opt[int64], field string) error {
	if !o.Set {
		return nil
	}
	if o.Value < 0 || o.Value > 365*24*3600 {
		return errors.New(field + ": want 0 or more seconds, and less than a year")
	}
	*dst = time.Duration(o.Value) * time.Second
	return nil
}

// mistaken are names of currencies that have the form of a code, and are none
// of ISO 4217: browsers and payment services do not know them. All other codes
// are let through, since new ones come every few years.
var mistaken = map[string]string{
	"RMB": "CNY", "NTD": "TWD", "YEN": "JPY", "WON": "KRW", "UKP": "GBP", "STG": "GBP", "NIS": "ILS",
}

// checkCurrency refuses a currency that is commonly mistaken for a code.
func checkCurrency(field string, m sluice.Money) error {
	if right, ok := mistaken[strings.ToUpper(m.Currency)]; ok {
		return fmt.Errorf("%s: currency %q: want an ISO 4217 code like %s", field, m.Currency, right)
	}
	return nil
}

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
	Visibility     sluice.Visibility   `json:"visibility"`   // listed, unlisted or hidden
	Availability   sluice.Availability `json:"availability"` // exact, some or none
}

// The words of the wire for what needs no word in the program.
const (
	Listed sluice.Visibility   = "listed"
	Exact  sluice.Availability = "exact"
)

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
	Visibility     Opt[sluice.Visibility]       `json:"visibility,omitzero"`
	Availability   Opt[sluice.Availability]     `json:"availability,omitzero"`
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
		setRule(&r.AdmissionRatio, p.AdmissionRatio, "admission_ratio: want a number above 0, or null for no bound"),
		setRule(&r.Ticket, p.Ticket, "ticket: want before_s, 1 second or more, or null for none"),
		setRule(&r.Challenge, p.Challenge, "challenge: want a difficulty of 1 bit or more, or null for none"),
		setRule(&r.Risk, p.Risk, "risk: want a url, or null for none"),
		setRule(&r.Eligibility, p.Eligibility, "eligibility: want token or list, or null for everybody"),
		setWord(&r.Visibility, p.Visibility, Listed, "visibility: want listed, unlisted or hidden"),
		setWord(&r.Availability, p.Availability, Exact, "availability: want exact, some or none"),
	)
}

// TrafficOnly reports whether the message changes nothing but how much traffic a
// sale lets through: rates and the admission ratio.
func (p *PatchSale) TrafficOnly() bool {
	rest := *p
	rest.BuyerRate, rest.AddressRate = Nullable[sluice.BuyerRate]{}, Nullable[sluice.AddressRate]{}
	rest.AdmissionRatio = Nullable[float64]{}
	return rest == PatchSale{}
}

func setLimits(dst *sluice.Limits, limits Nullable[[]sluice.Limit]) error {
	if n := len(limits.Value); limits.Set && !limits.Null && (n == 0 || n > len(dst)) ||
		slices.Contains(limits.Value, sluice.Limit{}) {
		return fmt.Errorf("limits: want 1 to %d, each with by and max, or null for none", len(dst))
	}
	copy(dst[:], limits.Value)
	return nil
}

// setWord takes a word of which one is the zero value's.
func setWord[T ~string](dst *T, word Opt[T], zero T, empty string) error {
	switch {
	case !word.Set:
	case word.Value == "":
		return errors.New(empty)
	case word.Value == zero:
		*dst = ""
	default:
		*dst = word.Value
	}
	return nil
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
