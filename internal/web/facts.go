package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
)

// facts are what a page says of a sale: what its merchant has said, not what
// happens. They are comparable.
type facts struct {
	ID          sluice.SaleID
	Title       string
	Price       sluice.Money
	ListPrice   sluice.Money // zero: none
	Free        bool
	Total       int64 // 0: none said
	MaxPerBuyer int64 // 0: no limit
	OpensAt     time.Time
	ClosesAt    time.Time // zero: none
	sluice.Showcase
}

func factsOf(s *api.Sale) facts {
	f := facts{ID: s.ID, Title: s.Title, Price: s.Price, Free: s.Free, OpensAt: s.OpensAt.Time, Showcase: s.Showcase}
	if s.ListPrice != nil {
		f.ListPrice = *s.ListPrice
	}
	if s.Total != nil {
		f.Total = *s.Total
	}
	if s.MaxPerBuyer != nil {
		f.MaxPerBuyer = *s.MaxPerBuyer
	}
	if s.ClosesAt != nil {
		f.ClosesAt = s.ClosesAt.Time
	}
	return f
}

// JSON is for the page's script, in the words of GET /v1/sales/{sale}: it shows
// prices and times in the visitor's own way before the server has answered.
func (f facts) JSON() (string, error) {
	v := struct {
		Title       string        `json:"title"`
		Titles      sluice.Texts  `json:"titles,omitzero"`
		Price       sluice.Money  `json:"price"`
		ListPrice   *sluice.Money `json:"list_price"`
		Free        bool          `json:"free,omitempty"`
		Total       *int64        `json:"total"`
		MaxPerBuyer *int64        `json:"max_per_buyer"`
		OpensAt     api.Time      `json:"opens_at"`
		ClosesAt    *api.Time     `json:"closes_at"`
	}{
		Title: f.Title, Titles: f.Titles, Price: f.Price, Free: f.Free, OpensAt: api.At(f.OpensAt),
		ClosesAt: api.AtOrNull(f.ClosesAt),
	}
	if f.ListPrice.Currency != "" {
		v.ListPrice = &f.ListPrice
	}
	if f.Total > 0 {
		v.Total = &f.Total
	}
	if f.MaxPerBuyer > 0 {
		v.MaxPerBuyer = &f.MaxPerBuyer
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// A day of the list, by UTC: the script sorts them again by the visitor's own
// clock.
type (
	day struct {
		Date  string
		Hours []hour
	}
	hour struct {
		Hour  string
		Sales []facts
	}
)

func daysOf(sales []facts) (days []day) {
	for _, f := range sales {
		date, clock := f.OpensAt.UTC().Format("2006-01-02"), f.OpensAt.UTC().Format("15:00")
		if len(days) == 0 || days[len(days)-1].Date != date {
			days = append(days, day{Date: date})
		}
		d := &days[len(days)-1]
		if len(d.Hours) == 0 || d.Hours[len(d.Hours)-1].Hour != clock {
			d.Hours = append(d.Hours, hour{Hour: clock})
		}
		h := &d.Hours[len(d.Hours)-1]
		h.Sales = append(h.Sales, f)
	}
	return days
}

// both is a text in both languages; the style sheet shows one.
func both(en, zh string) template.HTML {
	return template.HTML(`<span class="t" lang="en">` + template.HTMLEscapeString(en) +
		`</span><span class="t" lang="zh-CN">` + template.HTMLEscapeString(zh) + `</span>`)
}

// clock is a time for those who have no script.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// past reports whether a time that is known is over.
func past(t time.Time) bool { return !t.IsZero() && t.Before(time.Now()) }

// money is an amount for those who have no script: 199.00 CNY.
func money(m sluice.Money) string { return figures.Money(m.Amount, m.Currency) }

// price is what a unit costs, for those who have no script; empty if that is not said: a price of 0 is no amount.
func price(f facts) template.HTML {
	switch {
	case f.Price.Amount != 0:
		return template.HTML(template.HTMLEscapeString(money(f.Price)))
	case f.Free:
		return both("Free", "免费")
	}
	return ""
}

// off is how much the price is below the former one, in whole percent; 0 if
// it is not.
func off(price, former sluice.Money) int64 {
	if former.Amount <= 0 || price.Amount >= former.Amount {
		return 0
	}
	return int64(100 * (1 - float64(price.Amount)/float64(former.Amount)))
}

// checkLink wants nothing, a path of this server, or an address of the web.
func checkLink(link string) error {
	if link == "" || strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "//") && !strings.Contains(link, `\`) {
		return nil
	}
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: want an address like https://shop.example/login, or a path like /login", link)
	}
	return nil
}

func checkPayLink(link string) error {
	if link != "" && !strings.Contains(link, "{order}") {
		return errors.New("want {order} in it, where the order's id goes")
	}
	return checkLink(link)
}
