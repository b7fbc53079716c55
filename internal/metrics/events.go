package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehq/sluice"
)

// Events counts the events that merchants receive. It is a notify.Observer.
type Events struct {
	numbered                  prometheus.Counter
	delivered, failed, parked prometheus.Counter
	lag                       *prometheus.GaugeVec
}

// Events returns counters of events and webhooks.
func (m *Metrics) Events() *Events {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhook_attempts_total", Help: "Attempts of this server to deliver an event to a webhook, by outcome.",
	}, []string{"result"})
	e := &Events{
		numbered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_events_numbered_total", Help: "Events of orders and sales that this server gave their numbers.",
		}),
		delivered: attempts.WithLabelValues("delivered"), failed: attempts.WithLabelValues("failed"),
		parked: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_webhook_given_up_total",
			Help: "Events that this server gave up for a webhook; an operator can replay them.",
		}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sluice_webhook_lag_events",
			Help: "Events that have not been looked at for a webhook; of the server that sends.",
		}, []string{"webhook"}),
	}
	m.registry.MustRegister(e.numbered, attempts, e.parked, e.lag)
	return e
}

// Numbered counts events that got their numbers.
func (e *Events) Numbered(n int) { e.numbered.Add(float64(n)) }

// Tried counts what became of attempts.
func (e *Events) Tried(delivered, failed, parked int) {
	e.delivered.Add(float64(delivered))
	e.failed.Add(float64(failed))
	e.parked.Add(float64(parked))
}

// Lag sets how many events wait, by webhook; none that is not named.
func (e *Events) Lag(lag map[sluice.WebhookID]int64) {
	e.lag.Reset()
	for id, n := range lag {
		e.lag.WithLabelValues(string(id)).Set(float64(n))
	}
}
