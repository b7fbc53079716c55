package config

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// A setting is one row of the table that everything else is derived from: the
// key in the file, SLUICE_KEY in the environment, the flag --key, the template
// of `config init`, and the rows of `config print`.
type setting struct {
	key    string
	preset string // default
	arg    string // what the value is, in help
	help   string
	secret bool // never printed, and has no flag of which `ps` would tell, but for admin_key
	noFlag bool
	list   bool // in the file it may be a YAML list
	// shown is how the value is printed, if neither as it is nor as ***.
	shown func(value string) string
	// check parses the value into the Config, or says what would be right.
	check func(c *Config, value string) error
}

var settings = []setting{
	{
		key: "data_dir", preset: "./sluice-data", arg: "PATH",
		help:  "folder for this server's name, secrets and embedded databases; one process owns it at a time",
		check: text(func(c *Config) *string { return &c.DataDir }),
	},
	{
		key: "ledger", arg: "URL",
		help:  "where claims are decided: sqlite:PATH, redis://, rediss://, redis+sentinel://, redis+cluster:// (default: SQLite in data_dir)",
		check: backend(func(c *Config) *string { return &c.Ledger }, "sqlite", "redis", "rediss", "redis+sentinel", "redis+cluster"),
	},
	{
		key: "ledger_replica", arg: "URL",
		help:  "a replica of a Redis ledger, read for those who look on: redis://, rediss://, redis+sentinel://, redis+cluster:// (default: none)",
		check: backend(func(c *Config) *string { return &c.LedgerReplica }, "redis", "rediss", "redis+sentinel", "redis+cluster"),
	},
	{
		key: "store", arg: "URL",
		help:  "where orders are kept: sqlite:PATH, postgres://, mysql:// (default: SQLite in data_dir)",
		check: backend(func(c *Config) *string { return &c.Store }, "sqlite", "postgres", "postgresql", "mysql"),
	},
	{
		key: "listen", preset: "127.0.0.1:8080", arg: "HOST:PORT",
		help: "address of the HTTP server; port 0 picks a free one", check: listen(func(c *Config) *string { return &c.Listen }),
	},
	{
		key: "admin_listen", arg: "HOST:PORT",
		help:  "address of the merchant's API and the metrics (default: that of listen if it is on loopback, else " + defaultAdminListen + ")",
		check: listen(func(c *Config) *string { return &c.AdminListen }),
	},
	{
		key: "ready_file", arg: "PATH",
		help:  "file that gets the server's URL once it is ready; the second line is that of admin_listen, if it is another",
		check: text(func(c *Config) *string { return &c.ReadyFile }),
	},
	{
		key: "node", arg: "NAME",
		help:  "name of this server among those of one ledger (default: random, kept in data_dir)",
		check: checkNode,
	},
	{
		key: "tls_cert", arg: "PATH", help: "certificate chain (PEM) to serve HTTPS with; goes with tls_key",
		check: text(func(c *Config) *string { return &c.TLSCert }),
	},
	{
		key: "tls_key", arg: "PATH", help: "private key (PEM) of tls_cert",
		check: text(func(c *Config) *string { return &c.TLSKey }),
	},
	{
		key: "admin_key", arg: "KEY", secret: true,
		help:  "the merchant's key (default: generated on first start, kept in data_dir as admin.key)",
		check: checkSecret(func(c *Config) *string { return &c.AdminKey }),
	},
	{
		key: "buyer_secret", arg: "SECRET", secret: true, noFlag: true,
		help:  "signs buyers' tokens, HS256 (default: generated on first start, kept in data_dir as buyer.secret)",
		check: checkSecret(func(c *Config) *string { return &c.BuyerSecret }),
	},
	{
		key: "buyer_secret_previous", arg: "SECRET", secret: true, noFlag: true,
		help:  "the buyer_secret before: its tokens stay good while it is replaced",
		check: checkSecret(func(c *Config) *string { return &c.BuyerSecretPrevious }),
	},
	{
		key: "webhook_key", arg: "SECRET", secret: true, noFlag: true,
		help:  "encrypts the webhooks' secrets in the store; all servers of a shop need the same (default: with an embedded store kept in data_dir)",
		check: checkSecret(func(c *Config) *string { return &c.WebhookKey }),
	},
	{
		key: "ticket_secret", arg: "SECRET", secret: true, noFlag: true,
		help:  "signs purchase tickets; all servers of a shop need the same (default: derived from buyer_secret)",
		check: checkSecret(func(c *Config) *string { return &c.TicketSecret }),
	},
	{
		key: "ticket_secret_previous", arg: "SECRET", secret: true, noFlag: true,
		help:  "the ticket_secret before: its tickets stay good while it is replaced",
		check: checkSecret(func(c *Config) *string { return &c.TicketSecretPrevious }),
	},
	{
		key: "admin_keys", arg: "LIST", secret: true, noFlag: true, list: true, shown: showAdminKeys,
		help:  "more keys of admins: a list of {name, role: viewer, operator or owner, and one of key, key_sha256, key_file}",
		check: checkAdminKeys,
	},
	{
		key: "buyer_jwks", arg: "PATH_OR_URL", shown: showJWKS,
		help:  "public keys of buyers' tokens, RS256, ES256 or EdDSA: a JWKS file or https URL (then HS256 only if buyer_secret is set)",
		check: checkJWKS,
	},
	{
		key: "buyer_issuer", arg: "TEXT", help: `what the "iss" of every buyer's token must be`,
		check: text(func(c *Config) *string { return &c.BuyerIssuer }),
	},
	{
		key: "buyer_audience", arg: "TEXT", help: `what must be among the "aud" of every buyer's token; needed with buyer_jwks; *: any`,
		check: text(func(c *Config) *string { return &c.BuyerAudience }),
	},
	{
		key: "buyer_token_life", preset: "744h", arg: "DURATION",
		help:  `how far ahead the "exp" of a buyer's token may lie; off: as far as it likes`,
		check: durationOrOff(func(c *Config) *time.Duration { return &c.BuyerTokenLife }, time.Minute, 100*365*24*time.Hour),
	},
	{
		key: "clock_skew", preset: "30s", arg: "DURATION",
		help:  "how far the clocks of those who sign buyers' tokens may be off",
		check: duration(func(c *Config) *time.Duration { return &c.ClockSkew }, 0, 10*time.Minute),
	},
	{
		key: "login_url", arg: "URL",
		help:  "the shop's login, which the buyer's pages link to; {return} in it becomes the address to come back to (default: no link)",
		check: link(func(c *Config) *string { return &c.LoginURL }),
	},
	{
		key: "pay_url", arg: "URL",
		help:  "where the shop takes the money, which the buyer's pages link to; {order} in it becomes the order's id (default: no link)",
		check: link(func(c *Config) *string { return &c.PayURL }, "{order}"),
	},
	{
		key: "url", preset: "http://127.0.0.1:8080", arg: "URL",
		help: "server that sale, order and load speak to", check: serverURL(func(c *Config) *string { return &c.URL }),
	},
	{
		key: "admin_url", arg: "URL",
		help:  "where that server has the merchant's API, if its admin_listen is another address (default: url)",
		check: serverURL(func(c *Config) *string { return &c.AdminURL }),
	},
	{
		key: "log_level", preset: "info", arg: "LEVEL", help: "debug, info, warn or error",
		check: oneOf(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warn", "error"),
	},
	{
		key: "log_format", preset: "text", arg: "FORMAT", help: "text or json",
		check: oneOf(func(c *Config) *string { return &c.LogFormat }, "text", "json"),
	},
	{
		key: "shutdown_timeout", preset: "15s", arg: "DURATION",
		help:  "how long a stopping server may take to answer and store what it has taken",
		check: duration(func(c *Config) *time.Duration { return &c.ShutdownTimeout }, 0, 10*time.Minute),
	},
	{
		key: "refresh_interval", preset: "200ms", arg: "DURATION",
		help:  "how often a server reads the state of the sales from the ledger",
		check: duration(func(c *Config) *time.Duration { return &c.RefreshInterval }, 10*time.Millisecond, sluice.RefusalLease*4/5),
	},
	{
		key: "cors_origins", arg: "ORIGINS",
		help:  "origins whose pages may use the buyers' half of the API, separated by commas, like https://shop.example (default: none)",
		check: checkOrigins,
	},
	{
		key: "event_streams", preset: "10000", arg: "N",
		help:  "event streams (GET /v1/sales/{sale}/events) that may be open at a time; 0: none",
		check: number(func(c *Config) *int { return &c.EventStreams }, 0, 1_000_000),
	},
	{
		key: "events_per_address", preset: "1000", arg: "N",
		help:  "event streams that one client address (of IPv6: one /64; a /56 twice, a /48 four times as many) may have open at a time; 0: no such limit",
		check: number(func(c *Config) *int { return &c.EventsPerAddress }, 0, 1_000_000),
	},
	{
		key: "claim_queue", preset: "20000", arg: "N",
		help:  "claims of one sale that may wait for the ledger before more are refused as overloaded",
		check: number(func(c *Config) *int { return &c.ClaimQueue }, 1, 10_000_000),
	},
	{
		key: "claims_in_flight", preset: "50000", arg: "N",
		help:  "claims of all sales that may be on their way to a decision before more are refused as overloaded",
		check: number(func(c *Config) *int { return &c.ClaimsInFlight }, 1, 10_000_000),
	},
	{
		key: "trusted_proxies", arg: "CIDRS",
		help:  "proxies that are believed when they say where a request comes from, like 10.0.0.0/8,192.0.2.1 (default: none)",
		check: proxies(func(c *Config) *[]netip.Prefix { return &c.TrustedProxies }),
	},
	{
		key: "client_address_header", preset: "x-forwarded-for", arg: "HEADER",
		help:  "the header in which they say it: x-forwarded-for or forwarded (RFC 7239)",
		check: oneOf(func(c *Config) *string { return &c.ClientAddressHeader }, "x-forwarded-for", "forwarded"),
	},
	{
		key: "retention", preset: "168h", arg: "DURATION",
		help:  "how long a closed and settled sale stays in the ledger before only the store answers for it",
		check: duration(func(c *Config) *time.Duration { return &c.Retention }, time.Second, 10*365*24*time.Hour),
	},
	{
		key: "reconcile_interval", preset: "1m", arg: "DURATION",
		help:  "how often ledger and store of each sale are compared, and what is safe is repaired; off: never",
		check: durationOrOff(func(c *Config) *time.Duration { return &c.ReconcileInterval }, time.Second, 24*time.Hour),
	},
	{
		key: "expiry_interval", preset: "250ms", arg: "DURATION",
		help:  "how often a server looks for unpaid orders that are due and for units on their way back to the ledger",
		check: duration(func(c *Config) *time.Duration { return &c.ExpiryInterval }, 10*time.Millisecond, time.Minute),
	},
	{
		// Longer than a transaction of the pipeline may take (10 s).
		key: "abandoned_after", preset: "30s", arg: "DURATION",
		help:  "how long another server may sit on an accepted claim without storing it before this one takes it over",
		check: duration(func(c *Config) *time.Duration { return &c.AbandonedAfter }, 15*time.Second, time.Hour),
	},
	{
		key: "wait_replicas", preset: "0", arg: "N",
		help:  "replicas of a Redis ledger that must have a batch before its claims are answered",
		check: number(func(c *Config) *int { return &c.WaitReplicas }, 0, 16),
	},
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
		return Redact(value)
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
		say("buyer_audience", `is needed with buyer_jwks: the login signs tokens for other services as well; want the "aud" of yours, or * for every token`)
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
