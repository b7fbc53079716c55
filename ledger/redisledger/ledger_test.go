package redisledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/ledgertest"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"go.uber.org/goleak"
)

// The suite passes, as a user of Redis with no more rights than are documented.
func TestConformance(t *testing.T) {
	url := servertest.Redis(t)
	least := leastRights(t, url)
	ledgertest.Harness{
		SharedNodes: true,
		New: func(t testing.TB) ledgertest.Open {
			prefix := newPrefix(t, url)
			return func(t testing.TB, node string, clock *ledgertest.Clock) port.Ledger {
				return open(t, least, redisledger.Options{Node: node, Prefix: prefix, Now: clock.Now, Timeout: 20 * time.Second})
			}
		},
	}.Run(t)
}

// A call of more claims than a script takes, or a transaction, is several; the
// answers are those of one, also when the server has forgotten the script.
func TestClaimOfManyClaims(t *testing.T) {
	url := servertest.Redis(t)
	for name, terms := range map[string]sluice.Terms{"limits": tight(1300), "no limits": loose(1300)} {
		t.Run(name, func(t *testing.T) {
			l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
			loadOpen(t, l, "s", terms)
			command(t, newClient(t, url), "SCRIPT", "FLUSH")
			claims := makeClaims("s", 0, 1420)
			decisions := claim(t, l, "s", claims...)
			wantAll(t, decisions[:1300], sluice.Accepted)
			wantAll(t, decisions[1300:], sluice.SoldOut)
			for i, d := range decisions[:1300] {
				if d.Seq != int64(i+1) || d.Order != claims[i].Order || d.Replayed {
					t.Fatalf("claim %d: %+v", i, d)
				}
			}
			for i, d := range claim(t, l, "s", claims[:1300]...) {
				want := decisions[i]
				want.Replayed = true
				if diff := cmp.Diff(want, d); diff != "" {
					t.Fatalf("repeat of claim %d: -want +got\n%s", i, diff)
				}
			}
			if r := read(t, l, "s"); r.Seq != 1300 || r.Taken != 1300 || r.Backlog != 6 {
				t.Errorf("reading %+v", r)
			}
		})
	}
}

// Limits may come and go after the load.
func TestLimitsChangeAfterTheLoad(t *testing.T) {
	url := servertest.Redis(t)
	for name, before := range map[string]sluice.Terms{"limits": tight(100), "no limits": loose(100)} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			other := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
			terms := loadOpen(t, l, "s", before)
			again := func(key string, quantity int64) sluice.Claim {
				c := makeClaim("s", 1)
				c.Key, c.Quantity = sluice.Key(key), quantity
				c.Order = sluice.SaleID("s").Order((key + strings.Repeat("0", 32))[:32])
				return c
			}
			first := claim(t, l, "s", again("00000001", 1), again("00000002", 1))
			wantAll(t, first, sluice.Accepted)

			terms.Version, terms.MaxPerBuyer, terms.MaxOrders = 2, 3, 3
			must.Succeed(t, l.Apply(t.Context(), "s", 1, terms))
			d := claim(t, other, "s", again("00000003", 2), again("00000004", 1), again("00000005", 1))
			want := []sluice.Code{sluice.BuyerLimit, sluice.Accepted, sluice.BuyerLimit}
			if got := []sluice.Code{d[0].Code, d[1].Code, d[2].Code}; !slices.Equal(got, want) {
				t.Fatalf("codes %v, want %v", got, want)
			}
			orders := []sluice.OrderID{first[0].Order, first[1].Order}
			if diff := cmp.Diff(orders, d[0].Orders); diff != "" {
				t.Errorf("orders of the first refusal: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(append(orders, d[1].Order), d[2].Orders); diff != "" {
				t.Errorf("orders of the second refusal: -want +got\n%s", diff)
			}

			terms.Version, terms.MaxPerBuyer, terms.MaxOrders = 3, sluice.Unlimited, sluice.Unlimited
			must.Succeed(t, l.Apply(t.Context(), "s", 1, terms))
			wantAll(t, claim(t, other, "s", again("00000006", 50)), sluice.Accepted)
		})
	}
}

func TestOpenReadOnly(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	terms := loadOpen(t, l, "s", tight(10))
	decisions := claim(t, l, "s", makeClaims("s", 0, 3)...)

	audit := must.Get(redisledger.OpenReadOnly(t.Context(), url, redisledger.Options{Prefix: prefix}))(t)
	defer audit.Close()
	if r := read(t, audit, "s"); r.Seq != 3 || r.Taken != 3 || r.Fence != "" || r.Backlog != 1 {
		t.Errorf("reading %+v", r)
	}
	records := 0
	must.Succeed(t, audit.Records(t.Context(), "s", func(port.Record) bool { records++; return true }))
	entries := 0
	must.Succeed(t, audit.PeekJournal(t.Context(), "s", func(port.Entry) bool { entries++; return true }))
	if records != 3 || entries != 1 {
		t.Errorf("%d records and %d entries, want 3 and 1", records, entries)
	}
	found, err := audit.Find(t.Context(), decisions[2].Order, "")
	if err != nil || found.Order != decisions[2].Order || found.Buyer != "buyer-2" {
		t.Errorf("Find: %+v, %v", found, err)
	}

	ctx := t.Context()
	_, claimErr := audit.Claim(ctx, "s", makeClaims("s", 5, 6))
	_, releaseErr := audit.Release(ctx, "s", releasesOf("s", 1, makeClaim("s", 0)))
	_, readErr := audit.ReadJournal(ctx, port.JournalRead{Sale: "s", Source: port.New})
	for what, err := range map[string]error{
		"Claim": claimErr, "ReadJournal": readErr, "Release": releaseErr, "Drop": audit.Drop(ctx, "s", 1),
		"Ack":   audit.Ack(ctx, "s", []string{"1-1"}),
		"Load":  audit.Load(ctx, port.LoadImage{Sale: "s", Epoch: 9, Terms: terms}),
		"Apply": audit.Apply(ctx, "s", 1, terms), "Fence": audit.Fence(ctx, "s", 1, "why"),
		"Unfence": audit.Unfence(ctx, "s", 1),
	} {
		if err == nil || !strings.Contains(err.Error(), "reading only") {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	// It does not even fence what it finds damaged, but says so.
	command(t, newClient(t, url), "DEL", prefix+":{s}:journal")
	if r := read(t, audit, "s"); !strings.HasPrefix(r.Fence, port.FenceLost) {
		t.Errorf("fence %q", r.Fence)
	}
	if fence, _ := newClient(t, url).Do(ctx, newClient(t, url).B().Hget().Key(prefix+":{s}:sale").Field("fence").Build()).
		ToString(); fence != "" {
		t.Errorf("the read-only ledger has written the fence %q", fence)
	}
}

func TestOpenRefusesBadOptions(t *testing.T) {
	for _, opts := range []redisledger.Options{
		{}, {Node: "two words"}, {Node: strings.Repeat("n", 65)}, {Node: "a", Prefix: "sluice{x}"},
	} {
		l, err := redisledger.Open(t.Context(), "redis://127.0.0.1:1", opts)
		if err == nil {
			l.Close()
			t.Errorf("%+v: opened", opts)
		} else if strings.Contains(err.Error(), "connect") {
			t.Errorf("%+v: %v, want a word on the options", opts, err)
		}
	}
}

func TestOpenSaysWhatItCannotReach(t *testing.T) {
	port, err := servertest.FreePort()
	must.Succeed(t, err)
	url := "redis://:secret@127.0.0.1:" + itoa(port)
	_, err = redisledger.Open(t.Context(), url, redisledger.Options{Node: "a"})
	if err == nil || !strings.Contains(err.Error(), "connect to 127.0.0.1:"+itoa(port)) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestPassword(t *testing.T) {
	server := servertest.StartRedis(t)
	command(t, newClient(t, server.URL()), "CONFIG", "SET", "requirepass", "right/one")
	_, err := redisledger.Open(t.Context(), "redis://:hunter2@"+server.Addr(), redisledger.Options{Node: "a"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("wrong password: %v, want an error without it", err)
	}
	l := open(t, "redis://:right%2Fone@"+server.Addr(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(1))
	wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
}

func TestClose(t *testing.T) {
	url := servertest.Redis(t)
	ignore := goleak.IgnoreCurrent()
	l := must.Get(redisledger.Open(t.Context(), url, redisledger.Options{Node: "a"}))(t)
	if _, err := l.Read(t.Context(), []sluice.SaleID{"none", "neither"}); err != nil {
		t.Error(err)
	}
	must.Succeed(t, l.Close())
	must.Succeed(t, l.Close())
	_, claimErr := l.Claim(t.Context(), "s", makeClaims("s", 0, 1))
	_, readErr := l.Read(t.Context(), []sluice.SaleID{"s"})
	for what, err := range map[string]error{
		"Claim": claimErr, "Read": readErr,
		"Fence": l.Fence(t.Context(), "s", 1, "why"),
	} {
		if !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", what, err)
		}
	}
	goleak.VerifyNone(t, ignore)
}

// A Redis that hangs ends the call in time, with an error, not an answer.
func TestTimeout(t *testing.T) {
	server := servertest.StartRedis(t)
	loadOpen(t, open(t, server.URL(), redisledger.Options{Node: "b"}), "s", tight(10))
	l := open(t, server.URL(), redisledger.Options{Node: "a", Timeout: 200 * time.Millisecond})
	server.Freeze()
	start := time.Now()
	_, err := l.Claim(t.Context(), "s", makeClaims("s", 0, 1))
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
		t.Errorf("error %v after %s, want the deadline", err, took)
	}
	server.Thaw()
	// The claim may have been decided in the meantime; a repeat of its key shows it.
	d := claimWhenBack(t, l, "s", makeClaims("s", 0, 1))
	if d[0].Code != sluice.Accepted || d[0].Seq != 1 {
		t.Errorf("decision %+v, want the first of the sale", d[0])
	}
}

// The name of a Redis outlives its key, whatever takes the key's place: by it the store
// knows who decides about its sales.
func TestTheNameIsWrittenAgain(t *testing.T) {
	server := servertest.StartRedis(t)
	l, client := open(t, server.URL(), redisledger.Options{Node: "a"}), newClient(t, server.URL())
	called := func(l *redisledger.Ledger) (string, error) {
		name, _, err := l.Name(t.Context())
		return name, err
	}
	name, err := called(l)
	if err != nil || !strings.HasPrefix(name, "redis:") {
		t.Fatal(name, err)
	}
	for _, spoil := range [][]string{{"PING"}, {"RPUSH", "sluice:name", "x"}} {
		command(t, client, "DEL", "sluice:name")
		command(t, client, spoil...)
		if again, err := called(l); again != name || err != nil {
			t.Errorf("after %s it is called %q, %v; want %q", spoil, again, err, name)
		}
		if other, err := called(open(t, server.URL(), redisledger.Options{Node: "b"})); other != name || err != nil {
			t.Errorf("after %s another server calls it %q, %v; want %q", spoil, other, err, name)
		}
	}
	command(t, client, "DEL", "sluice:name")
	command(t, client, "RPUSH", "sluice:name", "x")
	if other, err := called(open(t, server.URL(), redisledger.Options{Node: "c"})); err == nil {
		t.Errorf("who does not know the name calls it %q", other)
	}
}
