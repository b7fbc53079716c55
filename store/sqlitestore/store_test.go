package sqlitestore_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

func TestConformance(t *testing.T) { storetest.Databases(databases).Run(t) }

func TestSoak(t *testing.T) { storetest.Databases(databases).Soak(t) }

// databases are copies of one file that has been migrated.
func databases(t *testing.T) func(t *testing.T) storetest.Database {
	migrated := filepath.Join(t.TempDir(), "store.db")
	must.Succeed(t, open(t, migrated).Close())
	content := must.Get(os.ReadFile(migrated))(t)
	return func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "store.db")
		must.Succeed(t, os.WriteFile(path, content, 0o600))
		return storetest.Database{
			Open:         func(t *testing.T) port.Store { return open(t, path) },
			OpenReadOnly: func(t *testing.T) port.Store { return openReadOnly(t, path) },
			OpenAhead: func(t *testing.T, by time.Duration) port.Store {
				s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{Now: func() time.Time {
					return time.Now().Add(by)
				}})
				return storetest.Kept(t, s, err)
			},
			Hold: func(t *testing.T, statement string) func() {
				db, err := sql.Open("sqlite", path)
				return storetest.Hold(t, storetest.Kept(t, db, err), statement)
			},
			Age:     func(t *testing.T, sale sluice.SaleID, by time.Duration) { age(t, path, sale, by) },
			Earlier: func(column, seconds string) string { return column + " - (" + seconds + ") * 1000" },
			Refuse: `CREATE TRIGGER shop BEFORE INSERT ON orders WHEN NEW.quantity > 1
				BEGIN SELECT RAISE(ABORT, 'not more than one'); END`,
			Accept:  "DROP TRIGGER shop",
			Execute: func(t *testing.T, statement string) { execute(t, path, statement) },
			Try: func(t *testing.T, statement string) error {
				db, err := sql.Open("sqlite", path+"?_pragma=foreign_keys(ON)")
				_, err = storetest.Kept(t, db, err).ExecContext(t.Context(), statement)
				return err
			},
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
