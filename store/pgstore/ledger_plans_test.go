package pgstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A plan of the ledger's looks at few rows, also one that is made for any arguments while
// the database knows nothing of the tables, or while they are small, and kept.
func TestPlansOfTheLedger(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(t.Context(), servertest.Postgres(t), Options{}))(t)
	defer s.Close()
	l := must.Get(s.LedgerAt("one", nil))(t)
	defer l.Close()
	conn := must.Get(l.pool.Acquire(t.Context()))(t)
	defer conn.Release()
	orders := func(sale string, from, upto int) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `INSERT INTO orders (order_id, sale_id, buyer_id, claim_key, quantity, meta,
				counters, price_amount, currency, status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at,
				keep_until, updated_at)
			SELECT $1 || n, $1, 'buyer-' || n, 'key-' || n, 1, '', 'home:' || n || '=2', 1, 'CNY', 'pending', '', 1, n, 1, 'one',
				now(), now(), now() + interval '1 s', now() + interval '1 s', now()
			FROM generate_series($2::int, $3::int) AS n`,
			sale, from, upto); err != nil {
			t.Fatal(err)
		}
	}
	const asked = `'sale', '{new-1,new-2,buyer-7}'`
	statements := map[string][2]string{
		"claimsOfBuyers": {claimsOfBuyers, asked},
		"countsOfBuyers": {countsOfBuyers, asked + ", 100"},
		"claimsByKey":    {claimsByKey, asked + `, '{key-1,key-2,key-7}'`},
		"recall":         {recall, `'sale', 'buyer-7', 'key-7'`},
		"find":           {find, `'sale', 'sale7'`},

		"unitsOfCounters": {unitsOfCounters, `'sale', '{home:7,home:8,home:none}'`},
	}
	for name, st := range statements {
		if _, err := conn.Exec(t.Context(), "PREPARE "+strings.ToLower(name)+" AS "+st[0]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	check := func(when string) {
		t.Helper()
		for name, st := range statements {
			var text string
			if err := conn.QueryRow(t.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE %s (%s)",
				strings.ToLower(name), st[1]), pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var plans []struct{ Plan node }
			must.Succeed(t, json.Unmarshal([]byte(text), &plans))
			if rows := plans[0].Plan.rows(); rows > 20 {
				t.Errorf("%s, %s looks at %d rows:\n%s", when, name, rows, text)
			}
		}
	}
	must.Get(conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"))(t)
	orders("sale", 21, 300)
	check("without statistics")
	for _, statement := range []string{"TRUNCATE orders", "ANALYZE orders"} {
		orders("sale", 1, 20)
		must.Get(conn.Exec(t.Context(), statement))(t)
	}
	check("with a small table") // the plans that are kept
	orders("sale", 21, 3000)
	check("after it has grown")
}
