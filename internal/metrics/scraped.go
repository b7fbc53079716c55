package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehq/sluice"
)

// metric is one whose values are read when the metrics are rendered.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name string) metric {
	return metric{defined(name, aGauge).desc(), prometheus.GaugeValue}
}

func counter(name string) metric {
	return metric{defined(name, aCounter).desc(), prometheus.CounterValue}
}

// values takes what a reading reads.
type (
	values  func(of metric, v float64, labels ...string)
	reading func(values)
)

// Describe implements prometheus.Collector. It names nothing: what is read may not be
// there yet when the reading is registered.
func (reading) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r reading) Collect(ch chan<- prometheus.Metric) {
	r(func(of metric, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(of.Desc, of.kind, v, labels...)
	})
}

func (m *Metrics) read(r reading) { m.registry.MustRegister(r) }

// oneIf is a yes or no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Sale is one sale as the metrics report it.
type Sale struct {
	ID        sluice.SaleID
	Taken     int64
	Available int64 // sluice.Unlimited: not reported
	Backlog   int64 // journal entries not stored yet
	Fenced    bool
}

var (
	takenUnits     = gauge("sluice_sale_taken_units")
	availableUnits = gauge("sluice_sale_available_units")
	backlogEntries = gauge("sluice_sale_backlog_entries")
	saleFenced     = gauge("sluice_sale_fenced")
)

// sales reports the board.
func (m *Metrics) sales(sales func() []Sale) {
	m.read(func(value values) {
		for _, s := range sales() {
			sale := string(s.ID)
			value(takenUnits, float64(s.Taken), sale)
			if s.Available != sluice.Unlimited {
				value(availableUnits, float64(s.Available), sale)
			}
			value(backlogEntries, float64(s.Backlog), sale)
			value(saleFenced, oneIf(s.Fenced), sale)
		}
	})
}

var reconcileDifferences = gauge("sluice_reconcile_differences")

// Differences adds what the last reconciliations found, by class; found is
// called at each scrape.
func (m *Metrics) Differences(found func() map[string]int64) {
	m.read(func(value values) {
		for class, n := range found() {
			value(reconcileDifferences, float64(n), class)
		}
	})
}

var (
	gateRefused    = counter("sluice_gate_refused_total")
	claimsInFlight = gauge("sluice_claims_on_their_way")
)

// Gate adds how many claims each check of this server's gate has refused, and how
// many claims are in flight; both are called at each scrape.
func (m *Metrics) Gate(refused func() map[string]int64, inFlight func() int64) {
	m.read(func(value values) {
		for check, n := range refused() {
			value(gateRefused, float64(n), check)
		}
		value(claimsInFlight, float64(inFlight()))
	})
}

// Listener is one listener's connections as the metrics report them.
type Listener struct {
	Name                         string
	Open                         int
	RefusedTotal, RefusedAddress int64
	ClosedIdle, AcceptErrors     int64
}

var (
	connectionsOpen    = gauge("sluice_connections")
	connectionsRefused = counter("sluice_connections_refused_total")
	connectionsIdle    = counter("sluice_connections_closed_idle_total")
	acceptErrors       = counter("sluice_accept_errors_total")
)

// Connections adds the connections of all listeners, which are asked for when the
// metrics are rendered.
func (m *Metrics) Connections(listeners func() []Listener) {
	m.read(func(value values) {
		for _, l := range listeners() {
			value(connectionsOpen, float64(l.Open), l.Name)
			value(connectionsRefused, float64(l.RefusedTotal), l.Name, "total")
			value(connectionsRefused, float64(l.RefusedAddress), l.Name, "address")
			value(connectionsIdle, float64(l.ClosedIdle), l.Name)
			value(acceptErrors, float64(l.AcceptErrors), l.Name)
		}
	})
}

var (
	eventStreams   = gauge("sluice_event_streams")
	streamsRefused = counter("sluice_event_streams_refused_total")
)

// Streams adds how many event streams are open, and how many found no place: on
// the server, and for their address. Both are called at each scrape.
func (m *Metrics) Streams(open func() int64, refused func() (total, address int64)) {
	m.read(func(value values) {
		value(eventStreams, float64(open()))
		total, address := refused()
		value(streamsRefused, float64(total), "total")
		value(streamsRefused, float64(address), "address")
	})
}

var replicaUp = gauge("sluice_ledger_replica_up")

// Replica adds whether the ledger's replica answers.
func (m *Metrics) Replica(up func() bool) {
	m.read(func(value values) { value(replicaUp, oneIf(up())) })
}

var serversDiffer = gauge("sluice_servers_differ")

// Servers adds how many other servers have settings that are not this one's, though all share them.
func (m *Metrics) Servers(differ func() int) {
	m.read(func(value values) { value(serversDiffer, float64(differ())) })
}

var (
	tokenKeys     = gauge("sluice_token_keys")
	tokenKeysRead = gauge("sluice_token_keys_read_timestamp_seconds")
)

// TokenKeys reports the public keys of buyers' tokens: how many there are, and
// when they were last read; zero: never.
func (m *Metrics) TokenKeys(status func() (keys int, read time.Time)) {
	m.read(func(value values) {
		keys, read := status()
		value(tokenKeys, float64(keys))
		value(tokenKeysRead, float64(max(read.UnixMilli(), 0))/1000) // the zero time is before 1970
	})
}
