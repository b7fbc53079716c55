package admission

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// shelf is a ListStore in memory.
type shelf struct {
	port.ListStore
	mu     sync.Mutex
	lists  map[listName]port.BuyerList
	buyers map[listName][]sluice.BuyerID
	fail   error
	read   func() // called before a page is read
}

func (s *shelf) put(sale sluice.SaleID, kind sluice.ListKind, buyers ...sluice.BuyerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists, s.buyers = map[listName]port.BuyerList{}, map[listName][]sluice.BuyerID{}
	}
	name := listName{sale, kind}
	s.lists[name] = port.BuyerList{
		Sale: sale, Kind: kind, Generation: s.lists[name].Generation + 1,
		Size: int64(len(buyers)),
	}
	s.buyers[name] = buyers
}

func (s *shelf) Lists(context.Context) (all []port.BuyerList, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lists {
		all = append(all, l)
	}
	return all, s.fail
}

func (s *shelf) Listed(_ context.Context, list port.BuyerList, after sluice.BuyerID, limit int) ([]sluice.BuyerID,
	error,
) {
	if s.read != nil {
		s.read()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := listName{list.Sale, list.Kind}
	if s.fail != nil || s.lists[name].Generation != list.Generation {
		return nil, s.fail
	}
	var page []sluice.BuyerID
	for _, b := range s.buyers[name] {
		if b > after && len(page) < limit {
			page = append(page, b)
		}
	}
	return page, nil
}

func (s *shelf) ReplaceList(context.Context, sluice.SaleID, sluice.ListKind,
	iter.Seq2[sluice.BuyerID, error],
) (port.BuyerList, error) {
	panic("not asked here")
}

func TestEligibility(t *testing.T) {
	store := &shelf{}
	store.put("sale", sluice.DenyList, "eve", "both")
	store.put("sale", sluice.AllowList, "ann", "both")
	lists := NewLists(store, nil, nil)
	must.Succeed(t, lists.Refresh(t.Context()))
	eligibility := &Eligibility{
		Lists: lists,
		Ticket: func(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) sluice.Reason {
			switch {
			case ticket == "old":
				return sluice.TicketExpired
			case ticket != string(sale)+"/"+string(buyer):
				return sluice.TicketInvalid
			}
			return ""
		},
	}
	ticket := sluice.Rules{Ticket: sluice.Ticket{BeforeS: 60}}
	for _, c := range []struct {
		name   string
		rules  sluice.Rules
		buyer  sluice.BuyerID
		caller sluice.Caller
		want   sluice.Reason
	}{
		{name: "no rules", buyer: "bob"},
		{name: "denied without rules", buyer: "eve", want: sluice.Denied},
		{name: "the allow list is not looked at", buyer: "bob"},
		{name: "on the list", rules: sluice.Rules{Eligibility: sluice.EligibleList}, buyer: "ann"},
		{
			name: "not on the list", rules: sluice.Rules{Eligibility: sluice.EligibleList}, buyer: "bob",
			want: sluice.NotEligible,
		},
		{
			name: "deny wins", rules: sluice.Rules{Eligibility: sluice.EligibleList}, buyer: "both",
			want: sluice.Denied,
		},
		{
			name: "the token names it", rules: sluice.Rules{Eligibility: sluice.EligibleToken}, buyer: "bob",
			caller: sluice.Caller{Sales: []string{"other", "sale"}},
		},
		{
			name: "the token names others", rules: sluice.Rules{Eligibility: sluice.EligibleToken}, buyer: "bob",
			caller: sluice.Caller{Sales: []string{"other", "sal", "sales"}}, want: sluice.NotEligible,
		},
		{
			name: "the token names none", rules: sluice.Rules{Eligibility: sluice.EligibleToken}, buyer: "ann",
			want: sluice.NotEligible,
		},
		{
			name: "the token of a denied buyer", rules: sluice.Rules{Eligibility: sluice.EligibleToken}, buyer: "eve",
			caller: sluice.Caller{Sales: []string{"sale"}}, want: sluice.Denied,
		},
		{
			name: "eligible in a way of the future", rules: sluice.Rules{Eligibility: "star"}, buyer: "ann",
			want: sluice.NotEligible,
		},
		{
			name: "what the limit is by", rules: sluice.Rules{Limits: sluice.Limits{{By: "home", Max: 2}}}, buyer: "bob",
			caller: sluice.Caller{Signed: map[string]string{"home": "17"}},
		},
		{
			name: "not what the limit is by", rules: sluice.Rules{Limits: sluice.Limits{{By: "home", Max: 2}}}, buyer: "bob",
			caller: sluice.Caller{Signed: map[string]string{"device": "17"}}, want: sluice.LimitMissing,
		},
		{name: "good ticket", rules: ticket, buyer: "bob", caller: sluice.Caller{Ticket: "sale/bob"}},
		{name: "no ticket", rules: ticket, buyer: "bob", want: sluice.TicketMissing},
		{
			name: "another's ticket", rules: ticket, buyer: "bob", caller: sluice.Caller{Ticket: "sale/ann"},
			want: sluice.TicketInvalid,
		},
		{
			name: "expired ticket", rules: ticket, buyer: "bob", caller: sluice.Caller{Ticket: "old"},
			want: sluice.TicketExpired,
		},
		{
			name: "a ticket does not help the denied", rules: ticket, buyer: "eve", caller: sluice.Caller{Ticket: "sale/eve"},
			want: sluice.Denied,
		},
		{name: "a ticket that is not required", buyer: "bob", caller: sluice.Caller{Ticket: "nonsense"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			view := sold(func(v *View) { v.Sale.Rules = c.rules })
			err := eligibility.Check(view, &sluice.Claim{Buyer: c.buyer}, &c.caller)
			var refused *sluice.RefusedError
			if c.want == "" && err != nil || c.want != "" &&
				(!errors.As(err, &refused) || refused.Reason != c.want || refused.Detail == "") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A ticket is judged by the ledger's clock, whatever this server's says.
func TestTicketsAreJudgedByTheLedgersClock(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Second, 0, 10 * time.Second} {
		local := clock.Add(skew)
		view := sold(func(v *View) {
			v.Asked, v.Received = local, local // it said clock then
			v.Sale.Rules.Ticket.BeforeS = 60
		})
		var asked time.Time
		eligibility := &Eligibility{
			Now: func() time.Time { return local.Add(3 * time.Second) },
			Ticket: func(_ string, _ sluice.SaleID, _ sluice.BuyerID, now time.Time) sluice.Reason {
				asked = now
				return ""
			},
		}
		if err := eligibility.Check(view, &sluice.Claim{Buyer: "ann"}, &sluice.Caller{Ticket: "x"}); err != nil {
			t.Error(err)
		}
		if want := clock.Add(3 * time.Second); !asked.Equal(want) {
			t.Errorf("a clock that is %v off: judged at %v, want %v", skew, asked, want)
		}
	}
}

func TestListsFollowTheStore(t *testing.T) {
	store := &shelf{}
	lists := NewLists(store, nil, nil)
	has := func(sale sluice.SaleID, buyer sluice.BuyerID) string {
		found, err := lists.has(sale, sluice.DenyList, buyer)
		return fmt.Sprint(found, err != nil)
	}
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: on the list, unready: %s; want %s", what, got, want)
		}
	}
	refresh := func(fails bool) {
		t.Helper()
		if err := lists.Refresh(t.Context()); (err != nil) != fails {
			t.Fatalf("refresh: %v", err)
		}
	}
	want("before the first look", has("a", "eve"), "false true")
	store.put("a", sluice.DenyList, "eve")
	store.fail = errors.New("down")
	refresh(true)
	want("the store is down since the start", has("a", "eve"), "false true")
	store.fail = nil
	store.read = func() { want("while it is read for the first time", has("a", "eve"), "false true") }
	refresh(false)
	store.read = nil
	want("known", has("a", "eve"), "true false")
	want("another buyer", has("a", "ann"), "false false")
	want("a sale without lists", has("b", "eve"), "false false")

	store.put("a", sluice.DenyList, "ann")
	store.put("b", sluice.DenyList, "ann")
	want("until the next look", has("a", "eve"), "true false")
	store.read = func() {
		// What was known holds, and no sale stands still while its list is read.
		if _, err := lists.has("a", sluice.DenyList, "eve"); err != nil {
			t.Error("a list that is replaced makes the sale wait")
		}
		if _, err := lists.has("b", sluice.DenyList, "ann"); err != nil {
			t.Error("a list that is new makes the sale wait")
		}
	}
	refresh(false)
	store.read = nil
	want("replaced, off it", has("a", "eve"), "false false")
	want("replaced, on it", has("a", "ann"), "true false")
	if generation, size := lists.Loaded("a", sluice.DenyList); generation != 2 || size != 1 {
		t.Errorf("loaded: generation %d of %d buyers, want 2 of 1", generation, size)
	}
	store.fail = errors.New("down")
	refresh(true)
	want("the store is down", has("a", "ann"), "true false")
	store.fail = nil

	// One that is replaced while it is read is read again, and not taken in part.
	store.put("a", sluice.DenyList, "old")
	once := sync.OnceFunc(func() { store.put("a", sluice.DenyList, "new", "newer") })
	store.read = once
	refresh(false)
	want("torn", has("a", "ann"), "true false")
	refresh(false)
	want("whole", has("a", "newer"), "true false")
}

func TestListsOfManyPages(t *testing.T) {
	store := &shelf{}
	many := make([]sluice.BuyerID, 2*listPage)
	for i := range many {
		many[i] = sluice.BuyerID(fmt.Sprintf("buyer-%06d", i))
	}
	store.put("a", sluice.AllowList, many...)
	lists := NewLists(store, nil, nil)
	must.Succeed(t, lists.Refresh(t.Context()))
	for _, i := range []int{0, listPage - 1, listPage, len(many) - 1} {
		if found, err := lists.has("a", sluice.AllowList, many[i]); !found || err != nil {
			t.Errorf("buyer %d: %v, %v", i, found, err)
		}
	}
	if found, _ := lists.has("a", sluice.AllowList, "nobody"); found {
		t.Error("another buyer is on it")
	}
	if generation, size := lists.Loaded("a", sluice.AllowList); generation != 1 || size != int64(len(many)) {
		t.Errorf("loaded: generation %d, %d buyers", generation, size)
	}
}

// memory is a Reader that knows some claims.
type memory struct {
	port.Reader
	record port.Record
	err    error
	asked  int
}

func (m *memory) Recall(_ context.Context, claim sluice.ClaimID) (port.Record, error) {
	m.asked++
	if m.err == nil && claim.Key != m.record.Key {
		return port.Record{}, sluice.ErrOrderNotFound
	}
	return m.record, m.err
}

// Claim accepts what is known again.
func (m *memory) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	decisions := make([]sluice.Decision, len(claims))
	for i := range claims {
		if decisions[i].Code = sluice.SoldOut; claims[i].Key == m.record.Key {
			decisions[i] = sluice.Decision{
				Code: sluice.Accepted, Replayed: true, Order: m.record.Order,
				Quantity: m.record.Quantity, Seq: m.record.Seq,
			}
		}
	}
	return decisions, nil
}

// A buyer who is not let in still gets the order of an accepted claim, and by
// the way of every claim: so the server remembers that it said so (I4).
func TestRecallOfTheRefused(t *testing.T) {
	record := port.Record{
		Claim: sluice.Claim{Buyer: "ann", Key: "key-1", Quantity: 2, Order: "sale.x"}, Sale: "sale",
		Seq: 7, Epoch: 1, Terms: 3, At: clock,
	}
	why := &sluice.RefusedError{Reason: sluice.TicketMissing, Detail: "get one"}
	view := &View{Sale: sluice.Sale{ID: "sale"}}
	for _, c := range []struct {
		name     string
		key      sluice.Key
		quantity int64
		why, err error
		want     sluice.Code // 0: an error
		is       error
		asked    int
	}{
		{name: "a repeat", key: "key-1", quantity: 2, why: why, want: sluice.Accepted, asked: 1},
		{name: "other content", key: "key-1", quantity: 1, why: why, want: sluice.KeyReused, asked: 1},
		{name: "another key", key: "key-2", quantity: 2, why: why, is: why, asked: 1},
		{
			name: "the ledger is down", key: "key-1", quantity: 2, why: why, err: errors.New("down"), is: ErrOutcomeUnknown,
			asked: 1,
		},
		{
			name: "not loaded", key: "key-1", quantity: 2, why: why, err: port.ErrNotLoaded, want: sluice.Unavailable,
			asked: 1,
		},
		{name: "not ready", key: "key-1", quantity: 2, why: ErrUnready, want: sluice.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			ledger := &memory{record: record, err: c.err}
			var told []sluice.OrderID
			gate := NewGate(nil, NewBatcher(ledger, BatcherOptions{
				Decided: func(_ sluice.SaleID, _ []sluice.Claim, decisions []sluice.Decision) {
					for _, d := range decisions {
						told = append(told, d.Order)
					}
				},
			}), nil)
			gate.Guard(&Eligibility{}, ledger)
			d, err := gate.recall(t.Context(), view, &sluice.Claim{Buyer: "ann", Key: c.key, Quantity: c.quantity}, netip.Addr{},
				c.why)
			if d.Code != c.want || !errors.Is(err, c.is) || ledger.asked != c.asked {
				t.Errorf("%v, %v, asked %d times; want %v, %v, %d", d.Code, err, ledger.asked, c.want, c.is, c.asked)
			}
			if c.want == sluice.Accepted && (!d.Replayed || d.Order != "sale.x" || d.Quantity != 2 || d.Seq != 7) {
				t.Errorf("decision %+v", d)
			}
			if (c.want == sluice.Accepted) != slices.Equal(told, []sluice.OrderID{"sale.x"}) {
				t.Errorf("answered %v, while the batcher has told %v", d.Code, told)
			}
		})
	}
	// A flood of refused claims asks the ledger only so often at a time.
	ledger := &memory{record: record}
	gate := &Gate{rates: newRates(0, clock), now: func() time.Time { return clock }}
	gate.Guard(&Eligibility{}, ledger)
	for range recalls {
		gate.recalling <- struct{}{}
	}
	if d, err := gate.recall(t.Context(), view, &sluice.Claim{Buyer: "ann", Key: "key-1", Quantity: 2}, netip.Addr{},
		why); d.Code != sluice.Overloaded || err != nil || ledger.asked != 0 {
		t.Errorf("%v, %v, asked %d times; want overloaded", d.Code, err, ledger.asked)
	}
}
