package referee

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict is what a shop made of the crowd.
type Verdict struct {
	Name   string `json:"name"`
	Seed   uint64 `json:"seed"`
	Buyers int    `json:"buyers"`
	Units  int    `json:"units"`

	// The faults of the shop.
	Oversold  Finding `json:"oversold"`  // orders beyond the units
	Undersold Finding `json:"undersold"` // units without an order, while buyers are refused as sold out
	Lost      Finding `json:"lost"`      // buyers who were promised a unit and have no order
	Twice     Finding `json:"twice"`     // buyers with more than one order
	Changed   Finding `json:"changed"`   // buyers whose promise and orders have ids that do not fit: see judgeIDs
	Unasked   Finding `json:"unasked"`   // orders of strangers, or of buyers who heard only refusals

	// Buyers, each in one of these.
	Promised  int `json:"promised"`
	SoldOut   int `json:"sold_out"`
	Refused   int `json:"refused"`
	Undecided int `json:"undecided"` // heard no decision to the end

	Orders  int            `json:"orders"`
	Answers map[string]int `json:"answers"` // by what the shop said and what it means
	Faults  []Happened     `json:"faults"`
	Rush    float64        `json:"rush_s"`
	Settled float64        `json:"settled_s"` // from the end of the rush to the verdict
	Notes   []string       `json:"notes,omitempty"`
}

// Finding is how often a fault was found, and the first cases.
type Finding struct {
	Count    int      `json:"count"`
	Evidence []string `json:"evidence,omitempty"`
}

// maxEvidence bounds the cases of one fault that a report lists.
const maxEvidence = 20

func (f *Finding) add(format string, args ...any) {
	if f.Count++; len(f.Evidence) < maxEvidence {
		f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...))
	}
}

// Clean reports whether the shop did nothing wrong.
func (v *Verdict) Clean() bool {
	for _, f := range v.Findings() {
		if f.Count > 0 {
			return false
		}
	}
	return true
}

// NamedFinding is a finding and its name in reports.
type NamedFinding struct {
	Name string
	*Finding
}

// Findings are all of them, the worst first.
func (v *Verdict) Findings() []NamedFinding {
	return []NamedFinding{
		{"oversold", &v.Oversold},
		{"undersold", &v.Undersold},
		{"promises lost", &v.Lost},
		{"buyers served twice", &v.Twice},
		{"other order than promised", &v.Changed},
		{"orders not asked for", &v.Unasked},
	}
}

// heard is what each buyer heard, in all attempts together.
func (c *crowd) heard() []attempt {
	all := make([]attempt, c.t.Buyers)
	for _, a := range c.attempts {
		b := &all[a.buyer]
		b.promised, b.soldOut, b.refused = b.promised || a.promised, b.soldOut || a.soldOut, b.refused || a.refused
		b.unknown = b.unknown || a.unknown
		b.orders = append(b.orders, a.orders...)
	}
	return all
}

// served is the ids of the orders that each buyer of the crowd has.
func (c *crowd) served(orders []Order) [][]string {
	all := make([][]string, c.t.Buyers)
	for _, o := range orders {
		if i, ok := c.index[o.Buyer]; ok {
			all[i] = append(all[i], o.ID)
		}
	}
	return all
}

// waiting are the buyers who were refused as sold out and have nothing.
func (c *crowd) waiting(orders []Order) []int {
	var all []int
	served := c.served(orders)
	for i, h := range c.heard() {
		if h.soldOut && !h.promised && len(served[i]) == 0 {
			all = append(all, i)
		}
	}
	return all
}

// verdict judges the settled orders by what the buyers heard.
func (c *crowd) verdict(orders []Order) *Verdict {
	v := &Verdict{
		Name: c.t.Name, Seed: c.t.Seed, Buyers: c.t.Buyers, Units: c.t.Units, Orders: len(orders),
		Answers: maps.Clone(c.tally),
	}
	for _, o := range orders[min(c.t.Units, len(orders)):] {
		v.Oversold.add("order %q of %s", o.ID, o.Buyer)
	}
	for _, buyer := range c.denied[:min(max(0, c.t.Units-len(orders)), len(c.denied))] {
		v.Undersold.add("%s was refused as sold out, with %d units left", buyerName(buyer), c.t.Units-len(orders))
	}
	served := c.served(orders)
	heard := c.heard()
	for i, h := range heard {
		name, has := buyerName(i), served[i]
		switch {
		case h.promised:
			v.Promised++
		case h.soldOut:
			v.SoldOut++
		case h.refused:
			v.Refused++
		default:
			v.Undecided++
		}
		if h.promised && len(has) == 0 {
			v.Lost.add("%s was promised %s", name, named(h.orders))
		}
		if len(has) > 1 {
			v.Twice.add("%s has %d orders: %s", name, len(has), named(has))
		}
	}
	c.judgeIDs(v, served)
	for _, o := range orders {
		i, ok := c.index[o.Buyer]
		switch {
		case !ok:
			v.Unasked.add("order %q of %q, who is not one of the crowd", o.ID, o.Buyer)
		case !heard[i].promised && !heard[i].unknown:
			v.Unasked.add("order %q of %s, who heard only refusals", o.ID, o.Buyer)
		}
	}
	return v
}

// judgeIDs finds the buyers whose promise named another order than they have, or two,
// and those whose order has the id of another buyer's.
func (c *crowd) judgeIDs(v *Verdict, served [][]string) {
	wrong, of := map[int]string{}, map[string]int{}
	for buyer, has := range served {
		for _, id := range has {
			if first, taken := of[id]; taken && first != buyer && id != "" {
				wrong[buyer] = fmt.Sprintf("%s has %s, and so has %s", buyerName(buyer), id, buyerName(first))
			} else {
				of[id] = buyer
			}
		}
	}
	for _, a := range c.attempts {
		has := served[a.buyer]
		switch {
		case len(a.orders) > 1:
			wrong[a.buyer] = fmt.Sprintf("%s was promised %s by one key", buyerName(a.buyer), named(a.orders))
		case len(a.orders) == 1 && len(has) > 0 && !slices.Contains(has, "") && !slices.Contains(has, a.orders[0]):
			wrong[a.buyer] = fmt.Sprintf("%s was promised %s and has %s", buyerName(a.buyer), named(a.orders), named(has))
		}
	}
	for _, buyer := range slices.Sorted(maps.Keys(wrong)) {
		v.Changed.add("%s", wrong[buyer])
	}
}

// named lists a few ids.
func named(ids []string) string {
	if len(ids) == 0 {
		return "an order without an id"
	}
	more := ""
	if len(ids) > 5 {
		ids, more = ids[:5], ", ..."
	}
	return strings.Join(ids, ", ") + more
}

// tallied is the answers in one line, the most frequent first.
func tallied(answers map[string]int) string {
	var all []string
	for _, said := range mostFirst(answers) {
		all = append(all, fmt.Sprintf("%d x %s", answers[said], said))
	}
	return strings.Join(all, "; ")
}

func mostFirst(answers map[string]int) []string {
	return slices.SortedFunc(maps.Keys(answers), func(a, b string) int {
		return cmp.Or(answers[b]-answers[a], cmp.Compare(a, b))
	})
}
