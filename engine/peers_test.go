package engine_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server with another secret than the others says so, and they say it of it: in the log, in /readyz, in the check of
// a sale, and in the metrics.
func TestAServerThatDiffers(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	log := new(logged)
	var all []*branch
	for _, c := range []struct{ node, secret string }{
		{"one", strings.Repeat("a", 32)}, {"two", strings.Repeat("a", 32)}, {"three", strings.Repeat("b", 32)},
	} {
		all = append(all, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: c.node, BuyerSecret: c.secret, AdminAddress: c.node + ":9090",
			Log: log.logger(),
		}))
	}
	onSale(t, all[0].engine, "phones", 10)
	const three = "three at three:9090 has another buyer_secret, ticket_secret"
	for i, want := range [][]string{
		{three},
		{three},
		{
			"one at one:9090 has another buyer_secret, ticket_secret",
			"two at two:9090 has another buyer_secret, ticket_secret",
		},
	} {
		b := all[i]
		until(t, "the difference to be known", func() bool {
			ready, err := b.client.Ready(t.Context())
			slices.Sort(ready.Differ)
			return err == nil && slices.Equal(ready.Differ, want)
		})
		check, err := b.client.CheckSale(t.Context(), "phones")
		var found []string
		for _, c := range check.Checks {
			if c.Name == "servers" && c.Status == "fail" {
				found = append(found, c.Detail)
			}
		}
		if err != nil || len(found) != len(want) || !strings.HasPrefix(found[0], want[0]+" than ") {
			t.Errorf("server %d: the check finds %q, %v", i, found, err)
		}
		if lines := log.lines("level=ERROR", "differ=", want[0]); len(lines) == 0 {
			t.Errorf("server %d: the log does not say it", i)
		}
	}
	scraped := httptest.NewRecorder()
	all[0].engine.Handler().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", http.NoBody))
	if !strings.Contains(scraped.Body.String(), "sluice_servers_differ 1") {
		t.Error("the metrics do not count it")
	}
}
