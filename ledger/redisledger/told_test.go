package redisledger_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// copyOf keeps the keys of the sale "s" as they are now, and returns what brings
// them back: as a failover to a replica that has nothing newer would.
func copyOf(t *testing.T, client rueidis.Client, prefix string) (failover func()) {
	t.Helper()
	dumps := map[string]string{}
	for _, key := range []string{"sale", "buyers", "journal"} {
		message := command(t, client, "DUMP", prefix+":{s}:"+key)
		text := must.Get(message.ToString())(t)
		dumps[prefix+":{s}:"+key] = text
	}
	return func() {
		t.Helper()
		for key, dump := range dumps {
			command(t, client, "RESTORE", key, "0", dump, "REPLACE")
		}
	}
}

// A replay is an acceptance too: a server that has said "accepted" again
// notices, as the one that said it first would, that the claim is lost, also
// when others have gone beyond its sequence (I4, I5).
func TestReplaysCountAsTold(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	other := makeClaim("s", 3)
	other.Quantity = 2
	for _, terms := range []sluice.Terms{tight(100), loose(100)} {
		for name, repeat := range map[string][]sluice.Claim{
			"a repeat": makeClaims("s", 3, 4),
			"one among refused": {
				makeClaim("s", 3),
				{Buyer: "buyer-9", Key: "too-many", Quantity: 1000, Order: makeClaim("s", 9).Order},
			},
			"a repeat with other content": {other},
		} {
			t.Run(name, func(t *testing.T) {
				for what, notice := range map[string]func(a *redisledger.Ledger){
					"claim": func(a *redisledger.Ledger) {
						wantAll(t, claim(t, a, "s", makeClaims("s", 50, 52)...), sluice.Unavailable)
					},
					"read": func(a *redisledger.Ledger) { read(t, a, "s") },
					"release": func(a *redisledger.Ledger) {
						if got, err := a.Release(t.Context(), "s", releasesOf("s", 1, makeClaim("s", 0))); err == nil {
							t.Errorf("released: %+v", got)
						}
					},
				} {
					prefix := newPrefix(t, url)
					a := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
					b := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
					c := open(t, url, redisledger.Options{Node: "c", Prefix: prefix})
					loadOpen(t, c, "s", terms)
					wantAll(t, claim(t, c, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
					failover := copyOf(t, client, prefix)
					wantAll(t, claim(t, c, "s", makeClaim("s", 3)), sluice.Accepted)
					claim(t, a, "s", repeat...)
					failover()
					wantAll(t, claim(t, b, "s", makeClaims("s", 10, 21)...), sluice.Accepted)
					notice(a)
					if r := read(t, b, "s"); !strings.Contains(r.Fence, "a received sequence 4") {
						t.Errorf("noticed by %s: fence %q", what, r.Fence)
					}
				}
			})
		}
	}
}

// A sequence on record is not written again, unless a WAIT follows.
func TestReplaysWriteOnce(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	client := newClient(t, server.URL())
	writes := func() (n int) {
		message := command(t, client, "INFO", "commandstats")
		text := must.Get(message.ToString())(t)
		_, text, _ = strings.Cut(text, "cmdstat_hset:calls=")
		text, _, _ = strings.Cut(text, ",")
		n = must.Get(strconv.Atoi(text))(t)
		return n
	}
	a := open(t, server.URL(), redisledger.Options{Node: "a"})
	b := open(t, server.URL(), redisledger.Options{Node: "b"})
	loadOpen(t, a, "s", tight(100))
	wantAll(t, claim(t, a, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
	for i, want := range []int{1, 0, 0} {
		before := writes()
		wantAll(t, claim(t, b, "s", makeClaim("s", 0)), sluice.Accepted)
		if got := writes() - before; got != want {
			t.Errorf("repeat %d: %d writes, want %d", i, got, want)
		}
	}
	before := writes()
	wantAll(t, claim(t, a, "s", makeClaim("s", 0)), sluice.Accepted)
	wantAll(t, claim(t, a, "s", sluice.Claim{
		Buyer: "buyer-9", Key: "too-many", Quantity: 9,
		Order: makeClaim("s", 9).Order,
	}), sluice.BuyerLimit)
	if got := writes() - before; got != 0 {
		t.Errorf("a repeat and a refusal with all on record: %d writes, want none", got)
	}
}

// The loss of a single sequence is a loss, by whatever it shows, and a reading
// takes nothing from what the server received before.
func TestLossOfOne(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for what, notice := range map[string]func(l *redisledger.Ledger){
		"claim":   func(l *redisledger.Ledger) { claim(t, l, "s", makeClaim("s", 50)) },
		"read":    func(l *redisledger.Ledger) { read(t, l, "s") },
		"release": func(l *redisledger.Ledger) { l.Release(t.Context(), "s", releasesOf("s", 1, makeClaim("s", 0))) },
	} {
		for field, why := range map[string]string{
			"told:a": "a received sequence 3, on record is 2", "seq": "sequence 2, where a saw 3",
		} {
			for _, readings := range []int{0, 2} {
				prefix := newPrefix(t, url)
				a := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
				loadOpen(t, a, "s", tight(100))
				wantAll(t, claim(t, a, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
				for range readings {
					read(t, a, "s")
				}
				command(t, client, "HINCRBY", prefix+":{s}:sale", field, "-1")
				notice(a)
				message := command(t, client, "HGET", prefix+":{s}:sale", "fence")
				if text, _ := message.ToString(); !strings.Contains(text, why) {
					t.Errorf("%s one less, after %d readings: by %s the fence is %q, want %q", field, readings, what, text, why)
				}
			}
		}
	}
}

// Terms that went back are a loss as well: a sale that was paused, or postponed, sells nothing
// by those of before (I8).
func TestLossOfTerms(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for what, notice := range map[string]func(l *redisledger.Ledger){
		"claim": func(l *redisledger.Ledger) { wantAll(t, claim(t, l, "s", makeClaim("s", 50)), sluice.Unavailable) },
		"read":  func(l *redisledger.Ledger) { read(t, l, "s") },
	} {
		prefix := newPrefix(t, url)
		a := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
		terms := tight(100)
		loadOpen(t, a, "s", terms)
		failover := copyOf(t, client, prefix)
		terms.Version, terms.Paused = terms.Version+1, true
		must.Succeed(t, a.Apply(t.Context(), "s", 1, terms))
		read(t, a, "s")
		failover()
		notice(a)
		message := command(t, client, "HGET", prefix+":{s}:sale", "fence")
		if text, _ := message.ToString(); !strings.Contains(text, "version 1 of the terms, where a knew 2") {
			t.Errorf("by %s the fence is %q", what, text)
		}
	}
}

// Whatever is asked about sales that do not exist, nothing of them is kept: buyers
// can name any number of them.
func TestMadeUpSalesAreNotRemembered(t *testing.T) {
	l := open(t, servertest.Redis(t), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(5))
	for n := range 10 {
		id := sluice.SaleID(fmt.Sprint("made-up-", n))
		c := makeClaim(id, 0)
		if r := read(t, l, id); r.Loaded {
			t.Errorf("%+v", r)
		}
		for _, buyer := range []sluice.BuyerID{c.Buyer, ""} {
			if _, err := l.Find(t.Context(), c.Order, buyer); err == nil {
				t.Error("an order of a sale that does not exist is found")
			}
		}
		if _, err := l.Recall(t.Context(), sluice.ClaimID{Sale: id, Buyer: c.Buyer, Key: c.Key}); err == nil {
			t.Error("a claim of a sale that does not exist is recalled")
		}
	}
	if n := l.Remembered(); n != 1 {
		t.Errorf("%d sales are remembered, want the one that exists", n)
	}
}
