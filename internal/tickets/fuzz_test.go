package tickets

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

func sha(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }

// Nothing but the very ticket passes, whatever text comes.
func FuzzTicket(f *testing.F) {
	k := keys(f, "secret", "older")
	good, _ := k.Ticket("phones", "ann", opens, clock)
	aged, _ := keys(f, "older", "").Ticket("phones", "ann", opens, clock)
	f.Add(good, "phones", "ann")
	f.Add(good, "phones", "bob")
	f.Add("t1."+name(k)+".-1.", "phones", "ann")
	f.Add("t1...", "", "")
	f.Fuzz(func(t *testing.T, ticket, sale, buyer string) {
		err := k.CheckTicket(ticket, sluice.SaleID(sale), sluice.BuyerID(buyer), clock)
		if err == nil && (ticket != good && ticket != aged || sale != "phones" || buyer != "ann") {
			t.Errorf("%q of %q for %q passes", ticket, buyer, sale)
		}
		if err != nil && !errors.Is(err, ErrForged) && !errors.Is(err, ErrExpired) {
			t.Errorf("error %v", err)
		}
	})
}

// What is made passes for its own buyer and sale, and for no other.
func FuzzTicketMade(f *testing.F) {
	k := keys(f, "secret", "")
	f.Add("phones", "ann", "phonesa", "nn", int64(0))
	zeros := strings.Repeat("\x00", 8)
	f.Add("a", "b"+zeros+"c", "a"+zeros+"b", "c", int64(0))
	f.Fuzz(func(t *testing.T, sale, buyer, otherSale, otherBuyer string, ms int64) {
		now := time.UnixMilli(ms % (200 * 365 * 24 * 3600 * 1000))
		ticket, _ := k.Ticket(sluice.SaleID(sale), sluice.BuyerID(buyer), now, now)
		if err := k.CheckTicket(ticket, sluice.SaleID(sale), sluice.BuyerID(buyer), now); err != nil {
			t.Errorf("its own ticket: %v", err)
		}
		if sale == otherSale && buyer == otherBuyer {
			return
		}
		if err := k.CheckTicket(ticket, sluice.SaleID(otherSale), sluice.BuyerID(otherBuyer), now); err == nil {
			t.Error("another's ticket passes")
		}
	})
}

func FuzzSolution(f *testing.F) {
	k := keys(f, "secret", "")
	// As Challenge makes them, but the same in every process of a fuzzer.
	good := k.known[0].sign("c1."+name(k)+"."+formatTime(clock.Add(ChallengeLife).UnixMilli())+".6.c2FsdHNhbHRz", "phones",
		"ann")
	f.Add(good, solve(good, 6), 6)
	f.Add(good, "", 6)
	f.Add("c1."+name(k)+".0.0..", "0", 0)
	f.Fuzz(func(t *testing.T, challenge, nonce string, difficulty int) {
		err := k.CheckSolution(challenge, nonce, "phones", "ann", difficulty, clock)
		if err == nil && (challenge != good || zeroBitsOf(challenge, nonce) < 6) {
			t.Errorf("%q with %q passes", challenge, nonce)
		}
		if err != nil && !errors.Is(err, ErrForged) && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrUnsolved) {
			t.Errorf("error %v", err)
		}
	})
}
