package metrics

import "github.com/prometheus/client_golang/prometheus"

// Gate adds how many claims each check of this server's gate has refused, how
// many claims are in flight and how many permits in use; all are called at each
// scrape.
func (m *Metrics) Gate(refused func() map[string]int64, inFlight, permits func() int64) {
	m.registry.MustRegister(&gateCollector{refused, inFlight, permits})
}

type gateCollector struct {
	refused           func() map[string]int64
	inFlight, permits func() int64
}

var (
	gateDesc = prometheus.NewDesc("sluice_gate_refused_total",
		"Claims that this server refused before the ledger was asked, by check.", []string{"check"}, nil)
	inFlightDesc = prometheus.NewDesc("sluice_claims_on_their_way",
		"Claims that this server has let through and that are not decided.", nil, nil)
	permitsDesc = prometheus.NewDesc("sluice_permits_in_use",
		"Permits of sales with a shared admission ratio that this server uses: claims that the ledger is deciding.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *gateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- gateDesc
	ch <- inFlightDesc
	ch <- permitsDesc
}

// Collect implements prometheus.Collector.
func (c *gateCollector) Collect(ch chan<- prometheus.Metric) {
	for check, n := range c.refused() {
		ch <- prometheus.MustNewConstMetric(gateDesc, prometheus.CounterValue, float64(n), check)
	}
	ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(c.inFlight()))
	ch <- prometheus.MustNewConstMetric(permitsDesc, prometheus.GaugeValue, float64(c.permits()))
}
