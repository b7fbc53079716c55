package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
	"github.com/sluicehq/sluice/store/storetest"
)

// Also what refers to the table of sales, which SQLite must recreate.
func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	raw := func(t *testing.T) *sql.DB {
		t.Helper()
		db, err := handle(path, 1, "_txlock=immediate", "_pragma=foreign_keys(ON)")
		return storetest.Kept(t, db, err)
	}
	(&storetest.Older{
		DB: raw(t), Dialect: goose.DialectSQLite3, Migrations: migrations, VersionTable: sqlcore.VersionTable,
		Time:  func(ms int64) string { return strconv.FormatInt(ms, 10) },
		Bytes: "x'00'",
		Open: func(t *testing.T) sluice.Store {
			s, err := Open(t.Context(), path, Options{})
			return storetest.Kept(t, s, err)
		},
		Raw:        raw,
		CheckFails: func(err error) bool { return err != nil && strings.Contains(err.Error(), "CHECK constraint failed") },
		RefersToNone: func(t *testing.T) (n int) {
			t.Helper()
			if err := raw(t).QueryRow(`SELECT count(*) FROM pragma_foreign_key_check`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}).Upgrade(t)
}
