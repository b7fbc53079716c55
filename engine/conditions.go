package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/curve"
	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// conditions watches for what the table of conditions has: package condition. One loop looks; who asks gets what it
// has seen last.
type conditions struct {
	*Engine
	watch    condition.Watch
	standing atomic.Pointer[[]condition.Standing]

	webhooks []condition.Named
	evicts   []condition.Named
	settings []condition.Named
	refusers []condition.Named
	unready  map[sluice.SaleID]string
	claimed  map[sluice.SaleID]claimed // at the last look

	mu      sync.Mutex
	failing map[string]failures // risk services, by address
}

// failures are the questions in a row that a service did not answer.
type failures struct {
	n    int
	why  string
	last time.Time
}

// lookEach is how often all is looked at. Tests have no patience for it.
var lookEach = 5 * time.Second

const (
	// lookFor bounds each question to a database.
	lookFor = 2 * time.Second
	// soon is how long before its opening a sale should be ready, and mostSoon how many such sales are looked at.
	soon     = 15 * time.Minute
	mostSoon = 5
	// fails is how many questions in a row a risk service does not answer that fails, and failsFor how long the last
	// of them counts.
	fails    = 3
	failsFor = 10 * time.Second
	// wrongClock is how far clocks may be apart.
	wrongClock = 2 * time.Second
)

func (c *conditions) run(ctx context.Context) {
	for range loop.Every(ctx, lookEach) {
		standing := c.watch.Look(c.look(ctx))
		c.standing.Store(&standing)
	}
}

// now returns what is wrong, the worst first.
func (c *conditions) now() []condition.Standing {
	if standing := c.standing.Load(); standing != nil {
		return *standing
	}
	return nil
}

// look gathers what this server sees.
func (c *conditions) look(ctx context.Context) *condition.Seen {
	s := &condition.Seen{Now: time.Now(), InStore: c.cfg.Ledger == inStore}
	var asking sync.WaitGroup
	asking.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lookFor)
		defer cancel()
		err := c.server.AskLedger(ctx)
		s.LedgerRefuses = errors.Is(err, sluice.ErrRefusesWrites)
		s.LedgerDown = err != nil && !s.LedgerRefuses
	})
	asking.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, lookFor)
		defer cancel()
		s.StoreDown = c.store.Ping(ctx) != nil
	})
	asking.Wait()
	s.ReplicasMissing = c.Engine.replicas != nil && c.Engine.replicas.now() != nil
	for _, d := range c.follower.peers.differences() {
		s.Differ = append(s.Differ, condition.Named{Name: d.Node, Detail: "another " + strings.Join(d.Settings, ", ")})
	}
	for _, p := range c.follower.peers.known() {
		if p.Silent {
			heard := "heard of last at " + p.Seen.UTC().Format(time.TimeOnly)
			s.Silent = append(s.Silent, condition.Named{Name: p.Node, Detail: heard})
		}
	}
	c.clocks(s)
	if c.ledgerDriver.Own || c.storeDriver.Own {
		if err := disk.Low(filepath.Join(c.cfg.DataDir, "ledger.db")); err != nil {
			s.Disks = []condition.Named{{Name: c.node, Detail: err.Error()}}
		}
	}
	c.failingServices(s)
	c.sales(s)
	if !s.StoreDown {
		c.lookIntoStore(ctx, s)
	}
	s.Webhooks, s.Evicts, s.Settings, s.Refusers = c.webhooks, c.evicts, c.settings, c.refusers
	for i := range s.Sales {
		s.Sales[i].NotReady = c.unready[s.Sales[i].ID]
	}
	return s
}

// clocks adds how they differ.
func (c *conditions) clocks(s *condition.Seen) {
	clocks := c.settling.clocks.Load()
	if clocks == nil {
		return
	}
	s.ExpiryBehind = clocks.Behind
	for _, of := range []struct {
		name  string
		ahead time.Duration
	}{{"ledger", clocks.Ledger}, {"store", clocks.Store}} {
		if of.ahead.Abs() > wrongClock {
			way := "ahead of"
			if of.ahead < 0 {
				way = "behind"
			}
			s.Clocks = append(s.Clocks, condition.Named{Name: of.name, Detail: fmt.Sprintf("%s %s this server's",
				of.ahead.Abs().Round(time.Second), way)})
		}
	}
}

// judged notes whether a risk service has judged, or why not.
func (c *conditions) judged(address string, failed error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failed == nil {
		delete(c.failing, address)
		return
	}
	if c.failing == nil {
		c.failing = map[string]failures{}
	}
	c.failing[address] = failures{c.failing[address].n + 1, failed.Error(), time.Now()}
}

func (c *conditions) failingServices(s *condition.Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.failing, func(_ string, f failures) bool { return s.Now.Sub(f.last) > failsFor })
	for _, address := range slices.Sorted(maps.Keys(c.failing)) {
		if f := c.failing[address]; f.n >= fails {
			s.Risk = append(s.Risk, condition.Named{Name: address, Detail: f.why})
		}
	}
}

// none are the counts of a sale to which no claim has come.
var none = map[string]int64{}

// sales adds those that something could be wrong with.
func (c *conditions) sales(s *condition.Seen) {
	waits, codes := c.settling.waits.Load(), map[sluice.SaleID]map[string]int64{}
	c.claims.Each(func(sale sluice.SaleID, code string, n int64) {
		if codes[sale] == nil {
			codes[sale] = map[string]int64{}
		}
		codes[sale][code] = n
	})
	for id, v := range c.board.Views() {
		now := v.LedgerTime(s.Now)
		refusal := v.Sale.Refusal(now)
		waiting := port.SaleBacklog{}
		if waits != nil {
			waiting = waits.Sales[id]
		}
		idle := refusal == sluice.Closed || refusal == sluice.NotOpen && v.Sale.OpensAt.Sub(now) > soon
		if v.Archived() || idle && v.Sale.Fence == "" && v.Reading.Backlog == 0 && waiting == (port.SaleBacklog{}) {
			continue
		}
		sale := condition.Sale{
			ID: id, Fence: v.Sale.Fence, Outdated: settle.Outdated(&v.Sale), Down: v.Down,
			Letter: strings.HasPrefix(v.Sale.Fence, port.FenceLate),
			Paused: refusal == sluice.Paused, Total: v.Sale.Total, Left: v.Available(), Taken: v.Shown().Taken,
			Epoch: v.Reading.Epoch, Backlog: v.Reading.Backlog, Oldest: v.Reading.Oldest, DeadLetters: waiting.DeadLetters,
		}
		switch {
		case v.Down || v.InStep() || v.Reading.Fence == port.FenceLoading:
		case c.follower.loader.Foreign(&v.Sale):
			sale.Off = settle.OtherDecides + v.Sale.Ledger
		default:
			sale.Off = cmp.Or(v.Reading.Fence, fmt.Sprintf("the ledger has epoch %d of it, the database %d", v.Reading.Epoch,
				v.Sale.Epoch))
		}
		for _, since := range []time.Time{waiting.OldestDue, waiting.OldestRelease} {
			if !since.IsZero() {
				sale.Overdue = max(sale.Overdue, waits.At.Sub(since))
			}
		}
		if refusal == 0 {
			sale.OpenFor = max(now.Sub(v.Sale.OpensAt), 1)
			switch {
			case codes[id] != nil:
				sale.Codes = codes[id]
				_, sale.Reasons, _ = c.claims.Of(id)
			case c.claims.Apart(id): // none has come; most sales have no claims, and must cost next to nothing
				sale.Codes, sale.Reasons = none, none
			}
		}
		s.Sales = append(s.Sales, sale)
	}
	slices.SortFunc(s.Sales, func(a, b condition.Sale) int { return cmp.Compare(a.ID, b.ID) })
}

// lookIntoStore looks at what the databases have to be asked for. Where one does not answer, what was known stays.
func (c *conditions) lookIntoStore(ctx context.Context, s *condition.Seen) {
	asking, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	if all, err := c.store.Webhooks(asking); err == nil {
		c.webhooks = nil
		for i := range all {
			switch w := &all[i]; {
			case !w.DisabledAt.IsZero() && w.DisabledWhy != httpapi.DisabledByHand:
				c.webhooks = append(c.webhooks, condition.Named{Name: string(w.ID), Detail: "disabled: " + w.DisabledWhy})
			case w.DisabledAt.IsZero() && w.Failures > 1:
				c.webhooks = append(c.webhooks, condition.Named{Name: string(w.ID), Detail: w.LastError})
			}
		}
	}
	c.compareServers(asking, s)
	c.lookAtSettings(asking)
	c.unready = map[sluice.SaleID]string{}
	for _, v := range c.opening(s) {
		asking, cancel := context.WithTimeout(ctx, lookFor)
		if found := c.server.Unready(asking, v); found != "" {
			c.unready[v.Sale.ID] = found
		}
		cancel()
	}
}

// lookAtSettings looks for those that can lose something.
func (c *conditions) lookAtSettings(ctx context.Context) {
	risks, err := c.Engine.risks(ctx)
	if err != nil {
		return
	}
	if c.durability != nil {
		risks = slices.Concat(risks, c.durability.now())
	}
	c.evicts, c.settings = nil, nil
	for i := range risks {
		to := &c.settings
		if risks[i].Evicts {
			to = &c.evicts
		}
		*to = append(*to, condition.Named{
			Name: risks[i].Setting, Detail: cmp.Or(risks[i].Value, "empty") + ", " + risks[i].Harm,
		})
	}
}

// opening returns the next sales that open soon.
func (c *conditions) opening(s *condition.Seen) (next []*admission.View) {
	for i := range s.Sales {
		v := c.board.View(s.Sales[i].ID)
		if v != nil && v.Sale.OpensAt.After(v.LedgerTime(s.Now)) && !v.Down {
			next = append(next, v)
		}
	}
	slices.SortFunc(next, func(a, b *admission.View) int {
		return cmp.Or(a.Sale.OpensAt.Compare(b.Sale.OpensAt), cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
	return next[:min(len(next), mostSoon)]
}

const (
	// compareFor is the time of which the answers of servers are compared, and enough how many of them say something.
	compareFor = 30 * time.Second
	enough     = 50
	// mostCompared is of how many sales.
	mostCompared = 5
)

// claimed is how many claims have come to a sale here, and when the last of them was seen.
type claimed struct {
	n    int64
	last time.Time
}

// hottest returns the sales to which claims have come here lately, those with the most since the start first.
func (c *conditions) hottest(s *condition.Seen) (ids []sluice.SaleID) {
	now := map[sluice.SaleID]claimed{}
	for i := range s.Sales {
		sale, n := &s.Sales[i], int64(0)
		if sale.OpenFor == 0 {
			continue
		}
		for _, of := range sale.Codes {
			n += of
		}
		before := c.claimed[sale.ID]
		if n > before.n {
			before = claimed{n, s.Now}
		}
		if now[sale.ID] = before; n > 0 && s.Now.Sub(before.last) < compareFor {
			ids = append(ids, sale.ID)
		}
	}
	c.claimed = now
	slices.SortFunc(ids, func(a, b sluice.SaleID) int {
		return cmp.Or(cmp.Compare(now[b].n, now[a].n), cmp.Compare(a, b))
	})
	return ids[:min(len(ids), mostCompared)]
}

// compareServers finds those that refuse more than half of their buyers where another one refuses next to none.
func (c *conditions) compareServers(ctx context.Context, s *condition.Seen) {
	type tally struct{ all, refused int64 }
	servers := map[string]tally{}
	for _, id := range c.hottest(s) {
		from := s.Now.Add(-compareFor)
		stretches, err := c.store.Stretches(ctx, id, from.Add(-curve.Longest))
		if err != nil {
			return
		}
		for node, counts := range curve.ByServer(stretches, from) {
			t := servers[node]
			for kind, n := range counts {
				if t.all += n; curve.Kind(kind) == curve.Refused {
					t.refused += n
				}
			}
			servers[node] = t
		}
	}
	c.refusers = nil
	fair := ""
	for node, t := range servers {
		if t.all >= enough && 20*t.refused <= t.all {
			fair = max(fair, node)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(servers)) {
		if t := servers[node]; fair != "" && t.all >= enough && 2*t.refused > t.all {
			c.refusers = append(c.refusers, condition.Named{
				Name: node, Detail: fmt.Sprintf("%d of its last %d claims, and next to none of %s", t.refused, t.all, fair),
			})
		}
	}
}
