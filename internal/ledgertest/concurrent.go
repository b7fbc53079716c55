package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// concurrentCases: many callers at once, on several servers where the backend
// has them.
var concurrentCases = []testCase{
	{"a stampede never oversells, and the journal has everyone once", one, func(e *env) { e.stampede(1) }},
	{"a stampede on three servers", several, func(e *env) { e.stampede(3) }},
	{"a history has one order in time", one, func(e *env) { e.linearizable(1) }},
	{"a history on three servers has one order in time", several, func(e *env) { e.linearizable(3) }},
	{"the same claim at once from everywhere is one order", one, func(e *env) {
		const callers = 16
		e.load(sale, total(callers))
		orders := make(chan sluice.OrderID, callers)
		var all sync.WaitGroup
		for range callers {
			claim := e.claim("ann", "k", 1) // each proposes an order id of its own
			all.Go(func() {
				decisions, err := e.ledger.Claim(e.ctx, sale, []sluice.Claim{claim})
				if err != nil {
					e.Errorf("Claim: %v", err)
					return
				}
				orders <- decisions[0].Order
			})
		}
		all.Wait()
		close(orders)
		first := <-orders
		for order := range orders {
			if order != first {
				e.Errorf("orders %s and %s for one claim", first, order)
			}
		}
		e.wantTaken(1, 1)
	}},
	{"changes during a rush", one, func(e *env) { e.changes(1) }},
	{"changes during a rush on three servers", several, func(e *env) { e.changes(3) }},
}

// changes pauses and resumes a sale during a rush: nothing is accepted under terms that refuse it.
func (e *env) changes(nodes int) {
	e.load(sale, total(1_000_000))
	versions := map[int64]sluice.Terms{1: e.terms[sale]}
	servers := e.servers(nodes)
	var crowd sync.WaitGroup
	done := make(chan struct{})
	for c := range 4 {
		crowd.Go(func() { e.rush(servers[c%nodes], c, done) })
	}
	for range 20 {
		e.change(sale, func(t *sluice.Terms) { t.Paused = !t.Paused })
		versions[e.terms[sale].Version] = e.terms[sale]
		e.clock.Advance(sluice.RefusalLease)
		e.read(sale)
	}
	close(done)
	crowd.Wait()
	r := e.read(sale)
	records, journal, err := everything(e.ctx, e.ledger, sale)
	e.must("read everything", err)
	for _, wrong := range checkInvariants(r, records, journal, map[int64]bool{allStored: e.noJournal}, versions) {
		e.Error(wrong)
	}
}

// rush claims until done, with buyers of its own.
func (e *env) rush(server port.Ledger, caller int, done <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		default:
		}
		var batch []sluice.Claim
		for i := range 5 {
			batch = append(batch, sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%d-%d-%d", caller, n, i)), Key: "key-0001", Quantity: 1,
				Order: sale.Order(fmt.Sprintf("%08x%012x%012x", caller, n, i)),
			})
		}
		if _, err := server.Claim(e.ctx, sale, batch); err != nil {
			e.Errorf("Claim: %v", err)
			return
		}
	}
}

// servers returns n ledgers on the data of the case.
func (e *env) servers(n int) []port.Ledger {
	e.Helper()
	all := []port.Ledger{e.ledger}
	for i := range n - 1 {
		all = append(all, e.open(e, fmt.Sprint("node-", i), e.clock))
	}
	return all
}

// The size of a stampede: far more claims than units.
const (
	stampedeCallers = 8
	stampedeRounds  = 12
	stampedeBatch   = 10
	stampedeBuyers  = 400
	stampedeStock   = 300
)

// stampede is a crowd that claims on every server, each batch twice, while
// every server empties the journal.
type stampede struct {
	*env
	servers []port.Ledger

	mu      sync.Mutex                        // guards what follows
	orders  map[sluice.ClaimID]sluice.OrderID // as the crowd received them
	journal map[sluice.OrderID]int            // how often each came through the journal
	gone    map[int64]bool                    // acknowledged sequences
}

func (e *env) stampede(nodes int) {
	e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = stampedeStock, 2 }))
	s := &stampede{
		env: e, servers: e.servers(nodes),
		orders: map[sluice.ClaimID]sluice.OrderID{}, journal: map[sluice.OrderID]int{}, gone: map[int64]bool{},
	}
	var crowd, readers sync.WaitGroup
	done := make(chan struct{})
	for caller := range stampedeCallers {
		crowd.Go(func() { s.claimAll(caller) })
	}
	for _, server := range s.servers {
		readers.Go(func() { s.serve(server, done) })
	}
	crowd.Wait()
	close(done)
	readers.Wait()

	e.wantTaken(stampedeStock, stampedeStock)
	if e.noJournal {
		for order := range e.records(sale) {
			s.journal[order]++
		}
	}
	if len(s.orders) != stampedeStock || len(s.journal) != stampedeStock {
		e.Errorf("%d claims were accepted and %d orders went through the journal, want %d", len(s.orders), len(s.journal),
			stampedeStock)
	}
	for id, order := range s.orders {
		if s.journal[order] != 1 {
			e.Errorf("I5: order %s of %v is %d times in the journal, want once", order, id, s.journal[order])
		}
	}
	e.healthy(sale, s.gone)
}

// claimAll is one caller.
func (s *stampede) claimAll(caller int) {
	random := rand.New(rand.NewPCG(uint64(caller), 3))
	for round := range stampedeRounds {
		batch := make([]sluice.Claim, stampedeBatch)
		for i := range batch {
			buyer := random.IntN(stampedeBuyers)
			batch[i] = sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprint("buyer-", buyer)),
				Key:   sluice.Key(fmt.Sprint("attempt-", random.IntN(3))), Quantity: 1,
				Order: sale.Order(fmt.Sprintf("%08x%012x%012x", caller, round, i)),
			}
			if buyer%8 == 0 { // fifty of them share five counters
				batch[i].Counters = batch[i].Counters.With(sluice.Counter{Name: fmt.Sprint("home:", buyer%5), Max: 3})
			}
		}
		for range 2 {
			decisions, err := s.servers[random.IntN(len(s.servers))].Claim(s.ctx, sale, batch)
			if err != nil {
				s.Errorf("Claim: %v", err)
				return
			}
			s.told(batch, decisions)
		}
	}
}

func (s *stampede) told(batch []sluice.Claim, decisions []sluice.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range decisions {
		id := sluice.ClaimID{Sale: sale, Buyer: batch[i].Buyer, Key: batch[i].Key}
		// Nothing in this sale makes room, so what was refused once is refused
		// for ever, and no answer can come late.
		if first, known := s.orders[id]; known && d.Order != first {
			s.Errorf("I4: claim %v: %s %s, and elsewhere order %s", id, d.Code, d.Order, first)
		}
		if d.Code == sluice.Accepted {
			s.orders[id] = d.Order
		}
	}
}

// serve empties the journal and looks at the sale until done, and then until
// the journal is empty.
func (s *stampede) serve(server port.Ledger, done <-chan struct{}) {
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		for s.drain(server) > 0 { // until there is nothing new
		}
		if r, err := server.Read(s.ctx, []sluice.SaleID{sale}); err != nil || r[0].Taken > stampedeStock {
			s.Errorf("I1: %+v, %v", r, err)
		}
	}
}

func (s *stampede) drain(server port.Ledger) (n int) {
	entries, err := server.ReadJournal(s.ctx, port.JournalRead{Sale: sale, Source: port.New, Max: 10})
	if err == nil {
		err = server.Ack(s.ctx, sale, ids(entries))
	}
	if err != nil {
		s.Errorf("journal: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range entries {
		for i, c := range entry.Claims {
			s.journal[c.Order]++
			s.gone[entry.FirstSeq+int64(i)] = true
		}
	}
	return len(entries)
}

// call is an operation of a history: a claim, or a reading if it has no buyer.
type call struct {
	claim sluice.Claim
}

// answer is what came of a call: a decision, or what a reading said. Unknown
// means that the reply was lost.
type answer struct {
	unknown    bool
	decision   sluice.Decision
	taken, seq int64
}

// linearizable records what concurrent callers received, some of whose
// replies are lost, and has porcupine look for one order in time that explains
// all of it.
func (e *env) linearizable(nodes int) {
	const callers, calls, stock, limit = 5, 14, 12, 3
	e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = stock, limit }))
	servers := e.servers(nodes)
	for i := range servers {
		servers[i] = newFaulty(servers[i], shaky(uint64(i), 0.15))
	}
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	var crowd sync.WaitGroup
	for c := range callers {
		random := rand.New(rand.NewPCG(uint64(c), 4))
		crowd.Go(func() {
			for n := range calls {
				var in call
				if random.IntN(5) > 0 {
					in.claim = sluice.Claim{
						Buyer:    sluice.BuyerID(fmt.Sprint("buyer-", random.IntN(6))),
						Key:      sluice.Key(fmt.Sprint("attempt-", random.IntN(3))),
						Quantity: 1 + random.Int64N(2), Order: sale.Order(fmt.Sprintf("%016x%016x", c, n)),
					}
				}
				op := porcupine.Operation{ClientId: c, Input: in, Call: time.Since(start).Nanoseconds()}
				out := e.ask(servers[random.IntN(nodes)], in)
				op.Output, op.Return = out, time.Since(start).Nanoseconds()
				if out.unknown {
					op.Return = time.Hour.Nanoseconds() // it may happen at any later time
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	crowd.Wait()
	switch porcupine.CheckOperationsTimeout(historyModel(stock, limit), history, deadline/2) {
	case porcupine.Illegal:
		e.Error("no order in time explains what the callers were told")
	case porcupine.Unknown:
		e.Error("no verdict in time: make the history shorter")
	}
}

func (e *env) ask(l port.Ledger, in call) answer {
	if in.claim.Buyer == "" {
		r, err := l.Read(e.ctx, []sluice.SaleID{sale})
		if err != nil {
			return answer{unknown: true}
		}
		return answer{taken: r[0].Taken, seq: r[0].Seq}
	}
	decisions, err := l.Claim(e.ctx, sale, []sluice.Claim{in.claim})
	if err != nil {
		return answer{unknown: true}
	}
	return answer{decision: decisions[0]}
}

// historyModel is the sequential ledger that a history is compared with: the
// reference model, one claim at a time.
func historyModel(stock, limit int64) porcupine.Model {
	terms := with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = stock, limit })
	return porcupine.Model{
		Init: func() any { return []port.Record(nil) },
		Step: func(state, input, output any) (bool, any) {
			in, out := input.(call), output.(answer)
			held := &modelSale{epoch: 1, terms: terms, records: slices.Clone(state.([]port.Record))}
			if in.claim.Buyer == "" {
				return out.unknown || out.taken == held.taken() && out.seq == held.seq(), state
			}
			m := &model{sales: map[sluice.SaleID]*modelSale{sale: held}}
			want := m.claim(start, sale, in.claim)
			want.Orders, out.decision.Orders = sorted(want.Orders), sorted(out.decision.Orders)
			return out.unknown || diff(want, out.decision) == "", held.records
		},
		Equal: func(a, b any) bool { return diff(a, b) == "" },
	}
}
