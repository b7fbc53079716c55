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

	claims      map[string]prometheus.Counter
	claimsOther prometheus.Counter
	batches     prometheus.Histogram

	stored, redelivered, notCovered prometheus.Counter
}

// Sale is one sale as the sales' collector reports it.
type Sale struct {
	ID        sluice.SaleID
	Taken     int64
	Available int64 // sluice.Unlimited: not reported
	Backlog   int64 // journal entries not stored yet
	Fenced    bool
}

// New returns counters at zero. Sales is called at each scrape; extra are codes
// besides the domain's that Count will meet.
func New(sales func() []Sale, extra ...string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), claims: map[string]prometheus.Counter{}}
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_claims_total", Help: "Answers to claims, by code.",
	}, []string{"code"})
	for _, code := range sluice.Codes() {
		m.claims[code.String()] = vec.WithLabelValues(code.String())
	}
	for _, code := range extra {
		m.claims[code] = vec.WithLabelValues(code)
	}
	m.claimsOther = vec.WithLabelValues("other")
	m.batches = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "sluice_ledger_call_claims", Help: "Claims decided by one call of the ledger.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	})
	orders := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_orders_stored_total", Help: "Claims that the pipeline brought to the store, by what became of them.",
	}, []string{"result"})
	m.stored, m.redelivered, m.notCovered = orders.WithLabelValues("stored"), orders.WithLabelValues("redelivered"),
		orders.WithLabelValues("not_covered")
	m.registry.MustRegister(vec, m.batches, orders, &saleCollector{sales},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Count counts one answer to a claim.
func (m *Metrics) Count(code string) {
	if c, ok := m.claims[code]; ok {
		c.Inc()
		return
	}
	m.claimsOther.Inc()
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

// saleCollector reports the board when it is asked.
type saleCollector struct{ sales func() []Sale }

var (
	takenDesc = prometheus.NewDesc("sluice_sale_taken_units", "Units of live orders, by the ledger.", []string{"sale"},
		nil)
	availableDesc = prometheus.NewDesc("sluice_sale_available_units", "Units that can be taken, by the ledger.",
		[]string{"sale"}, nil)
	backlogDesc = prometheus.NewDesc("sluice_sale_backlog_entries", "Journal entries that are not stored yet.",
		[]string{"sale"}, nil)
	fencedDesc = prometheus.NewDesc("sluice_sale_fenced", "1 while claims are refused as unavailable until a rebuild.",
		[]string{"sale"}, nil)
)

// Describe implements prometheus.Collector.
func (c *saleCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- takenDesc
	ch <- availableDesc
	ch <- backlogDesc
	ch <- fencedDesc
}

// Collect implements prometheus.Collector.
func (c *saleCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.sales() {
		gauge := func(desc *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, string(s.ID))
		}
		gauge(takenDesc, float64(s.Taken))
		if s.Available != sluice.Unlimited {
			gauge(availableDesc, float64(s.Available))
		}
		gauge(backlogDesc, float64(s.Backlog))
		fenced := 0.0
		if s.Fenced {
			fenced = 1
		}
		gauge(fencedDesc, fenced)
	}
}

// Differences adds what the last reconciliations found, by class; found is
// called at each scrape.
func (m *Metrics) Differences(found func() map[string]int64) {
	m.registry.MustRegister(&differenceCollector{found})
}

type differenceCollector struct{ found func() map[string]int64 }

var differencesDesc = prometheus.NewDesc("sluice_reconcile_differences",
	"Differences between ledger and store that this server's last reconciliations found.", []string{"class"}, nil)

// Describe implements prometheus.Collector.
func (c *differenceCollector) Describe(ch chan<- *prometheus.Desc) { ch <- differencesDesc }

// Collect implements prometheus.Collector.
func (c *differenceCollector) Collect(ch chan<- prometheus.Metric) {
	for class, n := range c.found() {
		ch <- prometheus.MustNewConstMetric(differencesDesc, prometheus.GaugeValue, float64(n), class)
	}
}
