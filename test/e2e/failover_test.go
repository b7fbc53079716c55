package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Redis with replicas fails under three servers that sell. After each blow a claim
// is accepted within ten seconds, and by every server soon; at the end nothing is oversold, each
// promise is kept, and the audit agrees. docs/operating.md has the table of what
// each test shows. The number is that of --wait-replicas.

func TestSentinelPrimaryKilled(t *testing.T) { onSentinel(t, 1, primaryKilled) }

func TestSentinelPrimaryFrozen(t *testing.T) { servertest.Nightly(t); onSentinel(t, 1, primaryFrozen) }

func TestSentinelSplitBrain(t *testing.T) { servertest.Nightly(t); onSentinel(t, 0, primaryFrozen) }

func TestSentinelReplicaLags(t *testing.T) { servertest.Nightly(t); onSentinel(t, 0, replicaLags) }

func TestSentinelReplicaLost(t *testing.T) { servertest.Nightly(t); onSentinel(t, 1, replicaLost) }

func TestSentinelReplicaMissed(t *testing.T) { servertest.Nightly(t); onSentinel(t, 2, replicaMissed) }

func TestSentinelAllWhoKnowDie(t *testing.T) { servertest.Nightly(t); onSentinel(t, 2, allWhoKnowDie) }

func TestSentinelLossWithoutWait(t *testing.T) {
	servertest.Nightly(t)
	onSentinel(t, 0, allWhoKnowDie)
}
func TestClusterPrimaryKilled(t *testing.T) { onCluster(t, 0, primaryKilled) }
func TestClusterPrimaryComesBack(t *testing.T) {
	servertest.Nightly(t)
	onCluster(t, 1, primaryComesBack)
}

func TestClusterPrimaryFrozen(t *testing.T) { servertest.Nightly(t); onCluster(t, 0, primaryFrozen) }

func TestClusterReplicaLags(t *testing.T) { servertest.Nightly(t); onCluster(t, 0, replicaLags) }

func TestClusterReplicaSlow(t *testing.T) { servertest.Nightly(t); onCluster(t, 1, replicaSlow) }
func TestClusterSlotMoves(t *testing.T)   { servertest.Nightly(t); onCluster(t, 1, slotMoves) }

// The same in any order, for as long as SLUICE_TEST_SOAK says.
func TestSoakFailover(t *testing.T) {
	end := time.Now().Add(soak(t))
	r := seeded(t, uint64(time.Now().UnixNano()))
	for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			redis, wait, blows := startSentinels, 1, []blow{primaryKilled, primaryFrozen, replicaLost}
			switch n % 3 {
			case 1:
				wait, blows[2] = 0, replicaLags
			case 2:
				redis, wait, blows = startShards, 0, append(blows[:2], replicaLags, slotMoves)
			}
			r.Shuffle(len(blows), func(i, k int) { blows[i], blows[k] = blows[k], blows[i] })
			newFailover(t, wait, redis(t)).run(t, time.Minute, blows[:2]...)
		})
	}
}

// blow harms Redis under the sale, looks on, and mends what it harmed.
type blow func(t *testing.T, f *failover)

func onSentinel(t *testing.T, wait int, blow blow) {
	t.Parallel()
	newFailover(t, wait, startSentinels(t)).run(t, 15*time.Second, blow)
}

func onCluster(t *testing.T, wait int, blow blow) {
	t.Parallel()
	newFailover(t, wait, startShards(t)).run(t, 15*time.Second, blow)
}

// replicated are the servers of a Redis with replicas.
type replicated struct {
	url       string
	nodes     []*servertest.RedisServer
	sentinels []*servertest.RedisServer // none: a cluster
	split     *partition                // nil: the network cannot be cut
}

// down is how long a server of Redis may be silent before the others act.
const down = 2 * time.Second

var quick = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// startSentinels starts a primary, two replicas and three sentinels.
func startSentinels(t *testing.T) *replicated {
	primary := servertest.StartRedis(t, quick...)
	r := &replicated{nodes: []*servertest.RedisServer{primary, primary.Replica(t), primary.Replica(t)}}
	r.sentinels = servertest.StartSentinels(t, "shop", primary.Addr(), 2, down)
	r.url = "redis+sentinel://" + addresses(r.sentinels) + "/shop"
	return r
}

// startShards starts a cluster of three primaries with a replica each.
func startShards(t *testing.T) *replicated {
	timeout := strconv.Itoa(int(down.Milliseconds()))
	nodes := servertest.StartReplicatedCluster(t, 3, append(quick, "--cluster-node-timeout", timeout)...)
	return &replicated{url: "redis+cluster://" + addresses(nodes), nodes: nodes}
}

func addresses(servers []*servertest.RedisServer) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return strings.Join(all, ",")
}

// failover is a rush at three servers, while Redis fails.
type failover struct {
	*replicated
	wait    int // --wait-replicas
	store   string
	servers []*server
	sale    sluice.SaleID // that is harmed
	rush    *rush
	beside  *rush // of a sale on another shard; nil: there is none

	mu     sync.Mutex
	probes []loadgen.Promise
	lost   bool // promises, as wait says
}

func newFailover(t *testing.T, wait int, redis *replicated) *failover {
	f := &failover{replicated: redis, wait: wait, store: servertest.Postgres(t)}
	for i := range 3 {
		url := f.url
		if i == 0 && f.split != nil {
			url = f.split.url
		}
		s := newServer(t, backends{url, f.store}, "--wait-replicas", strconv.Itoa(wait))
		s.launch()
		f.servers = append(f.servers, s)
	}
	for _, s := range f.servers {
		s.ready()
	}
	return f
}

const failoverLimit = 20 // per buyer

// run sells while the blows fall, and then what is left: the crowds want a few more
// units than there are, and none are lacking while a blow lasts longer than its crowd.
func (f *failover) run(t *testing.T, lasting time.Duration, blows ...blow) {
	t.Helper()
	var urls []string
	for _, s := range f.servers {
		urls = append(urls, s.url)
	}
	const rate = 30
	total := int64(lasting/time.Second)*rate*int64(len(urls)) + 60
	begin := func(sale sluice.SaleID) *rush {
		createSaleAs(t, f.servers[0], sale, total, failoverLimit)
		awaitState(t, f.servers, sale, sluice.StateOpen)
		r := startRush(t, loadgen.Options{Sale: sale, Buyers: 300, Rate: rate, Duration: lasting}, urls, 81, 82, 83)
		await(t, "a rush that has begun", func() bool { return r.accepted() > 50 })
		return r
	}
	f.sale = newSaleID()
	if len(f.sentinels) == 0 {
		other := newSaleID()
		for f.owner(t, other) == f.owner(t, f.sale) {
			other = newSaleID()
		}
		f.beside = begin(other)
	}
	f.rush = begin(f.sale)
	for _, blow := range blows {
		blow(t, f)
	}
	for _, r := range []*rush{f.rush, f.beside} {
		if r != nil {
			r.wait()
			last := startRush(t, loadgen.Options{Sale: r.sale, Buyers: 30}, urls, 84, 85, 86)
			last.wait()
			r.crowds, r.outcomes = append(r.crowds, last.crowds...), append(r.outcomes, last.outcomes...)
		}
	}
	f.rush.outcomes = append(f.rush.outcomes, &loadgen.Outcome{Promises: f.probes})
	if f.lost {
		f.verifyLoss(t, total)
		return
	}
	verify(t, f.servers[1], f.rush, total, failoverLimit)
	if f.beside != nil {
		verify(t, f.servers[2], f.beside, total, failoverLimit)
	}
}

// verifyLoss is verify when promises were lost: it is known which, and all else holds.
func (f *failover) verifyLoss(t *testing.T, total int64) {
	t.Helper()
	awaitStored(t, f.servers[0], f.sale)
	audit(t, f.servers[0], f.sale, 0, "after a loss")
	lost := 0
	for _, problem := range brokenPromises(f.rush.outcomes, storedOrders(t, f.servers[0], f.sale), total, failoverLimit) {
		if !strings.HasSuffix(problem, `and the store has "" (I5)`) {
			t.Error(problem)
		}
		lost++
	}
	if t.Logf("%d promises are lost", lost); lost == 0 {
		t.Error("no promise is lost: the test shows nothing")
	}
}

// accepts fails the test unless a new claim is accepted soon, and then one by each server.
func (f *failover) accepts(t *testing.T, when string) {
	t.Helper()
	var group sync.WaitGroup
	began, first := time.Now(), patience
	for _, s := range f.servers {
		f.mu.Lock()
		promise := loadgen.Promise{Buyer: 900_000 + len(f.probes), Key: client.NewKey()}
		f.probes = append(f.probes, promise)
		n := len(f.probes) - 1
		f.mu.Unlock()
		group.Go(func() {
			for {
				order, err := f.place(t, s, promise)
				took := time.Since(began).Round(10 * time.Millisecond)
				if err == nil {
					f.mu.Lock()
					defer f.mu.Unlock()
					f.probes[n].Order, first = order, min(first, took)
					t.Logf("%s accepts after %s %s", s.url, took, when)
					return
				}
				if took > patience {
					t.Errorf("%s accepts nothing %s: %v", s.url, when, err)
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	group.Wait()
	if first > soon {
		t.Errorf("the first claim is accepted %s after %s", first, when)
	}
}

// place tries a claim once.
func (f *failover) place(t *testing.T, at *server, claim loadgen.Promise) (sluice.OrderID, error) {
	c := buyer(t, at.url, loadgen.BuyerName(claim.Buyer), client.Options{PlaceAttempts: 1})
	got, err := c.Place(t.Context(), f.sale, claim.Key, api.PlaceOrder{Quantity: 1})
	return got.OrderID, err
}

// awaitQuiet waits until no claim has been accepted for a second: what was on its way
// has its answer.
func awaitQuiet(t *testing.T, accepted func() int64) {
	t.Helper()
	await(t, "a second without accepted claims", func() bool {
		before := accepted()
		time.Sleep(time.Second)
		return accepted() == before
	})
}

func primaryKilled(t *testing.T, f *failover) {
	primary := f.owner(t, f.sale)
	primary.Kill()
	f.besideSells(t)
	f.accepts(t, "the primary was killed")
	primary.Start()
	f.settle(t)
}

// With one replica and --wait-replicas 1, a shard whose primary died needs it back.
func primaryComesBack(t *testing.T, f *failover) {
	primary := f.owner(t, f.sale)
	primary.Kill()
	f.besideSells(t)
	f.await(t, "another primary", func() bool { return f.owner(t, f.sale) != primary })
	primary.Start()
	f.accepts(t, "the primary came back as a replica")
}

// The primary hangs until another one has its place, and goes on where it was.
func primaryFrozen(t *testing.T, f *failover) {
	primary := f.owner(t, f.sale)
	primary.Freeze()
	defer primary.Thaw()
	f.besideSells(t)
	f.accepts(t, "the primary was frozen")
	primary.Thaw()
	f.accepts(t, "the old primary came back")
	f.settle(t)
}

// No replica follows while claims are accepted; then one is promoted.
func replicaLags(t *testing.T, f *failover) {
	primary := f.owner(t, f.sale)
	join := f.cutReplicas(t, primary)
	before := f.rush.accepted()
	await(t, "claims that no replica has", func() bool { return f.rush.accepted() > before+50 })
	primary.Kill()
	join()
	f.besideSells(t)
	f.accepts(t, "a replica that lags was promoted")
	if sale, err := f.servers[0].merchant().AdminSale(t.Context(), f.sale); err != nil || sale.Epoch < 2 {
		t.Errorf("the sale was not rebuilt, so nothing was lost and the test shows nothing: %+v, %v", sale, err)
	}
	primary.Start()
	f.settle(t)
}

func replicaLost(t *testing.T, f *failover) {
	replica := f.replicas(t, f.owner(t, f.sale))[0]
	replica.Kill()
	f.accepts(t, "one of two replicas was lost")
	replica.Start()
	f.settle(t)
}

// With --wait-replicas 2, no claim is accepted while one of two replicas is missing.
func replicaMissed(t *testing.T, f *failover) {
	replica := f.replicas(t, f.owner(t, f.sale))[0]
	replica.Kill()
	awaitQuiet(t, f.rush.accepted)
	before := f.rush.accepted()
	time.Sleep(2 * time.Second)
	if n := f.rush.accepted() - before; n > 0 {
		t.Errorf("%d claims were accepted that only one replica has", n)
	}
	replica.Start()
	f.accepts(t, "the second replica came back")
}

// The only replica answers slowly: first within what WAIT allows, and claims wait for
// it; then too late for many. What it has not confirmed is neither promised nor stored,
// nothing is fenced, and the sale on another shard does not notice.
func replicaSlow(t *testing.T, f *failover) {
	replica := f.replicas(t, f.owner(t, f.sale))[0]
	for _, pause := range []time.Duration{300 * time.Millisecond, 1300 * time.Millisecond} {
		stop := make(chan struct{})
		var slow sync.WaitGroup
		slow.Go(func() {
			for over := false; !over; {
				replica.Freeze()
				time.Sleep(pause)
				replica.Thaw()
				select {
				case <-stop:
					over = true
				case <-time.After(pause / 10):
				}
			}
		})
		end := sync.OnceFunc(func() { close(stop); slow.Wait() })
		t.Cleanup(end)
		before, late := f.rush.accepted(), time.Duration(0)
		for range 10 {
			probe := loadgen.Promise{Buyer: 850_000 + len(f.probes), Key: client.NewKey()}
			begun := time.Now()
			f.await(t, "a claim while the replica is slow", func() bool {
				order, err := f.place(t, f.servers[0], probe)
				probe.Order = order
				return err == nil
			})
			late = max(late, time.Since(begun))
			f.probes = append(f.probes, probe)
		}
		f.besideSells(t)
		end()
		t.Logf("with pauses of %v the slowest of ten claims is accepted after %v, repeats included; %d claims accepted",
			pause, late, f.rush.accepted()-before)
	}
	if sale, err := f.servers[0].merchant().AdminSale(t.Context(), f.sale); err != nil || sale.Epoch != 1 {
		t.Errorf("a slow replica is no loss, and the sale has been rebuilt: %+v, %v", sale, err)
	}
}

// The database stores nothing, no replica follows, and all who know the last
// claims die: the primary and the servers. Without WAIT, promises are lost.
func allWhoKnowDie(t *testing.T, f *failover) {
	primary := f.owner(t, f.sale)
	unlock := lockRow(t, f.store, "SELECT 1 FROM sales WHERE id = $1 FOR UPDATE", f.sale)
	defer unlock()
	join := f.cutReplicas(t, primary)
	before := f.rush.accepted()
	if f.lost = f.wait == 0; f.lost {
		await(t, "claims that no replica has", func() bool { return f.rush.accepted() > before+50 })
	} else {
		time.Sleep(3 * time.Second) // longer than WAIT may take
	}
	primary.Kill()
	for _, s := range f.servers {
		s.kill()
	}
	join()
	unlock()
	f.await(t, "another primary", func() bool { return f.owner(t, f.sale) != primary })
	primary.Start() // with --wait-replicas 2 there must be two
	f.settle(t)
	for _, s := range f.servers {
		s.start()
	}
	f.accepts(t, "all came back")
}

// The sale's slot moves to another primary and back, key by key.
func slotMoves(t *testing.T, f *failover) {
	from, ids := f.owner(t, f.sale), map[*servertest.RedisServer]string{}
	primaries := slices.DeleteFunc(slices.Clone(f.nodes), func(s *servertest.RedisServer) bool {
		ids[s] = ask(t, s, "CLUSTER MYID")[1]
		return slices.Contains(ask(t, s, "ROLE"), "slave")
	})
	to := primaries[(slices.Index(primaries, from)+1)%len(primaries)]
	slot := f.slot(t, f.sale)
	for range 2 {
		ask(t, to, "CLUSTER SETSLOT %d IMPORTING %s", slot, ids[from])
		ask(t, from, "CLUSTER SETSLOT %d MIGRATING %s", slot, ids[to])
		for {
			keys := slices.DeleteFunc(ask(t, from, "CLUSTER GETKEYSINSLOT %d 1", slot), func(line string) bool {
				return line[0] == '*' || line[0] == '$'
			})
			if len(keys) == 0 {
				break
			}
			_, port, _ := strings.Cut(to.Addr(), ":")
			ask(t, from, "MIGRATE 127.0.0.1 %s %s 0 5000", port, keys[0])
			time.Sleep(100 * time.Millisecond) // claims meet a slot whose keys are in two places
		}
		for _, s := range append([]*servertest.RedisServer{to, from}, primaries...) {
			ask(t, s, "CLUSTER SETSLOT %d NODE %s", slot, ids[to])
		}
		f.accepts(t, "the slot has moved")
		from, to = to, from
	}
	f.besideSells(t)
}

// besideSells fails the test unless the sale on another shard goes on before the
// harmed one can: a failover takes longer.
func (f *failover) besideSells(t *testing.T) {
	t.Helper()
	if f.beside == nil {
		return
	}
	before := f.beside.accepted()
	within(t, down, "claims of the sale beside", func() bool {
		return f.beside.accepted() > before || f.beside.isOver()
	})
}

// cutReplicas ends the connections of all the primary's replicas, and keeps them
// from connecting again. To freeze them would not do: what is on its way to them
// waits in their sockets.
func (f *failover) cutReplicas(t *testing.T, primary *servertest.RedisServer) (join func()) {
	t.Helper()
	replicas := f.replicas(t, primary)
	for _, s := range replicas {
		ask(t, s, "CONFIG SET masterauth wrong")
	}
	ask(t, primary, "CLIENT KILL TYPE replica")
	return func() {
		for _, s := range replicas {
			ask(t, s, `CONFIG SET masterauth ""`)
		}
	}
}

// await is the function of this name, for what takes Redis seconds.
func (f *failover) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	await(t, what, func() bool {
		time.Sleep(50 * time.Millisecond)
		return holds()
	})
}

// owner is the primary that has the sale.
func (f *failover) owner(t *testing.T, sale sluice.SaleID) *servertest.RedisServer {
	t.Helper()
	addr := ""
	if len(f.sentinels) > 0 {
		addr = "127.0.0.1:" + ask(t, f.sentinels[0], "SENTINEL GET-MASTER-ADDR-BY-NAME shop")[4]
	} else {
		slot := f.slot(t, sale)
		for _, node := range f.clusterNodes(t) {
			if strings.Contains(node[2], "master") && !strings.Contains(node[2], "fail") && hasSlot(node[8:], slot) {
				addr, _, _ = strings.Cut(node[1], "@")
			}
		}
	}
	for _, s := range f.nodes {
		if f.shown(s) == addr {
			return s
		}
	}
	return nil // there is none yet
}

// hasSlot reports whether the ranges of CLUSTER NODES have the slot.
func hasSlot(ranges []string, slot int) bool {
	return slices.ContainsFunc(ranges, func(text string) bool {
		first, last, long := strings.Cut(text, "-")
		from, err := strconv.Atoi(first)
		to := from
		if long && err == nil {
			to, err = strconv.Atoi(last)
		}
		return err == nil && from <= slot && slot <= to
	})
}

// clusterNodes is CLUSTER NODES of the first node that answers, in words.
func (f *failover) clusterNodes(t *testing.T) (nodes [][]string) {
	t.Helper()
	for _, s := range f.nodes {
		if lines, err := s.Ask("CLUSTER NODES"); err == nil {
			for _, line := range lines {
				if words := strings.Fields(line); len(words) >= 8 {
					nodes = append(nodes, words)
				}
			}
			return nodes
		}
	}
	t.Fatal("no node of the cluster answers")
	return nil
}

func (f *failover) slot(t *testing.T, sale sluice.SaleID) int {
	t.Helper()
	for _, s := range f.nodes {
		if lines, err := s.Ask(fmt.Sprintf("CLUSTER KEYSLOT {%s}", sale)); err == nil {
			slot := must.Get(strconv.Atoi(strings.TrimPrefix(lines[0], ":")))(t)
			return slot
		}
	}
	t.Fatal("no node of the cluster answers")
	return 0
}

// replicas are those of a primary.
func (f *failover) replicas(t *testing.T, primary *servertest.RedisServer) (all []*servertest.RedisServer) {
	t.Helper()
	lines := strings.Join(ask(t, primary, "INFO replication"), "\n")
	for _, s := range f.nodes {
		if _, port, _ := strings.Cut(f.shown(s), ":"); strings.Contains(lines, "port="+port+",") {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Fatalf("the primary has no replica:\n%s", lines)
	}
	return all
}

// settle waits until the primary has all its replicas again.
func (f *failover) settle(t *testing.T) {
	t.Helper()
	want := 1
	if len(f.sentinels) > 0 {
		want = 2
	}
	f.await(t, "a primary with all its replicas", func() bool {
		primary := f.owner(t, f.sale)
		if primary == nil {
			return false
		}
		lines, err := primary.Ask("INFO replication")
		return err == nil && strings.Count(strings.Join(lines, "\n"), "state=online") == want
	})
}

// ask sends a command that may be repeated: a busy machine may not answer in time.
func ask(t *testing.T, s *servertest.RedisServer, format string, values ...any) []string {
	t.Helper()
	command := fmt.Sprintf(format, values...)
	for end := time.Now().Add(soon); ; {
		lines, err := s.Ask(command)
		if err == nil {
			return lines
		}
		if strings.HasPrefix(err.Error(), "-") || time.Now().After(end) {
			t.Fatalf("%s: %v", command, err)
		}
	}
}
