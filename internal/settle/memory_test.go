package settle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// claimed is the claim with that sequence number, with all that a claim can have.
func claimed(seq int64) sluice.Claim {
	return sluice.Claim{
		Buyer: sluice.BuyerID(fmt.Sprint("buyer-", seq)), Key: "attempt-1", Quantity: seq,
		Order: sluice.SaleID("sale").Order(fmt.Sprintf("%032x", seq)), Meta: `{"size":"M"}`,
		Counters: "home:1=9",
	}
}

// decided is one ledger call: sequence numbers of the accepted claims, 0 for a
// refused one, negative for a repeat.
func decided(epoch int64, seqs ...int64) ([]sluice.Claim, []sluice.Decision) {
	claims := make([]sluice.Claim, len(seqs))
	decisions := make([]sluice.Decision, len(seqs))
	for i, seq := range seqs {
		claims[i] = claimed(max(seq, -seq))
		order := claims[i].Order
		claims[i].Order = "" // a repeat gets that of the first time
		decisions[i] = sluice.Decision{Code: sluice.SoldOut}
		if seq != 0 {
			decisions[i] = sluice.Decision{
				Code: sluice.Accepted, Seq: max(seq, -seq), Epoch: epoch, Terms: 1, At: time.Unix(0, 0), Replayed: seq < 0,
				Order: order,
			}
		}
		if seq < 0 { // its token may say something else
			decisions[i].Counters, claims[i].Counters = claims[i].Counters, "home:2=9"
		}
	}
	return claims, decisions
}

// have returns what is remembered, as epoch:first+count.
func have(m *Memory, until int64) string {
	text := ""
	for _, e := range m.Until("sale", until) {
		text += fmt.Sprintf(" %d:%d+%d", e.Epoch, e.FirstSeq, len(e.Claims))
		for i, c := range e.Claims {
			if want := claimed(e.FirstSeq + int64(i)); c != want {
				text += fmt.Sprintf("(%+v for %+v)", c, want)
			}
		}
	}
	return text
}

func TestMemory(t *testing.T) {
	m := NewMemory(10)
	tell := func(epoch int64, seqs ...int64) {
		claims, decisions := decided(epoch, seqs...)
		m.Decided("sale", "a", claims, decisions)
	}
	check := func(step, want string) {
		t.Helper()
		if got := have(m, 9); got != want {
			t.Errorf("%s: remembers%s, want%s", step, got, want)
		}
	}
	tell(1, 0, 0)
	check("refusals leave nothing", "")
	tell(1, 6, 0, 7, 8)
	check("one call is one entry", " 1:6+3")
	tell(4, -2)
	check("a repeat may be of a call whose reply was lost", " 1:6+3 4:2+1")
	tell(0, -3)
	check("a repeat of what no server writes is damage", " 1:6+3 4:2+1")
	later := func() time.Time { return time.Now().Add(time.Minute) }
	m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: 4, Seq: 2}, later())
	check("it is stored", " 1:6+3")
	tell(1, 20, 21, 30)
	check("a gap begins an entry", " 1:6+3 1:20+2 1:30+1")

	read := func(epoch, seq, backlog int64) {
		m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: epoch, Seq: seq, Backlog: backlog}, later())
	}
	read(1, 30, 1)
	check("entries wait in the journal", " 1:6+3 1:20+2 1:30+1")
	read(1, 20, 0)
	check("an entry that ends later is kept", " 1:20+2 1:30+1")
	m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: 1, Seq: 99, Fence: "lost"}, later())
	m.Read(&port.Reading{Sale: "sale"}, later())
	m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: 1, Seq: 99}, time.Now().Add(-time.Minute))
	check("a fenced or missing sale proves nothing, nor does an answer to an older question", " 1:20+2 1:30+1")
	read(2, 50, 0)
	check("a later epoch proves nothing of this one", " 1:20+2 1:30+1")
	tell(2, 1, 2, 3, 4, 5, 6, 7, 8)
	check("the oldest are forgotten", " 1:30+1 2:1+8")
	if got := have(m, 1); got != " 1:30+1" {
		t.Errorf("until epoch 1:%s", got)
	}
	saved := m.Until("sale", 1)
	tell(1, 40)
	m.Saved("sale", 1, saved)
	check("what was remembered meanwhile is not saved", " 1:40+1 2:1+8")
	m.Saved("sale", 1, m.Until("sale", 1))
	check("an old epoch is forgotten", " 2:1+8")
	read(2, 8, 0)
	check("all is stored", "")
	tell(3, 1)
	check("and it goes on", " 3:1+1")
}

// What a rebuild has saved is kept for its minute, where the store may lose it: the next
// rebuild gets it again, and what only looks for claims that are not saved does not (I5).
func TestMemoryKeepsWhatIsSaved(t *testing.T) {
	m := NewMemory(10)
	m.Keep(time.Minute)
	claims, decisions := decided(1, 1, 2)
	m.Decided("sale", "a", claims, decisions)
	if !m.Before("sale", 2) || len(m.Unsaved("sale", 2)) != 1 {
		t.Error("a claim that is not saved is not known")
	}
	m.Saved("sale", 2, m.Until("sale", 1))
	if m.Before("sale", 2) || len(m.Unsaved("sale", 2)) != 0 {
		t.Error("a claim that is saved is to be saved again")
	}
	if !m.Before("sale", 3) || len(m.Unsaved("sale", 3)) != 1 {
		t.Error("after another rebuild it is not looked for again")
	}
	read := func(later time.Duration) {
		m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: 2, Seq: 1}, time.Now().Add(later))
	}
	read(30 * time.Second)
	if got := have(m, 1); got != " 1:1+2" {
		t.Errorf("half a minute later:%s", got)
	}
	read(2 * time.Minute)
	if got := have(m, 9); got != "" {
		t.Errorf("two minutes later:%s", got)
	}
}

// Who is answered again may rely on it for as long as after the first answer (I4).
func TestMemoryOfARepeatBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(10)
		m.Keep(time.Minute)
		tell := func(seqs ...int64) {
			claims, decisions := decided(1, seqs...)
			m.Decided("sale", "a", claims, decisions)
		}
		read := func() string {
			m.Read(&port.Reading{Sale: "sale", Loaded: true, Epoch: 1, Seq: 9}, time.Now())
			return have(m, 9)
		}
		tell(1, 2)
		tell(3, -5)
		time.Sleep(50 * time.Second)
		tell(-2, -5)
		time.Sleep(50 * time.Second)
		if got, want := read(), " 1:1+2 1:5+1"; got != want {
			t.Errorf("remembers%s, want%s", got, want)
		}
		time.Sleep(11 * time.Second)
		if got := read(); got != "" {
			t.Errorf("a minute after the repeats:%s", got)
		}
	})
}

// A repeat is remembered as the first answer is, and once: a buyer who repeats
// one claim for ever pushes nothing out (I4, I5).
func TestMemoryKeepsEachOrderOnce(t *testing.T) {
	m := NewMemory(4)
	tell := func(epoch int64, seqs ...int64) {
		claims, decisions := decided(epoch, seqs...)
		m.Decided("sale", "a", claims, decisions)
	}
	tell(1, 1, 2, 3)
	for range 10 {
		tell(1, -2, -2, -7, -1)
	}
	if got, want := have(m, 9), " 1:1+3 1:7+1"; got != want {
		t.Errorf("remembers%s, want%s", got, want)
	}
	tell(2, 2) // claimed again by a rebuild, which is another promise
	if got, want := have(m, 9), " 1:7+1 2:2+1"; got != want {
		t.Errorf("remembers%s, want%s", got, want)
	}
	tell(1, -1) // what was forgotten may come back
	if got, want := have(m, 9), " 1:1+1 1:7+1 2:2+1"; got != want {
		t.Errorf("remembers%s, want%s", got, want)
	}
	m.Saved("sale", 1, m.Until("sale", 1))
	tell(1, -7)
	if got, want := have(m, 9), " 1:7+1 2:2+1"; got != want {
		t.Errorf("remembers%s, want%s", got, want)
	}
}

// Calls may overtake each other, a repeat the claim itself, and a ledger that has lost data
// gives places again: each promise is remembered once (I4, I5).
func TestMemoryOfWhatIsOutOfOrder(t *testing.T) {
	m := NewMemory(2000)
	tell := func(seqs ...int64) {
		claims, decisions := decided(1, seqs...)
		m.Decided("sale", "a", claims, decisions)
	}
	check := func(step, want string, claims int) {
		t.Helper()
		if got := have(m, 9); got != want {
			t.Errorf("%s: remembers%s, want%s", step, got, want)
		}
		if got := m.Claims("sale"); got != claims {
			t.Errorf("%s: %d claims are remembered, want %d", step, got, claims)
		}
		r := m.sales["sale"]
		if r == nil {
			return
		}
		n := 0
		for i := range r.apart {
			n += r.apart[i].claims
		}
		if n != len(r.apartOf) {
			t.Errorf("%s: %d claims are apart, and %d are found", step, n, len(r.apartOf))
		}
	}
	tell(4, 5)
	tell(2, -2, 3)
	tell(8, 9)
	for range 10 {
		tell(-4, -2, -7, -5, -3, -2, -1, -9)
	}
	check("calls that overtook", " 1:1+1 1:2+2 1:4+2 1:7+1 1:8+2", 8)
	tell(6, 7)
	check("the repeat came first", " 1:1+1 1:2+2 1:4+2 1:6+1 1:7+1 1:8+2", 9)

	for n, seqs := range [][]int64{{4, 5}, {8, 9}} { // the second by another server, so the repeat comes first
		claims, decisions := decided(1, seqs...)
		for i := range decisions {
			decisions[i].Order = sluice.SaleID("sale").Order(fmt.Sprintf("%032x", 100*seqs[i]))
		}
		for again := range 3 {
			for i := range decisions {
				decisions[i].Replayed = again != n
			}
			m.Decided("sale", "a", claims, decisions)
			tell(-5)
			if got, want := m.Claims("sale"), 11+2*n; got != want {
				t.Errorf("places were given again, and %d claims are remembered, want %d", got, want)
			}
		}
	}
	m.Saved("sale", 1, m.Until("sale", 1))
	check("all is saved", "", 0)
	if tell(0); len(m.sales) != 0 {
		t.Error("a refusal is remembered")
	}

	want := ""
	for n := range int64(2 * overtaken) { // far more than calls under way
		tell(1000 - 2*n)
		want = fmt.Sprintf(" 1:%d+1", 1000-2*n) + want
	}
	for n := range int64(2 * overtaken) {
		tell(2*n - 1000)
	}
	check("backwards", want, 2*overtaken)
}

// The oldest entries are forgotten, whatever was repeated since.
func TestMemoryForgetsTheOldest(t *testing.T) {
	for _, c := range []struct {
		calls [][]int64
		want  string
	}{
		{[][]int64{{-7}, {1, 2}, {-7}, {3, 4}}, " 1:1+2 1:3+2"},
		{[][]int64{{1, 2}, {-7}, {-1}, {3, 4}}, " 1:3+2 1:7+1"},
	} {
		m := NewMemory(4)
		for _, seqs := range c.calls {
			claims, decisions := decided(1, seqs...)
			m.Decided("sale", "a", claims, decisions)
		}
		if got := have(m, 9); got != c.want {
			t.Errorf("%v: remembers%s, want%s", c.calls, got, c.want)
		}
		if r := m.sales["sale"]; len(r.apart) != len(r.apartOf) {
			t.Errorf("%v: %d are apart, %d of them found", c.calls, len(r.apart), len(r.apartOf))
		}
	}
}

// Calls overtake each other, the ledger loses data and gives places again, buyers repeat, and
// epochs begin, all at random: a server remembers each promise that it gave and has not saved,
// and none twice.
func TestMemoryIsWhatWasTold(t *testing.T) {
	type told struct {
		claim    sluice.Claim
		decision sluice.Decision
	}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := NewMemory(1 << 20)
		var all []told        // that the ledger accepted
		var underWay [][]told // calls that are not told yet
		want := map[promise]bool{}
		epoch, seq := int64(1), int64(1)
		tell := func(call []told, replayed bool) {
			claims, decisions := make([]sluice.Claim, len(call)), make([]sluice.Decision, len(call))
			for i, one := range call {
				claims[i], decisions[i] = one.claim, one.decision
				decisions[i].Replayed = replayed
				if one.decision.Code == sluice.Accepted {
					want[promise{one.decision.Order, one.decision.Epoch}] = true
				}
			}
			m.Decided("sale", "a", claims, decisions)
		}
		for step := range 60 {
			switch random.IntN(10) {
			case 0, 1, 2, 3, 4: // a call
				at := time.UnixMilli(int64(1_000_000 + step))
				var call []told
				for range 1 + random.IntN(300) {
					one := told{claim: claimed(int64(len(all) + 1))}
					if one.decision.Code = sluice.SoldOut; random.IntN(20) > 0 {
						one.decision = sluice.Decision{
							Code: sluice.Accepted, Order: one.claim.Order, Quantity: one.claim.Quantity, Epoch: epoch, Seq: seq,
							Terms: 1, At: at,
						}
						seq++
						all = append(all, one)
					}
					call = append(call, one)
				}
				underWay = append(underWay, call)
			case 5, 6: // repeats, also of what other servers were told
				var call []told
				for range min(len(all), random.IntN(50)) {
					call = append(call, all[random.IntN(len(all))])
				}
				tell(call, true)
			case 7: // the ledger has lost some, and gives their places again
				if seq -= int64(random.IntN(200)); seq < 1 {
					seq = 1
				}
			case 8:
				if random.IntN(3) == 0 {
					epoch, seq = epoch+1, 1
				}
			case 9:
				until := epoch - int64(random.IntN(2))
				m.Saved("sale", epoch, m.Until("sale", until))
				for id := range want {
					if id.epoch <= until {
						delete(want, id)
					}
				}
			}
			for len(underWay) > 0 && random.IntN(3) > 0 {
				i := random.IntN(len(underWay))
				tell(underWay[i], false)
				underWay = slices.Delete(underWay, i, i+1)
			}
			got := map[promise]int{}
			for _, e := range m.Until("sale", epoch) {
				for _, c := range e.Claims {
					got[promise{c.Order, e.Epoch}]++
				}
			}
			for id := range want {
				if got[id] != 1 {
					t.Fatalf("seed %d, step %d: %v is remembered %d times", seed, step, id, got[id])
				}
			}
			if len(got) != len(want) || m.Claims("sale") != len(want) {
				t.Fatalf("seed %d, step %d: %d are remembered, %d counted, want %d", seed, step, len(got), m.Claims("sale"),
					len(want))
			}
		}
	}
}

// BenchmarkMemory remembers batches of 96 claims in a full memory: accepted for the first time,
// and repeats, in any order, of what is remembered and of what is not.
//
//	go test ./internal/settle -run '^$' -bench Memory -benchtime 5000x
func BenchmarkMemory(b *testing.B) {
	const batch = 96
	all := DefaultMemory - DefaultMemory%batch
	call := func(seq func(i int) int64, repeats bool) ([]sluice.Claim, []sluice.Decision) {
		seqs := make([]int64, batch)
		for i := range seqs {
			if seqs[i] = seq(i); repeats {
				seqs[i] = -seqs[i]
			}
		}
		return decided(1, seqs...)
	}
	for _, c := range []struct {
		name           string
		filled, repeat bool
	}{{"first", true, false}, {"repeats", true, true}, {"repeats of others", false, true}} {
		b.Run(c.name, func(b *testing.B) {
			m := NewMemory(0)
			for from := 0; c.filled && from < all; from += batch {
				claims, decisions := call(func(i int) int64 { return int64(from + i + 1) }, false)
				m.Decided("sale", "a", claims, decisions)
			}
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				claims, decisions := call(func(i int) int64 {
					if c.repeat {
						return 1 + rand.Int64N(int64(all))
					}
					return int64(all + n*batch + i + 1)
				}, c.repeat)
				b.StartTimer()
				m.Decided("sale", "a", claims, decisions)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/claim")
		})
	}
}
