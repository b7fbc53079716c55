package redisledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// releasesOf makes what a store gives for ended orders of the claims.
func releasesOf(sale sluice.SaleID, epoch int64, claims ...sluice.Claim) []port.Release {
	releases := make([]port.Release, len(claims))
	for i, c := range claims {
		releases[i] = port.Release{
			Order: c.Order, Sale: sale, Buyer: c.Buyer, Key: c.Key, Quantity: c.Quantity,
			Epoch: epoch,
		}
	}
	return releases
}

// wantReleased gives releases of sale s and compares what the ledger says.
func wantReleased(t testing.TB, l *redisledger.Ledger, releases []port.Release, want port.Released) {
	t.Helper()
	got := must.Get(l.Release(t.Context(), "s", releases))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("released: -want +got\n%s", diff)
	}
}

var limits = map[string]func(total int64) sluice.Terms{"limits": tight, "no limits": loose}

// A call of more releases than a script takes, or a transaction, is several;
// the answer is that of one, also when the server has forgotten the script.
func TestReleaseOfMany(t *testing.T) {
	url := servertest.Redis(t)
	for name, terms := range limits {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadEpoch(t, l, "s", 4, terms(1500))
			claims := makeClaims("s", 0, 1500)
			for i := range claims {
				claims[i].Buyer = makeClaim("s", i/2).Buyer // two for each
			}
			decisions := claim(t, l, "s", claims...)
			wantAll(t, decisions, sluice.Accepted)

			give := releasesOf("s", 4, claims[:1100]...)
			var unknown []sluice.OrderID
			for _, i := range []int{0, 249, 250, 777, 1099} {
				give[i].Order = sluice.SaleID("s").Order(fmt.Sprintf("f%031x", i))
				unknown = append(unknown, give[i].Order)
			}
			give[500], give[900] = give[1], give[501] // twice, in one call of the script and in two
			older := releasesOf("s", 3, claims[1200:1210]...)
			give = slices.Concat(give[:400], older[:5], give[400:], older[5:])

			later := releasesOf("s", 5, claims[1300])
			if got, err := l.Release(t.Context(), "s", append(slices.Clone(give), later...)); !errors.Is(err,
				port.ErrStaleEpoch) {
				t.Errorf("with one of a later epoch: %+v, %v; want ErrStaleEpoch", got, err)
			}
			if r := read(t, l, "s"); r.Taken != 1500 || !r.CooldownUntil.IsZero() || r.Fence != "" {
				t.Errorf("%+v, want that nothing has changed", r)
			}

			fresh := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
			command(t, newClient(t, url), "SCRIPT", "FLUSH")
			before := read(t, l, "s").Now
			wantReleased(t, fresh, give, port.Released{Applied: 1093, Before: 12, Unknown: unknown})
			if r := read(t, l, "s"); r.Taken != 407 || r.Seq != 1500 ||
				r.CooldownUntil.IsZero() && r.Now.Sub(before) < sluice.RefusalLease {
				t.Errorf("%+v, want 407 taken, in cooldown", r)
			}
			slices.Reverse(give)
			slices.Reverse(unknown)
			wantReleased(t, l, give, port.Released{Before: 1105, Unknown: unknown})

			live := int64(0)
			must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool {
				if r.Live {
					live++
				}
				return true
			}))
			if live != 407 {
				t.Errorf("%d live records, want 407", live)
			}
			for i, d := range claim(t, l, "s", claims...) { // I4: ended or not
				want := decisions[i]
				want.Replayed = true
				if diff := cmp.Diff(want, d); diff != "" {
					t.Fatalf("repeat of claim %d: -want +got\n%s", i, diff)
				}
			}
		})
	}
}

// What a buyer holds and has held counts for the limits, whatever the order of
// claims and endings, also with a line of each kind before and after.
func TestReleaseCountsForTheLimits(t *testing.T) {
	url := servertest.Redis(t)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
	loadOpen(t, l, "s", sluice.Terms{Version: 1, Total: 1000, MaxPerBuyer: 9, MaxOrders: 6})
	ask := func(n int, quantity int64) sluice.Claim {
		c := makeClaim("s", n)
		c.Buyer, c.Quantity, c.Meta = "买家 0", quantity, `{"n":"0\n1"}`
		return c
	}
	a, b, c := ask(1, 2), ask(2, 3), ask(3, 4)
	wantAll(t, claim(t, l, "s", a, b, c), sluice.Accepted)
	other := makeClaim("s", 4)
	wantAll(t, claim(t, l, "s", other), sluice.Accepted)
	wantReleased(t, l, releasesOf("s", 1, b, other, b), port.Released{Applied: 2, Before: 1})
	d := claim(t, l, "s", ask(5, 4), ask(6, 3), ask(7, 1))
	if got := []sluice.Code{d[0].Code, d[1].Code, d[2].Code}; !slices.Equal(got,
		[]sluice.Code{sluice.BuyerLimit, sluice.Accepted, sluice.BuyerLimit}) {
		t.Errorf("codes %v", got)
	}
	if diff := cmp.Diff([]sluice.OrderID{a.Order, c.Order}, d[0].Orders); diff != "" {
		t.Errorf("live orders: -want +got\n%s", diff)
	}
	wantReleased(t, l, releasesOf("s", 1, c, a, ask(6, 3)), port.Released{Applied: 3})
	wantAll(t, claim(t, l, "s", ask(8, 9)), sluice.Accepted)
	wantReleased(t, l, releasesOf("s", 1, ask(8, 9)), port.Released{Applied: 1})
	wantAll(t, claim(t, l, "s", ask(9, 1)), sluice.Accepted)
	wantAll(t, claim(t, l, "s", ask(10, 1)), sluice.BuyerLimit) // a seventh claim
	if r := read(t, l, "s"); r.Taken != 1 || r.Fence != "" {
		t.Errorf("%+v, want 1 taken", r)
	}
}

// A release of an epoch before counts as done, whatever the limits were.
func TestReleaseAfterAnotherLoad(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	other := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
	for epoch := int64(1); epoch <= 4; epoch++ {
		terms := tight(10)
		if epoch%2 == 0 {
			terms = loose(10)
		}
		loadEpoch(t, l, "s", epoch, terms)
		wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
		wantReleased(t, other, releasesOf("s", epoch, makeClaim("s", 1)), port.Released{Applied: 1})
		wantReleased(t, other, releasesOf("s", epoch-1, makeClaim("s", 1)), port.Released{Before: 1})
	}
}

// While the sale does not sell anyway, returning units need no cooldown; nor does
// a sale without a total.
func TestNoRestWithoutNeed(t *testing.T) {
	url := servertest.Redis(t)
	for name, change := range map[string]func(terms *sluice.Terms){
		"paused":   func(terms *sluice.Terms) { terms.Paused = true },
		"closed":   func(terms *sluice.Terms) { terms.ClosesAt = terms.OpensAt.Add(time.Minute) },
		"not open": func(terms *sluice.Terms) { terms.OpensAt = terms.OpensAt.Add(3 * time.Hour) },
		"no total": func(terms *sluice.Terms) { terms.Total = sluice.Unlimited },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
			terms := loadOpen(t, l, "s", tight(1))
			wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
			change(&terms)
			terms.Version++
			must.Succeed(t, l.Apply(t.Context(), "s", 1, terms))
			cooldown := read(t, l, "s").CooldownUntil // of the change itself
			wantReleased(t, l, releasesOf("s", 1, makeClaim("s", 1)), port.Released{Applied: 1})
			if r := read(t, l, "s"); r.Taken != 0 || r.CooldownUntil.After(cooldown) {
				t.Errorf("%+v; want nothing taken, no cooldown after %v", r, cooldown)
			}
		})
	}
}

// Nor is there a cooldown as long as nothing is available.
func TestNoRestWhileSoldOut(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	loadOpen(t, l, "s", tight(3))
	wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
	command(t, newClient(t, url), "HSET", prefix+":{s}:sale", "total", "2") // Apply would refuse it
	for i, cooldown := range []bool{false, true} {
		wantReleased(t, l, releasesOf("s", 1, makeClaim("s", i)), port.Released{Applied: 1})
		if r := read(t, l, "s"); r.CooldownUntil.IsZero() == cooldown {
			t.Errorf("release %d: %+v; want a cooldown: %t", i, r, cooldown)
		}
	}
}

// A ledger that has lost data takes nothing back, and says so to everybody.
func TestReleaseFindsLoss(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for _, test := range []struct {
		name, why string
		terms     sluice.Terms
		harm      func(key string)
	}{
		{"buyers", "buyers are gone", tight(9), func(key string) { command(t, client, "DEL", key+"buyers") }},
		{"sentinel", "buyers are gone", tight(9), func(key string) { command(t, client, "HDEL", key+"buyers", "\n") }},
		{"journal", "journal is gone", tight(9), func(key string) { command(t, client, "DEL", key+"journal") }},
		{"told", "received sequence 3", tight(9), func(key string) {
			command(t, client, "HSET", key+"sale", "told:a", "2")
		}},
		{"seen", "saw 3", tight(9), func(key string) { command(t, client, "HSET", key+"sale", "seq", "2") }},
		{"head", "damaged", loose(9), func(key string) {
			message := command(t, client, "HGET", key+"buyers", "buyer-1")
			record := must.Get(message.ToString())(t)
			command(t, client, "HDEL", key+"buyers", "buyer-1")
			command(t, client, "HSET", key+"buyers", "buyer-1\n"+string(makeClaim("s", 1).Key),
				record[strings.Index(record, "\n")+1:]+"\n")
		}},
		{"taken", "more units", tight(9), func(key string) { command(t, client, "HSET", key+"sale", "taken", "1") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", test.terms)
			wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
			test.harm(prefix + ":{s}:")
			before := command(t, client, "HGETALL", prefix+":{s}:buyers")
			give := releasesOf("s", 1, makeClaims("s", 0, 3)...)
			for range 2 {
				if got, err := l.Release(t.Context(), "s", give); !errors.Is(err, port.ErrStaleEpoch) {
					t.Errorf("%+v, %v; want ErrStaleEpoch", got, err)
				}
			}
			wantLost(t, l, "s", test.why)
			after := command(t, client, "HGETALL", prefix+":{s}:buyers")
			have, _ := before.AsStrMap()
			if now, _ := after.AsStrMap(); !cmp.Equal(have, now) {
				t.Errorf("the records have changed: %s", cmp.Diff(have, now))
			}
		})
	}
}

// A claim that the ledger never had, or has no line of any more, is unknown.
func TestReleaseOfLostLines(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for name, terms := range limits {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", terms(9))
			wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
			message := command(t, client, "HKEYS", prefix+":{s}:buyers")
			fields := must.Get(message.AsStrSlice())(t)
			for _, field := range fields {
				if strings.HasPrefix(field, "buyer-1") {
					command(t, client, "HDEL", prefix+":{s}:buyers", field)
				}
			}
			give := releasesOf("s", 1, makeClaims("s", 0, 3)...)
			wantReleased(t, l, give, port.Released{Applied: 2, Unknown: []sluice.OrderID{give[1].Order}})
		})
	}
}

func TestReleaseOnForeignKeys(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for _, key := range []string{"sale", "buyers"} {
		t.Run(key, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", tight(9))
			wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
			command(t, client, "SET", prefix+":{s}:"+key, "something else")
			_, err := l.Release(t.Context(), "s", releasesOf("s", 1, makeClaim("s", 1)))
			if !errors.Is(err, port.ErrNotLoaded) && !errors.Is(err, port.ErrStaleEpoch) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A Redis without memory refuses releases whole; with memory it takes them.
func TestReleaseOutOfMemory(t *testing.T) {
	server := servertest.StartRedis(t)
	client := newClient(t, server.URL())
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(5))
	wantAll(t, claim(t, l, "s", makeClaims("s", 0, 5)...), sluice.Accepted)
	give := releasesOf("s", 1, makeClaims("s", 0, 3)...)
	command(t, client, "CONFIG", "SET", "maxmemory", "1")
	if got, err := l.Release(t.Context(), "s", give); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("%+v, %v; want OOM", got, err)
	}
	command(t, client, "CONFIG", "SET", "maxmemory", "0")
	if r := read(t, l, "s"); r.Taken != 5 || !r.CooldownUntil.IsZero() || r.Fence != "" {
		t.Errorf("reading %+v, want that of before", r)
	}
	wantReleased(t, l, give, port.Released{Applied: 3})
}

// A release counts only when the replicas have it, since the store forgets it
// then; given again, it changes nothing.
func TestReleaseWaitsForReplicas(t *testing.T) {
	primary := servertest.StartRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica := servertest.StartRedis(t, "--replicaof", host+" "+port)
	l := open(t, primary.URL(), redisledger.Options{Node: "a", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond})
	loadOpen(t, l, "s", tight(9))
	wantAll(t, claimWhenBack(t, l, "s", makeClaims("s", 0, 3)), sluice.Accepted)
	replica.Kill()
	give := releasesOf("s", 1, makeClaims("s", 0, 2)...)
	if got, err := l.Release(t.Context(), "s", give); err == nil || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("without a replica: %+v, %v; want outcome unknown", got, err)
	}
	replica.Start()
	if got := releaseWhenBack(t, l, "s", give); got.Before != 2 || got.Applied != 0 {
		t.Errorf("%+v, want two that were applied before", got)
	}
	if r := read(t, l, "s"); r.Taken != 1 {
		t.Errorf("%+v, want 1 taken", r)
	}
}

// releaseWhenBack gives releases until the ledger answers, as the store does.
func releaseWhenBack(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID,
	releases []port.Release,
) port.Released {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got, err := l.Release(t.Context(), sale, releases)
		if err == nil {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
