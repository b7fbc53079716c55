package sqlcore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
)

// errUnreachable is an ErrStoreBusy: the database did not answer, or is starting,
// stopping or full. It may be there later, with the same URL.
var errUnreachable = Plainly("the database is not reachable", sluice.ErrStoreBusy)

// Server opens a Store on a database server, which may not be there yet. Its
// functions are the dialect's; all are needed.
type Server struct {
	Store    *Store
	Database string // its name and address, for errors
	// Check is an error unless the schema has the version of this program. It is
	// the ping as well.
	Check func(ctx context.Context) error
	// Migrate brings the schema to that version, after a Check that has failed.
	Migrate func(ctx context.Context) error
	// NoTable reports whether an error says that a table is missing, Away whether
	// the database does not answer, and Refused whether it has answered with the
	// error.
	NoTable, Away, Refused func(error) bool
	// Plain returns an error in one sentence.
	Plain func(error) error

	done      atomic.Bool
	preparing chan struct{} // holds a token while a caller prepares
}

// Open brings the schema up to date. If lazy, it succeeds while the database is
// away, and the first use of the store that reaches it does so. The caller closes
// the store after an error.
func (v *Server) Open(ctx context.Context, lazy bool) error {
	v.preparing = make(chan struct{}, 1)
	v.Store.ready = v.ready
	if err := v.ready(ctx); err != nil && (!lazy || !errors.Is(err, errUnreachable)) {
		return fmt.Errorf("%s: %w", v.Store.d.Name(), err)
	}
	return nil
}

// OpenReadOnly checks the schema, and opens the store for reading only.
func (v *Server) OpenReadOnly(ctx context.Context) error {
	v.Store.ReadOnly = true
	err := v.Check(ctx)
	if err == nil {
		return nil
	}
	if err = v.explain(ctx, err); v.NoTable(err) {
		err = fmt.Errorf("%s holds no store of sluice", v.Database)
	}
	return fmt.Errorf("%s: %w", v.Store.d.Name(), err)
}

// ready prepares the database, unless that is done. Callers that come meanwhile
// wait; after an error the next one tries again.
func (v *Server) ready(ctx context.Context) error {
	if v.done.Load() {
		return nil
	}
	select {
	case v.preparing <- struct{}{}:
		defer func() { <-v.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if v.done.Load() {
		return nil
	}
	// The usual case needs no lock.
	err := v.Check(ctx)
	if err != nil && (v.NoTable(err) || !v.Refused(err) && !v.away(ctx, err)) {
		err = v.Migrate(ctx)
	}
	if err != nil {
		return v.explain(ctx, err)
	}
	v.done.Store(true)
	return nil
}

// away distinguishes a database that is not there from one that refuses.
func (v *Server) away(ctx context.Context, err error) bool {
	return ctx.Err() != context.Canceled && v.Away(err) // a caller that left does not wait for the answer
}

// explain names the database that could not be used, and why.
func (v *Server) explain(ctx context.Context, err error) error {
	err = v.Plain(err)
	if v.away(ctx, err) {
		return fmt.Errorf("%s: %w: %w", v.Database, errUnreachable, err)
	}
	return fmt.Errorf("%s: %w", v.Database, err)
}

// Plainly is an error with a better text.
func Plainly(text string, err error) error { return &plain{text, err} }

type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// VersionTable is where goose notes the migrations it has applied.
const VersionTable = "sluice_schema"

var sqlVersion = newStatement("Version", `SELECT coalesce(max(version_id), 0) FROM `+VersionTable+` WHERE is_applied`)

// Migrations are the files in the embedded folder of that name.
func Migrations(files embed.FS) fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the adapter embeds the folder
	}
	return sub
}

// MigrationWait is how long a server that starts waits for another one that migrates.
const MigrationWait = 5 * time.Minute

// Migrate brings the database to the version of this program. It refuses a
// database that a newer program has migrated. Where several servers may start
// together the caller holds a lock.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, migrations fs.FS) error {
	provider, err := goose.NewProvider(dialect, db, migrations,
		goose.WithTableName(VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	// Not provider.Close: the database is the caller's.
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return sameVersion(have, want)
}

func sameVersion(have, want int64) error {
	switch {
	case have > want:
		return fmt.Errorf("the schema has version %d, and this program only knows %d: "+
			"a newer sluice has migrated it", have, want)
	case have < want:
		return fmt.Errorf("the schema has version %d, and this program needs %d: "+
			"start a server of this version, it migrates", have, want)
	}
	return nil
}

// CheckVersion says whether a database that must not be changed has the
// version of this program. The caller knows how a missing table looks.
func (s *Store) CheckVersion(ctx context.Context, migrations fs.FS) error {
	want, err := latest(migrations)
	if err != nil {
		return err
	}
	var have int64 // not by reads, which would wait for this
	if err := s.read.QueryRowContext(ctx, s.sql[sqlVersion]).Scan(&have); err != nil {
		return err
	}
	return sameVersion(have, want)
}

// latest is the version in the name of the last migration: 00001_init.sql.
func latest(migrations fs.FS) (version int64, err error) {
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		number, err := goose.NumericComponent(strings.TrimSpace(name))
		if err != nil {
			return 0, err
		}
		version = max(version, number)
	}
	return version, nil
}
