package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// shared is a ledger of several servers: it decides, and counts permits as a
// ledger does.
type shared struct {
	takes time.Duration // a decision

	mu      sync.Mutex
	total   int64
	taken   int64
	limited map[sluice.BuyerID]bool // at their limit
	reached int                     // claims, and of them
	over    int                     // those of buyers at their limit
	leased  map[*desk]int64
	ends    map[*desk]time.Time
	calls   int
	slow    time.Duration
	fail    error
	most    int64 // permits in use at a time, as counted here
}

// desk is the ledger for one server.
type desk struct {
	of   *shared
	dead chan struct{} // the server is: what it asked for does not come until it is closed
}

func (s *shared) lock(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// count returns one of the counts.
func (s *shared) count(of *int) (n int) {
	s.lock(func() { n = *of })
	return n
}

func newShared(total int64) *shared {
	return &shared{
		takes: time.Millisecond, total: total, leased: map[*desk]int64{}, ends: map[*desk]time.Time{},
		limited: map[sluice.BuyerID]bool{},
	}
}

func (d *desk) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	s := d.of
	time.Sleep(s.takes)
	if d.dead != nil {
		<-d.dead
		return nil, sluice.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	decisions := make([]sluice.Decision, len(claims))
	for i, c := range claims {
		s.reached++
		switch {
		case s.limited[c.Buyer]:
			s.over++
			decisions[i].Code = sluice.BuyerLimit
		case s.taken == s.total:
			decisions[i].Code = sluice.SoldOut
		default:
			s.taken++
			decisions[i] = sluice.Decision{Code: sluice.Accepted, Order: c.Order, Quantity: 1}
		}
	}
	return decisions, nil
}

func (d *desk) Permits(_ context.Context, _ sluice.SaleID, ask sluice.PermitAsk) (int64, error) {
	s := d.of
	s.mu.Lock()
	slow := s.slow
	s.mu.Unlock()
	time.Sleep(200*time.Microsecond + slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		return 0, s.fail
	}
	others := int64(0)
	for desk, n := range s.leased {
		if desk != d && time.Now().Before(s.ends[desk]) {
			others += n
		}
	}
	n := max(min(ask.Want, sluice.PermitsOf(ask.Ratio, s.total-s.taken)-others-ask.Used), 0)
	s.leased[d], s.ends[d] = ask.Used+n, time.Now().Add(sluice.PermitLease)
	s.most = max(s.most, others+ask.Used+n)
	return n, nil
}

var sharedRatio = sluice.Rules{AdmissionRatio: 1.5, AdmissionShared: true}

// servers are gates of one shop, each with the ledger at a desk of its own. Before
// the bubble ends, and its time stands still, they may return their permits.
func (s *shared) servers(t *testing.T, n int) (gates []*Gate, desks []*desk) {
	t.Cleanup(func() { time.Sleep(time.Minute) })
	for range n {
		d := &desk{of: s}
		view := open(sharedRatio)
		view.Reading.Terms.Total = s.total
		gates, desks = append(gates, gateBefore(d, view, BatcherOptions{Permitter: d})), append(desks, d)
	}
	return gates, desks
}

// rush lets buyers try at the gates in turn for so long. Those who are refused for
// the want of a permit come back a second later, until there is a decision.
func rush(t *testing.T, gates []*Gate, buyers int, lasts time.Duration) *sync.WaitGroup {
	var crowd sync.WaitGroup
	for i := range buyers {
		crowd.Go(func() {
			time.Sleep(lasts * time.Duration(i) / time.Duration(buyers) / 100) // most come at once
			if i%2 == 0 {
				time.Sleep(lasts * time.Duration(i) / time.Duration(buyers))
			}
			for {
				switch got := try(gates[i%len(gates)], sluice.BuyerID(fmt.Sprintf("buyer-%d", i)), home); got {
				case "accepted", "sold_out", "buyer_limit":
					return
				case "overloaded 1s":
				default:
					t.Errorf("%s", got)
					return
				}
				time.Sleep(time.Second)
			}
		})
	}
	return &crowd
}

// sells waits until the sale is sold out, and then has every server know it.
func (s *shared) sells(t *testing.T, gates []*Gate, within time.Duration) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		done := s.taken == s.total
		s.mu.Unlock()
		if done {
			break
		}
		if time.Since(begun) > within {
			t.Errorf("after %v %d of %d units are sold", within, s.taken, s.total)
			break
		}
	}
	time.Sleep(20 * time.Millisecond)
	for _, g := range gates {
		show(g, sold(func(v *View) {
			v.Sale.Rules, v.holders, v.Reading.Epoch, v.Reading.Seq = sharedRatio, nil, 1, 0
			v.Sale.Epoch, v.Sale.LoadedEpoch = 1, 1
			v.Reading.Terms.Total, v.Reading.Taken = s.total, s.total
			v.Asked, v.Received = g.now().Add(time.Hour), g.now().Add(time.Hour)
		}))
	}
}

// 24,000 buyers and 200 units on three servers.
func TestPermitsOfARush(t *testing.T) {
	for name, limited := range map[string]bool{"": false, "half of the buyers at their limit": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShared(200)
				for i := range 24_000 {
					s.limited[sluice.BuyerID(fmt.Sprintf("buyer-%d", i))] = limited && (i/7)%2 == 0
				}
				gates, _ := s.servers(t, 3)
				crowd := rush(t, gates, 24_000, time.Second)
				s.sells(t, gates, 2*time.Second)
				crowd.Wait()
				s.check(t, gates)
			})
		})
	}
}

// check is what holds after every rush.
func (s *shared) check(t *testing.T, gates []*Gate) {
	t.Helper()
	time.Sleep(time.Second) // what is in use is given back
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken != 200 || s.most > 300 || s.reached-s.over > 320 {
		t.Errorf("%d units sold, %d permits in use at a time, %d claims reached the ledger and %d were over a limit",
			s.taken, s.most, s.reached, s.over)
	}
	var refused int64
	for i, g := range gates {
		refused += g.Refused()["permit"]
		if n := g.batcher.Permits(); n != 0 {
			t.Errorf("server %d uses %d permits after all", i, n)
		}
	}
	if refused < 1000 {
		t.Errorf("%d claims were refused for the want of a permit", refused)
	}
	if s.calls > s.reached+2000 {
		t.Errorf("%d calls for permits", s.calls)
	}
	t.Logf("%d claims reached the ledger, %d over a limit; %d permits in use at most, %d calls for them; %d refused",
		s.reached, s.over, s.most, s.calls, refused)
}

// The ledger is sold out, and the boards do not know it yet: of those who keep trying, few
// learn it. Units that return are sold as soon as their cooldown is over.
func TestFewLearnThatASaleIsSoldOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(1)
		gates, _ := s.servers(t, 3)
		buyer := 0
		trying := func(lasts time.Duration) (codes map[string]int) {
			codes = map[string]int{}
			for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Millisecond) {
				buyer++
				codes[try(gates[buyer%3], sluice.BuyerID(fmt.Sprint("buyer-", buyer)), home)]++
			}
			return codes
		}
		if got := trying(2 * time.Second); got["accepted"] != 1 || got["sold_out"] < 3 || got["sold_out"] > 3*9 {
			t.Errorf("%v, want one who buys and at most four of a server and second who learn that nothing is left", got)
		}
		s.lock(func() { s.total = 2 })
		if got := trying(sluice.RefusalLease); got["accepted"] != 1 {
			t.Errorf("a unit has come back: %v", got)
		}
	})
}

// A server dies, or hangs, with permits in use: the others have them after the
// lease, and sell the rest.
func TestPermitsOfADeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(200)
		gates, desks := s.servers(t, 3)
		desks[0].dead = make(chan struct{})
		for i := range 300 {
			go try(gates[0], sluice.BuyerID(fmt.Sprintf("first-%d", i)), home)
			if i == 0 { // a batch of one claim; two batches are on their way at most
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(10 * time.Millisecond)
		if n := gates[0].batcher.Permits(); n < 250 {
			t.Errorf("the server uses %d permits", n)
		}
		crowd := rush(t, gates[1:], 24_000, 8*time.Second)
		time.Sleep(sluice.PermitLease - 100*time.Millisecond)
		s.lock(func() {
			if s.taken > 150 {
				t.Errorf("%d units are sold beside those permits", s.taken)
			}
		})
		s.sells(t, gates, 2*time.Second)
		crowd.Wait()
		s.check(t, gates[1:])
		close(desks[0].dead)
		time.Sleep(time.Minute)
	})
}

// What a server does by itself: one call for a batch, a pause after a short
// one, and the last permits are given back.
func TestPermitsTakeOneCallABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(4) // six permits
		gates, desks := s.servers(t, 2)
		g := gates[0]
		if got := try(g, "ann", home); got != "accepted" {
			t.Fatal(got)
		}
		synctest.Wait()
		time.Sleep(time.Millisecond)
		s.lock(func() {
			if s.calls != 2 || s.leased[desks[0]] != 0 { // and one that returns it
				t.Errorf("%d calls for one claim", s.calls)
			}
			for i := range 16 {
				s.limited[sluice.BuyerID(fmt.Sprint("bob-", i))] = true
			}
			// One is left, so that a batch of several falls short.
			s.leased[desks[1]], s.ends[desks[1]] = 3, time.Now().Add(sluice.PermitLease)
		})
		var crowd sync.WaitGroup
		codes := map[string]int{}
		var mu sync.Mutex
		for i := range 16 { // six get in: a batch of one, perhaps, and one of several
			crowd.Go(func() {
				code := try(g, sluice.BuyerID(fmt.Sprint("bob-", i)), home)
				mu.Lock()
				codes[code]++
				mu.Unlock()
			})
		}
		crowd.Wait()
		if n := codes["buyer_limit"]; n < 1 || n > 2 || n+codes["overloaded 1s"] != 16 {
			t.Errorf("%v", codes)
		}
		calls := s.count(&s.calls)
		for range 100 {
			if got := try(g, "eve", home); got != "overloaded 1s" {
				t.Fatalf("during the pause: %s", got)
			}
		}
		time.Sleep(time.Millisecond)
		if n := s.count(&s.calls) - calls; n > 1 { // what ended
			t.Errorf("%d calls during the pause", n)
		}
		time.Sleep(30 * time.Millisecond)
		for _, buyer := range []sluice.BuyerID{"eve", "joe", "sue"} {
			if got := try(gates[1], buyer, home); got != "accepted" {
				t.Errorf("%s: %s", buyer, got)
			}
		}
		time.Sleep(time.Second)
		s.lock(func() {
			if s.taken != 4 || s.most > 6 {
				t.Errorf("%d taken, %d permits in use at most", s.taken, s.most)
			}
		})
	})
}

// A known holder needs no permit (I4), and neither does a claim under another rule.
func TestWhoNeedsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(100)
		s.fail = errors.New("down")
		gates, _ := s.servers(t, 1)
		g := gates[0]
		view := func(change func(*View)) {
			v := open(sharedRatio)
			v.holders = &holders{buyers: map[uint64]struct{}{hashBuyer("ann"): {}}}
			change(v)
			show(g, v)
		}
		for _, c := range []struct {
			name   string
			change func(*View)
			buyer  sluice.BuyerID
			want   string
		}{
			{"a stranger", func(*View) {}, "bob", "unanswered"},
			{"a holder", func(*View) {}, "ann", "accepted"},
			{"without a total", func(v *View) { v.Reading.Terms.Total = sluice.Unlimited }, "bob", "accepted"},
			{"by server", func(v *View) { v.Sale.Rules.AdmissionShared = false }, "bob", "accepted"},
			{"no rule", func(v *View) { v.Sale.Rules = sluice.Rules{} }, "bob", "accepted"},
			{"a sale known from before", func(v *View) { v.remembered = true }, "bob", "accepted"},
		} {
			time.Sleep(time.Second)
			view(c.change)
			if got := try(g, c.buyer, home); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
		if got := refusedBy(g); got["permit"] != 1 || len(got) != 1 {
			t.Errorf("refused by %v", got)
		}
	})
}

// A buyer who tries many times at once has one permit in each batch.
func TestOnePermitForEachBuyer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(100)
		gates, _ := s.servers(t, 1)
		codes := make(chan string, 16)
		for range 16 {
			go func() { codes <- try(gates[0], "ann", home) }()
		}
		passed := 0
		for range 16 {
			switch got := <-codes; got {
			case "accepted":
				passed++
			case "overloaded 1s":
			default:
				t.Error(got)
			}
		}
		if passed < 1 || passed > 3 { // one in the first batch, and in each of two that may be in flight
			t.Errorf("%d of 16 tries at once had a permit", passed)
		}
		if got := try(gates[0], "bob", home); got != "accepted" {
			t.Errorf("another buyer, without a pause: %s", got)
		}
	})
}

// A buyer whom a limit refuses asks the ledger once a second: their tries take no
// permits from others. A repeat of an accepted claim passes all the same (I4), and
// without a shared ratio so does everything.
func TestAFloodOfABuyerAtTheLimit(t *testing.T) {
	for _, shared := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newShared(100)
			gates, _ := s.servers(t, 1)
			g := gates[0]
			if !shared {
				show(g, open(sluice.Rules{AdmissionRatio: 1.5}))
			}
			if got := try(g, "ann", home); got != "accepted" {
				t.Fatal(got)
			}
			s.lock(func() { s.limited["ann"] = true })
			other := func() string {
				d, err := g.Claim(t.Context(), "sale", sluice.Claim{Buyer: "ann", Key: "key-00002", Quantity: 1}, Caller{})
				if err != nil {
					t.Error(err)
				}
				return d.Code.String()
			}
			want, asked := "rate_limited", 1+3
			if !shared {
				want, asked = "buyer_limit", 1+3*20
			}
			for range 3 {
				if got := other(); got != "buyer_limit" {
					t.Errorf("the first of a second: %s", got)
				}
				for range 19 {
					if got := other(); got != want {
						t.Errorf("shared: %t: %s, want %s", shared, got, want)
					}
				}
				time.Sleep(time.Second)
			}
			if n := s.count(&s.reached); n != asked {
				t.Errorf("%d claims reached the ledger, want %d", n, asked)
			}
			other()
			s.lock(func() { s.limited["ann"] = false })
			if got := try(g, "ann", home); got != "accepted" { // the stub accepts a repeat as it does a claim
				t.Errorf("the repeat: %s", got)
			}
			if got := try(g, "bob", home); got != "accepted" {
				t.Errorf("another buyer: %s", got)
			}
		})
	}
}

// Permits that cannot be counted let no claim pass; what the ledger says decides
// the answer.
func TestPermitsFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(100)
		gates, desks := s.servers(t, 1)
		g, failed := gates[0], 0
		g.batcher.opts.Failed = func(sluice.SaleID, error) { failed++ }
		for fail, want := range map[error]string{
			errors.New("down"):      "unanswered",
			sluice.ErrNotLoaded:     "unavailable",
			sluice.ErrRefusesWrites: ErrRefusesWrites.Error() + ": " + sluice.ErrRefusesWrites.Error(),
		} {
			time.Sleep(time.Second)
			s.lock(func() { s.fail = fail })
			if got := try(g, "ann", home); got != want {
				t.Errorf("%v: %s, want %s", fail, got, want)
			}
		}
		if failed != 2 { // a sale that is not loaded has a rebuild, which the log speaks of
			t.Errorf("%d failures are reported, want 2", failed)
		}
		s.lock(func() { s.fail = nil })
		time.Sleep(time.Second)
		// The answer comes after the lease, as when the server was frozen.
		s.lock(func() { s.slow = sluice.PermitLease })
		if got := try(g, "ann", home); got != "overloaded 1s" || s.count(&s.reached) != 0 {
			t.Errorf("after the lease: %s, or the claim is at the ledger", got)
		}
		s.lock(func() { s.slow = 0 })
		time.Sleep(time.Second)
		if got := try(g, "ann", home); got != "accepted" {
			t.Errorf("then: %s", got)
		}
		without := gateBefore(desks[0], open(sharedRatio), BatcherOptions{})
		if got := try(without, "ann", home); got != "unanswered" {
			t.Errorf("without a permitter: %s", got)
		}
		time.Sleep(time.Minute)
		if n := g.batcher.Permits(); n != 0 || g.batcher.slots.Load() != 0 {
			t.Errorf("%d permits and %d slots are leaked", n, g.batcher.slots.Load())
		}
	})
}

// A batch is not sent again after its lease: the ledger may have given its
// permits to others.
func TestNoRepeatAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // permits are returned before the time stands still
		ledger, s := &slowLedger{delay: 2 * time.Second}, newShared(100)
		ledger.fail.Store(9)
		g := gateBefore(ledger, open(sharedRatio), BatcherOptions{Permitter: &desk{of: s}})
		if got := try(g, "ann", home); len(ledger.sizes()) != 2 {
			t.Errorf("%s after %d attempts, want 2 within %v", got, len(ledger.sizes()), sluice.PermitLease)
		}
		time.Sleep(time.Second)
		if n := g.batcher.Permits(); n != 0 {
			t.Errorf("%d permits are leaked", n)
		}
	})
}

// The lease of a batch ends before it is sent: the claims that need a permit are
// refused, and the others are decided, a repeat of an accepted claim among them (I4).
func TestWhatNeedsNoPermitOutlivesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(100)
		gates, _ := s.servers(t, 1)
		b := gates[0].batcher
		claim := func(buyer sluice.BuyerID, bound Bound) (code sluice.Code, err error) {
			slot, err := b.Acquire("sale", bound)
			if err != nil {
				return code, err
			}
			d, _, err := slot.Claim(t.Context(), &sluice.Claim{Buyer: buyer, Key: "key-00001", Quantity: 1}, netip.Addr{},
				sluice.Rates{})
			return d.Code, err
		}
		s.lock(func() { s.slow = sluice.PermitLease })
		var crowd sync.WaitGroup
		crowd.Go(func() { _, _ = claim("first", unbound) }) // while it is decided the next batch gathers
		synctest.Wait()
		for i, bound := range []Bound{unbound, {Most: 10, Ratio: 1.5}, unbound} {
			crowd.Go(func() {
				code, err := claim(sluice.BuyerID(fmt.Sprint(i)), bound)
				if bound.Ratio > 0 && !errors.Is(err, errNoPermit) || bound.Ratio == 0 && code != sluice.Accepted {
					t.Errorf("ratio %v: %v, %v", bound.Ratio, code, err)
				}
			})
		}
		crowd.Wait()
		time.Sleep(time.Minute)
		if n := b.Permits(); n != 0 || b.slots.Load() != 0 || s.count(&s.reached) != 3 {
			t.Errorf("%d permits and %d slots are leaked; %d claims reached the ledger", n, b.slots.Load(), s.count(&s.reached))
		}
	})
}

// A wall clock that is set back must not make a pause longer.
func TestAPauseIsOfTheMonotonicClock(t *testing.T) {
	var p permits
	p.begin(time.Minute)
	p.begin(time.Second) // makes none shorter
	if until := p.pause.Load(); !p.paused() || time.Until(*until) < 2*time.Second ||
		!strings.Contains(until.String(), " m=") {
		t.Errorf("until %v, want a reading of the monotonic clock", until)
	}
}
