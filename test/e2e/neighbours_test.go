package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// One thing misbehaves while others sell: a server is frozen, a row is locked,
// a shard hangs or flaps, the database stalls, one buyer floods. The sale beside
// it goes on for as long as that lasts, and afterwards every promise of both is
// kept and the audit agrees.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	n := newNeighbours(t)
	r := seeded(t, 5)
	for i, trouble := range troubles {
		if i == 0 || servertest.IsNightly() {
			n.round(t, r, trouble)
		}
	}
}

// The same in any order, for as long as SLUICE_TEST_SOAK says.
func TestSoakNeighbours(t *testing.T) {
	end := time.Now().Add(soak(t))
	n := newNeighbours(t)
	seed := uint64(time.Now().UnixNano())
	for i := uint64(0); time.Now().Before(end) && !t.Failed(); i++ {
		r := seeded(t, seed+i)
		n.round(t, r, troubles[r.IntN(len(troubles))])
	}
}

// neighbours are three servers, a cluster of two Redis servers and PostgreSQL.
type neighbours struct {
	shards   []*servertest.RedisServer
	postgres *servertest.PostgresServer
	servers  []*server
	urls     []string
}

func newNeighbours(t *testing.T) *neighbours {
	n := &neighbours{shards: servertest.StartCluster(t, 2), postgres: servertest.StartPostgres(t)}
	n.servers, n.urls = startCluster(t, 3, backends{
		"redis+cluster://" + n.shards[0].Addr() + "," + n.shards[1].Addr(), n.postgres.URL(),
	})
	return n
}

// trouble harms what a sale needs, and returns how to mend it.
type trouble struct {
	name    string
	begin   func(t *testing.T, n *neighbours, r *rand.Rand, sale sluice.SaleID) (mend func())
	frozen  bool // the last server answers nothing; the crowds come to the others
	stalled bool // no order can be stored or end
}

// The first is what `make test` has of them.
var troubles = []trouble{
	{name: "a frozen server", frozen: true, begin: func(t *testing.T, n *neighbours, _ *rand.Rand,
		_ sluice.SaleID,
	) func() {
		pid := n.servers[2].cmd.Process.Pid
		return freeze(t, pid)
	}},
	{name: "a locked sale", begin: func(t *testing.T, n *neighbours, _ *rand.Rand, sale sluice.SaleID) func() {
		return lockRow(t, n.postgres.URL(), "SELECT 1 FROM sales WHERE id = $1 FOR UPDATE", sale)
	}},
	{name: "locked orders", begin: func(t *testing.T, n *neighbours, _ *rand.Rand, sale sluice.SaleID) func() {
		return lockRow(t, n.postgres.URL(), "SELECT 1 FROM orders WHERE sale_id = $1 FOR UPDATE", sale)
	}},
	{name: "a hung shard", begin: func(t *testing.T, n *neighbours, _ *rand.Rand, sale sluice.SaleID) func() {
		shard := n.shards[n.shard(t, sale)]
		shard.Freeze()
		return shard.Thaw
	}},
	{name: "a flapping shard", begin: func(t *testing.T, n *neighbours, r *rand.Rand, sale sluice.SaleID) func() {
		shard := n.shards[n.shard(t, sale)]
		for range 3 {
			shard.Kill()
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
			shard.Start()
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		}
		shard.Kill()
		return shard.Start
	}},
	{
		name: "a stalled database", stalled: true,
		begin: func(t *testing.T, n *neighbours, _ *rand.Rand, _ sluice.SaleID) func() {
			return freeze(t, n.postmaster(t))
		},
	},
	{name: "a flood of one buyer", begin: func(t *testing.T, n *neighbours, _ *rand.Rand, sale sluice.SaleID) func() {
		return n.flood(t, sale)
	}},
}

const (
	// lasting is how long a trouble lasts at least: longer than a server
	// believes what it has read, and than its calls of a backend wait.
	lasting = 8 * time.Second
	// soon is how long the sales beside it may take for what they do at once
	// otherwise; several times what a busy machine needs.
	soon = 10 * time.Second
)

// round lets crowds rush two sales, on a shard each, and harms the first.
func (n *neighbours) round(t *testing.T, r *rand.Rand, trouble trouble) {
	t.Helper()
	const total, perBuyer = 1_000_000, 50
	servers, urls := n.servers, n.urls
	if trouble.frozen {
		servers, urls = servers[:2], urls[:2]
	}
	var rushes []*rush
	for shard := range 2 {
		sale := n.saleOn(t, shard, total, perBuyer)
		awaitState(t, n.servers, sale, sluice.StateOpen)
		rushes = append(rushes, startRush(t, loadgen.Options{
			Sale: sale, Buyers: 500, Rate: 60, Duration: lasting + soon/2,
		}, urls, r.Uint64()>>16, r.Uint64()>>16, r.Uint64()>>16))
	}
	harmed, beside := rushes[0], rushes[1]
	expiring := n.saleOn(t, 1, 1, 1)
	must.Get(servers[0].merchant().PatchSale(t.Context(), expiring, api.PatchSale{
		PaymentWindowS: api.Some[int64](1), PaymentGraceS: api.Some[int64](0),
	}))(t)
	awaitState(t, n.servers, expiring, sluice.StateOpen)
	for _, rush := range rushes {
		await(t, "a rush that has begun", func() bool { return rush.accepted() > 50 })
	}

	mend := sync.OnceFunc(trouble.begin(t, n, r, harmed.sale))
	defer mend()
	time.Sleep(lasting)
	within(t, soon, "claims beside "+trouble.name, func() func() bool {
		before := beside.accepted()
		return func() bool { return beside.accepted() > before+50 || beside.isOver() }
	}())
	for _, s := range servers {
		within(t, soon, s.url+" showing the sale beside "+trouble.name+" as open", func() bool {
			shown, err := s.merchant().Sale(t.Context(), beside.sale)
			return err == nil && shown.State == sluice.StateOpen
		})
		within(t, soon, s.url+" ready beside "+trouble.name, func() bool { return isReady(s) || trouble.stalled })
	}
	for i := range 2 { // the second gets the unit of the first, who does not pay
		late := buyer(t, servers[i].url, sluice.BuyerID(fmt.Sprintf("late-%d", i)), client.Options{})
		within(t, soon, "a unit that returns beside "+trouble.name, func() bool {
			_, err := late.Place(t.Context(), expiring, client.NewKey(), api.PlaceOrder{Quantity: 1})
			return err == nil || trouble.stalled && i > 0
		})
	}
	mend()
	for _, rush := range rushes {
		verify(t, n.servers[r.IntN(2)], rush, total, perBuyer)
	}
}

// within is await with another patience.
func within(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > patience {
			t.Errorf("after %s still not: %s", patience, what)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func isReady(s *server) bool {
	answer, err := http.Get(s.url + "/readyz")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// saleOn creates an open sale whose keys are on this shard.
func (n *neighbours) saleOn(t *testing.T, shard int, total, perBuyer int64) sluice.SaleID {
	t.Helper()
	for {
		if sale := newSaleID(); n.shard(t, sale) == shard {
			createSaleAs(t, n.servers[0], sale, total, perBuyer)
			return sale
		}
	}
}

// shard is which shard has the sale's keys: each has half of the slots.
func (n *neighbours) shard(t *testing.T, sale sluice.SaleID) int {
	t.Helper()
	answer := redisCommand(t, n.shards[1].Addr(), fmt.Sprintf("CLUSTER KEYSLOT {%s}", sale))
	slot := must.Get(strconv.Atoi(strings.TrimPrefix(answer, ":")))(t)
	return slot * 2 / 16384
}

// lockRow runs a statement of a sale in a transaction that stays open until mended.
func lockRow(t *testing.T, store, statement string, sale sluice.SaleID) (mend func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err == nil {
		_, err = conn.Exec(t.Context(), "BEGIN")
	}
	if err == nil {
		_, err = conn.Exec(t.Context(), statement, string(sale))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close(context.Background()) }
}

// postmaster is the process id of PostgreSQL.
func (n *neighbours) postmaster(t *testing.T) int {
	t.Helper()
	folder := column(t, n.postgres.URL(), "SHOW data_directory")[0]
	text := must.Get(os.ReadFile(filepath.Join(folder, "postmaster.pid")))(t)
	first, _, _ := strings.Cut(string(text), "\n")
	pid := must.Get(strconv.Atoi(first))(t)
	return pid
}

// freeze stops a process and its children with SIGSTOP.
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	pids := []int{pid}
	_ = servertest.Freeze(pid) // first: it makes no child any more
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Logf("no children known of process %d: %v", pid, err)
	}
	for child := range strings.FieldsSeq(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			pids = append(pids, id)
			_ = servertest.Freeze(id)
		}
	}
	return func() {
		for _, id := range pids {
			_ = servertest.Thaw(id)
		}
	}
}

// flood lets one buyer send claims, cancels and reads of the sale on many
// connections to all servers, until mended. The claims are beyond the buyer's
// limit, which the ledger alone can tell.
func (n *neighbours) flood(t *testing.T, sale sluice.SaleID) (mend func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	token := mint(t, "flooder", time.Hour)
	var done sync.WaitGroup
	for i := range 60 {
		transport := &http.Transport{MaxIdleConnsPerHost: 1}
		url := n.urls[i%len(n.urls)]
		done.Go(func() {
			defer transport.CloseIdleConnections()
			for k := 0; ctx.Err() == nil; k++ {
				method, path := http.MethodPost, "/v1/sales/"+string(sale)+"/orders"
				switch k % 4 {
				case 1:
					path = fmt.Sprintf("/v1/orders/%s.%032x/cancel", sale, k)
				case 2:
					method, path = http.MethodGet, "/v1/orders?sale="+string(sale)
				case 3:
					method, path = http.MethodGet, fmt.Sprintf("/v1/orders/made-up-%d.%032x", k, k)
				}
				request, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(`{"quantity":51}`))
				if err != nil {
					return
				}
				request.Header.Set("Authorization", "Bearer "+token)
				request.Header.Set("Idempotency-Key", string(client.NewKey()))
				if answer, err := transport.RoundTrip(request); err == nil {
					answer.Body.Close()
				}
			}
		})
	}
	return func() {
		stop()
		done.Wait()
	}
}
