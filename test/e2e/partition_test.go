package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The network of a Redis with sentinels is cut in two, with servers on both sides.
func TestSentinelPartition(t *testing.T) {
	t.Parallel()
	newFailover(t, 1, startSplit(t)).run(t, 15*time.Second, networkCut)
}

// A cluster is cut in two: the primary of the sale and a server are alone.
func TestClusterPartition(t *testing.T) {
	t.Parallel()
	newFailover(t, 1, startSplitShards(t)).run(t, 15*time.Second, networkCut)
}

// The same again and again, for as long as SLUICE_TEST_SOAK says. Without WAIT both
// sides sell, and one is known to fail now and then: a buyer who repeats a claim on the
// other side of the cut may be promised a second order id, while the database gets the
// first (docs/operating.md says so).
func TestSoakPartition(t *testing.T)     { onPartition(t, 1) }
func TestSoakBothSidesSell(t *testing.T) { onPartition(t, 0) }

func onPartition(t *testing.T, wait int) {
	for end := time.Now().Add(soak(t)); time.Now().Before(end) && !t.Failed(); {
		newFailover(t, wait, startSplit(t)).run(t, 25*time.Second, networkCut)
	}
}

// partition is a network between Redis servers that can be cut in two: the node
// and the first server that are alone, and all others, sentinels included. The
// database is on both sides.
type partition struct {
	url   string                             // by which the server that will be alone reaches the others
	shown map[*servertest.RedisServer]string // addresses by which all others know the nodes
	cut   atomic.Pointer[sides]              // nil: the network is whole
}

// sides says who is alone.
type sides struct {
	node  *servertest.RedisServer
	pids  [2]int   // of the server and the node
	peers sync.Map // by a connection's port: whether one of the two has made it
}

// startSplit is startSentinels with a proxy before each node, and before each
// sentinel for one server.
func startSplit(t *testing.T) *replicated {
	p := &partition{shown: map[*servertest.RedisServer]string{}}
	r := &replicated{split: p}
	for i := range 3 {
		var node *servertest.RedisServer
		addr := servertest.StartProxy(t, func(from net.Conn) (string, func() bool) {
			return node.Addr(), func() bool { return p.separates(from, node) }
		})
		_, port, _ := net.SplitHostPort(addr)
		args := append([]string{"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", port}, quick...)
		if i > 0 {
			_, primary, _ := net.SplitHostPort(p.shown[r.nodes[0]])
			args = append(args, "--replicaof", "127.0.0.1 "+primary)
		}
		node = servertest.StartRedis(t, args...)
		r.nodes = append(r.nodes, node)
		p.shown[node] = addr
	}
	r.sentinels = servertest.StartSentinels(t, "shop", p.shown[r.nodes[0]], 2, down)
	r.url = "redis+sentinel://" + addresses(r.sentinels) + "/shop"
	var proxies []string
	for _, s := range r.sentinels {
		proxies = append(proxies, servertest.StartProxy(t, func(net.Conn) (string, func() bool) {
			return s.Addr(), func() bool { return p.cut.Load() != nil }
		}))
	}
	p.url = "redis+sentinel://" + strings.Join(proxies, ",") + "/shop"
	return r
}

// startSplitShards is startShards with two proxies before each node: for servers and
// replicas, and for the other nodes.
func startSplitShards(t *testing.T) *replicated {
	p, r := &partition{shown: map[*servertest.RedisServer]string{}}, startShards(t)
	r.split = p
	var shown []string
	for _, node := range r.nodes {
		_, port, _ := net.SplitHostPort(node.Addr())
		own, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		for setting, port := range map[string]int{"port": own, "bus-port": own + 10_000} {
			addr := servertest.StartProxy(t, func(from net.Conn) (string, func() bool) {
				return "127.0.0.1:" + strconv.Itoa(port), func() bool { return p.separates(from, node) }
			})
			_, announced, _ := net.SplitHostPort(addr)
			ask(t, node, "CONFIG SET cluster-announce-%s %s", setting, announced)
			if port == own {
				p.shown[node] = addr
			}
		}
		shown = append(shown, p.shown[node])
	}
	for _, node := range r.nodes {
		await(t, "all nodes to know all by their proxies", func() bool {
			text := strings.Join(ask(t, node, "CLUSTER NODES"), "\n")
			for _, addr := range shown {
				if !strings.Contains(text, addr+"@") {
					return false
				}
			}
			return strings.Count(text, " connected") == len(r.nodes)
		})
	}
	r.url = "redis+cluster://" + strings.Join(shown, ",")
	p.url = r.url
	return r
}

// separates reports whether a connection to a node is cut now.
func (p *partition) separates(from net.Conn, to *servertest.RedisServer) bool {
	cut := p.cut.Load()
	if cut == nil {
		return false
	}
	port := from.RemoteAddr().(*net.TCPAddr).Port
	alone, known := cut.peers.Load(port)
	if !known {
		alone, _ = cut.peers.LoadOrStore(port, hasPort(cut.pids[0], port) || hasPort(cut.pids[1], port))
	}
	return alone.(bool) != (to == cut.node)
}

// hasPort reports whether a process has a connection from this port of 127.0.0.1.
func hasPort(pid, port int) bool {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false
	}
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[1] != local {
			continue
		}
		files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, file := range files {
			if link, _ := os.Readlink(file); link == "socket:["+fields[9]+"]" {
				return true
			}
		}
	}
	return false
}

// shown is the address by which the others know a node.
func (r *replicated) shown(s *servertest.RedisServer) string {
	if r.split != nil {
		return r.split.shown[s]
	}
	return s.Addr()
}

// networkCut cuts the primary and a server off from all others, which promote a
// replica. Buyers are on both sides all the time. Both sides store orders in the
// one database. Without WAIT it finds that two ledgers decide: the sale is fenced, and
// rebuilt by either side in turn. With it, what the old primary decides now reaches no
// store, and its buyers get their only order id on the other side.
func networkCut(t *testing.T, f *failover) {
	primary, alone := f.owner(t, f.sale), f.servers[0]
	if files, _ := filepath.Glob("/proc/" + strconv.Itoa(alone.cmd.Process.Pid) + "/fd/*"); len(files) == 0 {
		t.Skip("/proc does not show whose connections are whose")
	}
	beside := &f.rush.progress[0].Accepted
	before, others := beside.Load(), f.rush.accepted()-beside.Load()
	f.split.cut.Store(&sides{node: primary, pids: [2]int{alone.cmd.Process.Pid, primary.Pid()}})
	f.besideSells(t)
	both := loadgen.Promise{Buyer: 800_000, Key: client.NewKey()}
	if f.wait > 0 {
		awaitQuiet(t, beside.Load)
		never := loadgen.Promise{Buyer: 800_001, Key: client.NewKey()} // is not repeated: there must be no order
		for _, claim := range []loadgen.Promise{both, never} {
			f.await(t, "a claim that the old primary decides, and no replica has", func() bool {
				order, err := f.place(t, alone, claim)
				if err == nil {
					t.Errorf("%s is accepted, and no replica has it", order)
				}
				code := client.CodeOf(err) // a primary of a cluster decides nothing more when it has been alone for a while
				return code == api.CodeOutcomeUnknown || f.beside != nil && code == sluice.Unavailable.String()
			})
		}
	}
	first := beside.Load()
	f.await(t, "another primary", func() bool {
		now := f.owner(t, f.sale)
		return now != nil && now != primary
	})
	if f.wait > 0 {
		f.await(t, "the claim on the other side", func() (accepted bool) {
			order, err := f.place(t, f.servers[1], both)
			both.Order = order
			return err == nil
		})
		f.probes = append(f.probes, both)
	}
	time.Sleep(5 * time.Second) // both sides try to sell
	t.Logf("%d claims were accepted beside the primary that was cut off, %d by the others",
		beside.Load()-before, f.rush.accepted()-beside.Load()-others)
	if f.wait == 0 && beside.Load() == before {
		t.Error("nothing was accepted beside the primary that was cut off: the test shows nothing")
	}
	if f.wait > 0 && beside.Load() > first {
		t.Error("claims were accepted that no replica has")
	}
	f.split.cut.Store(nil)
	f.settle(t) // the old primary follows the new one; until then each side has its own
	f.accepts(t, "the network was whole again")
}
