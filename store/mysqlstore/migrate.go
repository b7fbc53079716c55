package mysqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"slices"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sqlcore.Migrations(migrationFiles)

// migrate brings the schema up to date. MySQL commits each statement of a
// migration by itself, so whatever this does can be done again after it was cut
// off anywhere.
func (s *Store) migrate(ctx context.Context) error {
	// A migration may take long, so it has connections of its own, without limits.
	own := *s.connector
	own.session = append(slices.Clone(own.session), unlimited)
	db := sql.OpenDB(&own)
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
