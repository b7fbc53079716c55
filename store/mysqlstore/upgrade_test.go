package mysqlstore

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

// checkOfMariaDB is the number of the error that a CHECK fails.
const checkOfMariaDB = 4025

// older is a new database that is to be migrated.
func older(t *testing.T) *storetest.Older {
	t.Helper()
	url := servertest.MySQL(t)
	return &storetest.Older{
		DB: OpenRaw(t, url), Dialect: goose.DialectMySQL, Migrations: migrations, VersionTable: sqlcore.VersionTable,
		Time:  func(ms int64) string { return fmt.Sprintf("FROM_UNIXTIME(%d / 1000.0)", ms) }, // sessions are in UTC
		Bytes: "x'00'",
		Open: func(t *testing.T) sluice.Store {
			s, err := Open(t.Context(), url, Options{})
			return storetest.Kept(t, s, err)
		},
		Raw: func(t *testing.T) *sql.DB { return OpenRaw(t, url) },
		CheckFails: func(err error) bool {
			return errorNumber(err) == checkOfMariaDB || errorNumber(err) == checkOfMySQL
		},
	}
}

func TestUpgradeKeepsWhatIsThere(t *testing.T) { older(t).Upgrade(t) }

func TestAMigrationStandsInNobodysWay(t *testing.T) { older(t).StandsAside(t, 16) }
