package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/settle"
)

// conditions watches for what the table of conditions has: package condition.
type conditions struct {
	*Engine
	watch condition.Watch

	mu       sync.Mutex
	at       time.Time // of the last look
	standing []condition.Standing

	webhooks []string
	settings []string
	unready  map[sluice.SaleID]string

	riskFailed atomic.Pointer[failure]
}

// failure is an error, and when it was.
type failure struct {
	error
	at time.Time
}

const (
	// A look is taken every lookAround, and for who asks, if the last is older than fresh.
	lookAround = 5 * time.Second
	fresh      = time.Second
	// What costs calls of the databases is looked at every so often.
	lookSlowly = 10 * time.Second
	// soon is how long before its opening a sale should be ready, and mostSoon how many such sales are checked.
	soon     = 15 * time.Minute
	mostSoon = 5
	// lately is how long one failure of a risk service counts.
	lately = 10 * time.Second
	// wrongClock is how far clocks may be apart, and wrongLate how late endings may be: as in the alerts.
	wrongClock = 2 * time.Second
	wrongLate  = 10 * time.Second
)

func (c *conditions) run(ctx context.Context) {
	slowly := time.Time{}
	for range loop.Every(ctx, lookAround) {
		if time.Since(slowly) >= lookSlowly {
			slowly = time.Now()
			c.lookSlowly(ctx)
		}
		c.now(ctx)
	}
}

// now returns what is wrong, the worst first.
func (c *conditions) now(ctx context.Context) []condition.Standing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= fresh {
		c.standing = c.watch.Look(c.look(ctx))
		c.at = time.Now()
	}
	return c.standing
}

// look gathers what this server sees.
func (c *conditions) look(ctx context.Context) *condition.Seen {
	s := &condition.Seen{Now: time.Now()}
	s.Ledger, s.Store = c.server.Answer(ctx)
	if errors.Is(s.Ledger, sluice.ErrRefusesWrites) {
		s.Refuses, s.Ledger = s.Ledger, nil
	}
	if c.replicas != nil {
		s.Replicas = c.replicas.now()
	}
	for _, d := range c.follower.peers.differences() {
		s.Differ = append(s.Differ, d.String())
	}
	s.Silent = c.follower.peers.silent()
	c.clocks(s)
	if f := c.riskFailed.Load(); f != nil && s.Now.Sub(f.at) < lately {
		s.Risk = f.error
	}
	if c.ledgerDriver.Own || c.storeDriver.Own {
		if err := disk.Low(filepath.Join(c.cfg.DataDir, "ledger.db")); err != nil {
			s.Disks = []string{err.Error()}
		}
	}
	c.sales(s)
	s.Webhooks, s.Settings = c.webhooks, c.settings
	for i := range s.Sales {
		s.Sales[i].NotReady = c.unready[s.Sales[i].ID]
	}
	return s
}

// clocks adds what time has to do with.
func (c *conditions) clocks(s *condition.Seen) {
	if clocks := c.settling.clocks.Load(); clocks != nil {
		for _, of := range []struct {
			name  string
			ahead time.Duration
		}{{"ledger", clocks.Ledger}, {"store", clocks.Store}} {
			if of.ahead.Abs() > wrongClock {
				s.Clocks = append(s.Clocks, fmt.Sprintf("%s: %s ahead of this server", of.name, of.ahead.Round(time.Second)))
			}
		}
		s.ExpiryBehind = condition.Lateness{By: clocks.Behind}
	}
	s.Overdue.Wrong = wrongLate
	if b := c.settling.waits.Load(); b != nil {
		for _, sale := range b.Sales {
			for _, since := range []time.Time{sale.OldestDue, sale.OldestRelease} {
				if !since.IsZero() {
					s.Overdue.By = max(s.Overdue.By, b.At.Sub(since))
				}
			}
		}
	}
}

// sales adds those that are not over, as the board has them.
func (c *conditions) sales(s *condition.Seen) {
	waits := c.settling.waits.Load()
	for id, v := range c.board.Views() {
		now := v.LedgerTime(s.Now)
		refusal := v.Sale.Refusal(now)
		sale := condition.Sale{
			ID: id, Fence: v.Sale.Fence, Outdated: settle.Outdated(&v.Sale), Total: v.Sale.Total, Left: v.Available(),
			Backlog: v.Reading.Backlog, Paused: refusal == sluice.Paused,
		}
		if v.Down && s.Ledger == nil && s.Refuses == nil {
			sale.Down = cmp.Or(v.Cause, errSilent).Error()
		}
		if waits != nil {
			sale.DeadLetters = waits.Sales[id].DeadLetters
		}
		if refusal == 0 {
			sale.OpenFor = max(now.Sub(v.Sale.OpensAt), 1)
			codes, reasons, counted := c.claims.Of(id)
			if sale.Counts = codes; !counted {
				sale.Counts = nil
			}
			for reason, n := range reasons {
				codes[reason] += n
			}
		}
		if refusal != sluice.Closed || sale.DeadLetters > 0 || sale.Backlog > 0 || sale.Fence != "" {
			s.Sales = append(s.Sales, sale)
		}
	}
	slices.SortFunc(s.Sales, func(a, b condition.Sale) int { return cmp.Compare(a.ID, b.ID) })
}

var errSilent = errors.New("it does not answer for this sale")

// lookSlowly looks at what costs calls of the databases. Where one does not answer, what was known stays.
func (c *conditions) lookSlowly(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookAround)
	defer cancel()
	webhooks, settings, unready := []string(nil), []string(nil), map[sluice.SaleID]string{}
	all, failed := c.store.Webhooks(ctx)
	for i := range all {
		if w := &all[i]; w.Failures > 0 && w.DisabledAt.IsZero() {
			webhooks = append(webhooks, fmt.Sprintf("%s: %s", w.ID, w.LastError))
		}
	}
	risks, unknown := c.risks(ctx)
	if c.durability != nil {
		risks = slices.Concat(risks, c.durability.now())
	}
	for i := range risks {
		settings = append(settings, risks[i].Text())
	}
	for _, id := range c.opening(time.Now()) {
		if found := c.server.Unready(ctx, id); found != "" {
			unready[id] = found
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unready = unready; failed == nil {
		c.webhooks = webhooks
	}
	if unknown == nil {
		c.settings = settings
	}
}

// opening returns the next sales that open soon.
func (c *conditions) opening(now time.Time) (ids []sluice.SaleID) {
	var next []*admission.View
	for _, v := range c.board.Views() {
		if in := v.Sale.OpensAt.Sub(v.LedgerTime(now)); in > 0 && in < soon && !v.Archived() {
			next = append(next, v)
		}
	}
	slices.SortFunc(next, func(a, b *admission.View) int {
		return cmp.Or(a.Sale.OpensAt.Compare(b.Sale.OpensAt), cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
	for _, v := range next[:min(len(next), mostSoon)] {
		ids = append(ids, v.Sale.ID)
	}
	return ids
}
