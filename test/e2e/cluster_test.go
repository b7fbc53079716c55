package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// startCluster starts servers that share their backends.
func startCluster(t *testing.T, n int, on backends) (servers []*server, urls []string) {
	t.Helper()
	for range n {
		servers = append(servers, newServer(t, on))
	}
	for _, s := range servers {
		s.launch() // all at once: they must not be in each other's way
	}
	for _, s := range servers {
		s.ready()
		urls = append(urls, s.url)
	}
	return servers, urls
}

// awaitState waits until every server shows the state: what one changes, all
// know within a second.
func awaitState(t *testing.T, servers []*server, sale sluice.SaleID, want sluice.State) {
	t.Helper()
	for _, s := range servers {
		anyone := must.Get(client.New(s.url, client.Options{}))(t)
		await(t, s.url+" showing the sale as "+string(want), func() bool {
			shown, err := anyone.Sale(t.Context(), sale)
			return err == nil && shown.State == want
		})
	}
}

// repeatAt sends some of the promised claims again, to url.
func repeatAt(t *testing.T, url string, sale sluice.SaleID, of *loadgen.Outcome, n int, when string) {
	t.Helper()
	for _, p := range spread(of.Promises, n) {
		c := buyer(t, url, loadgen.BuyerName(p.Buyer), client.Options{})
		got, err := c.Place(t.Context(), sale, p.Key, api.PlaceOrder{Quantity: 1})
		if err != nil || got.OrderID != p.Order || !got.Replayed {
			t.Errorf("%s: %s of %s repeated at %s: %+v, %v (I4)", when, p.Order, loadgen.BuyerName(p.Buyer), url, got, err)
		}
	}
}

// A server is killed while it holds entries of the journal that it has read
// and could not store. It never comes back: the others take them over.
func TestAbandonedEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("entries are taken over after 30 seconds")
	}
	t.Parallel()
	postgres := servertest.StartPostgres(t)
	servers, urls := startCluster(t, 3, backends{servertest.Redis(t), postgres.URL()})
	const total, perBuyer = 10_000, 2
	sale := createSale(t, servers[0], total, perBuyer)
	awaitState(t, servers, sale, sluice.StateOpen)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 2000, Rate: 400}, urls[:2], 41, 42)
	victim := startRush(t, loadgen.Options{Sale: sale, Buyers: 400, Rate: 400}, urls[2:], 43)

	rush.awaitDecided(200)
	postgres.Stop(t)
	victim.wait() // promised, and no server can store it now
	servers[2].kill()
	postgres.Start(t)
	rush.wait()
	rush.crowds, rush.outcomes = append(rush.crowds, victim.crowds...), append(rush.outcomes, victim.outcomes...)
	awaitStored(t, servers[0], sale)
	audit(t, servers[0], sale, 0, "without the killed server")
	nodes := journalNodes(t, postgres, sale)
	if len(nodes) != 3 {
		t.Errorf("the orders come from %d servers, want 3: %v", len(nodes), nodes)
	}
	report(t, brokenPromises(rush.outcomes, storedOrders(t, servers[0], sale), total, perBuyer))
	repeatAt(t, urls[0], sale, victim.outcomes[0], 30, "after its server has died")
}

// A server that has migrated its database before starts without it, says so,
// and takes claims; they become orders when it is back. If the database is the ledger,
// it answers 503 until then.
func TestStartWithoutDatabase(t *testing.T) {
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		startWithoutDatabase(t, servertest.Redis(t))
	})
	t.Run("postgres alone", func(t *testing.T) {
		t.Parallel()
		startWithoutDatabase(t, "store")
	})
}

func startWithoutDatabase(t *testing.T, ledger string) {
	t.Helper()
	postgres := servertest.StartPostgres(t)
	s := startServer(t, backends{ledger, postgres.URL()})
	const total, perBuyer = 200, 1
	sale := createSale(t, s, total, perBuyer)
	if code := s.terminate(); code != 0 {
		t.Fatalf("exit %d", code)
	}
	postgres.Stop(t)
	s.start()
	if log := s.log(); !strings.Contains(log, "the store does not answer") {
		t.Errorf("the server does not warn:\n%s", log)
	}
	if ledger == "store" {
		early := buyer(t, s.url, "early", client.Options{PlaceAttempts: 1})
		_, err := early.Place(t.Context(), sale, client.NewKey(), api.PlaceOrder{Quantity: 1})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != 503 {
			t.Errorf("without the database: %v, want 503", err)
		}
		postgres.Start(t)
		awaitState(t, []*server{s}, sale, sluice.StateOpen)
	}
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 300}, []string{s.url}, 51)
	if ledger != "store" {
		await(t, "a claim accepted without a database", func() bool { return rush.accepted() > 0 })
		rush.wait()
		postgres.Start(t)
	}
	verify(t, s, rush, total, perBuyer)
}

// journalNodes returns which servers the orders of a sale were accepted by.
func journalNodes(t *testing.T, postgres *servertest.PostgresServer, sale sluice.SaleID) []string {
	t.Helper()
	nodes := column(t, postgres.URL(), "SELECT DISTINCT node FROM orders WHERE sale_id = $1", string(sale))
	slices.Sort(nodes)
	return nodes
}
