// Package sqlitestore is a port.Store in one SQLite file: the embedded
// default. It is pure Go. One process writes to the file; others may read it
// while it does (openReadOnly).
//
// Everything is committed with a full fsync. One connection writes, several
// read; a transaction that writes takes SQLite's write lock when it begins, so
// it never fails half-way for want of it.
package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

var migrations = sqlcore.Migrations(migrationFiles)

// Options of a store. The zero value is good.
type Options struct {
	// Now is the store's clock; default time.Now.
	Now func() time.Time
}

// readers is how many connections read at the same time.
const readers = 4

// Store is a port.Store in a file.
type Store struct {
	*sqlcore.Store
	write *sql.DB // only reads when read-only
}

var (
	_ port.Store       = (*Store)(nil)
	_ port.SettleStore = (*Store)(nil)
	_ sqlcore.Holder   = dialect{}
)

// busyTimeout is how long a statement waits for a lock that another process
// holds.
const busyTimeout = 10 * time.Second

// Open opens the file, which it creates if it is missing (its folder must
// exist), and brings its schema up to date.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	s, err := open(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open %s: %w", path, disk.Why(path, err))
	}
	return s, nil
}

func open(ctx context.Context, path string, opts Options) (*Store, error) {
	if err := findable(path, false); err != nil {
		return nil, err
	}
	if err := disk.Private(path); err != nil {
		return nil, err
	}
	// The keys of orders are scattered, so nearly each order changes a page of its own:
	// room for 64 MiB of them, and checkpoints that gather 250, since a page that was changed
	// several times is written back once; and the first 48,000 orders of a rush meet none.
	write, err := handle(path, 1, "_txlock=immediate", "_pragma=journal_mode(WAL)", "_pragma=synchronous(FULL)",
		"_pragma=foreign_keys(ON)", "_pragma=cache_size(-65536)", "_pragma=wal_autocheckpoint(64000)")
	if err != nil {
		return nil, err
	}
	// The readers come after the migration: the file must be there, in WAL mode.
	if err := sqlcore.Migrate(ctx, goose.DialectSQLite3, write, migrations); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read, err := handle(path, readers, "_pragma=query_only(ON)")
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	now := opts.Now
	if now == nil {
		now = time.Now
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.Join(err, write.Close(), read.Close())
	}
	return &Store{Store: sqlcore.New(dialect{path: absolute, now: now}, write, read), write: write}, nil
}

// openReadOnly opens a file that is there, for reading only, also while
// another process writes to it. It neither creates nor migrates: a missing
// file, or another version of the schema, is an error. Every method that
// changes something fails.
func openReadOnly(ctx context.Context, path string) (*Store, error) {
	s, err := connectReadOnly(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open %s for reading: %w", path, err)
	}
	return s, nil
}

func connectReadOnly(ctx context.Context, path string) (*Store, error) {
	if err := findable(path, true); err != nil {
		return nil, err
	}
	// Not mode=ro: reading a WAL needs its shared-memory file, which the first
	// process to open the database makes. query_only keeps the data as it is.
	read, err := handle(path, readers, "mode=rw", "_pragma=query_only(ON)")
	if err != nil {
		return nil, err
	}
	s := &Store{Store: sqlcore.New(dialect{now: time.Now}, read, read), write: read}
	s.ReadOnly = true
	if err := s.CheckVersion(ctx, migrations); err != nil {
		if strings.Contains(err.Error(), "no such table") {
			err = errors.New("it holds no store of sluice")
		}
		return nil, errors.Join(err, read.Close())
	}
	return s, nil
}

// findable gives a clearer reason than SQLite's "unable to open database file".
func findable(path string, mustExist bool) error {
	if path == "" {
		return errors.New("the path is empty")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder, want a file")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case mustExist:
		return errors.New("there is no such file")
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s", filepath.Dir(path))
	}
	return nil
}

func handle(path string, connections int, params ...string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	params = append(params, fmt.Sprintf("_pragma=busy_timeout(%d)", busyTimeout.Milliseconds()))
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: strings.Join(params, "&")}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}
