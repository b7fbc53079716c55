package sqlcore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"
)

// VersionTable is where goose notes the migrations it has applied.
const VersionTable = "sluice_schema"

// Migrate brings the database to the version of this program. It refuses a
// database that a newer program has migrated. Options bring the lock where
// several servers may start together.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, migrations fs.FS, opts ...goose.ProviderOption) error {
	opts = append(opts, goose.WithTableName(VersionTable), goose.WithDisableGlobalRegistry(true))
	provider, err := goose.NewProvider(dialect, db, migrations, opts...)
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
		return fmt.Errorf("the schema has version %d, and this program only knows %d: a newer sluice has migrated it", have, want)
	case have < want:
		return fmt.Errorf("the schema has version %d, and this program needs %d: start a server of this version, it migrates", have, want)
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
	var have int64
	if err := s.read.QueryRowContext(ctx, s.sql.Version).Scan(&have); err != nil {
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
