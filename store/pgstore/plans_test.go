package pgstore

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/storetest"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), servertest.Postgres(t), Options{})
	s = storetest.Kept(t, s, err)
	(&storetest.Plans{
		Store: s, DB: s.db, Dialect: dialect{pool: s.pool, session: s.session}, Analyze: "VACUUM ANALYZE",
		Rows: func(t *testing.T, tx *sql.Tx, query string, args []any) (int, string) {
			var text string
			if err := tx.QueryRowContext(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+query, args...).Scan(&text); err != nil {
				t.Errorf("%s: %v", query, err)
			}
			var plans []struct{ Plan node }
			must.Succeed(t, json.Unmarshal([]byte(text), &plans))
			return plans[0].Plan.rows(), text
		},
	}).Run(t)
}

// node is one of a plan.
type node struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Plans   []node
}

// rows are those that scans have looked at.
func (n *node) rows() (all int) {
	if strings.Contains(n.Type, "Scan") {
		all = int((n.Rows + n.Removed + n.Recheck) * n.Loops)
	}
	for i := range n.Plans {
		all += n.Plans[i].rows()
	}
	return all
}
