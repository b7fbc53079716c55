// Package pgstore is a port.Store in PostgreSQL (tested with 15), for any
// number of servers on one database. The store's clock is the database's.
//
// A batch of orders is one statement and two round trips: the sale's row is
// updated first, which makes the batches of one sale follow each other, then
// the orders are inserted from arrays.
package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sqlcore.Migrations(migrationFiles)

// Options of a store. The zero value is good. The URL may set more, as pgx
// documents it: pool_max_conns (default 12), connect_timeout, sslmode, search_path, ...
type Options struct {
	// Lazy lets Open succeed while the database cannot be reached. The first
	// use that reaches it migrates it. Until then every method fails.
	Lazy bool
	// ConnectTimeout bounds one attempt to connect, unless the URL says
	// connect_timeout; default 5 s.
	ConnectTimeout time.Duration
}

// Store is a port.Store in PostgreSQL.
type Store struct {
	*sqlcore.Store
	pool    *pgxpool.Pool
	db      *sql.DB // on the pool
	session *session
	server  *sqlcore.Server
}

var _ port.Store = (*Store)(nil)

// Open connects to the database and brings its schema up to date. Several
// servers may do so together. sluice.ErrStoreBusy if the database does not answer.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := connect(url, opts, false)
	if err != nil {
		return nil, err
	}
	return sqlcore.Opened(s, s.server.Open(ctx, opts.Lazy))
}

// openReadOnly connects to a database for reading only, also while servers
// write to it. It does not migrate: a missing schema, or one of another
// version, is an error. Every method that changes something fails.
func openReadOnly(ctx context.Context, url string) (*Store, error) {
	s, err := connect(url, Options{}, true)
	if err != nil {
		return nil, err
	}
	return sqlcore.Opened(s, s.server.OpenReadOnly(ctx))
}

// changesOnly is how many connections of the pool reading leaves to changes, so
// that audits and lists never take the last one from the pipeline and the
// server's heartbeat. defaultConns is the size of the pool, unless the URL says
// pool_max_conns.
const (
	changesOnly  = 2
	defaultConns = 12
)

// connect makes a store without asking the database anything.
func connect(url string, opts Options, readOnly bool) (*Store, error) {
	config, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	if c := config.ConnConfig; c.ConnectTimeout == 0 {
		c.ConnectTimeout = opts.ConnectTimeout
		c.ConnectTimeout = cmp.Or(max(c.ConnectTimeout, 0), 5*time.Second)
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "sluice"
	}
	config.ConnConfig.DialFunc = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	own := newSession(config.ConnConfig, readOnly)
	config.BeforeConnect, config.AfterConnect = own.beforeConnect, own.afterConnect
	config.ConnConfig.OnNotice = own.noticed
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	// Reading leaves some connections to changes.
	db, reads := stdlib.OpenDBFromPool(pool), stdlib.OpenDBFromPool(pool)
	reads.SetMaxOpenConns(int(max(1, config.MaxConns-changesOnly))) // 0 would be no bound
	s := &Store{Store: sqlcore.New(dialect{pool, newHome(pool), own}, db, reads), pool: pool, db: db, session: own}
	s.server = &sqlcore.Server{
		Store: s.Store, Database: databaseName(config.ConnConfig),
		Check: func(ctx context.Context) error {
			return again(func() error { return s.CheckVersion(ctx, migrations) })
		},
		Migrate: s.migrate, Plain: plain, Away: isAway,
		NoTable: func(err error) bool { return sqlState(err) == undefinedTable },
		Refused: func(err error) bool { return sqlState(err) != "" },
	}
	return s, nil
}

// migrationLock is the advisory lock that servers which start together queue
// for. It is a number of our own, so that no other user of goose waits for us.
const migrationLock = 0x736c75696365 // "sluice"

func (s *Store) migrate(ctx context.Context) error {
	// A migration may take long, so it has connections of its own, without limits, and a
	// name that the ledger ends no transaction of.
	config := s.pool.Config().ConnConfig
	config.RuntimeParams["application_name"] += " migrates"
	if err := s.session.beforeConnect(ctx, config); err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	// The transaction holds the lock: a session's lock would stay behind in a
	// pooler.
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, statement := range []string{
		fmt.Sprintf("SELECT set_config('lock_timeout', '%d', true), ", sqlcore.MigrationWait.Milliseconds()) +
			"set_config('statement_timeout', '0', true), " +
			"set_config('" + idleSetting + "', '0', true)",
		fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrationLock),
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("wait for the migration of another server: %w", err)
		}
	}
	return sqlcore.Migrate(ctx, goose.DialectPostgres, db, migrations)
}
