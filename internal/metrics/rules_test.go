package metrics

// What is made of the list of metrics: recording rules, alerts and the dashboard.
// TestGenerated writes them.

// recording is a recording rule.
type recording struct{ name, expr string }

// perSecond is the rate over five minutes, by labels; p99 the 99th percentile of a
// histogram. A Prometheus that reads native histograms does not keep the classic ones of
// the same metric.
func perSecond(metric, by string) string { return rateOver("5m", metric, "", by) }

func p99(metric, by string) string { return p99Over("5m", metric, "", by) }

// rateOver and p99Over are the same over other times, and of some series only.
func rateOver(window, metric, of, by string) string {
	rate := "(rate(" + metric + of + "[" + window + "]))"
	if by == "" {
		return "sum" + rate
	}
	return "sum by (" + by + ") " + rate
}

func p99Over(window, metric, of, by string) string {
	le := "le"
	if by != "" {
		le = by + ", le"
	}
	return "histogram_quantile(0.99, " + rateOver(window, metric, of, by) + ") or histogram_quantile(0.99, " +
		rateOver(window, metric+"_bucket", of, le) + ")"
}

var recordings = []recording{
	{
		"sluice:http_requests:rate5m", "histogram_count(" + perSecond("sluice_http_request_seconds", "route, code") +
			") or " + perSecond("sluice_http_request_seconds_count", "route, code"),
	},
	{"sluice:http_request_seconds:p99", p99("sluice_http_request_seconds", "route")},
	{"sluice:ledger_call_seconds:p99", p99("sluice_ledger_call_seconds", "")},
	{"sluice:store_transaction_seconds:p99", p99("sluice_store_transaction_seconds", "")},
	{"sluice:accepted_to_stored_seconds:p99", p99("sluice_accepted_to_stored_seconds", "")},
}

// alert is an alerting rule.
type alert struct {
	name, of string // the metric whose row of the table names it
	expr     string
	after    string // how long it has to hold
	severity string // urgent: act at once
	section  string // of docs/operating.md
	summary  string

	// by has what the tests of the rules feed: series at which it fires, in promtool's
	// notation, one value a minute; and the labels that it has then, but severity.
	by     []series
	labels map[string]string
}

type series struct{ name, values string }

const (
	urgent  = "page"
	warning = "warning"

	refusedClaims = "claims-are-refused"
	lateOrders    = "orders-are-late-or-wrong"
	connecting    = "connections-and-admins"
	machines      = "machines-and-clocks"
)

// grew says that a counter has grown, summed over all servers.
func grew(metric, by string) string {
	sum := "sum"
	if by != "" {
		sum += " by (" + by + ")"
	}
	return sum + " (increase(" + metric + "[10m])) > 0"
}

// oneRefuses is a server that refuses more of its claims than another one, as it does with another secret.
var oneRefuses = func() string {
	const claims = `sum by (instance) (rate(sluice_http_request_seconds_count{route="POST /v1/sales/{sale}/orders"`
	all := claims + `}[5m]))`
	refused := claims + `,code=~"401|403"}[5m])) / ` + all
	return refused + " > on () group_left () (0.2 + min(" + refused + " or " + all + " * 0)) and " + all + " > 1"
}()

var growing = "0+1x60"

var alerts = []alert{
	{
		"SluiceDown", "sluice_build_info", `absent(sluice_build_info)`, "1m", urgent, refusedClaims,
		"no server is scraped",
		[]series{{`sluice_build_info`, "1x5 stale"}},
		nil,
	},
	{
		"SluiceOutcomeUnknown", "sluice_claims_total", `sum(rate(sluice_claims_total{code="outcome_unknown"}[5m])) > 0`,
		"1m", urgent, refusedClaims, "the ledger does not answer claims in time",
		[]series{{`sluice_claims_total{code="outcome_unknown",sale="s"}`, "0x27 5000x60"}}, // all between two scrapes
		nil,
	},
	{
		"SluiceUnavailable", "sluice_claims_total", `sum by (sale) (rate(sluice_claims_total{code="unavailable"}[5m])) > 0`,
		"1m", urgent, refusedClaims, "claims on a sale are not decided",
		[]series{{`sluice_claims_total{code="unavailable",sale="s"}`, growing}},
		map[string]string{"sale": "s"},
	},
	{
		"SluiceOverloaded", "sluice_claims_total",
		`sum(rate(sluice_claims_total{code="overloaded"}[5m])) / sum(rate(sluice_claims_total[5m])) > 0.05`,
		"5m", warning, refusedClaims, "more than 5 % of the claims find no room",
		[]series{
			{`sluice_claims_total{code="overloaded",sale="s"}`, "0+10x60"},
			{`sluice_claims_total{code="accepted",sale="s"}`, "0+100x60"},
		},
		nil,
	},
	{
		"SluiceNoneCanBuy", "sluice_claims_refused_total",
		`sum by (sale) (rate(sluice_claims_refused_total{sale!="other"}[5m])) > 1 unless on (sale) ` +
			`sum by (sale) (rate(sluice_claims_total{code=~"accepted|sold_out|buyer_limit|closed|not_open"}[5m])) > 0`,
		"2m", urgent, refusedClaims, "buyers come to a sale, and the claims of all are refused",
		[]series{
			{`sluice_claims_refused_total{reason="token_signature",sale="s"}`, "0+120x60"},
			{`sluice_claims_total{code="accepted",sale="s"}`, "0x60"},
		},
		map[string]string{"sale": "s"},
	},
	{
		"SluiceClaimsSlow", "sluice_http_request_seconds",
		`sluice:http_request_seconds:p99{route="POST /v1/sales/{sale}/orders"} > 1`, "5m", warning, refusedClaims,
		"one answer to a claim in a hundred takes longer than a second",
		[]series{
			{`sluice_http_request_seconds_bucket{route="POST /v1/sales/{sale}/orders",code="202",le="1"}`, "0x60"},
			{`sluice_http_request_seconds_bucket{route="POST /v1/sales/{sale}/orders",code="202",le="2"}`, "0+9x60"},
			{`sluice_http_request_seconds_bucket{route="POST /v1/sales/{sale}/orders",code="202",le="+Inf"}`, "0+9x60"},
		},
		map[string]string{"route": "POST /v1/sales/{sale}/orders"},
	},
	{
		"SluiceLedgerSlow", "sluice_ledger_call_seconds", `sluice:ledger_call_seconds:p99 > 0.5`, "5m", warning,
		refusedClaims, "one call of the ledger in a hundred takes longer than half a second",
		[]series{
			{`sluice_ledger_call_seconds_bucket{result="ok",le="0.5"}`, "0x60"},
			{`sluice_ledger_call_seconds_bucket{result="ok",le="1"}`, "0+9x60"},
			{`sluice_ledger_call_seconds_bucket{result="ok",le="+Inf"}`, "0+9x60"},
		},
		nil,
	},
	{
		"SluiceFenced", "sluice_sale_fenced", `max by (sale) (sluice_sale_fenced) == 1`, "30s", urgent, "a-fenced-sale",
		"a sale waits for its rebuild, or for a person who recovers it",
		[]series{{`sluice_sale_fenced{sale="s"}`, "1x60"}},
		map[string]string{"sale": "s"},
	},
	{
		"SluiceReplicaDown", "sluice_ledger_replica_up", `min(sluice_ledger_replica_up) == 0`, "1m", warning, refusedClaims,
		"the replica of the ledger cannot be read",
		[]series{{`sluice_ledger_replica_up`, "0x60"}},
		nil,
	},
	{
		"SluiceTokenKeysOld", "sluice_token_keys_read_timestamp_seconds",
		`time() - min(sluice_token_keys_read_timestamp_seconds) > 1800`, "1m", urgent, refusedClaims,
		"the keys of buyers' tokens have not been read for half an hour",
		[]series{{`sluice_token_keys_read_timestamp_seconds`, "-2000x60"}},
		nil,
	},
	{
		"SluiceStoreDown", "sluice_store_up", `min by (instance) (sluice_store_up) == 0`, "1m", urgent, lateOrders,
		"the database does not answer",
		[]series{{`sluice_store_up`, "0x60"}},
		nil,
	},
	{
		"SluiceStoreSlow", "sluice_store_transaction_seconds", `sluice:store_transaction_seconds:p99 > 5`, "2m", warning,
		lateOrders, "one transaction in a hundred that stores orders takes longer than 5 s; it fails after 10",
		[]series{
			{`sluice_store_transaction_seconds_bucket{result="ok",le="4"}`, "0x60"},
			{`sluice_store_transaction_seconds_bucket{result="ok",le="8"}`, "0+9x60"},
			{`sluice_store_transaction_seconds_bucket{result="ok",le="+Inf"}`, "0+9x60"},
		},
		nil,
	},
	{
		"SluiceOrdersLate", "sluice_accepted_to_stored_seconds", `sluice:accepted_to_stored_seconds:p99 > 30`, "2m",
		warning, lateOrders, "one order in a hundred is stored more than 30 s after its claim was accepted",
		[]series{
			{`sluice_accepted_to_stored_seconds_bucket{le="32"}`, "0x60"},
			{`sluice_accepted_to_stored_seconds_bucket{le="128"}`, "0+9x60"},
			{`sluice_accepted_to_stored_seconds_bucket{le="+Inf"}`, "0+9x60"},
		},
		nil,
	},
	{
		"SluiceBacklog", "sluice_sale_backlog_entries",
		`min by (sale) (min_over_time(sluice_sale_backlog_entries[1m])) > 0 and on (sale) ` +
			`max by (sale) (delta(sluice_sale_backlog_entries[2m])) >= 0`,
		"1m", urgent, lateOrders, "orders of a sale wait to be stored, and do not become fewer",
		[]series{{`sluice_sale_backlog_entries{sale="s"}`, "5+5x60"}},
		map[string]string{"sale": "s"},
	},
	{
		"SluiceNotCovered", "sluice_orders_stored_total", grew(`sluice_orders_stored_total{result="not_covered"}`, ""), "0s",
		urgent, lateOrders, "an accepted claim cannot be fulfilled: act at once",
		[]series{{`sluice_orders_stored_total{result="not_covered"}`, growing}},
		nil,
	},
	{
		"SluiceOrdersOverdue", "sluice_order_overdue_oldest_seconds", `max(sluice_order_overdue_oldest_seconds) > 10`, "30s",
		urgent, lateOrders, "no server ends unpaid orders",
		[]series{{`sluice_order_overdue_oldest_seconds`, "11x60"}},
		nil,
	},
	{
		"SluiceReleasesLate", "sluice_release_oldest_seconds", `max(sluice_release_oldest_seconds) > 10`, "30s", urgent,
		lateOrders, "units of ended orders cannot be sold again",
		[]series{{`sluice_release_oldest_seconds`, "11x60"}},
		nil,
	},
	{
		"SluiceReleasesUnknown", "sluice_releases_total", grew(`sluice_releases_total{result="unknown"}`, ""), "0s", urgent,
		lateOrders, "the ledger has lost orders",
		[]series{{`sluice_releases_total{result="unknown"}`, growing}},
		nil,
	},
	{
		"SluiceDeadLetters", "sluice_dead_letters", `max by (sale) (sluice_dead_letters) > 0`, "0s", urgent, "dead-letters",
		"accepted claims of a sale could not be stored",
		[]series{{`sluice_dead_letters{sale="s"}`, "1x60"}},
		map[string]string{"sale": "s"},
	},
	{
		"SluiceDifferences", "sluice_reconcile_differences",
		`max by (class) (sluice_reconcile_differences{class!="in_flight"}) > 0`, "5m", warning,
		"differences-between-ledger-and-store", "ledger and store differ, and go on doing so",
		[]series{{`sluice_reconcile_differences{class="missing"}`, "1x60"}},
		map[string]string{"class": "missing"},
	},
	{
		"SluiceDifferencesFound", "sluice_reconcile_found_total", grew("sluice_reconcile_found_total", "class"), "0s",
		warning, "differences-between-ledger-and-store", "ledger and store differed",
		[]series{{`sluice_reconcile_found_total{class="missing"}`, growing}},
		map[string]string{"class": "missing"},
	},
	{
		"SluiceNotReconciled", "sluice_reconciliations_total",
		`sum(increase(sluice_reconciliations_total[5m])) == 0 and count(sluice_sale_taken_units) > 0`, "5m",
		warning, lateOrders, "there are sales, and no server compares ledger and store",
		[]series{{`sluice_reconciliations_total`, "7x60"}, {`sluice_sale_taken_units{sale="s"}`, "0x60"}},
		nil,
	},
	{
		"SluiceRebuilt", "sluice_rebuilds_total", grew("sluice_rebuilds_total", ""), "0s", urgent, "a-fenced-sale",
		"a sale was rebuilt after its ledger had lost data",
		[]series{{`sluice_rebuilds_total`, growing}},
		nil,
	},
	{
		"SluiceWebhookGivenUp", "sluice_webhook_given_up_total", grew("sluice_webhook_given_up_total", ""), "0s", warning,
		"failing-webhooks", "a shop was not given events",
		[]series{{`sluice_webhook_given_up_total`, growing}},
		nil,
	},
	{
		"SluiceRiskFails", "sluice_risk_seconds", `sum(rate(sluice_risk_seconds_count{verdict=~"failed_.*"}[5m])) > 0`, "2m",
		warning, "nothing-is-sold", "a risk service does not judge",
		[]series{{`sluice_risk_seconds_count{verdict="failed_denied"}`, growing}},
		nil,
	},
	{
		"SluiceStreamsRefused", "sluice_event_streams_refused_total", grew("sluice_event_streams_refused_total", "limit"),
		"0s", warning, connecting, "event streams find no room",
		[]series{{`sluice_event_streams_refused_total{limit="total"}`, growing}},
		map[string]string{"limit": "total"},
	},
	{
		"SluiceConnectionsRefused", "sluice_connections_refused_total",
		grew("sluice_connections_refused_total", "listener, limit"), "0s", warning, connecting, "connections find no room",
		[]series{{`sluice_connections_refused_total{limit="total",listener="public"}`, growing}},
		map[string]string{"limit": "total", "listener": "public"},
	},
	{
		"SluiceConnectionsScarce", "sluice_connections_closed_idle_total",
		grew("sluice_connections_closed_idle_total", "listener"), "0s", warning, connecting,
		"idle connections are closed to make room",
		[]series{{`sluice_connections_closed_idle_total{listener="public"}`, growing}},
		map[string]string{"listener": "public"},
	},
	{
		"SluiceAcceptErrors", "sluice_accept_errors_total", grew("sluice_accept_errors_total", "listener"), "0s", urgent,
		connecting, "the operating system cannot accept connections",
		[]series{{`sluice_accept_errors_total{listener="public"}`, growing}},
		map[string]string{"listener": "public"},
	},
	{
		"SluiceActionsUnrecorded", "sluice_admin_actions_total", grew(`sluice_admin_actions_total{result="unrecorded"}`, ""),
		"0s", warning, connecting, "what an admin did is only in the log",
		[]series{{`sluice_admin_actions_total{result="unrecorded"}`, growing}},
		nil,
	},
	{
		"SluiceKeysGuessed", "sluice_admin_actions_total",
		`sum(rate(sluice_admin_actions_total{result=~"wrong_key|forbidden"}[5m])) > 0.2`, "1m", warning, connecting,
		"many requests with a key that is not an admin's, or may not do that",
		[]series{{`sluice_admin_actions_total{result="wrong_key"}`, "0+60x60"}},
		nil,
	},
	{
		"SluiceServersDiffer", "sluice_servers_differ", `max(sluice_servers_differ) > 0`, "1m", urgent, refusedClaims,
		"servers have different secrets or keys: one refuses what the others accept",
		[]series{{`sluice_servers_differ{instance="a"}`, "1x60"}},
		nil,
	},
	{
		"SluiceOneRefuses", "sluice_http_request_seconds", oneRefuses, "2m", urgent, refusedClaims,
		"one server refuses far more buyers than another",
		[]series{
			{`sluice_http_request_seconds_count{instance="a",route="POST /v1/sales/{sale}/orders",code="202"}`, "0+600x60"},
			{`sluice_http_request_seconds_count{instance="b",route="POST /v1/sales/{sale}/orders",code="401"}`, "0+600x60"},
			{`sluice_http_request_seconds_count{instance="b",route="POST /v1/sales/{sale}/orders",code="202"}`, "0+60x60"},
		},
		map[string]string{"instance": "b"},
	},
	{
		"SluiceClockOff", "sluice_clock_ahead_seconds", `max by (clock) (abs(sluice_clock_ahead_seconds)) > 2`, "1m",
		warning, "clocks", "the clocks of server, ledger and database disagree",
		[]series{{`sluice_clock_ahead_seconds{clock="store"}`, "-3x60"}},
		map[string]string{"clock": "store"},
	},
	{
		"SluiceExpiryBehind", "sluice_expiry_behind_seconds", `max(sluice_expiry_behind_seconds) > 0`, "30s", warning,
		machines, "the database's clock jumped ahead",
		[]series{{`sluice_expiry_behind_seconds`, "5x60"}},
		nil,
	},
}

// panel is one of the dashboard. A stat is one figure, of the first row; the others are drawn over time.
type panel struct {
	title, unit string
	stat        bool
	description string
	queries     []query
}

type query struct{ expr, legend string }

// A rush lasts ten seconds: panels show rates over what Prometheus has scraped between two points of the screen, and
// figures of the whole time that is shown.
const (
	atOnce, shown = "$__rate_interval", "$__range"
	ofSale        = `{sale=~"$sale"}`
	ofClaims      = `{route="POST /v1/sales/{sale}/orders"}`
)

func now(metric, of, by string) string    { return rateOver(atOnce, metric, of, by) }
func p99Now(metric, of, by string) string { return p99Over(atOnce, metric, of, by) }

var panels = []panel{
	{"Fenced sales", "short", true, "Sales that wait for a rebuild or a recovery: nobody can buy in them.", []query{
		{`sum(max by (sale) (sluice_sale_fenced` + ofSale + `))`, "fenced"},
	}},
	{"Sold", "percentunit", true, "Units of live orders, as a share of all of the sales that are chosen.", []query{{
		`sum(max by (sale) (sluice_sale_taken_units` + ofSale + `)) / (sum(max by (sale) (sluice_sale_taken_units` + ofSale +
			`)) + sum(min by (sale) (sluice_sale_available_units` + ofSale + `)))`, "sold",
	}}},
	{"Claims a second at the peak", "reqps", true, "Answers of all servers, in the fullest moment shown.", []query{
		{"max_over_time((" + now("sluice_claims_total", ofSale, "") + ")[" + shown + ":])", "claims"},
	}},
	{"99 of 100 claims answered within", "s", true, "Over the whole time shown, all sales.", []query{
		{p99Over(shown, "sluice_http_request_seconds", ofClaims, ""), "claims"},
	}},
	{"Refused", "percentunit", true, "Claims refused for who or what sent them, of all, over the time shown.", []query{{
		`sum(increase(sluice_claims_refused_total` + ofSale + `[` + shown + `])) / ` +
			`sum(increase(sluice_claims_total` + ofSale + `[` + shown + `]))`, "refused",
	}}},
	{"Servers", "short", true, "Servers that Prometheus reaches.", []query{{"count(sluice_build_info)", "servers"}}},

	{"Claims by answer", "reqps", false, "What becomes of claims; accepted ones are orders.", []query{
		{now("sluice_claims_total", ofSale, "code"), "{{code}}"},
	}},
	{"Claims refused before they are decided", "reqps", false, "Why: the login, the page, a list, a rate; the runbook " +
		"has each reason.", []query{
		{now("sluice_claims_refused_total", ofSale, "reason"), "{{reason}}"},
		{now("sluice_gate_refused_total", "", "check"), "gate: {{check}}"},
	}},
	{"Units", "short", false, "Counted by the ledger.", []query{
		{`max by (sale) (sluice_sale_taken_units` + ofSale + `)`, "{{sale}} taken"},
		{`min by (sale) (sluice_sale_available_units` + ofSale + `)`, "{{sale}} available"},
	}},
	{"Answers: 99th percentile", "s", false, "By route, over all servers.", []query{
		{p99Now("sluice_http_request_seconds", "", "route"), "{{route}}"},
	}},
	{
		"Claims: 99th percentile of each server", "s", false, "One that is slower than the others has trouble of its own.",
		[]query{{p99Now("sluice_http_request_seconds", ofClaims, "instance"), "{{instance}}"}},
	},
	{"Claims by stage: 99th percentile", "s", false, "The gate, the wait for a call of the ledger, the ledger.", []query{
		{p99Now("sluice_claim_stage_seconds", "", "stage"), "{{stage}}"},
	}},
	{"Ledger and store: 99th percentile", "s", false, "One call with claims; one transaction that stores orders.", []query{
		{p99Now("sluice_ledger_call_seconds", "", ""), "call of the ledger"},
		{p99Now("sluice_store_transaction_seconds", "", ""), "transaction of the store"},
	}},
	{"Accepted to stored: 99th percentile", "s", false, "How long buyers wait until they can pay.", []query{
		{p99Now("sluice_accepted_to_stored_seconds", "", ""), "accepted to stored"},
	}},
	{"Journal entries that are not stored", "short", false, "They wait for the database; nothing is lost.", []query{
		{`max by (sale) (sluice_sale_backlog_entries` + ofSale + `)`, "{{sale}}"},
	}},
	{"Orders stored", "ops", false, "not_covered is trouble: act at once.", []query{
		{now("sluice_orders_stored_total", "", "result"), "{{result}}"},
	}},
	{"Claims per call of the ledger", "short", false, "Grows under load, as intended.", []query{
		{now("sluice_ledger_call_claims_sum", "", "") + " / " + now("sluice_ledger_call_claims_count", "", ""), "mean"},
	}},
	{"Claims on their way", "short", false, "Let through and not decided yet.", []query{
		{"sum(sluice_claims_on_their_way)", "on their way"},
	}},
	{"Trouble", "short", false, "All of these should be zero.", []query{
		{`max by (sale) (sluice_sale_fenced` + ofSale + `)`, "{{sale}} fenced"},
		{`max by (sale) (sluice_dead_letters` + ofSale + `)`, "{{sale}} dead letters"},
		{`max by (sale) (sluice_orders_overdue` + ofSale + `)`, "{{sale}} overdue"},
		{`max by (sale) (sluice_releases_waiting` + ofSale + `)`, "{{sale}} releases waiting"},
		{"1 - min by (instance) (sluice_store_up)", "{{instance}}: store down"},
	}},
	{"Connections and event streams", "short", false, "Open now.", []query{
		{"sum by (listener) (sluice_connections)", "{{listener}}"}, {"sum(sluice_event_streams)", "event streams"},
	}},
	{"Event streams: 99th percentile of the lag", "s", false, "From an event to its reader.", []query{
		{p99Now("sluice_event_stream_lag_seconds", "", ""), "lag"},
	}},
	{"Webhooks: events that wait", "short", false, "For a receiver that is slow or down.", []query{
		{"max by (webhook) (sluice_webhook_lag_events)", "{{webhook}}"},
	}},
	{"Memory", "bytes", false, "Of each server.", []query{
		{"process_resident_memory_bytes and on (instance, job) sluice_build_info", "{{instance}}"},
	}},
}
