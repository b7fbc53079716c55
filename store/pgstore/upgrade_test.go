package pgstore

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/internal/sqlcore"
	"github.com/sluicehq/sluice/store/storetest"
)

func TestUpgradeKeepsWhatIsThere(t *testing.T) {
	url := servertest.Postgres(t)
	old, err := connect(url, Options{}, false)
	old = storetest.Kept(t, old, err)
	(&storetest.Older{
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
	}).Upgrade(t)
}

// While a session holds a table that is to be changed, the servers that sell go on: the
// migration does not stand in their way, and is done once the table is free.
func TestAMigrationStandsInNobodysWay(t *testing.T) {
	url := servertest.Postgres(t)
	old, err := connect(url, Options{}, false)
	db := storetest.Kept(t, old, err).db
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithTableName(sqlcore.VersionTable),
		goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = provider.UpTo(t.Context(), 18)
	}
	if err != nil {
		t.Fatal(err)
	}
	holder, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = holder.ExecContext(t.Context(), "SELECT FROM sales")
	}
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), url, Options{})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	for begin := time.Now(); time.Since(begin) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err := db.ExecContext(t.Context(), `SET lock_timeout = '2s'; SELECT FROM sales; RESET lock_timeout`); err != nil {
			t.Errorf("who sells: %v", err)
			break
		}
	}
	select {
	case err := <-opened:
		t.Errorf("opened while the table was held: %v", err)
	default:
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
