package engine_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/sluicetest"
)

// A server with another secret than the others says so, and they say it of it: in the log, in /readyz, in the check of
// a sale, and in the metrics. One whose secret was changed, and that accepts the one before, does not differ from those
// that have that one still.
func TestAServerThatDiffers(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	log := new(logged)
	var all []*branch
	a, b, c := strings.Repeat("a", 32), strings.Repeat("b", 32), strings.Repeat("c", 32)
	for _, s := range []struct{ node, secret, previous string }{
		{"one", a, ""}, {"two", a, ""}, {"three", b, ""}, {"four", c, a},
	} {
		all = append(all, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: s.node, BuyerSecret: s.secret, BuyerSecretPrevious: s.previous,
			AdminAddress: s.node + ":9090", Log: log.logger(),
		}))
	}
	onSale(t, all[0].engine, "phones", 10)
	const three = "three has another buyer_secret, ticket_secret"
	for i, want := range [][]string{
		{three},
		{three},
		{
			"four has another buyer_secret, ticket_secret",
			"one has another buyer_secret, ticket_secret",
			"two has another buyer_secret, ticket_secret",
		},
		{three},
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
			if c.Name == "servers" && c.Status == "fail" && strings.HasSuffix(c.Where, ":9090") {
				found = append(found, c.Detail)
			}
		}
		if err != nil || len(found) != len(want) || !strings.HasPrefix(found[0], want[0]+" than ") {
			t.Errorf("server %d: the check finds %q, %v", i, found, err)
		}
		if lines := log.lines("level=ERROR", `differ="`+strings.Join(want, "; ")+`"`); len(lines) == 0 {
			t.Errorf("server %d: the log does not say it", i)
		}
		public := httptest.NewRecorder()
		b.engine.PublicHandler().ServeHTTP(public, httptest.NewRequest("GET", "/readyz", http.NoBody))
		if got := public.Body.String(); strings.Contains(got, "secret") || !strings.Contains(got, `"differ":["`) {
			t.Errorf("server %d: the public reads %s", i, got)
		}
	}
	scraped := httptest.NewRecorder()
	all[0].engine.Handler().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", http.NoBody))
	if !strings.Contains(scraped.Body.String(), "sluice_servers_differ 1") {
		t.Error("the metrics do not count it")
	}
}

// Each setting that the servers share makes a difference, also the secret of tickets that a server has made for itself.
func TestWhatServersShare(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 32)
	base := engine.Config{AdminKey: key, BuyerSecret: key, WebhookKey: key, BuyerID: "exact", Tracer: noTraces{}}
	for name, change := range map[string]func(*engine.Config){
		"":               func(c *engine.Config) { c.BuyerID = "" }, // which means the same
		"admin_key":      func(c *engine.Config) { c.AdminKey = key + "2" },
		"buyer_id":       func(c *engine.Config) { c.BuyerID = "trimmed" },
		"buyer_audience": func(c *engine.Config) { c.BuyerAudience = "shop" },
		"buyer_issuer":   func(c *engine.Config) { c.BuyerIssuer = "login" },
		"ticket_secret":  func(c *engine.Config) { c.TicketSecret = key + "2" },
		"trace_ratio":    func(c *engine.Config) { c.TraceRatio = 0.5 },
		"webhook_key":    func(c *engine.Config) { c.WebhookKey = key + "2" },
		"admin_keys": func(c *engine.Config) {
			c.AdminKeys = []sluice.AdminKey{{Name: "bob", Role: sluice.Viewer, Key: key + "3"}}
		},
		"buyer_secret, ticket_secret": func(c *engine.Config) { c.BuyerSecret = key + "2" },
		"buyer_jwks, buyer_secret, ticket_secret": func(c *engine.Config) {
			c.BuyerSecret, c.BuyerJWKS, c.BuyerAudience = "", "https://login.invalid/keys", "*"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := base
			change(&other)
			of := func(c engine.Config) map[string]string { return sluicetest.Open(t, c).Shared() }
			one, two := of(base), of(other)
			var differ []string
			for setting := range one {
				if one[setting] != two[setting] && !(setting == "buyer_audience" && other.BuyerAudience == "*") {
					differ = append(differ, setting)
				}
			}
			slices.Sort(differ)
			if got := strings.Join(differ, ", "); got != name {
				t.Errorf("%q differ, want %q", got, name)
			}
		})
	}
}

type noTraces struct{}

func (noTraces) Trace(engine.Span) {}
func (noTraces) Dropped() int64    { return 0 }

// A server that is traced and one that is not have no ratio in common.
func TestWithoutTraces(t *testing.T) {
	t.Parallel()
	if ratio, has := sluicetest.Open(t, engine.Config{}).Shared()["trace_ratio"]; has {
		t.Errorf("a server without traces has the ratio %s", ratio)
	}
}
