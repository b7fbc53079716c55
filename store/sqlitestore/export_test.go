package sqlitestore

import "testing"

// Pragma reads a setting of the connection that writes.
func (s *Store) Pragma(t *testing.T, name string) (value string) {
	t.Helper()
	if err := s.write.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
