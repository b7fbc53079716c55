package metrics

import "github.com/prometheus/client_golang/prometheus"

// Replica adds whether the ledger's replica answers.
func (m *Metrics) Replica(up func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_ledger_replica_up", Help: "1 if the replica of the ledger has answered the last reading.",
	}, func() float64 {
		if up() {
			return 1
		}
		return 0
	}))
}
