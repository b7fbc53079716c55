// Package mysqlstore is a port.Store in MySQL 8 or MariaDB 10.6 and later
// (tested with MariaDB 10.11), for any number of servers on one database. The
// store's clock is the database's.
//
// A batch of orders is one transaction: the sale's row is updated first, which
// makes the batches of one sale follow each other, then the orders are inserted
// by statements of many rows.
//
// The server's binary log, if there is one, must not be of the format
// STATEMENT: InnoDB refuses that with the isolation level used here. Of a
// cluster with several writable nodes (Galera, Group Replication) use one:
// orders are listed by a number that each node counts for itself.
package mysqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// Options of a store. The zero value is good. The URL may set more:
// pool_max_conns (default 12), connect_timeout, read_timeout and write_timeout
// in seconds, and tls (true, false, skip-verify, or preferred, the default:
// with TLS if the server has it).
type Options struct {
	// Lazy lets Open succeed while the database cannot be reached. The first
	// use that reaches it migrates it. Until then every method fails.
	Lazy bool
	// ConnectTimeout bounds one attempt to connect, unless the URL says
	// connect_timeout; default 5 s.
	ConnectTimeout time.Duration
}

// Store is a port.Store in MySQL or MariaDB.
type Store struct {
	*sqlcore.Store
	db        *sql.DB // for changes
	connector *connector
	server    *sqlcore.Server
}

var _ port.Store = (*Store)(nil)

// Open connects to the database, which must be there and may be empty, and
// brings its schema up to date. Several servers may do so together.
// sluice.ErrStoreBusy if the database does not answer.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := connect(url, opts, session)
	if err != nil {
		return nil, err
	}
	return sqlcore.Opened(s, s.server.Open(ctx, opts.Lazy))
}

// openReadOnly connects to a database for reading only, also while servers
// write to it. It does not migrate: a missing schema, or one of another
// version, is an error. Every method that changes something fails.
func openReadOnly(ctx context.Context, url string) (*Store, error) {
	s, err := connect(url, Options{}, append([]string{readOnly}, session...))
	if err != nil {
		return nil, err
	}
	return sqlcore.Opened(s, s.server.OpenReadOnly(ctx))
}

// connect makes a store without asking the database anything.
func connect(url string, opts Options, session []string) (*Store, error) {
	a, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("mysqlstore: %w", err)
	}
	inner, err := mysql.NewConnector(a.config)
	if err != nil {
		return nil, errors.New("mysqlstore: the URL: a setting in it is not valid")
	}
	c := &connector{Connector: inner, timeout: a.dial, session: session}
	c.timeout = cmp.Or(c.timeout, opts.ConnectTimeout)
	c.timeout = cmp.Or(max(c.timeout, 0), 5*time.Second)
	// Half of the connections are for changes, so that audits and lists never
	// take the last one from the pipeline and the server's heartbeat.
	db, reads := pool(c, a.conns/2), pool(c, a.conns-a.conns/2)
	s := &Store{Store: sqlcore.New(dialect{}, db, reads), db: db, connector: c}
	s.server = &sqlcore.Server{
		Store: s.Store, Database: fmt.Sprintf("database %s at %s", strconv.Quote(a.config.DBName), a.config.Addr),
		Check:   func(ctx context.Context) error { return s.CheckVersion(ctx, migrations) },
		Migrate: s.migrate, Plain: plain, Away: isAway,
		NoTable: func(err error) bool { return errorNumber(err) == noSuchTable },
		Refused: func(err error) bool { return errorNumber(err) != 0 },
	}
	return s, nil
}

func pool(c *connector, conns int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(time.Minute) // before the server's wait_timeout, and before a firewall forgets the connection
	return db
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sqlcore.Migrations(migrationFiles)

// migrate brings the schema up to date. MySQL commits each statement of a
// migration by itself, so whatever this does can be done again after it was cut
// off anywhere.
func (s *Store) migrate(ctx context.Context) error {
	// A migration may take long, so it has connections of its own, without limits.
	c := s.connector
	own := &connector{Connector: c.Connector, timeout: c.timeout, session: append(slices.Clone(c.session), unlimited)}
	db := sql.OpenDB(own)
	defer db.Close()
	return alone(ctx, db, func(conn *sql.Conn) error {
		if err := prepareVersions(ctx, conn); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return sqlcore.Migrate(ctx, goose.DialectMySQL, db, migrations)
	})
}

// prepareVersions makes goose's own table, which goose would do before it asks
// for a lock, and by two statements of which it expects both or neither.
func prepareVersions(ctx context.Context, conn *sql.Conn) error {
	versions, err := database.NewStore(database.DialectMySQL, sqlcore.VersionTable)
	if err != nil {
		return err
	}
	var rows int
	err = conn.QueryRowContext(ctx, "SELECT count(*) FROM "+sqlcore.VersionTable).Scan(&rows)
	if errorNumber(err) == noSuchTable {
		err = versions.CreateVersionTable(ctx, conn)
	}
	if err == nil && rows == 0 {
		err = versions.Insert(ctx, conn, database.InsertRequest{Version: 0})
	}
	return err
}

// The lock that servers which start together queue for. It ends with its
// connection, so a server that dies blocks no other. (Goose's own lock for MySQL
// is a row with a lease.) Locks have one name for all databases of a server, of
// 64 characters at most.
const (
	lockName    = `concat('sluice.', md5(database()))`
	lockSeconds = 300 // to wait for it
	acquireLock = `SELECT get_lock(` + lockName + `, ?)`
	releaseLock = `SELECT release_lock(` + lockName + `)`
)

// alone calls do while no other server migrates this database, with the
// connection that holds the lock.
func alone(ctx context.Context, db *sql.DB, do func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var ours sql.NullInt64
	if err := conn.QueryRowContext(ctx, acquireLock, lockSeconds).Scan(&ours); err != nil {
		return fmt.Errorf("wait for the migration of another server: %w", err)
	}
	if ours.Int64 != 1 {
		return fmt.Errorf("the migration of another server takes more than %d s", lockSeconds)
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), releaseLock)
	return do(conn)
}
