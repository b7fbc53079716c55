package tickets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

var (
	clock = time.Date(2026, 11, 11, 11, 59, 30, 0, time.UTC)
	opens = clock.Add(30 * time.Second)
)

// name is the current key's.
func name(k *Keys) string { return k.known[0].id }

func keys(t testing.TB, secret, previous string) *Keys {
	t.Helper()
	k := must.Get(NewKeys(secret, previous))(t)
	return k
}

func TestTicket(t *testing.T) {
	k := keys(t, "secret", "")
	ticket, expires := k.Ticket("phones", "ann", opens, clock)
	if want := opens.Add(ticketLife); !expires.Equal(want) {
		t.Errorf("expires %v, want %v: its life begins with the opening", expires, want)
	}
	later, expiresLater := k.Ticket("phones", "ann", opens, opens.Add(time.Hour))
	if want := opens.Add(time.Hour + ticketLife); !expiresLater.Equal(want) || later == ticket {
		t.Errorf("of an open sale: expires %v, want %v", expiresLater, want)
	}
	if len(ticket) > maxSigned {
		t.Errorf("%d bytes are more than maxSigned", len(ticket))
	}
	old := keys(t, "older", "")
	aged, _ := old.Ticket("phones", "ann", opens, clock)
	challenge, _ := k.Challenge("phones", "ann", 1, clock)
	// The last character of 32 bytes in base64 has two bits that mean nothing.
	loose := ticket[:len(ticket)-1] + string(ticket[len(ticket)-1]+1)

	for _, c := range []struct {
		name   string
		keys   *Keys
		ticket string
		sale   sluice.SaleID
		buyer  sluice.BuyerID
		at     time.Time
		want   error
	}{
		{"good", k, ticket, "phones", "ann", clock, nil},
		{"at the opening", k, ticket, "phones", "ann", opens, nil},
		{"the last moment", k, ticket, "phones", "ann", expires.Add(-1), nil},
		{"expired", k, ticket, "phones", "ann", expires, ErrExpired},
		{"another buyer's", k, ticket, "phones", "bob", clock, ErrForged},
		{"another sale's", k, ticket, "tablets", "ann", clock, ErrForged},
		{"the border between the two moved", k, ticket, "phonesa", "nn", clock, ErrForged},
		{"of another secret", k, aged, "phones", "ann", clock, ErrForged},
		{"of the previous secret", keys(t, "secret", "older"), aged, "phones", "ann", clock, nil},
		{"of the current one beside a previous", keys(t, "secret", "older"), ticket, "phones", "ann", clock, nil},
		{"of a secret that is gone", keys(t, "newest", "newer"), ticket, "phones", "ann", clock, ErrForged},
		{"a challenge is no ticket", k, challenge, "phones", "ann", clock, ErrForged},
		{"none", k, "", "phones", "ann", clock, ErrForged},
		{"dots", k, "...", "phones", "ann", clock, ErrForged},
		{"another version", k, "t2" + ticket[2:], "phones", "ann", clock, ErrForged},
		{"loose bits at the end", k, loose, "phones", "ann", clock, ErrForged},
		{"something follows", k, ticket + "A", "phones", "ann", clock, ErrForged},
		{"a space follows", k, ticket + " ", "phones", "ann", clock, ErrForged},
		{"another key's name", k, strings.Replace(ticket, name(k), name(old), 1), "phones", "ann", clock, ErrForged},
		{"long", k, ticket + strings.Repeat("A", 1<<20), "phones", "ann", clock, ErrForged},
	} {
		if err := c.keys.CheckTicket(c.ticket, c.sale, c.buyer, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// No byte of a ticket can be another one.
func TestTicketWithOneByteChanged(t *testing.T) {
	k := keys(t, "secret", "older")
	ticket, _ := k.Ticket("phones", "ann", opens, clock)
	for i := range len(ticket) {
		for _, c := range []byte{'0', 'A', '.', '-', 0, ticket[i] ^ 1} {
			if c == ticket[i] {
				continue
			}
			if err := k.CheckTicket(ticket[:i]+string(rune(c))+ticket[i+1:], "phones", "ann", clock); err == nil {
				t.Errorf("byte %d changed to %q: it passes", i, c)
			}
		}
	}
}

func TestChallenge(t *testing.T) {
	k := keys(t, "secret", "")
	const bits = 8
	challenge, expires := k.Challenge("phones", "ann", bits, clock)
	nonce := solve(challenge, bits)
	wrong := nonce + "0"
	for zeroBitsOf(challenge, wrong) >= bits {
		wrong += "0"
	}
	almost := 0 // one zero bit short
	for zeroBitsOf(challenge, fmt.Sprint(almost)) != bits-1 {
		almost++
	}
	another, _ := k.Challenge("phones", "ann", bits, clock)
	if another == challenge {
		t.Error("two challenges are the same")
	}
	ticket, _ := k.Ticket("phones", "ann", opens, clock)
	for _, c := range []struct {
		name             string
		challenge, nonce string
		sale             sluice.SaleID
		buyer            sluice.BuyerID
		difficulty       int
		at               time.Time
		want             error
	}{
		{"solved", challenge, nonce, "phones", "ann", bits, clock, nil},
		{"again", challenge, nonce, "phones", "ann", bits, expires.Add(-1), nil},
		{"expired", challenge, nonce, "phones", "ann", bits, expires, ErrExpired},
		{"another buyer's", challenge, nonce, "phones", "bob", bits, clock, ErrForged},
		{"another sale's", challenge, nonce, "tablets", "ann", bits, clock, ErrForged},
		{"the sale asks for less now", challenge, nonce, "phones", "ann", bits - 1, clock, nil},
		{"the sale asks for more now", challenge, nonce, "phones", "ann", bits + 1, clock, ErrExpired},
		{"not solved", challenge, wrong, "phones", "ann", bits, clock, ErrUnsolved},
		{"nearly solved", challenge, fmt.Sprint(almost), "phones", "ann", bits, clock, ErrUnsolved},
		{"the solution of another one", another, nonceNot(another, nonce, bits), "phones", "ann", bits, clock, ErrUnsolved},
		{"no nonce", challenge, "", "phones", "ann", bits, clock, ErrUnsolved},
		{"a nonce that is no word", challenge, nonce + " ", "phones", "ann", bits, clock, ErrUnsolved},
		{"a long nonce", challenge, strings.Repeat("1", maxNonce+1), "phones", "ann", bits, clock, ErrUnsolved},
		{"less difficult by hand", strings.Replace(challenge, ".8.", ".1.", 1), nonce, "phones", "ann", 1, clock, ErrForged},
		{"a ticket is no challenge", ticket, nonce, "phones", "ann", bits, clock, ErrForged},
		{"none", "", nonce, "phones", "ann", bits, clock, ErrForged},
	} {
		if err := k.CheckSolution(c.challenge, c.nonce, c.sale, c.buyer, c.difficulty, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func zeroBitsOf(challenge, nonce string) int { return zeroBits(sha([]byte(challenge + "." + nonce))) }

// nonceNot is nonce, lengthened until it does not solve the challenge by chance.
func nonceNot(challenge, nonce string, difficulty int) string {
	for zeroBitsOf(challenge, nonce) >= difficulty {
		nonce += "1"
	}
	return nonce
}

func TestZeroBits(t *testing.T) {
	for _, c := range []struct {
		first []byte
		want  int
	}{
		{[]byte{0x80}, 0},
		{[]byte{0x40}, 1},
		{[]byte{0x01}, 7},
		{[]byte{0, 0x80}, 8},
		{[]byte{0, 0, 0x10}, 19},
		{nil, 256},
	} {
		var sum [32]byte
		copy(sum[:], c.first)
		if got := zeroBits(sum); got != c.want {
			t.Errorf("%x: %d, want %d", c.first, got, c.want)
		}
	}
}

func TestKeysNeedASecret(t *testing.T) {
	if _, err := NewKeys("", "older"); err == nil {
		t.Error("no error")
	}
	if a, b := keys(t, "one", ""), keys(t, "two", ""); name(a) == name(b) || len(name(a)) != idDigits {
		t.Errorf("names of keys: %q, %q", name(a), name(b))
	}
}

func BenchmarkCheckTicket(b *testing.B) {
	k := keys(b, "secret", "")
	ticket, _ := k.Ticket("phones", "ann", opens, clock)
	b.ReportAllocs()
	for b.Loop() {
		must.Succeed(b, k.CheckTicket(ticket, "phones", "ann", clock))
	}
}

func solve(challenge string, difficulty int) string {
	nonce, err := Solve(context.Background(), challenge, difficulty)
	if err != nil {
		panic(err)
	}
	return nonce
}

func TestSolveEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Solve(ctx, "x", sluice.MaxDifficulty); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
