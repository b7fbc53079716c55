package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/mysqlstore"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// The URLs that an engine understands.
const (
	ledgerURLs = "sqlite:PATH, redis://HOST:PORT, rediss://HOST:PORT, redis+sentinel://HOST:PORT/MASTER, " +
		"redis+cluster://HOST:PORT, or store for a store in PostgreSQL that is the ledger too"
	storeURLs = "sqlite:PATH, postgres://USER@HOST:PORT/DATABASE or mysql://USER@HOST:PORT/DATABASE"
)

// inStore, as a ledger, is the store: its database decides.
const inStore = "store"

// basePath is what needs no escaping, and is its own shortest form.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// kind names the sort of a backend: sqlite, redis, postgres, mysql or store.
func kind(backend string) string {
	if backend == inStore {
		return inStore
	}
	switch name, _ := scheme(backend); name {
	case "rediss", "redis+sentinel", "redis+cluster":
		return "redis"
	case "postgresql":
		return "postgres"
	default:
		return name
	}
}

func isRedis(ledger string) bool   { return kind(ledger) == "redis" }
func isPostgres(store string) bool { return kind(store) == "postgres" }
func isMySQL(store string) bool    { return kind(store) == "mysql" }

// sqlitePath returns the path of an SQLite URL.
func sqlitePath(backend string) (string, bool) {
	name, path := scheme(backend)
	return path, name == "sqlite" && path != ""
}

// Check says what is wrong with a configuration before anything is opened.
func (c Config) Check() error {
	c = c.withDefaults()
	if err := httpapi.CheckOrigins(c.CORSOrigins); err != nil {
		return err
	}
	if c.BasePath != "" && !basePath.MatchString(c.BasePath) {
		return fmt.Errorf("base path %q: want one like /flash, without a slash at its end", c.BasePath)
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
	if _, ok := sqlitePath(c.Ledger); !ok && !isRedis(c.Ledger) && c.Ledger != inStore {
		return fmt.Errorf("ledger %q: want %s", auth.Redact(c.Ledger), ledgerURLs)
	}
	if c.LedgerReplica != "" {
		if !isRedis(c.Ledger) {
			return fmt.Errorf("ledger_replica: a ledger in Redis has replicas, %q has none", auth.Redact(c.Ledger))
		}
		if !isRedis(c.LedgerReplica) {
			return fmt.Errorf("ledger_replica %q: want redis://HOST:PORT, rediss://HOST:PORT, "+
				"redis+sentinel://HOST:PORT/MASTER or redis+cluster://HOST:PORT", auth.Redact(c.LedgerReplica))
		}
	}
	if _, ok := sqlitePath(c.Store); !ok && !isPostgres(c.Store) && !isMySQL(c.Store) {
		return fmt.Errorf("store %q: want %s", auth.Redact(c.Store), storeURLs)
	}
	if c.Ledger == inStore && !isPostgres(c.Store) {
		return fmt.Errorf("ledger %q: want a store in PostgreSQL, like postgres://USER@HOST:PORT/DATABASE; store %q cannot "+
			"decide claims", c.Ledger, auth.Redact(c.Store))
	}
	return nil
}

// openBackends opens ledger and store: the ledger first, without which there is nothing
// to do, unless it is in the store.
func (e *Engine) openBackends(ctx context.Context) (err error) {
	if err := e.cfg.Check(); err != nil {
		return err
	}
	if e.cfg.Ledger != inStore {
		if e.ledger, err = openLedger(ctx, e.cfg, e.node); err != nil {
			return err
		}
	}
	if e.replica, err = openReplica(e.cfg); err != nil {
		return err
	}
	if e.store, err = openStore(ctx, e.cfg, e.folder); err != nil || e.ledger != nil {
		return err
	}
	e.ledger, err = orNil[sluice.Ledger](e.store.(*pgstore.Store).Ledger(e.node))
	return err
}

func openLedger(ctx context.Context, c Config, node string) (sluice.Ledger, error) {
	path, embedded := sqlitePath(c.Ledger)
	if !embedded {
		return orNil[sluice.Ledger](
			redisledger.Open(ctx, c.Ledger, redisledger.Options{Node: node, WaitReplicas: c.WaitReplicas}))
	}
	return orNil[sluice.Ledger](sqliteledger.Open(ctx, path, sqliteledger.Options{Node: node}))
}

// orNil is an adapter, or no interface at all: not one that holds a nil pointer.
func orNil[Port any](adapter Port, err error) (Port, error) {
	if err != nil {
		return *new(Port), err
	}
	return adapter, nil
}

// openReplica prepares the replica, if there is one. It may be down now.
func openReplica(c Config) (*redisledger.Replica, error) {
	if c.LedgerReplica == "" {
		return nil, nil
	}
	return redisledger.NewReplica(c.LedgerReplica, redisledger.Options{})
}

func openStore(ctx context.Context, c Config, f *folder) (sluice.Store, error) {
	if path, embedded := sqlitePath(c.Store); embedded {
		return orNil[sluice.Store](sqlitestore.Open(ctx, path, sqlitestore.Options{}))
	}
	store, err := openServer(ctx, c.Store, f.migrated(c.Store))
	if err != nil {
		return nil, err
	}
	if err := store.Ping(ctx); err != nil {
		text := "the store does not answer; claims are taken and wait in the journal"
		if c.Ledger == inStore {
			text = "the store does not answer; claims are answered when it does"
		}
		c.Log.Warn(text, "store", auth.Redact(c.Store), "error", err)
		return store, nil
	}
	if err := f.setMigrated(c.Store); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// openServer opens a store on a database server. Lazy: it may be down now.
func openServer(ctx context.Context, url string, lazy bool) (sluice.Store, error) {
	if isMySQL(url) {
		return orNil[sluice.Store](mysqlstore.Open(ctx, url, mysqlstore.Options{Lazy: lazy}))
	}
	return orNil[sluice.Store](pgstore.Open(ctx, url, pgstore.Options{Lazy: lazy}))
}

// maxBatch is how many claims one call of the ledger takes. Redis decides a
// thousand in two or three milliseconds, for one fsync; an fsync of SQLite is
// worth more. PostgreSQL stores a thousand in one transaction.
func maxBatch(ledger string) int {
	if isRedis(ledger) || ledger == inStore {
		return 1000
	}
	return 2000
}

// refuses says why the ledger cannot write, if it cannot. Of any it is known by the
// last claims; the embedded one is asked as well: a server that
// is not ready gets no claims by which it would find out, and one that has just
// started has had none: the store, in which each server writes all the time, tells
// when there is reason to try.
func (e *Engine) refuses(ctx context.Context) error {
	if embedded, ok := e.ledger.(*sqliteledger.Ledger); ok {
		if why := embedded.Refuses(e.store.Ping(ctx) != nil); why != nil {
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
	if _, own := sqlitePath(e.cfg.Store); own && isRedis(e.cfg.Ledger) {
		e.cfg.Log.Warn("this store is this server's own file: a second server needs --store postgres://… or mysql://…",
			"store", auth.Redact(e.cfg.Store))
	}
	if err := e.refuses(ctx); err != nil {
		e.cfg.Log.Warn("the ledger cannot write; this server is not ready until it can", "ledger", auth.Redact(e.cfg.Ledger),
			"error", err)
	}
	ledger, ok := e.ledger.(*redisledger.Ledger)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnFor)
	defer cancel()
	risks, err := ledger.Risks(ctx)
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

// ledgerRisks are the settings of Redis that can lose accepted claims, as an answer
// says them.
func ledgerRisks(ctx context.Context, ledger *redisledger.Ledger) ([]httpapi.LedgerRisk, error) {
	ctx, cancel := context.WithTimeout(ctx, warnFor)
	defer cancel()
	risks, err := ledger.Risks(ctx)
	var all []httpapi.LedgerRisk
	for _, risk := range risks {
		all = append(all, httpapi.LedgerRisk{
			Detail: fmt.Sprintf("%s is %s: %s", risk.Setting, risk.Value, risk.Harm), Evicts: risk.Setting == "maxmemory-policy",
		})
	}
	return all, err
}
