package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
)

// A setting is one row of the table that everything else is derived from: the
// key in the file, SLUICE_KEY in the environment, the flag --key, the template
// of `config init`, and the rows of `config print`.
type setting struct {
	key    string
	preset string // default
	arg    string // what the value is, in help
	help   string
	group  string // the heading in help
	secret bool   // never printed, and has no flag of which `ps` would tell, but for admin_key
	noFlag bool
	list   bool // in the file it may be a YAML list
	// shown is how the value is printed, if neither as it is nor as ***.
	shown func(value string) string
	// check parses the value into a Config, or says what would be right.
	check func(value string) error
}

// plain is a setting that may be printed. An empty preset is no default.
func plain(key, preset, arg string, check func(string) error, help string) setting {
	return setting{key: key, preset: preset, arg: arg, check: check, help: help}
}

// server is the address of a server, which has no query to show, nor has a wrong one.
func server(key, preset string, at *string, help string) setting {
	return setting{key: key, preset: preset, arg: "URL", check: serverURL(at), shown: showURL, help: help}
}

// hidden is a secret that has no flag.
func hidden(key string, at *string, help string) setting {
	return setting{key: key, arg: "SECRET", secret: true, noFlag: true, check: checkSecret(at), help: help}
}

// settings are all rows, for what needs no values.
var settings = new(Config).settings()

// needed are the settings that most people need: serve --help shows them, --help-all the others too.
var needed = []string{
	"data_dir", "ledger", "store", "listen", "admin_listen", "trusted_proxies", "login_url", "pay_url",
}

// group puts rows under a heading.
func group(title string, rows ...setting) []setting {
	for i := range rows {
		rows[i].group = title
	}
	return rows
}

// settings is the table, with the places in c that checks write to.
func (c *Config) settings() []setting {
	return slices.Concat(
		group("Data",
			plain("data_dir", "./sluice-data", "PATH", text(&c.DataDir),
				"folder of the server's name, secrets and embedded databases; one process owns a data folder at a time"),
			plain("ledger", "", "URL", ledger(&c.Ledger, "sqlite", "redis", "rediss", "redis+sentinel", "redis+cluster"),
				"where claims are decided: sqlite:PATH, redis://, rediss://, redis+sentinel://, redis+cluster://, "+
					"or store: the PostgreSQL of the store decides (default: SQLite in data_dir)"),
			plain("store", "", "URL", backend(&c.Store, "sqlite", "postgres", "postgresql", "mysql"),
				"where orders are kept: sqlite:PATH, postgres://, mysql:// (default: SQLite in data_dir)"),
			plain("ledger_replica", "", "URL", backend(&c.LedgerReplica, "redis", "rediss", "redis+sentinel", "redis+cluster"),
				"replica of a Redis ledger, read for buyers who only look on: redis://, rediss://, "+
					"redis+sentinel://, redis+cluster:// (default: none)"),
			plain("wait_replicas", "0", "N", number(&c.WaitReplicas, 0, 16),
				"replicas of a Redis ledger that must have a batch before the claims of the batch are answered"),
		),
		group("Network",
			plain("listen", "127.0.0.1:8080", "HOST:PORT", listen(&c.Listen),
				"address of the HTTP server; port 0 picks a free one"),
			plain("admin_listen", "", "HOST:PORT", listen(&c.AdminListen),
				"address of the merchant's API and the metrics (default: the address of listen if that is on "+
					"loopback, else "+defaultAdminListen+")"),
			plain("trusted_proxies", "", "CIDRS", proxies(&c.TrustedProxies),
				"proxies that may name the client's address, like 10.0.0.0/8,192.0.2.1 (default: none)"),
			plain("client_address_header", "x-forwarded-for", "HEADER",
				oneOf(&c.ClientAddressHeader, "x-forwarded-for", "forwarded"),
				"header in which trusted_proxies name the client's address: x-forwarded-for or forwarded (RFC 7239)"),
			plain("tls_cert", "", "PATH", text(&c.TLSCert),
				"certificate chain (PEM) for HTTPS; goes with tls_key"),
			plain("tls_key", "", "PATH", text(&c.TLSKey),
				"private key (PEM) of tls_cert"),
			plain("cors_origins", "", "ORIGINS", c.checkOrigins,
				"origins whose pages may use the buyers' half of the API, separated by commas, like "+
					"https://shop.example (default: none)"),
		),
		group("Shop",
			plain("login_url", "", "URL", link(&c.Pages.LoginURL),
				"the shop's login, which the buyer's pages link to; {return} in the URL becomes the address to come "+
					"back to (default: no link)"),
			plain("pay_url", "", "URL", link(&c.Pages.PayURL, "{order}"),
				"the shop's payment page, which the buyer's pages link to; {order} in the URL becomes the order's id "+
					"(default: no link)"),
			plain("shop_name", "", "NAME", text(&c.Pages.ShopName),
				"name of the shop, at the top of the buyer's pages"),
			plain("shop_logo", "", "URL", link(&c.Pages.ShopLogo),
				"logo beside the shop's name, an address or a path of the shop's own server"),
			plain("shop_url", "", "URL", link(&c.Pages.ShopURL),
				"the shop's front page, which the shop's name links to (default: the list of sales)"),
			plain("terms_url", "", "URL", link(&c.Pages.TermsURL),
				"the shop's terms, which the buyer's pages link to"),
			plain("imprint_url", "", "URL", link(&c.Pages.ImprintURL),
				"the shop's imprint, which the buyer's pages link to"),
			plain("accent", "", "COLOUR", text(&c.Pages.Accent),
				"colour of buttons and prices, like #d6001c; the pages make it darker or lighter until text can be read"),
			server("public_url", "", &c.Pages.PublicURL,
				"address at which buyers reach the pages, for share cards and reminders (default: cards without a picture)"),
			plain("picture_hosts", "", "HOSTS", names(&c.Pages.PictureHosts),
				"hosts whose pictures the buyer's pages may show, separated by commas, like cdn.shop.example "+
					"(default: uploaded pictures only)"),
		),
		group("Keys",
			setting{
				key: "admin_key", arg: "KEY", secret: true, check: checkSecret(&c.AdminKey),
				help: "the merchant's key (default: generated on first start, kept in data_dir as admin.key)",
			},
			setting{
				key: "admin_keys", arg: "LIST", secret: true, noFlag: true, list: true, shown: showAdminKeys,
				check: c.checkAdminKeys,
				help: "more keys of admins: a list of {name, role: viewer, operator or owner, and one of key, " +
					"key_sha256, key_file}",
			},
			hidden("buyer_secret", &c.BuyerSecret,
				"signs buyers' tokens, HS256 (default: generated on first start, kept in data_dir as "+
					"buyer.secret)"),
			hidden("buyer_secret_previous", &c.BuyerSecretPrevious,
				"the former buyer_secret, whose tokens stay valid while the secret is replaced"),
			hidden("webhook_key", &c.WebhookKey,
				"encrypts the webhooks' secrets in the store, and makes pseudonyms of erased buyers; all "+
					"servers of a shop need the same (default: with an embedded store kept in data_dir)"),
			hidden("ticket_secret", &c.TicketSecret,
				"signs purchase tickets; all servers of a shop need the same (default: derived from buyer_secret)"),
			hidden("ticket_secret_previous", &c.TicketSecretPrevious,
				"the former ticket_secret, whose tickets stay valid while the secret is replaced"),
		),
		group("Buyers' tokens",
			setting{
				key: "buyer_jwks", arg: "PATH_OR_URL", shown: showJWKS, check: given(&c.BuyerJWKS, auth.CheckKeysLocation),
				help: "public keys of buyers' tokens, RS256, ES256 or EdDSA: a JWKS file or https URL (then HS256 " +
					"only if buyer_secret is set)",
			},
			plain("buyer_issuer", "", "TEXT", text(&c.BuyerIssuer),
				`what the "iss" of every buyer's token must be`),
			plain("buyer_audience", "", "TEXT", text(&c.BuyerAudience),
				`what must be among the "aud" of every buyer's token; needed with buyer_jwks; *: any`),
			plain("buyer_id", auth.ExactID, "WORD", oneOf(&c.BuyerID, auth.ExactID, auth.TrimmedID, auth.CasefoldID),
				"which spellings of a buyer's id are one buyer: exact, trimmed (no white space at the ends) or casefold "+
					"(nor case); all servers of a shop need the same"),
			plain("buyer_token_life", "744h", "DURATION", durationOrOff(&c.BuyerTokenLife, time.Minute, 100*365*24*time.Hour),
				`how far ahead the "exp" of a buyer's token may lie; off: no limit`),
			plain("clock_skew", "30s", "DURATION", orNone(&c.ClockSkew, duration(&c.ClockSkew, 0, 10*time.Minute)),
				"how far the clocks of the services that sign buyers' tokens may be off"),
		),
		group("Retention",
			plain("retention", "168h", "DURATION", duration(&c.Retention, time.Second, 10*365*24*time.Hour),
				"how long a closed and settled sale stays in the ledger before only the store answers for the sale"),
			plain("record_retention", "off", "DURATION", durationOrOff(&c.RecordRetention, time.Second, 100*365*24*time.Hour),
				"how long after a sale was archived orders and events name their buyers, and how long actions of "+
					"admins are kept; off: for ever"),
			plain("order_retention", "off", "DURATION", durationOrOff(&c.OrderRetention, time.Second, 100*365*24*time.Hour),
				"how long events are kept, and orders after their sale was archived; off: for ever"),
		),
		group("Limits",
			plain("claim_queue", "20000", "N", number(&c.ClaimQueue, 1, 10_000_000),
				"claims of one sale that may wait for the ledger before more are refused as overloaded"),
			plain("claims_in_flight", "50000", "N", number(&c.ClaimsInFlight, 1, 10_000_000),
				"claims of all sales in flight before more are refused as overloaded"),
			plain("event_streams", "10000", "N", orNone(&c.EventStreams, number(&c.EventStreams, 0, 1_000_000)),
				"event streams (GET /v1/sales/{sale}/events) that may be open at a time; 0: none"),
			plain("events_per_address", "1000", "N", orNone(&c.EventsPerAddress, number(&c.EventsPerAddress, 0, 1_000_000)),
				"event streams that one client address (of IPv6: one /64; a /56 twice, a /48 four times as "+
					"many) may have open at a time; 0: no such limit"),
		),
		group("Process",
			plain("node", "", "NAME", c.checkNode,
				"name of this server among the servers of one ledger (default: random, kept in data_dir)"),
			plain("ready_file", "", "PATH", text(&c.ReadyFile),
				"file that gets the server's URL once the server is ready, and on a second line the merchant API's "+
					"URL if admin_listen is another address"),
			plain("shutdown_timeout", "15s", "DURATION", duration(&c.ShutdownTimeout, 0, 10*time.Minute),
				"how long a stopping server may take to answer requests and store accepted claims"),
			plain("refresh_interval", "200ms", "DURATION",
				duration(&c.RefreshInterval, 10*time.Millisecond, sluice.RefusalLease*4/5),
				"how often a server reads the state of the sales from the ledger"),
			plain("reconcile_interval", "1m", "DURATION", durationOrOff(&c.ReconcileInterval, time.Second, 24*time.Hour),
				"how often ledger and store of each sale are compared, and what is safe is repaired; off: never"),
			plain("expiry_interval", "250ms", "DURATION", duration(&c.ExpiryInterval, 10*time.Millisecond, time.Minute),
				"how often a server looks for unpaid orders that are due and for units on their way back to "+
					"the ledger"),
			// Longer than a transaction of the pipeline may take (10 s).
			plain("abandoned_after", "30s", "DURATION", duration(&c.AbandonedAfter, 15*time.Second, time.Hour),
				"how long another server may hold an accepted claim without storing the order before this server "+
					"takes the claim over"),
		),
		group("Logs and traces",
			plain("log_level", "info", "LEVEL", oneOf(&c.LogLevel, "debug", "info", "warn", "error"),
				"least level of what is logged: debug, info, warn or error"),
			plain("log_format", "text", "FORMAT", oneOf(&c.LogFormat, "text", "json"),
				"format of the log: text or json"),
			server("trace_endpoint", "", &c.TraceEndpoint,
				"receiver of OpenTelemetry (OTLP over HTTP) for traces of orders, like http://127.0.0.1:4318 "+
					"(default: no traces)"),
			plain("trace_ratio", "0.01", "RATIO", ratio(&c.TraceRatio),
				"part of the orders that is traced, up to 1; all servers of a shop need the same"),
		),
		group("Commands",
			server("url", "http://127.0.0.1:8080", &c.URL,
				"the server, for commands like sale, order and load"),
			server("admin_url", "", &c.AdminURL,
				"the server's merchant API, if it has an admin_listen of its own (default: url)"),
		),
	)
}

func find(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}

func envName(key string) string  { return "SLUICE_" + strings.ToUpper(key) }
func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }

// show is a value as it may be printed.
func (s *setting) show(value string) string {
	switch {
	case value == "":
		return ""
	case s.shown != nil:
		return s.shown(value)
	case s.secret:
		return "***"
	case s.arg == "URL":
		return auth.Redact(value)
	}
	return value
}

// checkTogether finds what only several settings together get wrong.
func (c *Config) checkTogether() []error {
	var wrong []error
	say := func(key, format string, args ...any) {
		wrong = append(wrong, c.complain(key, fmt.Errorf(format, args...)))
	}
	if c.TLSCert != "" && c.TLSKey == "" {
		say("tls_cert", "goes with tls_key, which is not set")
	}
	if c.BuyerJWKS != "" && c.BuyerAudience == "" {
		say("buyer_audience",
			`is needed with buyer_jwks: the login signs tokens for other services as well; want the "aud" of yours, or * for every token`)
	}
	if c.TLSKey != "" && c.TLSCert == "" {
		say("tls_key", "goes with tls_cert, which is not set")
	}
	c.completeListen()
	if c.Ledger != "" && c.Ledger == c.Store {
		say("store", "is the ledger's file as well; want a file of its own")
	}
	if c.LedgerReplica != "" && !strings.HasPrefix(strings.ToLower(c.Ledger), "redis") {
		say("ledger_replica", "needs --ledger redis://...; this ledger is %s", c.shownLedger())
	}
	if c.WaitReplicas > 0 && !strings.HasPrefix(strings.ToLower(c.Ledger), "redis") {
		say("wait_replicas", "needs --ledger redis://...; this ledger is %s", c.shownLedger())
	}
	return wrong
}

// CheckFiles finds files that a server would not be able to read.
func (c *Config) CheckFiles() error {
	for _, f := range []struct{ key, path string }{{"tls_cert", c.TLSCert}, {"tls_key", c.TLSKey}} {
		if f.path == "" {
			continue
		}
		file, err := os.Open(f.path)
		if err != nil {
			return c.complain(f.key, fmt.Errorf("cannot be read: %w", cause(err)))
		}
		_ = file.Close()
	}
	return c.checkIdentityFiles()
}
