package e2e

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/sluicehq/sluice/internal/must"
)

// column returns what a query of a PostgreSQL database finds, as texts.
func column(t testing.TB, url, query string, args ...any) []string {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), url))(t)
	defer conn.Close(t.Context())
	rows := must.Get(conn.Query(t.Context(), query, args...))(t)
	found := must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	return found
}

// editSQLite runs a statement on an SQLite file, which no operator should do,
// and returns how many rows it changed.
func editSQLite(path, statement string, args ...any) (int64, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	done, err := db.Exec(statement, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}
