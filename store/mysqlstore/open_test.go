package mysqlstore_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
	"github.com/sluicehq/sluice/store/mysqlstore"
)

// MySQL commits each statement of a migration by itself, so a server may die
// between any two of them. The next one does all of the migration again, on
// tables where some of it, or all, has been done.
func TestMigrationsCanBeRunAgain(t *testing.T) {
	url := servertest.MySQL(t)
	s := open(t, url)
	storetest.Load(t, s)
	storetest.InsertBatch(t, s, storetest.Batch(1))
	for name, harm := range map[string][]string{
		"all is done, and the last is not noted": {"DELETE FROM sluice_schema ORDER BY version_id DESC LIMIT 1"},
		"all is done, and nothing is noted":      {"DELETE FROM sluice_schema WHERE version_id > 0"},
		"not even that there is nothing":         {"DELETE FROM sluice_schema"},
		"tables are missing": {
			"DELETE FROM sluice_schema WHERE version_id > 0", "DROP TABLE nodes", "DROP TABLE event_feed",
		},
	} {
		for _, statement := range harm {
			execute(t, mysqlstore.RawDB(s), statement)
		}
		again := open(t, url)
		if n := storetest.Batches(t, again); n != 1 {
			t.Errorf("%s: %d batches, want 1", name, n)
		}
		if _, err := mysqlstore.RawDB(again).ExecContext(t.Context(),
			"UPDATE sales SET total = taken - 1, cap = taken - 1"); err == nil {
			t.Errorf("%s: the check of I1 is missing", name)
		}
		readOnly, err := mysqlstore.OpenReadOnly(t.Context(), url)
		storetest.Kept(t, readOnly, err)
	}
}

// Every session is as the store needs it, whatever the server's defaults are.
func TestSession(t *testing.T) {
	db := mysqlstore.RawDB(open(t, servertest.MySQL(t)))
	for variable, want := range map[string]string{
		"sql_mode": "STRICT_ALL_TABLES", "time_zone": "+00:00", "character_set_client": "utf8mb4",
		"collation_connection": "utf8mb4_bin", "innodb_lock_wait_timeout": "3", "net_read_timeout": "10",
		"max_statement_time": "60", "idle_write_transaction_timeout": "10", "idle_transaction_timeout": "120",
	} {
		var value string
		if err := db.QueryRow("SELECT @@SESSION." + variable).Scan(&value); err != nil || !strings.Contains(value, want) {
			t.Errorf("%s is %q, %v, want %s", variable, value, err, want)
		}
	}
	// MySQL and MariaDB call the isolation level differently. What it means: a
	// transaction sees what others commit meanwhile.
	must.Get(db.Exec("CREATE TABLE seen (n INT)"))(t)
	tx := must.Get(db.Begin())(t)
	defer tx.Rollback()
	for n := range 2 {
		var rows int
		if err := tx.QueryRow("SELECT count(*) FROM seen").Scan(&rows); err != nil || rows != n {
			t.Errorf("%d rows, %v, want %d", rows, err, n)
		}
		must.Get(db.Exec("INSERT INTO seen VALUES (1)"))(t)
	}
}

// Settings of the URL, in one that works.
func TestURLSettings(t *testing.T) {
	s := open(t, servertest.MySQL(t)+"?tls=false&connect_timeout=3&read_timeout=30&write_timeout=30&pool_max_conns=4")
	if n := mysqlstore.RawDB(s).Stats().MaxOpenConnections; n != 2 {
		t.Errorf("at most %d connections for changes, want 2 of 4", n)
	}
	storetest.Load(t, s)
	insideSnapshot := s.Snapshot(t.Context(), "phones", func(port.Snapshot) error {
		storetest.InsertBatch(t, s, storetest.Batch(1))
		return nil
	})
	if insideSnapshot != nil {
		t.Error(insideSnapshot)
	}
}

func execute(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	must.Get(db.ExecContext(t.Context(), query, args...))(t)
}
