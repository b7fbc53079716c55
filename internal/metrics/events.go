package metrics

import (
	"time"

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
	attempts := m.counters("sluice_webhook_attempts_total")
	return &Events{
		numbered:  m.counter("sluice_events_numbered_total"),
		delivered: attempts.WithLabelValues("delivered"), failed: attempts.WithLabelValues("failed"),
		parked: m.counter("sluice_webhook_given_up_total"),
		lag:    m.gauges("sluice_webhook_lag_events"),
	}
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

// Eligibility counts what stands before a sale. Make it with Metrics.Eligibility, once.
type Eligibility struct {
	tickets *prometheus.CounterVec
	risk    *prometheus.HistogramVec
}

// Eligibility adds the counters of tickets and of the merchants' risk services.
func (m *Metrics) Eligibility() *Eligibility {
	e := &Eligibility{
		tickets: m.counters("sluice_ticket_requests_total"),
		risk:    m.histograms("sluice_risk_seconds", []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}),
	}
	return e
}

// Ticket counts one request for a ticket.
func (e *Eligibility) Ticket(outcome string) { e.tickets.WithLabelValues(outcome).Inc() }

// Risk counts one verdict.
func (e *Eligibility) Risk(allow, failed bool, took time.Duration) {
	verdict := "denied"
	if allow {
		verdict = "allowed"
	}
	if failed {
		verdict = "failed_" + verdict
	}
	e.risk.WithLabelValues(verdict).Observe(took.Seconds())
}

// AdminActions counts what admins did.
type AdminActions struct{ vec *prometheus.CounterVec }

// AdminActions returns a counter of what admins did, by what became of the
// record: recorded, unrecorded (the store did not take it; the log has it),
// forbidden (all of those, recorded or not), wrong_key (a key that is no
// admin's).
func (m *Metrics) AdminActions() AdminActions {
	vec := m.counters("sluice_admin_actions_total")
	for _, result := range []string{"recorded", "unrecorded", "forbidden", "wrong_key"} {
		vec.WithLabelValues(result)
	}
	return AdminActions{vec}
}

// Count counts one.
func (a AdminActions) Count(result string) { a.vec.WithLabelValues(result).Inc() }
