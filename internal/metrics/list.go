package metrics

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// definition says what a metric is. From the list of them come the metrics themselves,
// the tables of docs/operating.md, and in deploy/prometheus the rules and the dashboard.
type definition struct {
	name, kind string
	labels     string // separated by spaces
	meaning    string // in Markdown, as docs/operating.md has it
}

const (
	aCounter   = "counter"
	aGauge     = "gauge"
	aHistogram = "histogram"
)

var list = []definition{
	{"sluice_claims_total", aCounter, "sale code", "answers to claims. A sale that has only zeros is one that no " +
		"claim came to. The first 1,000 sales since the start are counted apart; further sales, and ids that " +
		"no sale has, are `other`"},
	{"sluice_claims_refused_total", aCounter, "sale reason", "claims that were refused for who or what sent them; " +
		"[the reasons](#why-a-claim-is-refused)"},
	{"sluice_gate_refused_total", aCounter, "check", "claims that this server refused before the ledger was asked, by " +
		"check of [the gate](gate.md)"},
	{"sluice_claims_on_their_way", aGauge, "", "claims that this server has let through and that are not decided"},
	{"sluice_http_request_seconds", aHistogram, "route code", "time for an answer, by route as in the API reference and " +
		"by status; without event streams"},
	{"sluice_claim_stage_seconds", aHistogram, "stage", "time of the claims that go to the ledger: `admission` (the " +
		"gate's checks), `wait` (for a call of the ledger, with shared rates), `ledger` (its calls)"},
	{"sluice_ledger_call_seconds", aHistogram, "result", "time of one call of the ledger with claims, `ok` or `failed`"},
	{"sluice_ledger_call_claims", aHistogram, "", "claims per ledger call. Grows under load, as intended"},
	{"sluice_ticket_requests_total", aCounter, "outcome", "requests for [tickets](tickets.md) and challenges: " +
		"`handed_out`, the reason of a refusal, or a code"},
	{"sluice_risk_seconds", aHistogram, "verdict", "time that merchants' risk services took: `allowed`, `denied`, or by " +
		"the sale's policy `failed_allowed` and `failed_denied`"},
	{"sluice_sale_taken_units", aGauge, "sale", "units of live orders, as counted by the ledger"},
	{"sluice_sale_available_units", aGauge, "sale", "units that can be taken, as counted by the ledger"},
	{"sluice_sale_fenced", aGauge, "sale", "1 while a sale waits for its [rebuild or recovery](#a-fenced-sale)"},
	{"sluice_sale_backlog_entries", aGauge, "sale", "journal entries that are not stored yet"},
	{"sluice_ledger_replica_up", aGauge, "", "with `ledger_replica`: 1 if the last reading of the replica succeeded"},
	{"sluice_store_up", aGauge, "", "1 if the database has answered within the last seconds. While it is 0, the metrics " +
		"that are counted in the database are absent"},
	{"sluice_store_transaction_seconds", aHistogram, "result", "time of one transaction that stores orders, `ok` or " +
		"`failed`"},
	{"sluice_accepted_to_stored_seconds", aHistogram, "", "time from the acceptance of a claim to its stored order, " +
		"without claims that came again. Orders that are decided in the store are stored at once, and not counted"},
	{"sluice_orders_stored_total", aCounter, "result", "claims that the pipeline brought to the store: `stored`, " +
		"`redelivered` (harmless), `not_covered`"},
	{"sluice_orders_expired_total", aCounter, "sale", "unpaid orders that this server has expired, per sale for the " +
		"first 1,000 sales; for all further sales one series without a sale"},
	{"sluice_orders_overdue", aGauge, "sale", "orders past their deadline and grace that have not ended"},
	{"sluice_order_overdue_oldest_seconds", aGauge, "", "how long the most overdue order is due; 0 if none is"},
	{"sluice_servers_differ", aGauge, "", "other servers whose [shared settings](#several-servers) are not this one's"},
	{"sluice_clock_ahead_seconds", aGauge, "clock", "how far the clock of `ledger` or `store` is ahead of the server's; " +
		"negative: behind"},
	{"sluice_expiry_behind_seconds", aGauge, "", "how far expiry is [behind the database's clock](#clocks) after that " +
		"clock jumped ahead"},
	{"sluice_releases_total", aCounter, "result", "releases that this server gave to the ledger: `applied`, `before` (a " +
		"repeat, harmless), `unknown` (the ledger has lost the order; the sale is fenced)"},
	{"sluice_releases_waiting", aGauge, "sale", "ended orders whose units are not back in the ledger"},
	{"sluice_release_oldest_seconds", aGauge, "", "how long the oldest release waits; 0 if none does"},
	{"sluice_dead_letters", aGauge, "sale", "[dead letters](#dead-letters) that wait for an operator"},
	{"sluice_dead_letters_total", aCounter, "", "journal entries that this server has set aside because they could not " +
		"be stored"},
	{"sluice_reconciliations_total", aCounter, "", "[reconciliations](#differences-between-ledger-and-store) that this " +
		"server finished"},
	{"sluice_reconcile_found_total", aCounter, "class", "differences that this server's reconciliations found, without " +
		"those in flight"},
	{"sluice_reconcile_repaired_total", aCounter, "class", "differences that this server's reconciliations repaired"},
	{"sluice_reconcile_differences", aGauge, "class", "differences found by the last reconciliation of each sale"},
	{"sluice_rebuilds_total", aCounter, "", "sales that this server rebuilt after a loss in the ledger"},
	{"sluice_events_numbered_total", aCounter, "", "events of orders and sales that this server gave their numbers: the " +
		"feed makes progress"},
	{"sluice_webhook_attempts_total", aCounter, "result", "attempts of this server to deliver an event to a webhook: " +
		"`delivered`, `failed`"},
	{"sluice_webhook_given_up_total", aCounter, "", "events that this server gave up for a webhook; an operator can " +
		"[replay them](#failing-webhooks)"},
	{"sluice_webhook_lag_events", aGauge, "webhook", "events that have not been looked at for a webhook; of the server " +
		"that sends"},
	{"sluice_event_streams", aGauge, "", "event streams that are open on this server"},
	{"sluice_event_streams_refused_total", aCounter, "limit", "event streams that were refused by `event_streams` " +
		"(`total`) or `events_per_address` (`address`)"},
	{"sluice_event_stream_lag_seconds", aHistogram, "", "time from the making of an event to its handing over to a " +
		"reader of a stream"},
	{"sluice_connections", aGauge, "listener", "connections that are open"},
	{"sluice_connections_refused_total", aCounter, "listener limit", "connections that were refused by a limit: " +
		"`total`, or `address`"},
	{"sluice_connections_closed_idle_total", aCounter, "listener", "idle connections that were closed early, since " +
		"connections were scarce"},
	{"sluice_accept_errors_total", aCounter, "listener", "connections that the operating system could not accept"},
	{"sluice_admin_actions_total", aCounter, "result", "requests of admins that change something: `recorded`, " +
		"`unrecorded` (only in the log), `forbidden`, `wrong_key`"},
	{"sluice_token_keys", aGauge, "", "public keys for buyers' tokens ([identity.md](identity.md))"},
	{"sluice_token_keys_read_timestamp_seconds", aGauge, "", "when these keys were last read without an error; 0: never"},
	{"sluice_spans_dropped_total", aCounter, "", "with [traces](#traces): spans that were not sent, since the receiver " +
		"was slow or gone"},
	{"sluice_build_info", aGauge, "version revision go_version", "1; the labels say what runs"},
}

// defined finds a metric in the list. That it is there, the first start of any server shows.
func defined(name, kind string) definition {
	i := slices.IndexFunc(list, func(d definition) bool { return d.name == name && d.kind == kind })
	if i < 0 {
		panic("metrics: not in the list: " + kind + " " + name)
	}
	return list[i]
}

func (d definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help(), d.names(), nil)
}

func (d definition) names() []string { return strings.Fields(d.labels) }

var markup = regexp.MustCompile("\\[([^]]*)\\]\\([^)]*\\)|`")

// help is the meaning without links and marks.
func (d definition) help() string {
	text := markup.ReplaceAllString(d.meaning, "$1")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
