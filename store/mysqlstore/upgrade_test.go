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

func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	url := servertest.MySQL(t)
	(&storetest.Older{
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
	}).Upgrade(t)
}

func TestAMigrationStandsInNobodysWay(t *testing.T) {
	url := servertest.MySQL(t)
	(&storetest.Older{
		DB: OpenRaw(t, url), Dialect: goose.DialectMySQL, Migrations: migrations, VersionTable: sqlcore.VersionTable,
		Open: func(t *testing.T) sluice.Store {
			s, err := Open(t.Context(), url, Options{})
			return storetest.Kept(t, s, err)
		},
	}).StandsAside(t, 16)
}
