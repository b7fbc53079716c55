package ledgertest

import (
	"fmt"
	"sync"

	"github.com/sluicehq/sluice"
)

// Networks that claims come from.
const (
	home   sluice.AddressKey = "00112233445566aa"
	office sluice.AddressKey = "ffeeddccbbaa9988"
)

// from is a claim from a network, of a buyer of its own.
func (e *env) from(address sluice.AddressKey) sluice.Claim {
	c := e.claim("", "k", 1)
	c.Buyer, c.Address = sluice.BuyerID(fmt.Sprint("account-", e.orders)), address
	return c
}

// ofAll is several of them.
func (e *env) ofAll(n int, address sluice.AddressKey) (claims []sluice.Claim) {
	for range n {
		claims = append(claims, e.from(address))
	}
	return claims
}

// crowded reports whether a network has all the live orders that it may have.
func (s *modelSale) crowded(address sluice.AddressKey) bool {
	live := int64(0)
	for _, r := range s.records {
		if r.Live && r.Address == address {
			live++
		}
	}
	return address != "" && s.terms.MaxLivePerAddress > 0 && live+1 > s.terms.MaxLivePerAddress
}

// forgetAddresses takes the addresses off ended records: a ledger whose records are
// orders may forget them.
func forgetAddresses(records []sluice.Record) {
	for i := range records {
		if !records[i].Live {
			records[i].Address = ""
		}
	}
}

func nearby(most int64) func(*sluice.Terms) {
	return func(t *sluice.Terms) { t.MaxLivePerAddress = most }
}

var addressCases = []testCase{
	{"a dozen accounts of one network get what one may have", one, func(e *env) {
		e.load(sale, with(nearby(2)))
		claims := e.ofAll(12, home)
		for i, d := range e.claims(claims...) {
			if want := d.Code == sluice.Accepted; want != (i < 2) {
				e.Errorf("account %d: %s", i+1, d.Code)
			}
		}
		e.accepted(e.from(office))
		e.accepted(e.from("")) // what is not known is not limited
		e.accepted(e.from(""))
		e.accepted(e.from(""))
		e.same("repeat", e.one(claims[0]).Replayed, true)
		again := claims[1]
		again.Address = office // the buyer has moved
		e.same("repeat from elsewhere", e.one(again).Replayed, true)
		e.accepted(e.from(office))
		e.wantCode(e.from(office), sluice.AddressLimit)
		e.wantTaken(7, 7)
	}},
	{"of a batch with buyers who have claims already", one, func(e *env) {
		e.load(sale, with(nearby(3)))
		first := e.from(home)
		e.accepted(first)
		second, repeat := e.from(home), first
		second.Buyer, second.Key = first.Buyer, longKey("other")
		decisions := e.claims(second, repeat, e.from(office), e.from(home), e.from(home))
		e.wantCodes(decisions, sluice.Accepted, sluice.Accepted, sluice.Accepted, sluice.Accepted, sluice.AddressLimit)
		e.wantCodes(e.claims(e.ofAll(3, office)...), sluice.Accepted, sluice.Accepted, sluice.AddressLimit)
	}},
	{"an order that ends is counted no longer, once", one, func(e *env) {
		e.load(sale, with(nearby(2)))
		claims := e.ofAll(2, home)
		claims[1].Buyer = claims[0].Buyer // in a further record of one buyer
		claims[1].Key = longKey("other")
		e.claims(claims...)
		e.wantCode(e.from(home), sluice.AddressLimit)
		e.same("release", e.release(claims[1]), sluice.Released{Applied: 1})
		e.same("again", e.release(claims[1], claims[1]), sluice.Released{Before: 2})
		next := e.from(home)
		e.accepted(next)
		e.wantCode(e.from(home), sluice.AddressLimit)
		e.same("both", e.releaseUnpaid(claims[0], next), sluice.Released{Applied: 2})
		e.wantCodes(e.claims(e.ofAll(3, home)...), sluice.Accepted, sluice.Accepted, sluice.AddressLimit)
	}},
	{"the limit comes, rises, falls and goes", one, func(e *env) {
		e.load(sale, plenty())
		e.claims(e.ofAll(3, home)...) // counted although nothing limits them
		e.change(sale, nearby(2))
		e.wantCode(e.from(home), sluice.AddressLimit)
		e.change(sale, nearby(4))
		e.wantCodes(e.claims(e.ofAll(2, home)...), sluice.Accepted, sluice.AddressLimit)
		e.change(sale, nearby(0))
		last := e.from(home)
		e.accepted(last)
		e.change(sale, nearby(5))
		e.wantCode(e.from(home), sluice.AddressLimit)
		e.release(last)
		e.accepted(e.from(home))
		e.same("terms", e.read(sale).Terms.MaxLivePerAddress, int64(5))
	}},
	{"a load brings the live orders of each network", one, func(e *env) {
		live, ended, other := e.record("ann", "k1", 1, 1, true), e.record("ann", "k2", 1, 2, false),
			e.record("bob", "k1", 1, 3, true)
		promise := e.record("cid", "k1", 1, 1, true) // of a dead letter
		promise.Epoch = 5
		live.Address, ended.Address, other.Address, promise.Address = home, home, home, office
		image := sluice.LoadImage{
			Sale: sale, Epoch: 5, Taken: 3, Records: []sluice.Record{live, ended, other, promise}, Terms: with(nearby(3)),
		}
		image.Terms.Version = 4
		e.loadImage(image)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 5))
		for _, r := range image.Records {
			e.same("repeat", e.one(r.Claim), answerOf(r, true))
		}
		e.wantCodes(e.claims(e.ofAll(2, home)...), sluice.Accepted, sluice.AddressLimit)
		e.wantCodes(e.claims(e.ofAll(3, office)...), sluice.Accepted, sluice.Accepted, sluice.AddressLimit)
		release := releaseOf(sale, live.Claim, 5)
		got, err := e.ledger.Release(e.ctx, sale, []sluice.Release{release})
		e.must("Release", err)
		e.same("released", got, sluice.Released{Applied: 1})
		e.wantCodes(e.claims(e.ofAll(2, home)...), sluice.Accepted, sluice.AddressLimit)
	}},
	{"records and journal have the address", journal, func(e *env) {
		e.load(sale, with(nearby(3)))
		near, far := e.from(home), e.from("")
		near.Meta = `{"a":1}`
		e.claims(near, far)
		records := e.records(sale)
		e.same("record", records[near.Order].Claim, near)
		e.same("record of no network", records[far.Order].Claim, far)
		e.same("journal", e.peek(sale)[0].Claims, []sluice.Claim{near, far})
		recalled, err := e.ledger.Recall(e.ctx, sluice.ClaimID{Sale: sale, Buyer: near.Buyer, Key: near.Key})
		e.must("Recall", err)
		e.same("recalled", recalled.Claim, near)
	}},
	{"a restarted server goes on counting", one, func(e *env) {
		e.load(sale, with(nearby(3)))
		claims := e.ofAll(3, home)
		e.claims(claims...)
		e.release(claims[0])
		e.restart()
		e.wantCodes(e.claims(e.ofAll(2, home)...), sluice.Accepted, sluice.AddressLimit)
	}},
	{"claims of one network at the same time, on two servers", several, func(e *env) {
		e.load(sale, with(nearby(5)))
		servers := []sluice.Ledger{e.ledger, e.open(e, "node-b", e.clock)}
		var asked [8][]sluice.Claim
		for i := range asked {
			asked[i] = e.ofAll(4, home)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		accepted := 0
		for i, claims := range asked {
			all.Go(func() {
				decisions, err := servers[i%2].Claim(e.ctx, sale, claims)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					e.Errorf("Claim: %v", err)
				}
				for _, d := range decisions {
					if d.Code == sluice.Accepted {
						accepted++
					} else if d.Code != sluice.AddressLimit {
						e.Errorf("%s", d.Code)
					}
				}
			})
		}
		all.Wait()
		if accepted != 5 {
			e.Errorf("%d orders of one network, want 5", accepted)
		}
	}},
}
