package metrics

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Settling counts what happens after the claim: endings, releases, dead
// letters, rebuilds and reconciliations; and what waits for it.
type Settling struct {
	expired                  *prometheus.CounterVec
	applied, before, unknown prometheus.Counter
	aside                    prometheus.Counter
	reconciled               prometheus.Counter
	found, repaired          *prometheus.CounterVec

	clocks *prometheus.GaugeVec
	behind prometheus.Gauge

	expiringMu sync.Mutex
	expiring   map[sluice.SaleID]bool // sales with a counter of their own

	backlog atomic.Pointer[port.Backlog]
}

// Settling returns counters at zero. Classes lists the classes of differences that
// Found will meet; rebuilds is called at each scrape.
func (m *Metrics) Settling(classes []string, rebuilds func() int64) *Settling {
	s := &Settling{
		expired:    m.counters("sluice_orders_expired_total"),
		aside:      m.counter("sluice_dead_letters_total"),
		reconciled: m.counter("sluice_reconciliations_total"),
		found:      m.counters("sluice_reconcile_found_total"),
		repaired:   m.counters("sluice_reconcile_repaired_total"),
		clocks:     m.gauges("sluice_clock_ahead_seconds"),
		behind:     m.gauges("sluice_expiry_behind_seconds").WithLabelValues(),
		expiring:   map[sluice.SaleID]bool{},
	}
	s.expired.WithLabelValues("")
	released := m.counters("sluice_releases_total")
	s.applied, s.before, s.unknown = released.WithLabelValues("applied"), released.WithLabelValues("before"),
		released.WithLabelValues("unknown")
	for _, class := range classes {
		s.found.WithLabelValues(class)
		s.repaired.WithLabelValues(class)
	}
	m.read(func(value values) { value(rebuilt, float64(rebuilds())) })
	m.read(s.readBacklog)
	return s
}

// mostExpiring is for how many sales, since the start, expired orders are counted
// apart. Orders of further sales are counted together, without a sale.
const mostExpiring = 1000

// Expired counts orders of a sale that were due.
func (s *Settling) Expired(sale sluice.SaleID, n int) {
	s.expiringMu.Lock()
	defer s.expiringMu.Unlock()
	if !s.expiring[sale] {
		if len(s.expiring) >= mostExpiring {
			sale = ""
		} else {
			s.expiring[sale] = true
		}
	}
	s.expired.WithLabelValues(string(sale)).Add(float64(n))
}

// Clocks sets how far the store's and the ledger's clock are ahead of this server's,
// and how far expiry is behind the store's.
func (s *Settling) Clocks(store, ledger, behind time.Duration) {
	s.clocks.WithLabelValues("store").Set(store.Seconds())
	s.clocks.WithLabelValues("ledger").Set(ledger.Seconds())
	s.behind.Set(behind.Seconds())
}

// Released counts what the ledger did with releases.
func (s *Settling) Released(r *port.Released) {
	s.applied.Add(float64(r.Applied))
	s.before.Add(float64(r.Before))
	s.unknown.Add(float64(len(r.Unknown)))
}

// SetAside counts a dead letter.
func (s *Settling) SetAside() { s.aside.Inc() }

// Reconciled counts one reconciliation, and Found what it found of a class.
func (s *Settling) Reconciled() { s.reconciled.Inc() }

// Found counts differences of a class.
func (s *Settling) Found(class string, found, repaired int64) {
	s.found.WithLabelValues(class).Add(float64(found))
	s.repaired.WithLabelValues(class).Add(float64(repaired))
}

// Backlog sets what waits in the store; nil says that the store did not tell.
func (s *Settling) Backlog(b *port.Backlog) { s.backlog.Store(b) }

var (
	rebuilt       = counter("sluice_rebuilds_total")
	storeUp       = gauge("sluice_store_up")
	deadLetters   = gauge("sluice_dead_letters")
	waiting       = gauge("sluice_releases_waiting")
	oldestWaiting = gauge("sluice_release_oldest_seconds")
	overdue       = gauge("sluice_orders_overdue")
	oldestOverdue = gauge("sluice_order_overdue_oldest_seconds")
)

// readBacklog reports the backlog that was read last. When the store does not
// answer it reports nothing but that: an old figure would calm people.
func (s *Settling) readBacklog(value values) {
	backlog := s.backlog.Load()
	value(storeUp, oneIf(backlog != nil))
	if backlog == nil {
		return
	}
	oldestRelease, oldestDue := 0.0, 0.0
	for id, b := range backlog.Sales {
		sale := string(id)
		if b.DeadLetters > 0 {
			value(deadLetters, float64(b.DeadLetters), sale)
		}
		if b.Releases > 0 {
			value(waiting, float64(b.Releases), sale)
			oldestRelease = max(oldestRelease, backlog.At.Sub(b.OldestRelease).Seconds())
		}
		if b.Overdue > 0 {
			value(overdue, float64(b.Overdue), sale)
			oldestDue = max(oldestDue, backlog.At.Sub(b.OldestDue).Seconds())
		}
	}
	value(oldestWaiting, oldestRelease)
	value(oldestOverdue, oldestDue)
}
