package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/port"
)

// The URLs of the drivers that come with the engine.
const (
	redisURLs  = "redis://HOST:PORT, rediss://HOST:PORT, redis+sentinel://HOST:PORT/MASTER or redis+cluster://HOST:PORT"
	ledgerURLs = "sqlite:PATH, " + redisURLs + ", or store for a store in PostgreSQL that is the ledger too"
	storeURLs  = "sqlite:PATH, postgres://USER@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE"
)

// packages are the drivers that a program has if it imports them; SQLite's it has always.
var packages = map[string]string{
	"redis": "ledger/redisledger", "rediss": "ledger/redisledger", "redis+sentinel": "ledger/redisledger",
	"redis+cluster": "ledger/redisledger", "postgres": "store/pgstore", "postgresql": "store/pgstore",
	"mysql": "store/mysqlstore",
}

// unknown says why there is no driver for a URL.
func unknown(setting, backend, urls string) error {
	name, _ := scheme(backend)
	what := fmt.Sprintf("%s %q", setting, auth.Redact(backend))
	if known := packages[name]; known != "" && strings.HasPrefix(known, strings.TrimSuffix(setting, "_replica")) {
		return fmt.Errorf(`%s: this program has no driver for %s; want import _ "github.com/sluicehq/sluice/%s" in it`,
			what, name, known)
	}
	return fmt.Errorf("%s: want %s", what, urls)
}

// inStore, as a ledger, is the store: its database decides.
const inStore = "store"

// basePath is what needs no escaping, and is its own shortest form.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// sqlitePath returns the path of an SQLite URL.
func sqlitePath(backend string) (string, bool) {
	name, path := scheme(backend)
	return path, name == "sqlite" && path != ""
}

// leastAbandoned is longer than a transaction of the pipeline may take (10 s).
const leastAbandoned = 15 * time.Second

// Check says what is wrong with a configuration before anything is opened.
func (c Config) Check() error {
	c = c.withDefaults()
	if err := httpapi.CheckOrigins(c.CORSOrigins); err != nil {
		return err
	}
	if c.BasePath != "" && !basePath.MatchString(c.BasePath) {
		return fmt.Errorf("base path %q: want one like /flash, without a slash at its end", c.BasePath)
	}
	switch c.ClientAddressHeader {
	case "", "x-forwarded-for", httpapi.HeaderForwarded:
	default:
		return fmt.Errorf("client_address_header %q: want x-forwarded-for or forwarded", c.ClientAddressHeader)
	}
	if c.AbandonedAfter != 0 && c.AbandonedAfter < leastAbandoned {
		return fmt.Errorf("abandoned after %v: want %v or more: a server may hold what it stores as long as one transaction "+
			"takes", c.AbandonedAfter, leastAbandoned)
	}
	switch c.BuyerID {
	case "", auth.ExactID, auth.TrimmedID, auth.CasefoldID:
	default:
		return fmt.Errorf("buyer_id %q: want exact, trimmed or casefold", c.BuyerID)
	}
	if c.BuyerJWKS != "" && c.BuyerAudience == "" {
		return errors.New(
			`buyer_audience is needed with buyer_jwks: the login signs tokens for other services as well; want the "aud" of yours, or * to accept every token of that login`)
	}
	return errors.Join(c.checkLedger(), c.checkStore())
}

func (c *Config) checkLedger() error {
	if c.Ledger == inStore {
		if c.LedgerReplica != "" {
			return errors.New(`ledger_replica: the ledger "store" has no replicas that are read`)
		}
		return nil
	}
	driver := port.LedgerDriverOf(c.Ledger)
	if path, ok := sqlitePath(c.Ledger); driver == nil || ok && path == "" {
		return unknown("ledger", c.Ledger, ledgerURLs)
	}
	if c.LedgerReplica == "" {
		return nil
	}
	if driver.OpenReplica == nil {
		return fmt.Errorf("ledger_replica: a ledger in Redis has replicas, %q has none", auth.Redact(c.Ledger))
	}
	if port.LedgerDriverOf(c.LedgerReplica) != driver {
		return unknown("ledger_replica", c.LedgerReplica, redisURLs)
	}
	return nil
}

func (c *Config) checkStore() error {
	driver := port.StoreDriverOf(c.Store)
	if path, ok := sqlitePath(c.Store); driver == nil || ok && path == "" {
		return unknown("store", c.Store, storeURLs)
	}
	if c.Ledger == inStore && driver.Ledger == nil {
		return fmt.Errorf("ledger %q: want a store in PostgreSQL, like postgres://USER@HOST:PORT/DATABASE; store %q cannot "+
			"decide claims", c.Ledger, auth.Redact(c.Store))
	}
	return nil
}

// backends are ledger and store, and the drivers that have opened them.
type backends struct {
	ledger       port.Ledger
	store        port.Store
	replica      port.LedgerReplica // nil if there is none
	ledgerDriver *port.LedgerDriver
	storeDriver  *port.StoreDriver
	silent       bool // the store did not answer when it was opened
}

// openBackends opens ledger and store: the ledger first, without which there is nothing
// to do, unless it is in the store.
func (e *Engine) openBackends(ctx context.Context) (err error) {
	if err := e.cfg.Check(); err != nil {
		return err
	}
	e.storeDriver = port.StoreDriverOf(e.cfg.Store)
	e.ledgerDriver = &port.LedgerDriver{Kind: inStore}
	if e.cfg.Ledger != inStore {
		e.ledgerDriver = port.LedgerDriverOf(e.cfg.Ledger)
		o := port.LedgerOptions{Node: e.node, WaitReplicas: e.cfg.WaitReplicas}
		if e.ledger, err = orNil(e.ledgerDriver.Open(ctx, e.cfg.Ledger, o)); err != nil {
			return err
		}
	}
	if e.cfg.LedgerReplica != "" { // it may be down now
		if e.replica, err = orNil(e.ledgerDriver.OpenReplica(e.cfg.LedgerReplica)); err != nil {
			return err
		}
	}
	if err = e.openStore(ctx); err != nil {
		return err
	}
	if e.cfg.Ledger == inStore {
		if e.ledger, err = orNil(e.storeDriver.Ledger(e.store, e.node)); err != nil {
			return err
		}
	}
	if _, replicated := port.As[port.ConfirmingLedger](e.ledger); e.cfg.WaitReplicas > 0 && !replicated {
		return fmt.Errorf("wait_replicas: a ledger in Redis has replicas, %q has none", auth.Redact(e.cfg.Ledger))
	}
	return nil
}

// orNil is what a driver has opened, or no interface at all: not one that holds a nil pointer.
func orNil[Port any](opened Port, err error) (Port, error) {
	if err != nil {
		return *new(Port), err
	}
	return opened, nil
}

// lateAfter is how long a start waits for its store before it says so: it may be minutes.
const lateAfter = 10 * time.Second

// openStore opens the store. One on a database server, seen before, may be down now.
func (e *Engine) openStore(ctx context.Context) (err error) {
	late := time.AfterFunc(lateAfter, func() {
		e.cfg.Log.Warn("the store is not open yet: it does not answer, or another server is making or changing its tables",
			"store", auth.Redact(e.cfg.Store), "after", lateAfter)
	})
	defer late.Stop()
	lazy := !e.storeDriver.Own && e.folder.migrated(e.cfg.Store)
	if e.store, err = orNil(e.storeDriver.Open(ctx, e.cfg.Store, lazy)); err != nil || e.storeDriver.Own {
		return err
	}
	if err := e.store.Ping(ctx); err != nil {
		text := "the store does not answer; claims are taken and wait in the journal"
		if e.cfg.Ledger == inStore {
			text = "the store does not answer; claims are answered when it does"
		}
		e.cfg.Log.Warn(text, "store", auth.Redact(e.cfg.Store), "error", err)
		e.silent = true
		return nil
	}
	return e.folder.setMigrated(e.cfg.Store)
}

// asking bounds what a start asks of a store that has just not answered: until the start is
// over no port is open, and what the loops need they ask again.
func (b *backends) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.silent {
		return context.WithTimeout(ctx, time.Second)
	}
	return context.WithCancel(ctx)
}

// refuses says why the ledger cannot write, if it cannot. Of any it is known by the
// last claims; one that can be asked is asked as well: a server that
// is not ready gets no claims by which it would find out, and one that has just
// started has had none: the store, in which each server writes all the time, tells
// when there is reason to try.
func (e *Engine) refuses(ctx context.Context) error {
	if ledger, ok := port.As[port.RefusingLedger](e.ledger); ok {
		if why := ledger.Refuses(e.store.Ping(ctx) != nil); why != nil {
			return fmt.Errorf("%w: %w", sluice.ErrRefusesWrites, why)
		}
	}
	if e.batcher.Refusing() {
		return sluice.ErrRefusesWrites
	}
	return nil
}

// warnFor bounds what looking for warnings may add to a start.
const warnFor = time.Second

// warn says what works now and may be regretted later. It changes nothing and
// fails for nothing.
func (e *Engine) warn(ctx context.Context) {
	if e.storeDriver.Own && !e.ledgerDriver.Own {
		e.cfg.Log.Warn("this store is this server's own file: a second server needs --store postgres://… or mysql://…",
			"store", auth.Redact(e.cfg.Store))
	}
	if err := e.refuses(ctx); err != nil {
		e.cfg.Log.Warn("the ledger cannot write; this server is not ready until it can", "ledger", auth.Redact(e.cfg.Ledger),
			"error", err)
	}
	risks, err := e.risks(ctx)
	if err != nil {
		e.cfg.Log.Warn("cannot check whether the settings of Redis keep accepted claims", "error", err,
			"want", "allow CONFIG GET (ACL: +config|get), or make sure of appendonly yes, appendfsync always and "+
				"maxmemory-policy noeviction")
	}
	for _, risk := range risks {
		e.cfg.Log.Warn("a setting of Redis can lose accepted claims", "setting", risk.Setting, "value", risk.Value, "risk",
			risk.Harm, "want", risk.Want)
	}
}

// risks are the settings of the ledger that can lose accepted claims.
func (e *Engine) risks(ctx context.Context) ([]port.SettingRisk, error) {
	ledger, ok := port.As[port.Risky](e.ledger)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, warnFor)
	defer cancel()
	return ledger.Risks(ctx)
}
