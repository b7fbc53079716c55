// Package metrics exports a server's metrics to Prometheus. Counting on the hot
// path costs an atomic addition; what can be read from the board is read at
// each scrape.
package metrics

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehq/sluice/internal/port"
)

// Metrics holds a server's counters. Make one with New.
type Metrics struct {
	registry *prometheus.Registry

	batches prometheus.Observer

	stored, redelivered, notCovered prometheus.Counter
}

// New returns counters at zero. Sales is called at each scrape.
func New(sales func() []Sale) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.batches = m.histograms("sluice_ledger_call_claims", prometheus.ExponentialBuckets(1, 2, 11)).WithLabelValues()
	orders := m.counters("sluice_orders_stored_total")
	m.stored, m.redelivered, m.notCovered = orders.WithLabelValues("stored"), orders.WithLabelValues("redelivered"),
		orders.WithLabelValues("not_covered")
	m.sales(sales)
	return m
}

func (m *Metrics) counter(name string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: defined(name, aCounter).help()})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name string) *prometheus.CounterVec {
	d := defined(name, aCounter)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: d.help()}, d.names())
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauges(name string) *prometheus.GaugeVec {
	d := defined(name, aGauge)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: d.help()}, d.names())
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histograms(name string, buckets []float64) *prometheus.HistogramVec {
	d := defined(name, aHistogram)
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: d.help(), Buckets: buckets}, d.names())
	m.registry.MustRegister(h)
	return h
}

// Decided counts one call of the ledger.
func (m *Metrics) Decided(claims int) { m.batches.Observe(float64(claims)) }

// Stored counts one transaction of the pipeline.
func (m *Metrics) Stored(s port.Stored) {
	m.stored.Add(float64(s.Inserted - len(s.Rejected)))
	m.redelivered.Add(float64(s.Redelivered))
	m.notCovered.Add(float64(len(s.Rejected)))
}

// Handler serves the metrics, and those of the process, in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	process := prometheus.NewRegistry()
	process.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return newKept(promhttp.HandlerFor(prometheus.Gatherers{process, m.registry},
		promhttp.HandlerOpts{DisableCompression: true}))
}

// Join has the metrics collected with those of a program, until leave is called.
func (m *Metrics) Join(program prometheus.Registerer) (leave func(), err error) {
	if err := program.Register(m.registry); err != nil {
		return nil, fmt.Errorf("the metrics cannot be registered: %w", err)
	}
	return func() { program.Unregister(m.registry) }, nil
}
