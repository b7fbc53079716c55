package sqlitestore

import (
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// OpenReadOnly opens as the driver does.
var OpenReadOnly = openReadOnly

// Pragma reads a setting of the connection that writes.
func (s *Store) Pragma(t *testing.T, name string) (value string) {
	t.Helper()
	must.Succeed(t, s.write.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value))
	return value
}
