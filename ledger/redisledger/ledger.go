// Package redisledger is the ledger on Redis (6.2 or later), Valkey, Dragonfly
// or a managed service that speaks their protocol: for more than one server.
//
// All keys of a sale share one hash tag (keys.go), and everything that changes
// them is a script (lua/*.lua, each with its contract at the top): what the
// server has decided is accepted in one atomic step of one EVALSHA.
//
// # Durability
//
// An accepted claim is as durable as Redis makes the write before it replies.
// With "appendonly yes" and "appendfsync always" that is the disk: batching
// pays for the fsync, and it is the recommended setting. With replicas that may
// be elected, Options.WaitReplicas adds WAIT behind each batch.
//
// # Loss
//
// A Redis that restarted from an older file, was failed over to a replica that
// lagged, was flushed, or evicted a key, must not answer as if nothing had
// been accepted. A missing sale is Unavailable, never sold out. Every call
// carries the epoch and sequence that this server last received; a ledger that
// knows less than it reported has lost data, and fences the sale. The same holds
// when the buyers' records or the journal are missing.
package redisledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Options of a ledger; the zero value of each field is its default.
type Options struct {
	// Node names this server, the same after a restart: 1 to 64 of A-Z, a-z,
	// 0-9, '-', '_' and '.'. Servers that run at the same time have different
	// names. Required, except with openReadOnly.
	Node string

	// Prefix starts the name of every key, for a Redis that others use as well.
	// All servers of one shop have the same. Default "sluice".
	Prefix string

	// Now is the clock that windows are judged by, for tests. Default: the
	// clock of the Redis that runs the script.
	Now func() time.Time

	// Timeout bounds one command, and connecting. Default 2 s.
	Timeout time.Duration

	// WaitReplicas is how many replicas must have received a batch of claims
	// before it counts as accepted (WAIT); fewer within WaitTimeout (default 1
	// s) is the error "outcome unknown". Default 0: do not wait. It protects
	// only if it covers every replica that can be elected.
	WaitReplicas int
	WaitTimeout  time.Duration
}

// Ledger implements port.Ledger. It is safe for concurrent use.
type Ledger struct {
	client   rueidis.Client
	keys     keys
	opts     Options
	readOnly bool
	sales    *xsync.Map[sluice.SaleID, *known]
	cursors  sync.Map // sluice.SaleID -> string: where the next Abandoned read goes on
	closed   atomic.Bool

	redisName atomic.Pointer[string] // what Name returned; nil: not known yet

	name    string // what the names of its batches begin with
	batches atomic.Uint64
}

var _ port.Ledger = (*Ledger)(nil)

// wrap says where an error happened. Methods of the port defer it.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("redisledger: %s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// Open connects to a Redis and fails if it does not answer. The url is one of
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]       one server
//	rediss://...                                        the same, by TLS
//	redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/MASTER[/DATABASE]
//	redis+cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT
//
// User, password and master are percent-decoded; :PASSWORD@ alone is the default
// user. Default port 6379 (of sentinels 26379). rediss+sentinel and rediss+cluster
// use TLS. An error repeats no part of the URL, since any part may turn out to be
// the password.
func Open(ctx context.Context, url string, opts Options) (*Ledger, error) {
	if err := validNode(opts.Node); err != nil {
		return nil, fmt.Errorf("redisledger: %w", err)
	}
	return open(ctx, url, opts, false)
}

// openReadOnly connects for reading alone, beside the servers at work: what
// would change something is refused. Options.Node is not needed.
func openReadOnly(ctx context.Context, url string, opts Options) (*Ledger, error) {
	return open(ctx, url, opts, true)
}

func open(ctx context.Context, url string, opts Options, readOnly bool) (*Ledger, error) {
	option, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisledger: %w", err)
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("redisledger: %w", err)
	}
	return connect(ctx, option, opts, readOnly)
}

func (o Options) withDefaults() (Options, error) {
	o.Timeout = cmp.Or(max(o.Timeout, 0), 2*time.Second)
	o.WaitTimeout = cmp.Or(max(o.WaitTimeout, 0), time.Second)
	o.Prefix = cmp.Or(o.Prefix, "sluice")
	if strings.ContainsAny(o.Prefix, "{}") { // the hash tag is the sale's
		return o, fmt.Errorf("prefix %q: want no braces", o.Prefix)
	}
	return o, nil
}

func connect(ctx context.Context, option rueidis.ClientOption, opts Options, readOnly bool) (*Ledger, error) {
	option.ClientName = "sluice"
	option.Dialer.Timeout = opts.Timeout
	option.Sentinel.Dialer.Timeout = opts.Timeout
	option.ConnWriteTimeout = opts.Timeout + opts.WaitTimeout
	option.DisableCache = true
	// Whether a command may be sent twice is decided here, not by the client.
	option.DisableRetry = true

	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redisledger: connect to %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	l := &Ledger{
		client: client, keys: keys(opts.Prefix), opts: opts, readOnly: readOnly, name: handleName(),
		sales: xsync.NewMap[sluice.SaleID, *known](),
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
		client.Close()
		return nil, fmt.Errorf("redisledger: connect to %s: %w", strings.Join(option.InitAddress, ", "), err)
	}
	return l, nil
}

// handleName is a text that no other handle has: ten of 0-9 and a-z.
func handleName() string {
	const least = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36
	return strconv.FormatUint(least+rand.Uint64N(35*least), 36)
}

// Close ends the connections. Calls in flight end with an error: their outcome
// is unknown.
func (l *Ledger) Close() error {
	l.closed.Store(true)
	l.client.Close()
	return nil
}

// errReadOnly: the ledger was opened by openReadOnly.
var errReadOnly = errors.New("opened for reading only")

// writable refuses what would change something.
func (l *Ledger) writable() error {
	if l.readOnly {
		return errReadOnly
	}
	return nil
}

// bounded limits one command by Options.Timeout.
func (l *Ledger) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.opts.Timeout)
}

// now is the clock argument of scripts: milliseconds, or empty for the clock
// of the Redis that runs the script.
func (l *Ledger) now() string {
	if l.opts.Now == nil {
		return ""
	}
	return millis(l.opts.Now())
}

func validNode(node string) error {
	ok := len(node) >= 1 && len(node) <= 64
	for i := range len(node) {
		c := node[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return fmt.Errorf("node %q: want 1 to 64 of A-Z, a-z, 0-9, '-', '_' and '.'", node)
	}
	return nil
}
