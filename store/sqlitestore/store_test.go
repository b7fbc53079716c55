package sqlitestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/sqlitestore"
	"github.com/sluicehq/sluice/store/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, databases) }

func TestSoak(t *testing.T) { storetest.Soak(t, databases) }

// databases are copies of one file that has been migrated.
func databases(t *testing.T) func(t *testing.T) storetest.Database {
	migrated := filepath.Join(t.TempDir(), "store.db")
	if err := open(t, migrated).Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(migrated)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return storetest.Database{
			Open:         func(t *testing.T) sluice.Store { return open(t, path) },
			OpenReadOnly: func(t *testing.T) sluice.Store { return openReadOnly(t, path) },
			Age:          func(t *testing.T, sale sluice.SaleID, by time.Duration) { age(t, path, sale, by) },
			Earlier:      func(column, seconds string) string { return column + " - (" + seconds + ") * 1000" },
			Execute:      func(t *testing.T, statement string) { execute(t, path, statement) },
		}
	}
}

func age(t testing.TB, path string, sale sluice.SaleID, by time.Duration) {
	t.Helper()
	execute(t, path, fmt.Sprintf(`UPDATE orders SET stored_at = stored_at - %[1]d, expires_at = expires_at - %[1]d,
		keep_until = keep_until - %[1]d, updated_at = updated_at - %[1]d WHERE sale_id = '%[2]s'`, by.Milliseconds(), sale))
}

func open(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
	return storetest.Kept(t, s, err)
}

func openReadOnly(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.OpenReadOnly(t.Context(), path)
	return storetest.Kept(t, s, err)
}
