package sluice

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

func TestCodesRoundTrip(t *testing.T) {
	for _, c := range Codes() {
		if c.String() == "" {
			t.Errorf("code %d has no name", c)
		} else if back, err := ParseCode(c.String()); err != nil || back != c {
			t.Errorf("ParseCode(%q) = %v, %v", c.String(), back, err)
		}
	}
	if _, err := ParseCode("nonsense"); err == nil {
		t.Error("an unknown code is parsed")
	}
}

// A title that nobody sees, or that makes other text look different, is a mistake or a trick.
func TestTitlesAreSeen(t *testing.T) {
	for title, ok := range map[string]bool{
		"Lamp": true, "台灯": true, "👩‍👩‍👧 set": true, "שלום": true,
		" ": false, "\u200b\u2060": false, "\u3164\ufe0f\u034f": false, "\u3000\u00a0": false,
		"Lamp\u202e": false, "\u2067Lamp": false,
	} {
		sale := Sale{
			ID: "lamp", SKU: "L", Title: title, Price: Money{1, "CNY"}, PaymentWindow: time.Minute,
			Terms: Terms{Total: 1, MaxPerBuyer: 1, MaxOrders: Unlimited, OpensAt: time.Now()},
		}
		if err := sale.Validate(); (err == nil) != ok {
			t.Errorf("title %q: %v", title, err)
		}
		sale.Title, sale.Badge = "Lamp", title
		if err := sale.Validate(); (err == nil) != ok {
			t.Errorf("badge %q: %v", title, err)
		}
	}
}

func TestIDs(t *testing.T) {
	hex := strings.Repeat("0a", 16)
	for _, c := range []struct {
		name string
		ok   bool
		got  error
	}{
		{"sale", true, SaleID("phone-2026_x").Validate()},
		{"sale of one", true, SaleID("9").Validate()},
		{"sale of 48", true, SaleID(strings.Repeat("a", 48)).Validate()},
		{"sale of 49", false, SaleID(strings.Repeat("a", 49)).Validate()},
		{"empty sale", false, SaleID("").Validate()},
		{"upper case", false, SaleID("Phone").Validate()},
		{"dash first", false, SaleID("-phone").Validate()},
		{"dot", false, SaleID("a.b").Validate()},
		{"hash tag", false, SaleID("a{b}").Validate()},
		{"buyer", true, BuyerID("张三 <z@example.com>").Validate()},
		{"empty buyer", false, BuyerID("").Validate()},
		{"buyer of 128", true, BuyerID(strings.Repeat("b", 128)).Validate()},
		{"buyer of 129", false, BuyerID(strings.Repeat("b", 129)).Validate()},
		{"buyer with a line feed", false, BuyerID("a\nb").Validate()},
		{"buyer with a C1 control", false, BuyerID("a\u0085b").Validate()},
		{"buyer not UTF-8", false, BuyerID("\xff").Validate()},
		{"key", true, Key("Attempt_1-x").Validate()},
		{"key of 7", false, Key("1234567").Validate()},
		{"key of 65", false, Key(strings.Repeat("k", 65)).Validate()},
		{"key with a space", false, Key("attempt 1").Validate()},
	} {
		if (c.got == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", c.name, c.got, c.ok)
		}
	}
	if sale, ok := SaleID("phone").Order(hex).Sale(); !ok || sale != "phone" {
		t.Errorf("the order id carries %q, %v", sale, ok)
	}
	for _, bad := range []OrderID{
		"", "phone", OrderID("phone." + hex[1:]), OrderID("Phone." + hex),
		OrderID("phone." + strings.ToUpper(hex)), OrderID("a.b." + hex),
	} {
		if sale, ok := bad.Sale(); ok {
			t.Errorf("%q carries the sale %q", bad, sale)
		}
	}
}

func TestWindow(t *testing.T) {
	at := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	terms := Terms{OpensAt: at, ClosesAt: at.Add(time.Hour)}
	paused := terms
	paused.Paused = true
	endless := Terms{OpensAt: at}
	for _, c := range []struct {
		name  string
		terms Terms
		after time.Duration
		want  Code
	}{
		{"the last instant before", terms, -time.Millisecond, NotOpen},
		{"opening is inclusive", terms, 0, 0},
		{"the last instant", terms, time.Hour - time.Millisecond, 0},
		{"closing is exclusive", terms, time.Hour, Closed},
		{"paused", paused, time.Minute, Paused},
		{"not open outranks paused", paused, -time.Minute, NotOpen},
		{"closed outranks paused", paused, 2 * time.Hour, Closed},
		{"without closing time", endless, 1000 * time.Hour, 0},
	} {
		if got := c.terms.Refusal(at.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestClaimValidation(t *testing.T) {
	good := Claim{Buyer: "张三", Key: "attempt-1", Quantity: 2, Order: SaleID("phone").Order(strings.Repeat("0a", 16))}
	for _, c := range []struct {
		name   string
		change func(*Claim)
	}{
		{"quantity 0", func(c *Claim) { c.Quantity = 0 }},
		{"too many", func(c *Claim) { c.Quantity = MaxQuantity + 1 }},
		{"meta too large", func(c *Claim) { c.Meta = strings.Repeat("x", MaxMeta+1) }},
		{"meta with a line feed", func(c *Claim) { c.Meta = "{\n}" }},
		{"meta with a tab", func(c *Claim) { c.Meta = "{\t}" }},
		{"meta not UTF-8", func(c *Claim) { c.Meta = "{\"\xff\"}" }},
		{"no order", func(c *Claim) { c.Order = "" }},
		{"no buyer", func(c *Claim) { c.Buyer = "" }},
		{"no key", func(c *Claim) { c.Key = "" }},
	} {
		claim := good
		must.Succeed(t, claim.Validate())
		if c.change(&claim); claim.Validate() == nil {
			t.Errorf("%s is valid", c.name)
		}
	}
}
