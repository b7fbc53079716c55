package condition

import (
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// Standing is a condition that holds now.
type Standing struct {
	*Condition
	Sale   sluice.SaleID // empty: all of them
	Detail string
	Since  time.Time // when this server saw it first
	More   int       // of Cut: in how many further sales, or of how many further names, it holds as well
}

// shown is how many of each condition are told apart.
const shown = 10

// Cut leaves out what would make a list long: of each condition some are enough.
func Cut(all []Standing) (cut []Standing) {
	n := 0
	for i := range all {
		if i == 0 || all[i].Condition != all[i-1].Condition {
			n = 0
		}
		if n++; n > shown {
			cut[len(cut)-1].More++
		} else {
			cut = append(cut, all[i])
		}
	}
	return cut
}

// Of returns what concerns a sale: conditions of its own and those of no sale.
func Of(all []Standing, sale sluice.SaleID) []Standing {
	return slices.DeleteFunc(slices.Clone(all), func(s Standing) bool { return s.Sale != "" && s.Sale != sale })
}

// Watch remembers since when conditions hold, and what sales were like a moment ago. The zero value is ready. One
// goroutine may use it.
type Watch struct {
	since map[subject]held
	past  map[sluice.SaleID]*past
}

// subject is what a condition holds of.
type subject struct {
	condition string
	sale      sluice.SaleID
	key       string
}

// held is when a condition was seen first and last.
type held struct{ first, last time.Time }

// flicker is how long a condition may not be seen and still be the same.
const flicker = 15 * time.Second

// Look returns the conditions that hold, the worst first. It is to be called every few seconds.
func (w *Watch) Look(s *Seen) (all []Standing) {
	w.remember(s)
	since := map[subject]held{}
	for of, h := range w.since {
		if s.Now.Sub(h.last) <= flicker {
			since[of] = h
		}
	}
	for i := range table {
		c := &table[i]
		for _, f := range c.judge(s) {
			of := subject{c.Name, f.sale, f.key}
			h, known := since[of]
			if !known {
				h.first = s.Now
			}
			h.last = s.Now
			since[of] = h
			if s.Now.Sub(h.first) >= c.After {
				all = append(all, Standing{Condition: c, Sale: f.sale, Detail: f.detail, Since: h.first})
			}
		}
	}
	w.since = since
	return all
}

// past is what a sale was like.
type past struct {
	moments []moment // the oldest first, each a few seconds after the other
	now     moment
	waits   time.Duration // how long the oldest entry of its journal has been that
	oldest  int64
	epoch   int64
	from    time.Time

	accepted int64 // claims, since the start
	pace     int64 // how many were accepted in the minute before the last one
}

// moment has some figures of a sale.
type moment struct {
	at             time.Time
	codes, reasons map[string]int64
	taken          int64
}

// remember notes the figures of the sales.
func (w *Watch) remember(s *Seen) {
	next := make(map[sluice.SaleID]*past, len(s.Sales))
	for i := range s.Sales {
		sale := &s.Sales[i]
		p := w.past[sale.ID]
		if p == nil {
			p = &past{}
		}
		next[sale.ID], sale.past = p, p
		if sale.Oldest != p.oldest || sale.Epoch != p.epoch || p.from.IsZero() {
			p.oldest, p.epoch, p.from = sale.Oldest, sale.Epoch, s.Now
		}
		p.waits = s.Now.Sub(p.from)
		p.now = moment{s.Now, sale.Codes, sale.Reasons, sale.Taken}
		if sale.Codes == nil || sale.OpenFor == 0 || len(sale.Codes) == 0 && sale.OpenFor > rush {
			p.moments = nil
			continue
		}
		for len(p.moments) > 1 && s.Now.Sub(p.moments[1].at) >= aMinute {
			p.moments = p.moments[1:]
		}
		p.moments = append(p.moments, p.now)
		if accepted := sluice.Accepted.String(); sale.Codes[accepted] != p.accepted {
			codes, _, _ := sale.since(aMinute)
			p.accepted, p.pace = sale.Codes[accepted], codes[accepted]
		}
	}
	w.past = next
}

// at returns the newest moment that is at least so old; nil: there is none.
func (p *past) at(age time.Duration) *moment {
	for i := len(p.moments) - 1; i >= 0; i-- {
		if p.now.at.Sub(p.moments[i].at) >= age {
			return &p.moments[i]
		}
	}
	return nil
}

// since returns how much was counted since the newest moment that is at least so old.
func (s *Sale) since(age time.Duration) (codes, reasons map[string]int64, known bool) {
	then := s.past.at(age)
	if then == nil {
		return nil, nil, false
	}
	return more(s.Codes, then.codes), more(s.Reasons, then.reasons), true
}

// more returns by how much counts have grown.
func more(now, then map[string]int64) map[string]int64 {
	grown := map[string]int64{}
	for name, n := range now {
		if d := n - then[name]; d > 0 {
			grown[name] = d
		}
	}
	return grown
}
