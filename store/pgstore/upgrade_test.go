package pgstore

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
	"github.com/sluicehq/sluice/store/storetest"
)

// older is a new database that is to be migrated.
func older(t *testing.T) *storetest.Older {
	t.Helper()
	url := servertest.Postgres(t)
	old, err := connect(url, Options{}, false)
	old = storetest.Kept(t, old, err)
	return &storetest.Older{
		DB: old.db, Dialect: goose.DialectPostgres, Migrations: migrations, VersionTable: sqlcore.VersionTable,
		Time:  func(ms int64) string { return fmt.Sprintf("to_timestamp(%d / 1000.0)", ms) },
		Bytes: `'\x00'`,
		Open: func(t *testing.T) sluice.Store {
			s, err := Open(t.Context(), url, Options{})
			return storetest.Kept(t, s, err)
		},
		Raw: func(t *testing.T) *sql.DB {
			s, err := connect(url, Options{}, false)
			return storetest.Kept(t, s, err).db
		},
		CheckFails: func(err error) bool { return sqlState(err) == "23514" },
	}
}

func TestUpgradeKeepsWhatIsThere(t *testing.T) { older(t).Upgrade(t) }

func TestAMigrationStandsInNobodysWay(t *testing.T) { older(t).StandsAside(t, 18) }
