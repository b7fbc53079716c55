package engine

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicehq/sluice"
)

// Config says what an engine is made of. The zero value is a good embedded
// engine: SQLite for both ledger and store under ./sluice-data, with secrets
// that are generated on first start and kept there.
type Config struct {
	// DataDir is the folder that this engine owns while it is open: its name,
	// its secrets, and the embedded databases. Default "./sluice-data".
	DataDir string

	// Ledger is the URL of the ledger: sqlite:PATH, redis://, rediss://,
	// redis+sentinel:// or redis+cluster://; or "store", if the store is PostgreSQL:
	// its database is the ledger too. Default: SQLite in DataDir.
	Ledger string
	// LedgerReplica, for a ledger in Redis, is the URL of a replica that is read
	// for those who look on: redis://, rediss://, redis+sentinel:// or
	// redis+cluster://. Nothing is decided by it. Default: none.
	LedgerReplica string
	// Store is the URL of the store: sqlite:PATH, postgres:// or mysql://.
	// Default: SQLite in DataDir.
	Store string

	// Node names this server among those of one ledger; default: random, kept
	// in DataDir. Two running servers must not share a name.
	Node string

	// AdminAddress is where admins reach this server, host:port, to be named where its settings are not those of
	// other servers. Default: not told.
	AdminAddress string

	// AdminKey is the merchant's key, BuyerSecret signs buyers' tokens
	// (HS256). Defaults: generated, kept in DataDir as admin.key and
	// buyer.secret, mode 0600.
	AdminKey    string
	BuyerSecret string
	// BuyerSecretPrevious is the buyer secret before: its tokens stay good while
	// BuyerSecret is replaced.
	BuyerSecretPrevious string
	// Exposed: other machines can reach the server, so that short secrets, which
	// can be guessed, are an error of Open and not only a warning.
	Exposed bool
	// AdminKeys are more keys of admins, each with a name and a role. AdminKey
	// is an owner's, named "admin".
	AdminKeys []sluice.AdminKey

	// BuyerJWKS is where the public keys of buyers' RS256, ES256 and EdDSA
	// tokens come from: the path of a JWKS file, or an https URL. With it, HS256
	// tokens are good only if BuyerSecret is given.
	BuyerJWKS string
	// BuyerIssuer and BuyerAudience, if given, are what every buyer's token
	// must have as its "iss" and among its "aud". With BuyerJWKS an audience is
	// required, since a login signs tokens for other services as well;
	// "*" accepts those, too, and tokens for no audience.
	BuyerIssuer, BuyerAudience string
	// BasePath is the path under which the embedding shop serves the handlers, like
	// "/flash": links, addresses in answers and the API's document have it, and the handlers
	// take requests with and without it. Default: none.
	BasePath string
	// Identify returns the buyer whose session of the embedding shop a request comes with, ""
	// if there is none; with an error it cannot say now, and the request is answered 503. It is
	// asked about requests without a token, several at a time, and should be fast: it is asked
	// about every claim. The request's context ends after 5 s. Requests that a page of another
	// site has a browser make are refused before. A session invites to no sale: sales of
	// invited buyers (eligibility "token") need tokens, or a list instead. Default: buyers have
	// tokens.
	Identify func(*http.Request) (sluice.BuyerID, error)
	// Signed returns what the shop vouches for of the buyer whom Identify has just named, by name,
	// for sales with limits: {"household": "17"}, say, as tokens have it in claims. It is asked as
	// Identify is. Default: nothing, and such sales refuse sessions.
	Signed func(*http.Request) map[string]string
	// BuyerID says which spellings of a buyer's id are one buyer: "exact" (default):
	// each is one of its own; "trimmed": without white space at both ends; "casefold":
	// neither case nor compatible characters count, too. All servers of a shop need the
	// same.
	BuyerID string
	// BuyerTokenLife is how far ahead the "exp" of a buyer's token may lie; default 31
	// days, negative: no limit.
	BuyerTokenLife time.Duration
	// ClockSkew is the tolerance for the times in tokens; default 30 s,
	// negative: none.
	ClockSkew time.Duration

	// TicketSecret signs purchase tickets; all servers of a shop need the same.
	// Default: derived from BuyerSecret, or, if there is none, generated and
	// kept in DataDir as ticket.secret. TicketSecretPrevious is the one before:
	// its tickets stay good. Default, without a TicketSecret: BuyerSecretPrevious.
	TicketSecret         string
	TicketSecretPrevious string

	// WebhookKey encrypts the secrets of webhooks in the store; all servers of a
	// shop need the same. Default: with an embedded store generated and kept in
	// DataDir as webhook.key; with any other store they are kept in clear. Pseudonyms
	// of erased buyers are made with it, too.
	WebhookKey string

	// RefreshInterval is how often the board reads the ledger; default 200 ms.
	RefreshInterval time.Duration
	// EventStreams is how many event streams may be open at a time; default
	// 10,000, negative: none. EventsPerAddress is how many of them one client
	// address may hold (of IPv6: one /64; a /56 twice, a /48 four times as many);
	// default 1,000, negative: no such limit.
	EventStreams     int
	EventsPerAddress int
	// CORSOrigins are the origins whose pages may use the buyers' half of the
	// API, like https://shop.example; none unless given.
	CORSOrigins []string
	// ClaimQueue bounds the claims that wait for the ledger, per sale; default
	// 20,000. More are refused as overloaded.
	ClaimQueue int
	// ClaimsInFlight bounds the claims of all sales in flight; default 50,000.
	// More are refused as overloaded.
	ClaimsInFlight int
	// TrustedProxies are believed when they say where a request comes from, in
	// ClientAddressHeader: "x-forwarded-for" (default) or "forwarded" (RFC
	// 7239). All of them must write it. Default: no proxy is trusted.
	TrustedProxies      []netip.Prefix
	ClientAddressHeader string

	// WaitReplicas, for a ledger in Redis: how many replicas must have a batch
	// before its claims are answered; default 0.
	WaitReplicas int

	// Retention is how long a closed and settled sale stays in the ledger; then
	// the store answers for it. Default 7 days.
	Retention time.Duration

	// RecordRetention is how long the store says who bought at a sale after it was
	// archived, and what admins did; then buyers become keyed hashes, and actions of
	// admins are deleted. Default: for ever. It needs a WebhookKey, as erasing does.
	RecordRetention time.Duration

	// OrderRetention is how long events are kept, and orders after their sale was
	// archived; then they are deleted, and their sums stay. Default: for ever.
	OrderRetention time.Duration

	// ReconcileInterval is how often each sale's ledger and store are compared, and
	// what is safe is repaired; default 1 minute. Negative: never.
	ReconcileInterval time.Duration
	// ExpiryInterval is how often unpaid orders that are due are ended, and units of
	// ended orders given back to the ledger; default 250 ms, and up to three times
	// as long while there are none. What this server ends itself is given back at once.
	ExpiryInterval time.Duration
	// AbandonedAfter is how long another server may hold a journal entry before
	// this one stores it; default 30 s, at least 15 s: longer than a transaction of
	// the pipeline may take.
	AbandonedAfter time.Duration

	// Pages are the settings of the buyer's pages.
	Pages Pages

	// Log receives what happens; default: warnings and errors to standard error.
	// slog.New(slog.DiscardHandler) is silent.
	Log *slog.Logger
	// Verbosity is the level of Log's handler, if it may be changed while the engine runs
	// (PUT /v1/admin/log-level). The default Log has it as well; default there: warnings.
	Verbosity *slog.LevelVar
	// Registerer, of a program that serves metrics itself, gets the engine's as well
	// while the engine is open, without those of the Go runtime and the process. Two engines
	// need prometheus.WrapRegistererWith and a label. Default: GET /metrics has them alone.
	Registerer prometheus.Registerer
	// Tracer takes the spans of sampled orders; default: none are made. TraceRatio is the
	// part of the orders that is sampled, above 0 and at most 1; default 0.01. All servers
	// of a shop need the same ratio for whole traces.
	Tracer     Tracer
	TraceRatio float64
	// Version is what the metrics say of the program; default: Sluice's version, as the
	// program's build information has it.
	Version string
}

// anyAudience accepts tokens for every audience, or for none.
const anyAudience = "*"

// defaultTokenLife is how far ahead the "exp" of a buyer's token may lie.
const defaultTokenLife = 31 * 24 * time.Hour

func (c Config) withDefaults() Config {
	c.DataDir = cmp.Or(c.DataDir, "./sluice-data")
	c.Ledger = cmp.Or(c.Ledger, "sqlite:"+filepath.Join(c.DataDir, "ledger.db"))
	c.Store = cmp.Or(c.Store, "sqlite:"+filepath.Join(c.DataDir, "store.db"))
	c.ReconcileInterval = cmp.Or(c.ReconcileInterval, time.Minute)
	c.BuyerTokenLife = cmp.Or(c.BuyerTokenLife, defaultTokenLife)
	if c.Log == nil {
		if c.Verbosity == nil {
			c.Verbosity = new(slog.LevelVar)
			c.Verbosity.Set(slog.LevelWarn)
		}
		c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.Verbosity}))
	}
	return c
}

// scheme splits a backend's URL; a path of SQLite follows the colon.
func scheme(backend string) (name, rest string) {
	name, rest, found := strings.Cut(backend, ":")
	if !found {
		return "", backend
	}
	return strings.ToLower(name), rest
}
