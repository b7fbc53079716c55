package metrics

import "github.com/prometheus/client_golang/prometheus"

// Streams adds how many event streams are open, asked for whenever somebody
// reads the metrics.
func (m *Metrics) Streams(open func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_event_streams", Help: "Event streams that are open on this server.",
	}, func() float64 { return float64(open()) }))
}
