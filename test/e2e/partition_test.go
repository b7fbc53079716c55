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

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The network of a Redis with sentinels is cut in two, with servers on both sides.
func TestSentinelPartition(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	newFailover(t, 1, startSplit(t)).run(t, 15*time.Second, networkCut)
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
	url   string                             // by which the server that will be alone reaches the sentinels
	shown map[*servertest.RedisServer]string // addresses by which all others know the nodes
	cut   atomic.Pointer[sides]              // nil: the network is whole
}

// sides says who is alone.
type sides struct {
	node  *servertest.RedisServer
	pid   int      // of the server
	peers sync.Map // by a connection's port: whether it is the server's
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

// separates reports whether a connection to a node is cut now.
func (p *partition) separates(from net.Conn, to *servertest.RedisServer) bool {
	cut := p.cut.Load()
	if cut == nil {
		return false
	}
	port := from.RemoteAddr().(*net.TCPAddr).Port
	alone, known := cut.peers.Load(port)
	if !known {
		alone, _ = cut.peers.LoadOrStore(port, hasPort(cut.pid, port))
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

// rebuiltOnce has the sale rebuilt. The server beside the old primary sees a ledger that is
// an epoch behind the store; that must not stop the sale of the others again.
func (f *failover) rebuiltOnce(t *testing.T) {
	t.Helper()
	at := f.servers[1].merchant()
	was := must.Get(at.AdminSale(t.Context(), f.sale))(t)
	conn, err := pgx.Connect(t.Context(), f.store)
	if err == nil {
		_, err = conn.Exec(t.Context(), "UPDATE sales SET fence = 'lost: by a test' WHERE id = $1", string(f.sale))
		_ = conn.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var is api.AdminSale
	f.await(t, "the rebuild", func() bool {
		is, err = at.AdminSale(t.Context(), f.sale)
		return err == nil && is.Epoch > was.Epoch && is.Fence == "" && is.Loaded
	})
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if now, err := at.AdminSale(t.Context(), f.sale); err == nil && now.Epoch != is.Epoch {
			t.Errorf("epoch %d after %d: the server beside the old primary has fenced the sale", now.Epoch, is.Epoch)
			return
		}
	}
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
	f.split.cut.Store(&sides{node: primary, pid: alone.cmd.Process.Pid})
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
				code := client.CodeOf(err) // unavailable: the others have found a loss, and rebuild the sale
				return code == api.CodeOutcomeUnknown || code == sluice.Unavailable.String()
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
		f.rebuiltOnce(t)
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
