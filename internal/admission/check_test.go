package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// open is a view of a sale that is open, with units left.
func open(rules sluice.Rules) *View {
	return sold(func(v *View) {
		v.Sale.Rules, v.holders = rules, nil
		v.Reading.Taken = 0
	})
}

// gateBefore returns a gate in front of the ledger, whose board shows the view
// and nothing else.
func gateBefore(ledger port.Decider, view *View, opts BatcherOptions) *Gate {
	board := NewBoard(noReadings{}, &rows{}, BoardOptions{})
	board.SetServers(1)
	g := NewGate(board, NewBatcher(ledger, opts), noArchive{})
	start := time.Now()
	g.now = func() time.Time { return clock.Add(time.Since(start)) }
	show(g, view)
	return g
}

// put puts a view on the board.
func (b *Board) put(view *View) {
	e := &boardSale{id: view.Sale.ID, board: b, sale: view.Sale, index: -1}
	e.view.Store(view)
	b.sales.Store(e.id, e)
}

// show puts another view on the board.
func show(g *Gate, view *View) {
	g.board.put(view)
}

type noArchive struct{}

func (noArchive) Claim(context.Context, sluice.ClaimID) (sluice.Order, error) {
	return sluice.Order{}, sluice.ErrOrderNotFound
}

var home = netip.MustParseAddr("203.0.113.9")

// try makes one try, and says how it ended: the code, and after rate_limited
// and overloaded how long to wait.
func try(g *Gate, buyer sluice.BuyerID, from netip.Addr) string {
	d, err := g.Claim(context.Background(), "sale", sluice.Claim{Buyer: buyer, Key: "key-00001", Quantity: 1},
		sluice.Caller{Address: from})
	switch {
	case errors.Is(err, ErrUnanswered):
		return "unanswered"
	case err != nil:
		return err.Error()
	case d.RetryAfter != 0:
		return fmt.Sprintf("%s %v", d.Code, d.RetryAfter)
	}
	return d.Code.String()
}

// refusedBy are the counts that are not zero.
func refusedBy(g *Gate) map[string]int64 {
	all := g.Refused()
	maps.DeleteFunc(all, func(_ string, n int64) bool { return n == 0 })
	return all
}

func TestBuyerRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{}
		g := gateBefore(ledger, open(sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 2, PerS: 10}}), BatcherOptions{})
		step := func(after time.Duration, buyer sluice.BuyerID, want string) {
			t.Helper()
			time.Sleep(after)
			if got := try(g, buyer, home); got != want {
				t.Errorf("%s: %s, want %s", buyer, got, want)
			}
		}
		step(0, "ann", "accepted")
		step(0, "ann", "accepted")
		step(10*time.Millisecond, "bob", "accepted")
		for i := range 4 { // trying on costs no time
			step(time.Second, "ann", fmt.Sprintf("rate_limited %v",
				5*time.Second-time.Duration(i+1)*time.Second-10*time.Millisecond))
		}
		step(0, "bob", "accepted") // who did nothing
		step(time.Second-10*time.Millisecond, "ann", "accepted")
		step(0, "ann", "rate_limited 5s")

		// The merchant makes it faster, and takes it away.
		show(g, open(sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 1, PerS: 1}}))
		step(0, "ann", "accepted")
		step(0, "ann", "rate_limited 1s")
		show(g, open(sluice.Rules{}))
		step(0, "ann", "accepted")
		if got := refusedBy(g); len(got) != 1 || got["buyer_rate"] != 6 {
			t.Errorf("refused by %v", got)
		}
		if n := len(ledger.sizes()); n != 7 {
			t.Errorf("the ledger was asked %d times, want 7", n)
		}
	})
}

// What this server knows costs the buyer nothing; what the ledger or a later
// check refuses does.
func TestWhichTriesCount(t *testing.T) {
	rules := sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 2, PerS: 10}}
	synctest.Test(t, func(t *testing.T) {
		g := gateBefore(&refusingLedger{code: sluice.SoldOut}, open(rules), BatcherOptions{})
		now := clock.Add(10 * time.Millisecond)
		g.now = func() time.Time { return now }
		show(g, sold(func(v *View) { v.Sale.Rules = rules }))
		for range 5 {
			if got := try(g, "ann", home); got != "sold_out" {
				t.Fatal(got)
			}
		}
		show(g, open(rules)) // now the ledger says so
		for i, want := range []string{"sold_out", "sold_out", "rate_limited 5s", "rate_limited 5s"} {
			if got := try(g, "ann", home); got != want {
				t.Errorf("try %d: %s, want %s", i, got, want)
			}
		}
		// Who is not let in is not heard more often either.
		g.Guard(&Eligibility{Lists: nil}, forgetful{})
		show(g, open(sluice.Rules{BuyerRate: rules.BuyerRate, Eligibility: sluice.EligibleToken}))
		const notInvited = `this sale is for invited buyers: the token's "sluice_sales" does not name it`
		for i, want := range []string{notInvited, notInvited, "rate_limited 5s", "rate_limited 5s"} {
			if got := try(g, "eve", home); got != want {
				t.Errorf("try %d of a buyer who is not let in: %s, want %s", i, got, want)
			}
		}
	})
}

// refusingLedger refuses everything.
type refusingLedger struct{ code sluice.Code }

func (l *refusingLedger) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	decisions := make([]sluice.Decision, len(claims))
	for i := range decisions {
		decisions[i].Code = l.code
	}
	return decisions, nil
}

// forgetful remembers no claim.
type forgetful struct{ port.Reader }

func (forgetful) Recall(context.Context, sluice.ClaimID) (port.Record, error) {
	return port.Record{}, sluice.ErrOrderNotFound
}

func TestAddressRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limited = "rate_limited 5s"
		for _, c := range []struct {
			name     string
			from     []string // each buyer is another one
			want     []string
			buyer    bool // all are one buyer
			buyRate  int64
			requests int64
		}{
			{
				name: "one address", from: []string{"203.0.113.9", "203.0.113.9", "203.0.113.9"},
				want: []string{"accepted", "accepted", limited},
			},
			{
				name: "neighbours of IPv4", from: []string{"203.0.113.9", "203.0.113.9", "203.0.113.10"},
				want: []string{"accepted", "accepted", "accepted"},
			},
			{
				name: "an IPv4 address written as IPv6", from: []string{"203.0.113.9", "::ffff:203.0.113.9", "203.0.113.9"},
				want: []string{"accepted", "accepted", limited},
			},
			{
				name: "one /64", from: []string{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2:3::"},
				want: []string{"accepted", "accepted", limited},
			},
			{
				name: "another /64", from: []string{"2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:3::1"},
				want: []string{"accepted", "accepted", "accepted"},
			},
			{
				name: "a zone is no address", from: []string{"fe80::1%eth0", "fe80::2%eth1", "fe80::3"},
				want: []string{"accepted", "accepted", limited},
			},
			{
				name: "an IPv4 address is no /64 with the same bytes", from: []string{"203.0.113.9", "203.0.113.9", "cb00:7109::1"},
				want: []string{"accepted", "accepted", "accepted"},
			},
			{name: "unknown addresses", from: []string{"", "", ""}, want: []string{"accepted", "accepted", limited}},
			{
				name: "a buyer over their own limit", buyer: true, buyRate: 1,
				from: []string{"203.0.113.9", "203.0.113.9", "203.0.113.9"},
				want: []string{"accepted", "rate_limited 10s", "rate_limited 10s"},
			},
		} {
			rules := sluice.Rules{AddressRate: sluice.AddressRate{Requests: 2, PerS: 10}}
			if c.buyRate > 0 {
				rules.BuyerRate = sluice.BuyerRate{Requests: c.buyRate, PerS: 10}
			}
			g := gateBefore(&slowLedger{}, open(rules), BatcherOptions{})
			for i, text := range c.from {
				var from netip.Addr
				if text != "" {
					from = netip.MustParseAddr(text)
				}
				buyer := sluice.BuyerID(fmt.Sprintf("buyer-%d", i))
				if c.buyer {
					buyer = "one"
				}
				if got := try(g, buyer, from); got != c.want[i] {
					t.Errorf("%s: try %d from %q: %s, want %s", c.name, i, text, got, c.want[i])
				}
			}
			if c.buyer {
				if got := try(g, "neighbour", home); got != "accepted" {
					t.Errorf("%s: and the neighbour gets %s", c.name, got)
				}
			}
		}
	})
}

// What is counted in the ledger is what is counted in memory.
func TestNetworkText(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.9": "203.0.113.9", "::ffff:203.0.113.9": "203.0.113.9", "cb00:7109::1": "cb00:7109::/64",
		"2001:db8:0:1:2::3": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := NetworkOf(netip.MustParseAddr(address)).String(); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// A try that one of the rates denies counts in none of them, and the wait is
// until it is within both.
func TestBothRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := sluice.Rules{
			BuyerRate:   sluice.BuyerRate{Requests: 1, PerS: 60},
			AddressRate: sluice.AddressRate{Requests: 1, PerS: 2},
		}
		g := gateBefore(&slowLedger{}, open(rules), BatcherOptions{})
		step := func(after time.Duration, buyer sluice.BuyerID, want string) {
			t.Helper()
			time.Sleep(after)
			if got := try(g, buyer, home); got != want {
				t.Errorf("%s: %s, want %s", buyer, got, want)
			}
		}
		step(0, "ann", "accepted")
		step(0, "bob", "rate_limited 2s")
		step(2*time.Second, "bob", "accepted") // has not paid for the try that the neighbour's use denied
		step(time.Second, "ann", "rate_limited 57s")
		step(time.Second, "eve", "accepted") // and ann's was not on the address
		step(0, "eve", "rate_limited 1m0s")
		if got := refusedBy(g); got["address_rate"] != 1 || got["buyer_rate"] != 2 {
			t.Errorf("refused by %v", got)
		}
		rules.BuyerRate, rules.AddressRate = sluice.BuyerRate{Requests: 1, PerS: 2}, sluice.AddressRate{Requests: 1, PerS: 60}
		g = gateBefore(&slowLedger{}, open(rules), BatcherOptions{})
		step(0, "ann", "accepted")
		step(0, "ann", "rate_limited 1m0s")
	})
}

// Over all servers no more than the ratio times the units available may be in flight, but
// one on each; one while a server does not know how many there are.
func TestTheShareOfAServer(t *testing.T) {
	for _, c := range []struct {
		ratio              float64
		available, servers int64
		want               int64
	}{
		{1.5, 200, 1, 300},
		{1.5, 200, 3, 100},
		{1.5, 200, 7, 42},
		{0.5, 3, 1, 1},
		{1.5, 3, 3, 1},
		{1.5, 3, 100, 1},
		{1.5, 0, 2, 1},
		{1_000_000, sluice.MaxUnits, 1, 1_000_000_000},
		{1.5, 200, 0, 1},
		{0, 200, 0, sluice.Unlimited},
		{1.5, sluice.Unlimited, 0, sluice.Unlimited},
	} {
		view := open(sluice.Rules{AdmissionRatio: c.ratio})
		if view.Reading.Terms.Total = c.available; view.admissible("ann", c.servers) != c.want {
			t.Errorf("%v x %d units on %d servers: %d, want %d", c.ratio, c.available, c.servers,
				view.admissible("ann", c.servers), c.want)
		}
	}
	view := &View{Sale: sluice.Sale{Rules: sluice.Rules{AdmissionRatio: 1.5}}, rulesOnly: true}
	if got := view.admissible("ann", 0); got != 1 {
		t.Errorf("since a start without the store: %d, want 1", got)
	}
}

// At most the ratio times the units available are on their way at a time; what
// returns lets more in; a client that disconnects makes no room.
func TestAdmissionRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		g := gateBefore(ledger, open(sluice.Rules{AdmissionRatio: 1.5}), BatcherOptions{}) // 10 units
		var crowd sync.WaitGroup
		left, leave := context.WithCancel(t.Context())
		results := make(chan string, 1000)
		enter := func(from, n int) {
			ctx := t.Context()
			if from == 0 {
				ctx = left
			}
			for i := range n {
				crowd.Go(func() {
					d, err := g.Claim(ctx, "sale", sluice.Claim{
						Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%d", from+i)),
						Key:   "key-00001", Quantity: 1,
					}, sluice.Caller{})
					results <- fmt.Sprint(d.Code, d.RetryAfter, err)
				})
			}
			synctest.Wait()
		}
		want := func(what string, busy, other int) {
			t.Helper()
			var b, o int
			for len(results) > 0 {
				if r := <-results; r == "overloaded 1s <nil>" {
					b++
				} else {
					o++
				}
			}
			if b != busy || o != other {
				t.Errorf("%s: %d get overloaded and %d something else, want %d and %d", what, b, o, busy, other)
			}
		}
		enter(0, 100)
		want("10 units at 1.5", 85, 0)
		leave()
		synctest.Wait()
		want("the crowd hangs up", 0, 15)
		enter(100, 10)
		want("and makes no room", 10, 0)

		show(g, sold(func(v *View) { v.Sale.Rules.AdmissionRatio, v.Reading.Taken = 1.5, 0; v.Reading.Terms.Total = 12 }))
		enter(200, 10)
		want("two more units", 7, 0)
		show(g, open(sluice.Rules{AdmissionRatio: 2}))
		enter(300, 10)
		want("a higher ratio", 8, 0)
		show(g, open(sluice.Rules{AdmissionRatio: 0.1}))
		enter(400, 10)
		want("a lower one", 10, 0)
		crowd.Wait()
		want("all are decided", 0, 5)
		enter(500, 10)
		want("never less than one", 9, 0)
		crowd.Wait()
		want("who is accepted", 0, 1)
		show(g, sold(func(v *View) { v.Sale.Rules.AdmissionRatio = 0.1 })) // its lease is long over, so the ledger is asked
		enter(600, 3)
		want("sold out: one of them", 2, 0)
		crowd.Go(func() { results <- try(g, "holder", home) })
		crowd.Wait()
		want("and the holder, who may be repeating", 0, 2)
		show(g, sold(func(v *View) { v.Sale.Rules.AdmissionRatio = 0.1; v.Reading.Terms.Total = sluice.Unlimited }))
		enter(700, 50)
		want("no total", 0, 0)
		crowd.Wait()
		want("no bound", 0, 50)
		if got := refusedBy(g); len(got) != 1 || got["ratio"] != 85+10+7+8+10+9+2 {
			t.Errorf("refused by %v", got)
		}
		if n := g.batcher.slots.Load(); n != 0 {
			t.Errorf("%d slots are leaked", n)
		}
	})
}

// No more claims than slots are on their way, of all sales together.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		view := open(sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 1, PerS: 60}})
		g := gateBefore(ledger, view, BatcherOptions{MaxInFlight: 3, MaxQueue: 1, Calls: 1})
		other := *view
		other.Sale.ID, other.Sale.Rules = "other", sluice.Rules{}
		g.board.put(view)
		g.board.put(&other)
		var crowd sync.WaitGroup
		for i := range 2 {
			crowd.Go(func() {
				_, _ = g.Claim(t.Context(), "other", sluice.Claim{
					Buyer: sluice.BuyerID(fmt.Sprint(i)), Key: "key-00001", Quantity: 1,
				}, sluice.Caller{})
			})
			synctest.Wait()
		}
		if d, err := g.Claim(t.Context(), "other", sluice.Claim{Buyer: "third", Key: "key-00001", Quantity: 1},
			sluice.Caller{}); err != nil || d.Code != sluice.Overloaded {
			t.Errorf("the queue of one sale is full: %+v, %v", d, err)
		}
		crowd.Go(func() {
			if got := try(g, "first", home); got != "accepted" {
				t.Errorf("a slot is left: %s", got)
			}
		})
		synctest.Wait()
		for range 3 {
			if got := try(g, "ann", home); got != "overloaded 1s" {
				t.Errorf("no slot is left: %s", got)
			}
		}
		crowd.Wait()
		if got := try(g, "ann", home); got != "accepted" { // the tries before did not count
			t.Errorf("places are free again: %s", got)
		}
		if got := refusedBy(g); got["slots"] != 3 || got["queue"] != 1 || len(got) != 2 {
			t.Errorf("refused by %v", got)
		}
		if n := g.batcher.slots.Load(); n != 0 {
			t.Errorf("%d slots are leaked", n)
		}
	})
}

// A ledger that does not answer leaves no slot taken.
func TestPlacesAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Millisecond}
		ledger.fail.Store(1000)
		g := gateBefore(ledger, open(sluice.Rules{AdmissionRatio: 5}), BatcherOptions{MaxBatch: 2, Calls: 1})
		var crowd sync.WaitGroup
		for i := range 20 {
			crowd.Go(func() { try(g, sluice.BuyerID(fmt.Sprint(i)), home) })
		}
		crowd.Wait()
		must.Succeed(t, g.batcher.Close(t.Context()))
		if got := try(g, "late", home); got != sluice.ErrClosed.Error() {
			t.Errorf("closed: %s", got)
		}
		l, _ := g.batcher.lanes.Load("sale")
		if n, m := g.batcher.slots.Load(), l.slots.Load(); n != 0 || m != 0 {
			t.Errorf("%d and %d slots are leaked", n, m)
		}
	})
}

func TestChecksHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for c := checkNone + 1; c < numChecks; c++ {
		if c.String() == "" || seen[c.String()] {
			t.Errorf("check %d is called %q", c, c)
		}
		seen[c.String()] = true
	}
}

// docs/gate.md lists the checks in their order.
func TestChecksAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "gate.md")))(t)
	_, table, _ := strings.Cut(string(text), "| check |")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1])
	}
	for c := checkNone + 1; c < numChecks; c++ {
		want = append(want, c.String())
	}
	if !slices.Equal(documented, want) {
		t.Errorf("docs/gate.md has the checks %q, want %q", documented, want)
	}
}

// While the ledger does not answer, claims that find no room do so because the
// others wait for it: that is what they hear, and nothing is decided for them.
func TestNoRoomBesideALedgerThatHangs(t *testing.T) {
	for _, down := range []bool{false, true} {
		want := map[bool]string{false: "overloaded 1s", true: "unanswered"}[down]
		for check, opts := range map[string]BatcherOptions{
			"slots": {MaxInFlight: 1}, "ratio": {}, "queue": {MaxQueue: 1, MaxBatch: 1, Calls: 1},
		} {
			synctest.Test(t, func(t *testing.T) {
				view := open(sluice.Rules{})
				if view.Down = down; check == "ratio" {
					view.Sale.Rules.AdmissionRatio = 0.1
				}
				g := gateBefore(&slowLedger{delay: time.Minute}, view, opts)
				var waiting sync.WaitGroup
				for i := range map[string]int{"slots": 1, "ratio": 1, "queue": 2}[check] {
					waiting.Go(func() { try(g, sluice.BuyerID(fmt.Sprint("first-", i)), home) })
					synctest.Wait()
				}
				if got := try(g, "ann", home); got != want || refusedBy(g)[check] != 1 {
					t.Errorf("%s, the ledger down: %v: %s, refused by %v; want %s", check, down, got, refusedBy(g), want)
				}
				waiting.Wait()
			})
		}
	}
}
