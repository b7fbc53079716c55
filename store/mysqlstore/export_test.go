package mysqlstore

import (
	"database/sql"
	"testing"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

// What the tests ask the database for as the store does.
const (
	AcquireLock = acquireLock
	ReleaseLock = releaseLock
	FindDue     = findDue
)

// Retry reports whether an error is worth another try.
func Retry(err error) bool { return dialect{}.Retry(err) }

// Busy reports whether an error is the database's trouble.
func Busy(err error) bool { return dialect{}.Busy(err) }

// Statements of the dialect.
func Statements() *sqlcore.Statements { return &statements }

// RawDB is the store's own handle, whose sessions are as the store wants them.
func RawDB(s *Store) *sql.DB { return s.db }

// OpenRaw connects as a store does, and asks for nothing.
func OpenRaw(t testing.TB, url string) *sql.DB {
	t.Helper()
	s, err := connect(url, Options{}, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.db
}
