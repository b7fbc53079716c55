// Package metrics exports a server's metrics to Prometheus. Counting on the hot
// path costs an atomic addition; what can be read from the board is read at
// each scrape.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehq/sluice"
)

// Metrics holds a server's counters. Make one with New.
type Metrics struct {
	registry *prometheus.Registry

	batches prometheus.Histogram

	stored, redelivered, notCovered prometheus.Counter
}

// New returns counters at zero. Sales is called at each scrape.
func New(sales func() []Sale) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.batches = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sluice_ledger_call_claims", Help: "Claims decided by one call of the ledger.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	m.registry.MustRegister(m.batches)
	orders := m.counters("sluice_orders_stored_total",
		"Claims that the pipeline brought to the store, by what became of them.", "result")
	m.stored, m.redelivered, m.notCovered = orders.WithLabelValues("stored"), orders.WithLabelValues("redelivered"),
		orders.WithLabelValues("not_covered")
	m.sales(sales)
	return m
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauges(name, help, label string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	m.registry.MustRegister(g)
	return g
}

// Decided counts one call of the ledger.
func (m *Metrics) Decided(claims int) { m.batches.Observe(float64(claims)) }

// Stored counts one transaction of the pipeline.
func (m *Metrics) Stored(s sluice.Stored) {
	m.stored.Add(float64(s.Inserted - len(s.Rejected)))
	m.redelivered.Add(float64(s.Redelivered))
	m.notCovered.Add(float64(len(s.Rejected)))
}

// Handler serves the metrics in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return newKept(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{DisableCompression: true}))
}
