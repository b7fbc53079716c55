package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server is killed with SIGKILL again and again while orders are cancelled,
// paid, refunded and expire, and their units are on the way back to the ledger.
// Whatever the moment, every unit returns exactly once (I2, I6).
func TestEndingsAreKilled(t *testing.T) {
	round := func(t *testing.T, on func(*testing.T) backends) {
		t.Parallel()
		endingsRound(t, on(t), seeded(t, 11))
	}
	for name, on := range campaignBackends {
		t.Run(name, func(t *testing.T) { round(t, on) })
	}
	t.Run("redis and mysql", func(t *testing.T) {
		servertest.Nightly(t)
		round(t, func(t *testing.T) backends { return backends{servertest.Redis(t), servertest.MySQL(t)} })
	})
}

// The same for as long as SLUICE_TEST_SOAK says.
func TestSoakEndings(t *testing.T) { campaign(t, endingsRound) }

// endingsRound is two sales that sell out, whose orders then end while servers
// are killed: those of one are ended by people, those of the other by time. Their
// returned units are sold again.
func endingsRound(t *testing.T, on backends, r *rand.Rand) {
	t.Helper()
	servers := 2
	if on == (backends{}) {
		servers = 1 // an embedded ledger has one
	}
	cluster, urls := startCluster(t, servers, on)
	total := int64(size(900, 400))
	victim := func() *server { return cluster[r.IntN(servers)] }

	sale := createSale(t, cluster[0], total, 1)
	awaitState(t, cluster, sale, sluice.StateOpen)
	promises := sellOut(t, sale, urls[0], total, r)
	killing := func(e *endings, sale sluice.SaleID, orders, kills int) {
		for n := range kills {
			if !e.awaitAnswered(int64(n+1) * int64(orders) / int64(kills+2)) {
				break
			}
			killAndBack(t, victim(), sale, r, n)
		}
		e.done.Wait()
	}
	e := &endings{t: t, urls: urls}
	e.begin(promises, r)
	killing(e, sale, len(promises), size(6, 3))
	by := conserved(t, cluster[0], sale, total, e)
	if by[sluice.Cancelled] == 0 || by[sluice.Paid] == 0 || by[sluice.Refunded] == 0 || by[sluice.Pending] == 0 {
		t.Errorf("%v: the test shows nothing about some endings", by)
	}

	timed := createSale(t, cluster[0], total, 1)
	must.Get(cluster[0].merchant().PatchSale(t.Context(), timed, api.PatchSale{
		PaymentWindowS: api.Some[int64](1), PaymentGraceS: api.Some[int64](0),
	}))(t)
	awaitState(t, cluster, timed, sluice.StateOpen)
	sellOut(t, timed, urls[0], total, r)
	for n := range size(6, 3) {
		s := victim()
		await(t, "orders that expire, or none left to", func() bool { return expiring(s, timed) })
		killAndBack(t, s, timed, r, n)
	}
	await(t, "no pending order", func() bool {
		pending, err := cluster[0].merchant().AdminOrders(t.Context(),
			sluice.OrderFilter{Sale: timed, Status: sluice.Pending, Limit: 1})
		return err == nil && len(pending.Orders) == 0
	})
	expired := conserved(t, cluster[0], timed, total, &endings{})
	if len(expired) != 1 || expired[sluice.Expired] == 0 {
		t.Errorf("%v, want all expired", expired)
	}

	// All of these pay too late: the money is due back, and no unit is taken again.
	tooLate := &endings{t: t, urls: urls}
	tooLate.pay(storedOrders(t, cluster[0], timed))
	killing(tooLate, timed, expired[sluice.Expired], size(3, 2))
	late := conserved(t, cluster[0], timed, total, tooLate)
	if len(late) != 1 || late[sluice.RefundDue] != expired[sluice.Expired] {
		t.Errorf("%d paid late: %v", expired[sluice.Expired], late)
	}

	// As many as came back can be sold again (I7).
	for sale, back := range map[sluice.SaleID]int64{
		sale:  int64(by[sluice.Cancelled] + by[sluice.Refunded]),
		timed: total,
	} {
		if sold := int64(len(sellOut(t, sale, urls[0], back, r))); sale != timed && sold != back {
			t.Errorf("%d units came back, and %d are sold again (I1)", back, sold)
		}
		audit(t, cluster[0], sale, 0, "after the returned units were sold")
	}
	for _, s := range cluster {
		if code := s.terminate(); code != 0 {
			t.Errorf("exit %d after SIGTERM", code)
		}
	}
	audit(t, cluster[0], sale, 0, "with the servers down")
	audit(t, cluster[0], timed, 0, "with the servers down")
}

// sellOut lets a crowd come that is big enough for these units, and returns what
// it was promised.
func sellOut(t *testing.T, sale sluice.SaleID, url string, units int64, r *rand.Rand) []loadgen.Promise {
	t.Helper()
	// Buyers have names, and one unit each: twice as many as may have one already.
	buyers := int(units)*2 + 2*size(900, 400)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers, Connections: 16}, []string{url}, r.Uint64()>>16)
	promises := rush.wait()[0].Promises
	if int64(len(promises)) < units {
		t.Fatalf("%d promises for %d units (I7)", len(promises), units)
	}
	return promises
}

// killAndBack kills a server at some moment of the next milliseconds, and
// starts it again.
func killAndBack(t *testing.T, s *server, sale sluice.SaleID, r *rand.Rand, n int) {
	t.Helper()
	time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond) // any moment, between two steps too
	s.kill()
	if n%3 == 1 {
		audit(t, s, sale, 0, "of what a killed server left")
	}
	s.launch()
	if n%3 == 2 { // and once more while it recovers
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
		s.kill()
		s.launch()
	}
	s.ready()
	inStep(t, s, sale)
}

// inStep compares ledger and store: there is nothing to repair, whenever one
// looks. The servers would repair a lost release by themselves, after a while.
func inStep(t *testing.T, s *server, sale sluice.SaleID) {
	t.Helper()
	r, err := s.merchant().ReconcileSale(t.Context(), sale, false)
	if err != nil {
		t.Error(err)
	}
	if r.Remaining > 0 {
		t.Errorf("ledger and store differ: %+v", r.Differences)
	}
}

// expiring reports that some orders have expired, or that none is left to.
func expiring(s *server, sale sluice.SaleID) bool {
	for _, status := range []sluice.Status{sluice.Expired, sluice.Pending} {
		page, err := s.merchant().AdminOrders(context.Background(), sluice.OrderFilter{Sale: sale, Status: status, Limit: 1})
		if err != nil {
			return false
		}
		if (len(page.Orders) > 0) == (status == sluice.Expired) {
			return true
		}
	}
	return false
}

// endings are people who end orders, and what they were told.
type endings struct {
	t        *testing.T
	urls     []string
	done     sync.WaitGroup
	answered atomic.Int64

	mu   sync.Mutex
	told map[sluice.OrderID]sluice.Status // the last answer about an order
}

// begin sets them to work: a third of the orders is cancelled, a third paid, and
// every fourth of those refunded; the rest is left to expire.
func (e *endings) begin(promises []loadgen.Promise, r *rand.Rand) {
	e.told = map[sluice.OrderID]sluice.Status{}
	shuffled := append([]loadgen.Promise{}, promises...)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	e.spread(len(shuffled), func(c *client.Client, n int) {
		order := shuffled[n].Order
		switch n % 3 {
		case 0:
			e.until(order, func(ctx context.Context) (api.Order, error) { return c.AdminCancelOrder(ctx, order) })
		case 1:
			e.payOne(c, order)
			if n%12 == 1 {
				e.until(order, func(ctx context.Context) (api.Order, error) { return c.RefundOrder(ctx, order) })
			}
		}
	})
}

// pay has each of the orders paid.
func (e *endings) pay(orders []api.Order) {
	e.told = map[sluice.OrderID]sluice.Status{}
	e.spread(len(orders), func(c *client.Client, n int) { e.payOne(c, orders[n].OrderID) })
}

func (e *endings) payOne(c *client.Client, order sluice.OrderID) {
	e.until(order, func(ctx context.Context) (api.Order, error) {
		return c.PayOrder(ctx, order, "pay-"+string(order)[len(order)-8:])
	})
}

// spread has eight people do so many things, each on one of the servers.
func (e *endings) spread(things int, do func(c *client.Client, n int)) {
	var next atomic.Int64
	for worker := range 8 {
		c := must.Get(client.New(e.urls[worker%len(e.urls)], client.Options{AdminKey: adminKey}))(e.t)
		e.done.Go(func() {
			for n := int(next.Add(1)) - 1; n < things; n = int(next.Add(1)) - 1 {
				do(c, n)
				e.answered.Add(1)
			}
		})
	}
}

// until asks for one change until it is answered for good.
func (e *endings) until(order sluice.OrderID, change func(context.Context) (api.Order, error)) {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		o, err := change(ctx)
		cancel()
		switch {
		case err == nil:
			e.mu.Lock()
			e.told[o.OrderID] = o.Status // after a late payment: of the one in its place
			e.mu.Unlock()
			return
		case client.CodeOf(err) == api.CodeOrderEnded:
			return // time was faster
		case time.Now().After(deadline):
			e.t.Errorf("%s: no answer: %v", order, err)
			return
		}
	}
}

func (e *endings) awaitAnswered(n int64) bool {
	over := make(chan struct{})
	go func() { e.done.Wait(); close(over) }()
	isOver := false
	await(e.t, fmt.Sprintf("%d orders dealt with", n), func() bool {
		select {
		case <-over:
			isOver = true
		default:
		}
		return isOver || e.answered.Load() >= n
	})
	return !isOver
}

// conserved waits until the ledger has got every unit back, and holds the sums
// and the histories against each other: total = available + units of orders that
// hold them, no client saw another ending than the order has, and no history
// gives units back twice (I2, I6). It returns how many orders have which status.
func conserved(t *testing.T, s *server, sale sluice.SaleID, total int64, e *endings) map[sluice.Status]int {
	t.Helper()
	inStep(t, s, sale)
	var got api.AdminSale
	await(t, "every unit to be back", func() (back bool) {
		var err error
		got, err = s.merchant().AdminSale(t.Context(), sale)
		return err == nil && got.Fence == "" && got.Backlog == 0 && got.Taken == got.StoredTaken && got.Available != nil
	})
	inStep(t, s, sale)
	byStatus := map[sluice.Status]int{}
	var held int64
	for _, o := range storedOrders(t, s, sale) {
		byStatus[o.Status]++
		if o.Status.Live() {
			held += o.Quantity
		}
		if told, ok := e.told[o.OrderID]; ok && told != o.Status {
			t.Errorf("%s was said to be %s, and is %s", o.OrderID, told, o.Status)
		}
		history := must.Get(s.merchant().OrderHistory(t.Context(), o.OrderID))(t)
		returned := 0
		for _, change := range history.Changes {
			if change.From.Live() && !change.To.Live() {
				returned++
			}
		}
		if live := o.Status.Live(); live != (returned == 0) || returned > 1 {
			t.Errorf("%s is %s, and its units returned %d times (I6)", o.OrderID, o.Status, returned)
		}
	}
	if got.Taken != held || got.StoredTaken != held || *got.Available+held != total {
		t.Errorf("total %d, available %d, held %d; the ledger counts %d, the store %d (I2)", total, *got.Available, held,
			got.Taken, got.StoredTaken)
	}
	if report := audit(t, s, sale, 0, "after all endings"); report.InFlight != 0 {
		t.Errorf("%d in flight", report.InFlight)
	}
	t.Logf("%v", byStatus)
	return byStatus
}
