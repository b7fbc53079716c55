package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// What the tests ask the database for as the store does.
const (
	AcquireLock = acquireLock
	ReleaseLock = releaseLock
)

// OpenReadOnly opens as the driver does.
var OpenReadOnly = openReadOnly

// Retry reports whether an error is worth another try.
func Retry(err error) bool { return dialect{}.Retry(err) }

// Busy reports whether an error is the database's trouble.
func Busy(err error) bool { return dialect{}.Busy(err) }

// Refuses reports whether an error is about what was to be written.
func Refuses(err error) bool { return dialect{}.Refuses(err) }

// Statements of the dialect, by name.
func Statements() map[string]string { return maps.Collect(sqlcore.Statements(dialect{})) }

// RawDB is the store's own handle, whose sessions are as the store wants them.
func RawDB(s *Store) *sql.DB { return s.db }

// OpenRaw connects as a store does, and asks for nothing.
func OpenRaw(t testing.TB, url string) *sql.DB {
	t.Helper()
	s := must.Get(connect(url, Options{}, session))(t)
	t.Cleanup(func() { s.Close() })
	return s.db
}

// OpenAhead opens a store for whose sessions the database's clock stands still, so
// far ahead of what it was when they began.
func OpenAhead(ctx context.Context, url string, by time.Duration) (*Store, error) {
	ahead := fmt.Sprintf("SET SESSION timestamp = unix_timestamp(now(6)) + %.3f", by.Seconds())
	s, err := connect(url, Options{}, append(slices.Clip(session), ahead))
	if err != nil {
		return nil, err
	}
	return s, s.server.Open(ctx, false)
}
