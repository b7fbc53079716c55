package redisledger_test

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// In a cluster each sale is in one slot; calls on several sales go to several
// servers, each with a script cache of its own.
func TestCluster(t *testing.T) {
	clients := servertest.StartCluster(t, 2)
	one, two := clients[0], clients[1]

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
