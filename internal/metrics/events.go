package metrics

import "github.com/prometheus/client_golang/prometheus"

// Events counts what the merchant is told.
type Events struct{ numbered prometheus.Counter }

// Events returns counters of events and webhooks.
func (m *Metrics) Events() *Events {
	e := &Events{numbered: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_events_numbered_total", Help: "Events of orders and sales that this server gave their numbers.",
	})}
	m.registry.MustRegister(e.numbered)
	return e
}

// Numbered counts events that got their numbers.
func (e *Events) Numbered(n int) { e.numbered.Add(float64(n)) }
