package meters

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
)

const second = 1_000_000 // µs

var twoASecond = sluice.BuyerRate{Requests: 2, PerS: 1}.Meter()

func TestEachHasAnAllowance(t *testing.T) {
	table := New(0)
	for i := range 10_000 {
		key := Key(table, strconv.Itoa(i))
		for try, want := range []int64{0, 0, second / 2, second / 2} {
			if wait := table.Try(twoASecond, key, 5*second); wait != want {
				t.Fatalf("try %d of %d waits %d, want %d", try, i, wait, want)
			}
		}
	}
	if wait := table.Try(twoASecond, Key(table, "7"), 5*second+second/2); wait != 0 {
		t.Errorf("after waiting as told: %d", wait)
	}
}

// Who matters no more takes no room, however many there were.
func TestMemoryIsBounded(t *testing.T) {
	table := New(1 << 12)
	for i := range int64(200_000) {
		table.Try(twoASecond, Key(table, i), i*1000) // 1,000 a second; each matters for half a second
	}
	if n := table.Len(); n > 1<<12 {
		t.Errorf("%d entries, want at most %d", n, 1<<12)
	}
	if wait := table.Try(twoASecond, Key(table, int64(199_999)), 199_999*1000); wait != 0 {
		t.Errorf("the second try of the last one waits %d", wait)
	}
	if wait := table.Try(twoASecond, Key(table, int64(199_999)), 199_999*1000); wait == 0 {
		t.Error("the third try of the last one passes: it was forgotten")
	}
}

// A table full of those who matter gives no newcomer an allowance of their own,
// and evicts no entry for their sake.
func TestFullTableFailsClosed(t *testing.T) {
	day := sluice.BuyerRate{Requests: 1, PerS: 86_400}.Meter()
	table := New(shards) // one entry a shard
	first := map[uint64]uint64{}
	passed := 0
	for i := range 10_000 {
		key := Key(table, i)
		if _, taken := first[key%shards]; !taken {
			first[key%shards] = key
		}
		if table.Try(day, key, second) == 0 {
			passed++
		}
	}
	if passed > 2*shards {
		t.Errorf("%d tries of 10,000 newcomers pass, want one of each shard's own and one of its rest at most", passed)
	}
	for _, key := range first {
		if table.Try(day, key, 2*second) == 0 {
			t.Error("an entry was evicted for the sake of newcomers")
		}
	}
	if n := table.Len(); n > shards {
		t.Errorf("%d entries, want at most %d", n, shards)
	}
	// Later there is room again.
	if wait := table.Try(day, Key(table, "late"), 100_000*second); wait != 0 {
		t.Errorf("a day later a newcomer waits %d", wait)
	}
}

// A full table that admits newcomers lets each of them try, whoever tried before, and still forgets no entry.
func TestFullTableAdmitsNewcomers(t *testing.T) {
	day := sluice.BuyerRate{Requests: 1, PerS: 86_400}.Meter()
	table := NewOpen(shards) // one entry a shard
	first := Key(table, 0)
	for i := range 10_000 {
		if wait := table.Try(day, Key(table, i), second); wait != 0 {
			t.Fatalf("newcomer %d waits %d", i, wait)
		}
		table.Undo(day, Key(table, -1-i))
	}
	if table.Try(day, first, 2*second) == 0 {
		t.Error("an entry was evicted for the sake of newcomers")
	}
	if n := table.Len(); n > shards {
		t.Errorf("%d entries, want at most %d", n, shards)
	}
}

func TestLearn(t *testing.T) {
	table := New(0)
	key := Key(table, "ann")
	table.learn(twoASecond, key, 10*second, 3*second)
	if wait := table.Try(twoASecond, key, 11*second); wait != 0 {
		// More than the rate itself could ask for is not believed.
		t.Errorf("waits %d", wait)
	}
	key = Key(table, "bob")
	table.learn(twoASecond, key, 10*second, second/4)
	for at, want := range map[int64]int64{10 * second: second / 4, 10*second + 1: second/4 - 1} {
		if wait := table.Try(twoASecond, key, at); wait != want {
			t.Errorf("at %d waits %d, want %d", at, wait, want)
		}
	}
	if wait := table.Try(twoASecond, key, 10*second+second/4); wait != 0 {
		t.Errorf("then waits %d", wait)
	}
	if wait := table.Try(twoASecond, key, 10*second+second/4); wait == 0 {
		t.Error("and then passes twice")
	}
	table.Try(twoASecond, key, 20*second)
	table.learn(twoASecond, key, 20*second, 0) // never shortens what is known
	table.Try(twoASecond, key, 20*second)
	if wait := table.Try(twoASecond, key, 20*second); wait == 0 {
		t.Error("learning gave an allowance back")
	}
}

// A try at two tables counts in both or in neither; what is undone was never
// made; and both hold when one of the tables has no room.
func TestTryAll(t *testing.T) {
	for _, most := range []int{0, 1} {
		buyers, addresses := New(0), New(most)
		if most == 1 { // another key has the only place of the shard
			day := sluice.AddressRate{Requests: 1, PerS: 86_400}.Meter()
			for i := uint64(0); addresses.shards[Key(addresses, "home")%shards].paid == nil; i++ {
				addresses.Try(day, Key(addresses, "home")%shards+shards*(i+1), 9*second)
			}
		}
		once := sluice.AddressRate{Requests: 1, PerS: 1}.Meter()
		both := func(buyer, address string, at int64) [2]int64 {
			waits := TryAll(at, Attempt{buyers, twoASecond, Key(buyers, buyer)},
				Attempt{addresses, once, Key(addresses, address)})
			return [2]int64(waits[:2])
		}
		for i, step := range []struct {
			buyer, address string
			at             int64
			want           [2]int64
		}{
			{"ann", "home", 10 * second, [2]int64{}},
			{"ann", "home", 10 * second, [2]int64{0, second}},
			{"bob", "home", 10 * second, [2]int64{0, second}},
			{"ann", "home", 11 * second, [2]int64{}}, // nothing was counted in between
			{"ann", "home", 11 * second, [2]int64{0, second}},
		} {
			if got := both(step.buyer, step.address, step.at); got != step.want {
				t.Errorf("most %d, step %d: waits %v, want %v", most, i, got, step.want)
			}
		}
		addresses.Undo(once, Key(addresses, "home"))
		if got := both("bob", "home", 11*second); got != [2]int64{} {
			t.Errorf("most %d: after it was undone waits %v", most, got)
		}
		if got := both("bob", "home", 11*second); got[1] != second {
			t.Errorf("most %d: undone once, it passes twice: %v", most, got)
		}
	}
}

// Without a rate nothing is counted; what was denied elsewhere is taken back, and
// learned by the one who has to wait.
func TestAttempt(t *testing.T) {
	buyers, addresses := New(0), New(0)
	once := sluice.AddressRate{Requests: 1, PerS: 1}.Meter()
	ann, home := AttemptOf(buyers, twoASecond, "ann"), AttemptOf(addresses, once, "home")
	free := AttemptOf(buyers, sluice.BuyerRate{}.Meter(), "ann")
	for i, step := range []struct {
		a, b Attempt
		want [2]int64
	}{
		{free, free, [2]int64{}},
		{ann, free, [2]int64{}},
		{free, home, [2]int64{}},
		{ann, home, [2]int64{0, second}},
		{free, home, [2]int64{0, second}},
		{ann, free, [2]int64{}}, // the try of both was not counted
		{ann, free, [2]int64{second / 2, 0}},
	} {
		waits := TryAll(10*second, step.a, step.b)
		if [2]int64(waits[:2]) != step.want {
			t.Errorf("step %d waits %v, want %v", i, waits, step.want)
		}
	}
	free.Denied(10*second, second)
	ann.Denied(10*second, 0)
	home.Denied(10*second, second/4)
	for i, want := range [][2]int64{{0, second / 4}, {0, second / 4}} {
		if waits := TryAll(10*second, ann, home); [2]int64(waits[:2]) != want {
			t.Errorf("after the denial, try %d waits %v, want %v", i, waits, want)
		}
	}
	if wait := ann.Table.Try(ann.Meter, ann.Key, 10*second); wait != 0 {
		t.Errorf("what was taken back waits %d", wait)
	}
	if n := buyers.Len() + addresses.Len(); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}

// Many at once, under the race detector: each key passes exactly its burst.
func TestConcurrentTries(t *testing.T) {
	table := New(0)
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				if table.Try(twoASecond, Key(table, i), second) == 0 {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != 1000 {
		t.Errorf("%d tries pass, want 1,000", passed.Load())
	}
}

func BenchmarkTry(b *testing.B) {
	table := New(0)
	type who struct{ sale, buyer string }
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = "buyer-" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			table.Try(twoASecond, Key(table, who{"phone", names[i%len(names)]}), int64(i))
		}
	})
}
