package redisledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
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
		entries, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: sale, Source: port.New})
		if err != nil || len(entries) != 1 || len(entries[0].Claims) != 5 {
			t.Fatalf("journal %+v, %v", entries, err)
		}
		if r, err := l.Find(t.Context(), decisions[1].Order, "buyer-1"); err != nil || r.Seq != 2 {
			t.Errorf("Find: %+v, %v", r, err)
		}
		must.Succeed(t, l.Ack(t.Context(), sale, []string{entries[0].ID}))
		got, err := l.Release(t.Context(), sale, releasesOf(sale, 1, makeClaims(sale, 0, 3)...))
		if err != nil || got.Applied != 3 {
			t.Errorf("Release: %+v, %v", got, err)
		}
	}
	readings := must.Get(l.Read(t.Context(), sales))(t)
	replica := newReplica(t, "redis+cluster://"+one.Addr()) // shards without a replica: of the primaries
	again := must.Get(replica.Read(t.Context(), sales))(t)
	for i := range again {
		again[i].Now, again[i].CooldownUntil = readings[i].Now, readings[i].CooldownUntil // it may have ended meanwhile
		if again[i] != readings[i] {
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
		must.Succeed(t, l.Drop(t.Context(), sale, 1))
	}
	for _, server := range clients {
		size := command(t, newClient(t, server.URL()), "DBSIZE")
		if n, err := size.AsInt64(); err != nil || n != 0 {
			t.Errorf("%d keys are left, %v", n, err)
		}
	}
	for _, sale := range sales { // of a sale that is gone, too
		waits, err := l.Allow(t.Context(), sale, port.Rates{
			Buyer: sluice.BuyerRate{Requests: 1, PerS: 3600}, Address: sluice.AddressRate{Requests: 9, PerS: 3600},
		}, []port.Try{{Buyer: "ann", Address: "2001:db8::/64"}, {Buyer: "{b}", Address: "{c}"}, {Buyer: "ann"}})
		if err != nil || waits[0].Longest() != 0 || waits[1].Longest() != 0 || waits[2].Buyer == 0 {
			t.Errorf("Allow: %v, %v", waits, err)
		}
	}
}

// A shard that hangs is one shard: the sales of the others are read, claimed
// and looked up meanwhile.
func TestHungShard(t *testing.T) {
	nodes := servertest.StartCluster(t, 3, "--cluster-node-timeout", "3000")
	two := nodes[1]
	l := open(t, "redis+cluster://"+nodes[0].Addr()+","+two.Addr(), redisledger.Options{Node: "a", Timeout: time.Second})
	var here, there sluice.SaleID
	for n := range 20 {
		sale := sluice.SaleID(fmt.Sprint("sale-", n))
		reply := command(t, newClient(t, two.URL()), "CLUSTER", "KEYSLOT", "{"+string(sale)+"}")
		slot := must.Get(reply.AsInt64())(t)
		if slot*3/16384 == 1 {
			there = sale
		} else {
			here = sale
		}
	}
	for _, sale := range []sluice.SaleID{here, there} {
		loadOpen(t, l, sale, tight(500))
		wantAll(t, claim(t, l, sale, makeClaim(sale, 0)), sluice.Accepted)
	}
	two.Freeze()
	defer two.Thaw()
	type answer struct {
		took time.Duration
		err  error
	}
	hung := make(chan answer, 1)
	go func() {
		begun := time.Now()
		_, err := l.Claim(t.Context(), there, makeClaims(there, 1, 2))
		hung <- answer{time.Since(begun), err}
	}()
	for end, n := time.Now().Add(8*time.Second), 1; time.Now().Before(end); n++ {
		begun := time.Now()
		wantAll(t, claim(t, l, here, makeClaim(here, n)), sluice.Accepted)
		if took := time.Since(begun); took > 500*time.Millisecond {
			t.Errorf("%s after the other shard hung, a claim took %s", time.Until(end), took)
		}
		begun = time.Now()
		if r := read(t, l, here); r.Seq != int64(n+1) {
			t.Errorf("reading %+v, want sequence %d", r, n+1)
		}
		if took := time.Since(begun); took > 500*time.Millisecond {
			t.Errorf("a reading took %s", took)
		}
		if n%20 == 0 {
			readings, err := l.Read(t.Context(), []sluice.SaleID{there, here})
			if err == nil || len(readings) != 2 || readings[0].Err == nil || readings[1].Err != nil ||
				readings[1].Seq != int64(n+1) {
				t.Errorf("both: %+v, %v", readings, err)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if a := <-hung; a.err == nil || a.took > 2*time.Second {
		t.Errorf("a claim at the shard that hangs returned %v after %s; want an error after the timeout of 1s", a.err, a.took)
	}
	two.Thaw()
	for deadline := time.Now().Add(15 * time.Second); ; {
		readings, err := l.Read(t.Context(), []sluice.SaleID{there})
		if err == nil && readings[0].Loaded {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the shard is back, and its sale cannot be read: %v", err)
		}
	}
}
