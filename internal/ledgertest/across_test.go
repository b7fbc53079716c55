package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// newRedis keeps one test's keys apart from all others.
func newRedis(t testing.TB) Open {
	url := servertest.Redis(t)
	prefix := fmt.Sprintf("sluicetest-%016x", rand.Uint64())
	t.Cleanup(func() { unlink(t, url, prefix+":*") })
	return func(t testing.TB, node string, clock *Clock) port.Ledger {
		t.Helper()
		l, err := redisledger.Open(context.Background(), url, redisledger.Options{Node: node, Prefix: prefix, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
}

// unlink removes the keys of a test.
func unlink(t testing.TB, url, pattern string) {
	option := must.Get(rueidis.ParseURL(url))(t)
	option.DisableCache = true
	client := must.Get(rueidis.NewClient(option))(t)
	defer client.Close()
	ctx := context.Background()
	for cursor := uint64(0); ; {
		page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Fatalf("remove the keys of the test: %v", err)
		}
		for _, key := range page.Elements { // one by one: a cluster has them in many slots
			client.Do(ctx, client.B().Unlink().Key(key).Build())
		}
		if cursor = page.Cursor; cursor == 0 {
			return
		}
	}
}

// TestLedgersAgree: the same operations through both ledgers, one by one and
// in batches, give the same decisions.
func TestLedgersAgree(t *testing.T) {
	equivalent(t,
		variant{Name: "sqlite, as it comes", New: newSQLite},
		variant{Name: "redis, as it comes", New: newRedis},
		variant{Name: "sqlite, one by one", New: newSQLite, Batch: 1},
		variant{Name: "redis, one by one", New: newRedis, Batch: 1},
		variant{Name: "sqlite, by 64", New: newSQLite, Batch: 64},
		variant{Name: "redis, by 64", New: newRedis, Batch: 64},
	)
}

// TestEquivalentCatches: two ledgers that differ in one answer are not the same.
func TestEquivalentCatches(t *testing.T) {
	script := newScript(1, scriptSteps)
	a := must.Get(play(t, variant{}, newSQLite(t), script, 1))(t)
	b := must.Get(play(t, variant{Batch: 64}, newSQLite(t), script, 1))(t)
	if d := diff(a.said, b.said); d != "" {
		t.Errorf("not the same with batches of 64:\n%s", d)
	}
	b.said[len(b.said)/2].Seq++
	if diff(a.said, b.said) == "" {
		t.Error("a difference was not noticed")
	}
}
