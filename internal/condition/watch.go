package condition

import (
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Standing is a condition that holds now.
type Standing struct {
	*Condition
	Sale   sluice.SaleID // empty: all of them
	Detail string
	Since  time.Time // when this server saw it first
}

// Watch remembers since when conditions hold, and what sales were like a moment ago. The zero value is ready. It is
// safe for concurrent use.
type Watch struct {
	mu    sync.Mutex
	since map[subject]time.Time
	past  map[sluice.SaleID]*past
}

// subject is what a condition holds of.
type subject struct{ condition, sale, detail string }

// past are the figures of a sale at two earlier moments, half a minute apart.
type past struct{ older, newer moment }

// moment has the figures of a sale: at zero, none yet.
type moment struct {
	at     time.Time
	counts map[string]int64
	least  int64 // the smallest backlog since
}

const apart = 30 * time.Second

// Look returns the conditions that hold, the worst first. It is to be called every few seconds.
func (w *Watch) Look(s *Seen) (all []Standing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remember(s)
	since := map[subject]time.Time{}
	for i := range table {
		for _, f := range table[i].judge(s) {
			of := subject{table[i].Name, f.sale, ""}
			if f.sale == "" {
				of.detail = f.detail
			}
			if since[of] = s.Now; !w.since[of].IsZero() {
				since[of] = w.since[of]
			}
			all = append(all, Standing{
				Condition: &table[i], Sale: sluice.SaleID(f.sale), Detail: f.detail, Since: since[of],
			})
		}
	}
	w.since = since
	return all
}

// remember notes the figures of the sales, and gives each what has changed of it lately.
func (w *Watch) remember(s *Seen) {
	next := make(map[sluice.SaleID]*past, len(s.Sales))
	for i := range s.Sales {
		sale := &s.Sales[i]
		p := w.past[sale.ID]
		if p == nil {
			p = &past{}
		}
		next[sale.ID] = p
		p.older.least, p.newer.least = min(p.older.least, sale.Backlog), min(p.newer.least, sale.Backlog)
		if s.Now.Sub(p.newer.at) >= apart {
			p.older, p.newer = p.newer, moment{s.Now, maps.Clone(sale.Counts), sale.Backlog}
		}
		if p.older.at.IsZero() {
			continue
		}
		sale.lately = &lately{counts: map[string]int64{}, least: p.older.least}
		for name, n := range sale.Counts {
			if more := n - p.older.counts[name]; more > 0 {
				sale.lately.counts[name] = more
			}
		}
	}
	w.past = next
}
