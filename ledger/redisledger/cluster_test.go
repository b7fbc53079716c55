package redisledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// In a cluster each sale is in one slot; calls on several sales go to several
// servers, each with a script cache of its own.
func TestCluster(t *testing.T) {
	one := servertest.StartRedis(t, "--cluster-enabled", "yes")
	two := servertest.StartRedis(t, "--cluster-enabled", "yes")
	clients := [...]*servertest.RedisServer{one, two}
	for i, slots := range [...][2]string{{"0", "8191"}, {"8192", "16383"}} {
		command(t, newClient(t, clients[i].URL()), "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1])
	}
	host, port, _ := strings.Cut(two.Addr(), ":")
	command(t, newClient(t, one.URL()), "CLUSTER", "MEET", host, port)
	for _, server := range clients {
		client, deadline := newClient(t, server.URL()), time.Now().Add(20*time.Second)
		for ready := false; !ready; {
			info := command(t, client, "CLUSTER", "INFO")
			text, _ := info.ToString()
			ready = strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_known_nodes:2") &&
				strings.Contains(text, "cluster_slots_ok:16384")
			if !ready && time.Now().After(deadline) {
				t.Fatal(text)
			}
		}
	}

	l := open(t, "redis+cluster://"+one.Addr()+","+two.Addr(), redisledger.Options{Node: "a"})
	sales := []sluice.SaleID{"a", "b", "c", "d", "e", "f"}
	for i, sale := range sales {
		terms := tight(5)
		if i%2 > 0 {
			terms = loose(5)
		}
		loadOpen(t, l, sale, terms)
		decisions := claim(t, l, sale, makeClaims(sale, 0, 7)...)
		wantAll(t, decisions[:5], sluice.Accepted)
		wantAll(t, decisions[5:], sluice.SoldOut)
		entries, err := l.ReadJournal(t.Context(), sluice.JournalRead{Sale: sale, Source: sluice.New})
		if err != nil || len(entries) != 1 || len(entries[0].Claims) != 5 {
			t.Fatalf("journal %+v, %v", entries, err)
		}
		if r, err := l.Find(t.Context(), decisions[1].Order, "buyer-1"); err != nil || r.Seq != 2 {
			t.Errorf("Find: %+v, %v", r, err)
		}
		must(t, l.Ack(t.Context(), sale, []string{entries[0].ID}))
		got, err := l.Release(t.Context(), sale, releasesOf(sale, 1, makeClaims(sale, 0, 3)...))
		if err != nil || got.Applied != 3 {
			t.Errorf("Release: %+v, %v", got, err)
		}
	}
	readings, err := l.Read(t.Context(), sales)
	must(t, err)
	replica := newReplica(t, "redis+cluster://"+one.Addr()) // shards without a replica: of the primaries
	again, err := replica.Read(t.Context(), sales)
	must(t, err)
	for i := range again {
		if again[i].Now = readings[i].Now; again[i] != readings[i] {
			t.Errorf("the replica says %+v, the ledger %+v", again[i], readings[i])
		}
	}
	for i, r := range readings {
		if !r.Loaded || r.Sale != sales[i] || r.Seq != 5 || r.Taken != 2 || r.Backlog != 0 || r.Fence != "" {
			t.Errorf("reading %+v", r)
		}
	}
	for _, server := range clients {
		size := command(t, newClient(t, server.URL()), "DBSIZE")
		if n, err := size.AsInt64(); err != nil || n == 0 {
			t.Errorf("a server of the cluster has %d keys, %v: the test does not reach both", n, err)
		}
	}
	for _, sale := range sales {
		must(t, l.Drop(t.Context(), sale, 1))
	}
	for _, server := range clients {
		size := command(t, newClient(t, server.URL()), "DBSIZE")
		if n, err := size.AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys are left, %v", n, err)
		}
	}
	for _, sale := range sales { // of a sale that is gone, too
		waits, err := l.Allow(t.Context(), sale, sluice.BuyerRate{Requests: 1, PerS: 3600}, []sluice.BuyerID{"ann", "{b}", "ann"})
		if err != nil || waits[0] != 0 || waits[1] != 0 || waits[2] == 0 {
			t.Errorf("Allow: %v, %v", waits, err)
		}
	}
}
