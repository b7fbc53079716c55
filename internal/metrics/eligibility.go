package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Eligibility counts what stands before a sale. Make it with Metrics.Eligibility, once.
type Eligibility struct {
	tickets *prometheus.CounterVec
	risk    *prometheus.HistogramVec
}

// Eligibility adds the counters of tickets and of the merchants' risk services.
func (m *Metrics) Eligibility() *Eligibility {
	e := &Eligibility{
		tickets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_ticket_requests_total",
			Help: "Requests for tickets and challenges, by what became of them: handed_out, the reason of a refusal, or a code.",
		}, []string{"outcome"}),
		risk: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_risk_seconds",
			Help: "How long merchants' risk services took, by verdict: allowed, denied, or failed_allowed and failed_denied " +
				"by the sale's policy.",
			// From a service next door to the longest timeout that a sale can have.
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"verdict"}),
	}
	m.registry.MustRegister(e.tickets, e.risk)
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
