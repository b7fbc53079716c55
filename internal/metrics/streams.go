package metrics

import "github.com/prometheus/client_golang/prometheus"

// Streams adds how many event streams are open, and how many found no place: on
// the server, and for their address. Both are called at each scrape.
func (m *Metrics) Streams(open func() int64, refused func() (total, address int64)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_event_streams", Help: "Event streams that are open on this server.",
		}, func() float64 { return float64(open()) }),
		&refusedStreams{refused})
}

type refusedStreams struct{ refused func() (total, address int64) }

var refusedStreamsDesc = prometheus.NewDesc("sluice_event_streams_refused_total",
	"Event streams that this server refused, by the limit that was reached: total, or address.", []string{"limit"}, nil)

// Describe implements prometheus.Collector.
func (c *refusedStreams) Describe(ch chan<- *prometheus.Desc) { ch <- refusedStreamsDesc }

// Collect implements prometheus.Collector.
func (c *refusedStreams) Collect(ch chan<- prometheus.Metric) {
	total, address := c.refused()
	ch <- prometheus.MustNewConstMetric(refusedStreamsDesc, prometheus.CounterValue, float64(total), "total")
	ch <- prometheus.MustNewConstMetric(refusedStreamsDesc, prometheus.CounterValue, float64(address), "address")
}
