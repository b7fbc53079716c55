package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AdminActions counts what admins did.
type AdminActions struct{ vec *prometheus.CounterVec }

// AdminActions returns a counter of what admins did, by what became of the
// record: recorded, unrecorded (the store did not take it; the log has it),
// forbidden (all of those, recorded or not), wrong_key (a key that is no
// admin's).
func (m *Metrics) AdminActions() AdminActions {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_admin_actions_total", Help: "Requests of admins that change something, by what became of their record.",
	}, []string{"result"})
	for _, result := range []string{"recorded", "unrecorded", "forbidden", "wrong_key"} {
		vec.WithLabelValues(result)
	}
	m.registry.MustRegister(vec)
	return AdminActions{vec}
}

// Count counts one.
func (a AdminActions) Count(result string) { a.vec.WithLabelValues(result).Inc() }

// TokenKeys reports the public keys of buyers' tokens: how many there are, and
// when they were last read; zero: never.
func (m *Metrics) TokenKeys(status func() (keys int, read time.Time)) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_token_keys", Help: "Public keys that buyers' tokens are verified with.",
		}, func() float64 {
			keys, _ := status()
			return float64(keys)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_token_keys_read_timestamp_seconds",
			Help: "When the public keys of buyers' tokens were last read without an error; 0: never.",
		}, func() float64 {
			_, read := status()
			if read.IsZero() {
				return 0
			}
			return float64(read.UnixMilli()) / 1000
		}))
}
