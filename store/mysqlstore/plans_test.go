package mysqlstore

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
)

// The statistics are what the database makes by itself and what ANALYZE makes,
// with and without its own of columns: they must not matter.
func TestPlansOfAll(t *testing.T) {
	t.Parallel()
	for name, analyze := range map[string]string{
		"of the engine": "ANALYZE TABLE orders, releases, order_changes, payments, sale_buyers, sale_events, order_events, " +
			"sales",
		"of all columns": "ANALYZE TABLE orders PERSISTENT FOR ALL",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), servertest.MySQL(t), Options{})
			s = storetest.Kept(t, s, err)
			plans := storetest.Plans{Store: s, DB: s.db, Dialect: dialect{}, Analyze: analyze, Rows: rowsRead}
			plans.Run(t)
		})
	}
}

// rowsRead counts as the storage engine does.
func rowsRead(t *testing.T, tx *sql.Tx, query string, args []any) (int, string) {
	t.Helper()
	before := handled(t, tx)
	if strings.HasPrefix(query, "SELECT") {
		rows, err := tx.QueryContext(t.Context(), query, args...)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			return 0, ""
		}
		for rows.Next() {
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	} else if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return handled(t, tx) - before, ""
}

func handled(t *testing.T, tx *sql.Tx) (all int) {
	t.Helper()
	rows := must.Get(tx.QueryContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read%'"))(t)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		must.Succeed(t, rows.Scan(&name, &n))
		all += n
	}
	must.Succeed(t, rows.Err())
	return all
}
