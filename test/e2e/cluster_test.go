package e2e

import (
	"context"
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

// Three servers sell one sale. Two of the three crowds are the same buyers with
// the same keys, so most claims are made on two servers at the same time. Later
// a claim gets its order from any server, whatever has become of the sale (I4).
func TestThreeServers(t *testing.T) {
	for name, on := range map[string]func(*testing.T) backends{
		"redis and postgres": sharedBackends, "postgres alone": postgresAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			threeServers(t, on(t))
		})
	}
}

func threeServers(t *testing.T, on backends) {
	t.Helper()
	servers, urls := startCluster(t, 3, on)
	const buyers, perBuyer = 1500, 2
	const total = int64(buyers)
	sale := createSale(t, servers[0], total, perBuyer)
	awaitState(t, servers, sale, sluice.StateOpen)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers, Again: 0.2, Connections: 32}, urls, 31, 31, 32)
	for n, victim := range servers[1:] { // while the others go on
		if !rush.awaitDecided(rush.planned() * int64(n+1) / 4) {
			t.Fatal("the rush was over too soon")
		}
		victim.kill()
		victim.start()
	}
	verify(t, servers[0], rush, total, perBuyer)

	merchant := servers[1].merchant()
	for _, change := range []struct {
		do   func(context.Context, sluice.SaleID) (api.AdminSale, error)
		want sluice.State
		code sluice.Code // of a claim that was never made before
	}{
		{nil, sluice.StateSoldOut, sluice.SoldOut},
		{merchant.PauseSale, sluice.StatePaused, sluice.Paused},
		{merchant.ResumeSale, sluice.StateSoldOut, sluice.SoldOut},
		{merchant.CloseSale, sluice.StateClosed, sluice.Closed},
	} {
		if change.do != nil {
			must.Get(change.do(t.Context(), sale))(t)
		}
		awaitState(t, servers, sale, change.want)
		for i, url := range urls {
			// Each server is asked for what another one has promised.
			other := rush.outcomes[(i+1)%len(urls)]
			repeatAt(t, url, sale, other, 30, string(change.want))
			_, err := buyer(t, url, "latecomer", client.Options{}).Place(t.Context(), sale, client.NewKey(),
				api.PlaceOrder{Quantity: 1})
			if client.CodeOf(err) != change.code.String() {
				t.Errorf("%s: a latecomer gets %v, want %s", change.want, err, change.code)
			}
		}
	}
	audit(t, servers[2], sale, 0, "after closing")
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

// What a key names, on two servers.
func TestKeys(t *testing.T) {
	t.Parallel()
	servers, urls := startCluster(t, 2, sharedBackends(t))
	sale := createSale(t, servers[0], 100, 10)
	awaitState(t, servers, sale, sluice.StateOpen)
	const key = "attempt-0001"
	alice := []*client.Client{buyer(t, urls[0], "alice", client.Options{}), buyer(t, urls[1], "alice", client.Options{})}
	bob := buyer(t, urls[1], "bob", client.Options{})
	place := func(c *client.Client, quantity int64) client.Placed {
		t.Helper()
		got := must.Get(c.Place(t.Context(), sale, key, api.PlaceOrder{Quantity: quantity}))(t)
		return got
	}
	first := place(alice[0], 2)
	if again := place(alice[1], 2); again.OrderID != first.OrderID || !again.Replayed {
		t.Errorf("the same claim on another server: %+v, first %+v (I4)", again, first)
	}
	for _, c := range alice {
		_, err := c.Place(t.Context(), sale, key, api.PlaceOrder{Quantity: 3})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != sluice.KeyReused.String() || refused.Status != 422 {
			t.Errorf("the same key with another quantity: %v", err)
		}
	}
	if other := place(bob, 2); other.OrderID == first.OrderID || other.Replayed {
		t.Errorf("the same key of another buyer: %+v, of the first %+v", other, first)
	}
	awaitStored(t, servers[1], sale)
	if orders := storedOrders(t, servers[1], sale); len(orders) != 2 || orders[0].Quantity+orders[1].Quantity != 4 {
		t.Errorf("want two orders of 2 units, have %+v", orders)
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
