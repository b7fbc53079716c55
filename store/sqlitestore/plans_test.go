package sqlitestore

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/storetest"
)

// SQLite does not count rows, so its plan is judged: no scan of a table that
// grows, and no search by the sale alone where there is a buyer.
func TestPlans(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), Options{})
	s = storetest.Kept(t, s, err)
	(&storetest.Plans{
		Store: s, DB: s.write, Dialect: dialect{now: time.Now}, Analyze: "SELECT 1", // a server has no statistics
		Rows: func(t *testing.T, tx *sql.Tx, query string, args []any) (int, string) {
			rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				t.Errorf("%s: %v", query, err)
				return 0, ""
			}
			defer rows.Close()
			var plan []string
			many := 0
			for rows.Next() {
				var id, parent, unused int
				var step string
				must.Succeed(t, rows.Scan(&id, &parent, &unused, &step))
				plan = append(plan, step)
				if bigScan.MatchString(step) && !strings.Contains(step, "_open") && !strings.Contains(query, "LIMIT") {
					many = 1e6
				}
				if strings.HasSuffix(step, "(sale_id=?)") && strings.Contains(step, " orders") &&
					slices.Contains(args, any("many")) {
					many = 1e6
				}
				if _, where, _ := strings.Cut(query, "WHERE"); strings.Contains(where, "buyer_id = ?") &&
					strings.Contains(step, "orders") && !strings.Contains(step, "buyer_id=?") {
					many = 1e6
				}
			}
			if err := rows.Err(); err != nil {
				t.Errorf("%s: %v", query, err)
			}
			return many, strings.Join(plan, "\n")
		},
	}).Run(t)
}

var bigScan = regexp.MustCompile(
	`^SCAN (orders|o|c|order_changes|sale_buyers|sale_events|order_events|webhook_deliveries)\b`)
