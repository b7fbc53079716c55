package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Plan is a whole world, made from a seed: what is sold, who wants it, what operators do, and
// what fails. It is a list of acts, so a world that fails is shrunk by leaving some out.
type Plan struct {
	Seed      uint64
	Servers   int
	Reconcile time.Duration // how often servers reconcile
	Retention time.Duration // how long a settled sale stays in the ledger
	Sales     []Terms
	Acts      []Act
}

// Terms are those of a sale.
type Terms struct {
	ID                   sluice.SaleID
	Total, MaxPerBuyer   int64
	MaxUnpaid, MaxOrders int64 // 0: no such limit
	Household            int64 // the same: units of buyers who live together
	Window, Grace        time.Duration
	Opens, Closes        time.Duration // after the world's beginning; Closes 0: never
}

// Act is what a buyer, the shop or an operator does at a moment, or a fault that begins.
type Act struct {
	Number int           // in the plan of the seed
	At     time.Duration // after the world's beginning
	Do     string        // a name in the table of acts
	Server int           // where, or to whom
	Sale   int           // which
	Buyer  int
	Key    int           // which of the buyer's attempts
	N      int64         // units, a change of the total, milliseconds, how many calls, or 1 for something else
	Skip   int64         // calls that a fault lets pass
	To, Op string        // whose calls a fault meets
	Of     sluice.SaleID // of which sale; empty: of any
}

func (a Act) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %s", a.At, a.Do)
	for _, part := range []struct {
		name  string
		value any
		has   bool
	}{
		{"server", a.Server, a.Server >= 0},
		{"sale", a.Sale, a.Sale > 0},
		{"buyer", a.Buyer, a.Buyer > 0},
		{"key", a.Key, a.Key > 0},
		{"n", a.N, a.N != 0},
		{"skip", a.Skip, a.Skip > 0},
		{"to", a.To, a.To != ""},
		{"op", a.Op, a.Op != ""},
		{"of", a.Of, a.Of != ""},
	} {
		if part.has {
			fmt.Fprintf(&b, " %s=%v", part.name, part.value)
		}
	}
	return b.String()
}

// The times of a world.
const (
	opens   = 10 * time.Second // after its beginning
	busy    = 80 * time.Second // buyers, shop and operators act until then
	settles = 2 * time.Minute  // and that long after the last fault all is at rest
)

// NewPlan returns the world of a seed.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Seed: seed, Servers: 1 + r.IntN(3),
		Reconcile: []time.Duration{time.Second, 5 * time.Second, time.Minute}[r.IntN(3)],
		Retention: []time.Duration{20 * time.Second, time.Hour}[r.IntN(2)],
	}
	buyers := 40 + r.IntN(120)
	for n, id := range []sluice.SaleID{"phone", "lamp"}[:1+r.IntN(2)] {
		t := terms(r, id)
		if n > 0 {
			t.Opens = between(r, opens, busy/2)
			p.recreate(r, n, t.Opens)
		}
		p.Sales = append(p.Sales, t)
		p.crowd(r, n, (110+r.IntN(120))/(n+1), buyers)
		p.shop(r, n, (40+r.IntN(60))/(n+1), buyers)
		p.operators(r, n, buyers)
	}
	p.faults(r)
	p.hiccups(r)
	slices.SortStableFunc(p.Acts, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	for i := range p.Acts {
		p.Acts[i].Number = i
	}
	return p
}

// without returns the plan without the acts at these places, only with those numbers alone.
func (p Plan) without(from, to int) Plan {
	p.Acts = slices.Concat(p.Acts[:from], p.Acts[to:])
	return p
}

func (p Plan) only(numbers []int) Plan {
	p.Acts = slices.DeleteFunc(p.Acts, func(a Act) bool { return !slices.Contains(numbers, a.Number) })
	return p
}

// on returns the plan on so many servers.
func (p Plan) on(servers int) Plan {
	p.Servers, p.Acts = servers, slices.Clone(p.Acts)
	for i := range p.Acts {
		if a := &p.Acts[i]; a.Server >= servers {
			a.Server %= servers
		}
	}
	return p
}

// kept lists the numbers of the acts, lines the acts that are not claims.
func (p Plan) kept() string {
	numbers := make([]string, len(p.Acts))
	for i := range p.Acts {
		numbers[i] = strconv.Itoa(p.Acts[i].Number)
	}
	return strings.Join(numbers, ",")
}

func (p Plan) lines() string {
	var b strings.Builder
	for i := range p.Acts {
		if a := &p.Acts[i]; a.Do != "claim" || len(p.Acts) < 40 {
			fmt.Fprintf(&b, "%4d %s\n", a.Number, a)
		}
	}
	return b.String()
}

// faulty counts the acts that break something.
func (p Plan) faulty() (n int) {
	for i := range p.Acts {
		switch p.Acts[i].Do {
		case "kill before", "kill after", "freeze", "cut", "twice", "late", "down", "slow", "full", "busy", "ledger lost",
			"ledger lost a sale", "ledger older", "store older", "clock", "unstorable", "poison":
			n++
		}
	}
	return n
}

func (p *Plan) add(a Act) { p.Acts = append(p.Acts, a) }

// between returns a time of the world, in whole milliseconds.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	to = max(to, from+time.Millisecond)
	return (from + time.Duration(r.Int64N(int64(to-from)))).Truncate(time.Millisecond)
}

func terms(r *rand.Rand, id sluice.SaleID) Terms {
	t := Terms{
		ID: id, Opens: opens,
		Total: 5 + r.Int64N(60), MaxPerBuyer: 1 + r.Int64N(3), MaxUnpaid: r.Int64N(3), MaxOrders: r.Int64N(4),
		Window: time.Duration(5+r.IntN(20)) * time.Second, Grace: time.Duration(1+r.IntN(3)) * time.Second,
	}
	if t.MaxUnpaid == 0 && t.MaxOrders > 1 {
		t.Household = t.MaxPerBuyer + 1
	}
	if r.IntN(4) == 0 {
		t.Closes = opens + time.Duration(30+r.IntN(60))*time.Second
	}
	return t
}

// recreate has a sale deleted before it opens, and created again.
func (p *Plan) recreate(r *rand.Rand, sale int, opens time.Duration) {
	if r.IntN(2) == 0 {
		return
	}
	at := between(r, time.Second, opens)
	p.add(Act{At: at, Do: "delete", Server: r.IntN(p.Servers), Sale: sale})
	p.add(Act{At: at + between(r, time.Millisecond, 10*time.Second), Do: "create", Server: r.IntN(p.Servers), Sale: sale})
}

// crowd has buyers rush at the opening, and come back later.
func (p *Plan) crowd(r *rand.Rand, sale, claims, buyers int) {
	opens := p.Sales[sale].Opens
	for range claims {
		a := Act{Do: "claim", Server: r.IntN(p.Servers), Sale: sale, Buyer: 1 + r.IntN(buyers), Key: 1, N: 1}
		switch r.IntN(10) {
		case 0:
			a.Key = 2
		case 1:
			a.N = 2
		}
		switch at := r.IntN(10); {
		case at < 5:
			a.At = opens + time.Duration(r.IntN(20))*50*time.Millisecond // many at once
		case at < 6:
			a.At = between(r, opens-time.Second, opens+time.Second)
		default:
			a.At = between(r, opens, busy)
		}
		p.add(a)
	}
	for range r.IntN(4) {
		p.add(Act{At: between(r, opens-5*time.Second, busy), Do: "watch", Server: r.IntN(p.Servers), Sale: sale})
	}
}

// rush has buyers ask every server for the same, while units return or a sale goes on, and a server
// may hear of it late.
func (p *Plan) rush(r *rand.Rand, sale int, at time.Duration, buyers int) {
	if r.IntN(2) == 0 {
		return
	}
	for range 2 + r.IntN(4) {
		buyer := 1 + r.IntN(buyers)
		for n := range 2 + r.IntN(4) {
			p.add(Act{
				At: at + between(r, 0, 4*time.Second), Do: "claim", Server: n % p.Servers, Sale: sale, Buyer: buyer, Key: 1, N: 1,
			})
		}
	}
	p.add(Act{
		At: at - between(r, 0, 600*time.Millisecond), Do: "late", Server: r.IntN(p.Servers), To: "ledger", Op: "Read",
		N: 1 + r.Int64N(2),
	})
}

// flood has one buyer ask with many keys at once, while the ledger of that server is slow, and then fails.
func (p *Plan) flood(r *rand.Rand, sale, buyers int) {
	at, server, buyer := between(r, opens, busy), r.IntN(p.Servers), 1+r.IntN(buyers)
	p.add(Act{At: at, Do: "slow", Server: server, To: "ledger", N: 2000})
	p.add(Act{At: at, Do: "cut", Server: server, To: "ledger", Op: "Claim", N: 1 + r.Int64N(3)})
	for key := range 20 {
		p.add(Act{
			At: at + between(r, 0, 500*time.Millisecond), Do: "claim", Server: server, Sale: sale, Buyer: buyer,
			Key: 1 + key, N: 1,
		})
	}
}

// How the shop pays, where it does not pay an order once and as it is.
const (
	payAgain        = 1 + iota // with another payment
	payWithAnothers            // with the payment of another order
	payTooMuch
)

// shop pays orders, and ends some of them otherwise.
func (p *Plan) shop(r *rand.Rand, sale, times, buyers int) {
	for range times {
		a := Act{
			At: between(r, p.Sales[sale].Opens+time.Second, busy), Do: "pay", Server: r.IntN(p.Servers), Sale: sale,
			Buyer: 1 + r.IntN(buyers),
		}
		switch r.IntN(17) {
		case 6:
			a.Do = "buyer cancels"
		case 7, 8, 9:
			a.Do = "buyer looks"
		case 0, 1:
			a.Do = "cancel"
		case 2:
			a.Do = "reject"
		case 3:
			a.Do = "refund"
		case 4:
			a.Do = "extend"
		case 5:
			a.N = 1 + r.Int64N(3)
		case 10:
			a.Do = "erase"
		}
		p.add(a)
	}
}

// operators do what they should not do at that moment.
func (p *Plan) operators(r *rand.Rand, sale, buyers int) {
	opens := p.Sales[sale].Opens
	if r.IntN(12) == 0 {
		p.add(Act{At: between(r, opens+20*time.Second, busy), Do: "close", Server: r.IntN(p.Servers), Sale: sale})
	}
	if r.IntN(6) == 0 {
		p.add(Act{
			At: between(r, time.Second, opens), Do: "postpone", Server: r.IntN(p.Servers), Sale: sale, N: 1 + r.Int64N(15),
		})
	}
	if r.IntN(4) == 0 {
		p.flood(r, sale, buyers)
	}
	for range 6 + r.IntN(10) {
		a := Act{At: between(r, 2*time.Second, busy), Server: r.IntN(p.Servers), Sale: sale}
		if r.IntN(3) == 0 {
			a.At = between(r, opens, opens+2*time.Second)
		}
		switch r.IntN(12) {
		case 10:
			a.Do, a.N = "limit", 1+r.Int64N(3)
		case 11:
			a.Do = "audit"
		case 0:
			a.Do = "pause"
			at := a.At + between(r, 100*time.Millisecond, 5*time.Second)
			p.add(Act{At: at, Do: "resume", Server: r.IntN(p.Servers), Sale: sale})
			p.rush(r, sale, at, buyers)
		case 1, 2:
			a.Do, a.N = "restock", 1+r.Int64N(20)
			p.rush(r, sale, a.At, buyers)
		case 3, 4:
			if a.Do, a.N = "restock", -1-r.Int64N(10); r.IntN(3) == 0 { // in the midst of it
				ops := []string{"Restock", "Apply", "ConfirmTotal", "UndoLowering"}
				p.breaks(r, a.At, ops[r.IntN(len(ops))])
			}
		case 5:
			a.Do = "audit"
		case 6:
			a.Do = "reconcile"
		case 7:
			a.Do, a.N = "rate", 1+r.Int64N(50)
		case 8:
			a.Do, a.N = "title", r.Int64N(100)
		case 9:
			a.Do = "recover"
		}
		p.add(a)
	}
}

// The calls at which a fault is most telling; empty: any.
var (
	ledgerOps = []string{
		"", "Claim", "Claim", "Apply", "Fence", "Load", "Unfence", "ReadJournal", "Ack", "Release", "Read",
	}
	storeOps = []string{
		"", "Insert", "Insert", "Change", "ExpireDue", "GiveReleases", "BeginLoad", "ConfirmLoad", "ChangeSale", "Restock",
		"FenceSale", "MarkGathered", "NumberEvents", "Sale",
	}
)

// breaks has a call of any server fail, or kill the server, soon after a moment.
func (p *Plan) breaks(r *rand.Rand, at time.Duration, op string) {
	a := Act{
		At: at, Do: []string{"kill before", "kill after", "cut", "late"}[r.IntN(4)], Server: r.IntN(p.Servers),
		To: "store", Op: op, N: 1,
	}
	if slices.Contains(ledgerOps, op) {
		a.To = "ledger"
	}
	p.add(a)
	p.add(Act{At: at + between(r, time.Second, 20*time.Second), Do: "restart", Server: a.Server, N: r.Int64N(2)})
}

// faults happen, two or three of them at once.
func (p *Plan) faults(r *rand.Rand) {
	at := between(r, opens, busy)
	for range 1 + r.IntN(5) {
		if r.IntN(2) == 0 {
			at = between(r, opens-2*time.Second, busy)
		}
		sale := r.IntN(len(p.Sales))
		a := Act{At: at, Server: r.IntN(p.Servers), Sale: sale, To: "ledger", Skip: r.Int64N(6)}
		ops := ledgerOps
		if r.IntN(2) == 0 {
			a.To, ops = "store", storeOps
		}
		a.Op = ops[r.IntN(len(ops))]
		switch r.IntN(13) {
		case 12:
			mark := max(at-between(r, 10*time.Millisecond, 20*time.Second), time.Second)
			p.add(Act{At: mark, Do: "store copied", Server: -1})
			p.add(Act{
				At: at + between(r, 5*time.Second, 20*time.Second), Do: "recover", Server: r.IntN(p.Servers), Sale: sale,
			})
			if r.IntN(3) == 0 { // in the midst of that recovery
				p.add(Act{
					At: at, Do: "kill after", Server: r.IntN(p.Servers), To: "store", Skip: r.Int64N(3),
					Op: []string{"InsertEnded", "Recovered", "EndAgain", "Insert"}[r.IntN(4)],
				})
			}
			a = Act{At: at, Do: "store older", Server: -1}
		case 0, 1, 2:
			a.Do = []string{"kill before", "kill after"}[r.IntN(2)]
			p.add(a)
			a = Act{At: a.At + between(r, time.Second, 20*time.Second), Do: "restart", Server: a.Server, N: r.Int64N(2)}
		case 3:
			a = Act{At: at, Do: "freeze", Server: a.Server, N: 500 + r.Int64N(12_000)}
		case 4:
			a.Do, a.N = "cut", 1+r.Int64N(4)
		case 5:
			a.Do, a.N = "twice", 1+r.Int64N(4)
		case 6:
			a.Do, a.N = "late", 1+r.Int64N(2)
		case 7, 8:
			a.Do, a.Op, a.N = []string{"down", "slow", "full", "busy"}[r.IntN(4)], "", 500+r.Int64N(10_000)
			if r.IntN(2) == 0 {
				a.Of = p.Sales[sale].ID
			}
			if a.Do == "busy" {
				a.To = "store"
			}
			if r.IntN(2) == 0 {
				a.Server = -1
			}
		case 9:
			lost := Act{At: at, Do: "ledger lost", Server: -1}
			switch r.IntN(4) {
			case 0:
				lost.Do, lost.Sale = "ledger lost a sale", sale
			case 1, 2:
				mark := max(at-between(r, 10*time.Millisecond, 8*time.Second), time.Second)
				p.add(Act{At: mark, Do: "ledger copied", Server: -1})
				lost.Do = "ledger older"
			}
			if r.IntN(2) == 0 { // what was accepted just before is in the journal alone, and known to servers
				p.add(Act{
					At: at - between(r, 500*time.Millisecond, 3*time.Second), Do: []string{"down", "slow"}[r.IntN(2)], Server: -1,
					To: "store", N: 3000 + r.Int64N(5000),
				})
			}
			if r.IntN(2) == 0 { // orders end in the midst of the rebuild
				p.add(Act{At: at, Do: "slow", Server: -1, To: "ledger", Op: "Load", N: 20_000})
				for range 10 {
					p.add(Act{
						At: at + between(r, 0, 8*time.Second), Do: "cancel", Server: r.IntN(p.Servers), Sale: sale,
						Buyer: p.Acts[r.IntN(len(p.Acts))].Buyer,
					})
				}
			}
			if r.IntN(2) == 0 { // in the midst of the rebuild
				ops := []string{"FenceSale", "MarkGathered", "BeginLoad", "Load", "ConfirmLoad", "Unfence", "Insert"}
				p.breaks(r, at, ops[r.IntN(len(ops))])
			}
			a = lost
		case 10:
			a = Act{At: at, Do: "clock", Server: -1, To: a.To, N: r.Int64N(8000) - 4000}
		case 11:
			a.To, a.Op, a.Do, a.N = "store", "Insert", "unstorable", 2+r.Int64N(20)
			if c := p.Acts[r.IntN(len(p.Acts))]; r.IntN(2) == 0 && c.Do == "claim" { // for as long as the world acts
				a = Act{At: c.At - time.Second, Do: "poison", Server: -1, Sale: c.Sale, Buyer: c.Buyer}
				p.add(Act{At: between(r, c.At, busy+time.Second), Do: "replay", Server: r.IntN(p.Servers), Sale: c.Sale})
			}
		}
		p.add(a)
	}
}

// hiccups are calls whose answers are lost, late or given twice.
func (p *Plan) hiccups(r *rand.Rand) {
	for range 3 + r.IntN(6) {
		a := Act{
			At: between(r, opens-2*time.Second, busy), Do: []string{"cut", "cut", "twice", "late"}[r.IntN(4)],
			Server: r.IntN(p.Servers), To: "ledger", N: 1, Skip: r.Int64N(3),
		}
		ops := ledgerOps
		if r.IntN(2) == 0 {
			a.To, ops = "store", storeOps
		}
		a.Op = ops[1+r.IntN(len(ops)-1)]
		p.add(a)
	}
}
