package sqliteledger_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// many are claims whose body is worth deflating.
func many(id sluice.SaleID, from, n int) (claims []sluice.Claim) {
	for i := range n {
		claims = append(claims, newClaim(id, from+i))
	}
	return claims
}

func shown(t *testing.T, l port.ReadOnlyLedger) []any {
	t.Helper()
	reading, records, entries := everything(t, l, "s")
	return []any{reading, records, entries}
}

// The file has long bodies deflated, and says the same as memory. What is damaged in one
// fences its sale alone.
func TestBodiesAreDeflated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, path)
	var records []port.Record
	for i, c := range many("s", 1000, 50) {
		records = append(records, port.Record{
			Claim: c, Sale: "s", Epoch: 1, Seq: int64(i + 1), Terms: 1, At: time.UnixMilli(1).UTC(),
		})
	}
	terms := sluice.Terms{Version: 1, Total: 1000, MaxPerBuyer: 9, MaxOrders: 9, OpensAt: time.UnixMilli(0).UTC()}
	must.Succeed(t, l.Load(t.Context(), port.LoadImage{Sale: "s", Epoch: 2, Terms: terms, Records: records}))
	must.Succeed(t, l.Unfence(t.Context(), "s", 2))
	load(t, l, "other", 1000)
	claim(t, l, "s", many("s", 1, 100)...)
	claim(t, l, "s", newClaim("s", 500))
	claim(t, l, "other", many("other", 1, 100)...)
	before := shown(t, l)
	must.Succeed(t, l.Close())
	for kind, want := range map[string]string{"claims": "blob blob text", "loaded": "blob"} {
		if got := query(t, path, `SELECT group_concat(t, ' ') FROM
			(SELECT typeof(body) AS t FROM log WHERE kind = ? ORDER BY typeof(body))`, kind); got != want {
			t.Errorf("bodies of %s: %s, want %s", kind, got, want)
		}
	}
	l = open(t, path)
	if diff := cmp.Diff(before, shown(t, l)); diff != "" {
		t.Errorf("read again (-before +after):\n%s", diff)
	}
	must.Succeed(t, l.Close())
	for harm, kind := range map[string]string{
		`UPDATE log SET body = substr(body, 1, length(body) - 9) WHERE sale = 's' AND kind = 'claims' AND n = 100`: "claims",
		`UPDATE log SET body = zeroblob(100) WHERE sale = 's' AND kind = 'claims' AND n = 100`:                     "claims",
		`UPDATE log SET body = 7 WHERE sale = 's' AND kind = 'claims' AND n = 100`:                                 "claims",
		`UPDATE log SET body = substr(body, 9) WHERE sale = 's' AND kind = 'loaded'`:                               "loaded",
	} {
		damaged := filepath.Join(t.TempDir(), "damaged.db")
		must.Get(sqliteledger.Copy(t.Context(), path, damaged))(t)
		must.Succeed(t, execSQL(damaged, harm))
		l := open(t, damaged)
		r, _, entries := everything(t, l, "s")
		if !strings.HasPrefix(r.Fence, port.FenceLost+": row ") || !strings.Contains(r.Fence, "its body") {
			t.Errorf("%s: fence %q", harm, r.Fence)
		}
		if kind == "claims" && (len(entries) != 2 || entries[0].Damage == nil || entries[0].Raw == "") {
			t.Errorf("%s: entries %+v", harm, entries)
		}
		if r, _, entries := everything(t, l, "other"); r.Fence != "" || r.Seq != 100 || len(entries) != 1 {
			t.Errorf("%s: the other sale: %+v", harm, r)
		}
	}
}
