package metrics

import "github.com/prometheus/client_golang/prometheus"

// Listener is one listener's connections as the metrics report them.
type Listener struct {
	Name                         string
	Open                         int
	RefusedTotal, RefusedAddress int64
	ClosedIdle, AcceptErrors     int64
}

// Connections adds the connections of all listeners, which are asked for when the
// metrics are rendered.
func (m *Metrics) Connections(listeners func() []Listener) {
	m.registry.MustRegister(&connectionCollector{listeners})
}

type connectionCollector struct{ listeners func() []Listener }

var (
	openDesc    = prometheus.NewDesc("sluice_connections", "Connections that are open.", []string{"listener"}, nil)
	refusedDesc = prometheus.NewDesc("sluice_connections_refused_total",
		"Connections that found no room, by the limit that was reached: total, or address.", []string{"listener", "limit"},
		nil)
	idleDesc = prometheus.NewDesc("sluice_connections_closed_idle_total",
		"Idle connections that were closed early, since connections were scarce.", []string{"listener"}, nil)
	acceptsDesc = prometheus.NewDesc("sluice_accept_errors_total", "Connections that the system could not accept.",
		[]string{"listener"}, nil)
)

// Describe implements prometheus.Collector.
func (c *connectionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{openDesc, refusedDesc, idleDesc, acceptsDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *connectionCollector) Collect(ch chan<- prometheus.Metric) {
	count := func(desc *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	for _, l := range c.listeners() {
		ch <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(l.Open), l.Name)
		count(refusedDesc, l.RefusedTotal, l.Name, "total")
		count(refusedDesc, l.RefusedAddress, l.Name, "address")
		count(idleDesc, l.ClosedIdle, l.Name)
		count(acceptsDesc, l.AcceptErrors, l.Name)
	}
}
