package sluice

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Unlimited stands for an absent limit: of Total, MaxPerBuyer or MaxOrders.
const Unlimited int64 = -1

// Defaults of a sale.
const (
	DefaultPaymentWindow = 900 * time.Second
	DefaultPaymentGrace  = 30 * time.Second
	// ExtraOrders: MaxOrders is MaxPerBuyer plus this, unless given.
	ExtraOrders = 9
	// DefaultMaxUnpaid is MaxUnpaid of a sale that does not say, on the API and
	// the command line.
	DefaultMaxUnpaid = 2
	// MaxUnits bounds Total and MaxPerBuyer, so that sums of units stay exact
	// in every ledger (Lua and JavaScript count in doubles).
	MaxUnits = 1_000_000_000_000
)

// Money is an amount in the currency's minor unit (cents, fen).
type Money struct {
	Amount   int64
	Currency string // ISO 4217, three upper-case letters
}

// Terms is what the ledger needs to know of a sale to decide claims. Every
// change raises Version by one; the store keeps all versions, each accepted
// claim records the one it was decided under, and so the audit can judge it by
// the terms of its moment (I8).
type Terms struct {
	Version int64 // from 1

	Total       int64 // units for sale, 0 or more, or Unlimited
	MaxPerBuyer int64 // live units per buyer, 1 or more, or Unlimited (I3)
	// MaxOrders bounds the accepted claims of a buyer, ended ones too, so that
	// claiming and cancelling in turns comes to an end. Or Unlimited.
	MaxOrders int64
	// MaxUnpaid bounds how many orders of a buyer may end unpaid (Order.Unpaid):
	// from then on the buyer is refused as BuyerLimit for the rest of the sale,
	// so that holding units without paying comes to an end. 0: no such limit.
	MaxUnpaid int64

	OpensAt  time.Time // inclusive; UTC, whole milliseconds
	ClosesAt time.Time // exclusive; zero when the sale has no closing time
	Paused   bool      // by a person
}

// Refusal is what the window and the pause alone say to a claim at now, by the
// ledger's clock: NotOpen, Closed, Paused, or 0 when they let it pass (I8).
func (t *Terms) Refusal(now time.Time) Code {
	switch {
	case now.Before(t.OpensAt):
		return NotOpen
	case !t.ClosesAt.IsZero() && !now.Before(t.ClosesAt):
		return Closed
	case t.Paused:
		return Paused
	}
	return 0
}

// Available is the units that can be taken when taken are held; Unlimited when
// the sale has no total. It is never negative otherwise.
func (t *Terms) Available(taken int64) int64 {
	if t.Total == Unlimited {
		return Unlimited
	}
	return max(t.Total-taken, 0)
}

// Lowers reports whether another total is less than that of the terms.
func (t *Terms) Lowers(total int64) bool {
	return total != Unlimited && (t.Total == Unlimited || total < t.Total)
}

// Sale is one item, sold at a price, in a quantity, during a window. It is the
// store's row; the ledger holds its Terms.
type Sale struct {
	ID        SaleID
	SKU       string
	Title     string
	Price     Money
	ListPrice Money // the former price; zero when there is none

	Terms

	PaymentWindow time.Duration // from stored to expired
	PaymentGrace  time.Duration // how much longer the units are kept

	Rules Rules // what the layers before the ledger ask of buyers

	// Epoch counts the loads of the sale into a ledger; 0 before the first.
	// LoadedEpoch follows it once the load is complete (see Store.BeginLoad).
	Epoch       int64
	LoadedEpoch int64
	// Fence says why claims are refused as unavailable until the sale is
	// rebuilt; empty when they are not.
	Fence string
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
}

// TotalCanBe reports whether the total can be changed to this now. A lower total
// is the ledger's to decide (I1), so the sale must be loaded and not fenced; and
// while one waits for the ledger (Cap is above Total) the total stays, so that
// the lowering can be taken back alone. A sale that no ledger ever held has
// nothing to be decided.
func (s *Sale) TotalCanBe(total int64) bool {
	if total == s.Total || s.Epoch == 0 {
		return true
	}
	return s.Cap == s.Total && (!s.Terms.Lowers(total) || s.LoadedEpoch == s.Epoch && s.Fence == "")
}

// Validate says what is wrong with a sale that somebody wants to create or
// change, and what would be right.
func (s *Sale) Validate() error {
	if err := s.ID.Validate(); err != nil {
		return err
	}
	for _, text := range []struct{ name, value string }{{"sku", s.SKU}, {"title", s.Title}} {
		if n := len(text.value); n == 0 || n > 256 || !utf8.ValidString(text.value) {
			return fmt.Errorf("%s: want 1 to 256 bytes of UTF-8", text.name)
		}
		if strings.IndexFunc(text.value, unicode.IsControl) >= 0 {
			return fmt.Errorf("%s: want no control characters", text.name)
		}
	}
	if err := s.Price.validate("price"); err != nil {
		return err
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
	if s.PaymentWindow < time.Second || s.PaymentWindow > 30*24*time.Hour {
		return errors.New("payment_window_s: want 1 to 2592000 (30 days)")
	}
	if s.PaymentGrace < 0 || s.PaymentGrace > 24*time.Hour {
		return errors.New("payment_grace_s: want 0 to 86400 (a day)")
	}
	return s.Rules.Validate()
}

func (m Money) validate(field string) error {
	if m.Amount < 0 {
		return fmt.Errorf("%s: amount %d: want 0 or more, in minor units", field, m.Amount)
	}
	if len(m.Currency) != 3 {
		return fmt.Errorf("%s: currency %q: want three upper-case letters, like CNY", field, shorten(m.Currency))
	}
	for i := range len(m.Currency) {
		if c := m.Currency[i]; c < 'A' || c > 'Z' {
			return fmt.Errorf("%s: currency %q: want three upper-case letters, like CNY", field, m.Currency)
		}
	}
	return nil
}

func (t *Terms) validate() error {
	if t.Total != Unlimited && (t.Total < 0 || t.Total > MaxUnits) {
		return fmt.Errorf("total %d: want 0 to %d, or null for no total", t.Total, int64(MaxUnits))
	}
	if t.MaxPerBuyer != Unlimited && (t.MaxPerBuyer < 1 || t.MaxPerBuyer > MaxUnits) {
		return fmt.Errorf("max_per_buyer %d: want 1 or more, or null for no limit", t.MaxPerBuyer)
	}
	if t.MaxOrders != Unlimited && (t.MaxOrders < 1 || t.MaxOrders > MaxUnits) {
		return fmt.Errorf("max_orders_per_buyer %d: want 1 or more, or null for no limit", t.MaxOrders)
	}
	if t.MaxUnpaid < 0 || t.MaxUnpaid > MaxUnits {
		return fmt.Errorf("max_unpaid_per_buyer %d: want 1 or more, or null for no limit", t.MaxUnpaid)
	}
	if t.OpensAt.IsZero() {
		return errors.New("opens_at: want a time, like 2026-11-11T12:00:00.000Z")
	}
	for _, at := range []struct {
		name string
		t    time.Time
	}{{"opens_at", t.OpensAt}, {"closes_at", t.ClosesAt}} {
		if y := at.t.Year(); !at.t.IsZero() && (y < 1970 || y > 9999) {
			return fmt.Errorf("%s: year %d: want 1970 to 9999", at.name, y)
		}
	}
	if !t.ClosesAt.IsZero() && !t.ClosesAt.After(t.OpensAt) {
		return errors.New("closes_at: want a time after opens_at")
	}
	return nil
}

// State is what readers are told of a sale.
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
