package redisledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// newPrefix keeps a test's keys apart from all others, and removes them after
// the test.
func newPrefix(t testing.TB, url string) string {
	prefix := fmt.Sprintf("sluicetest-%016x", rand.Uint64())
	t.Cleanup(func() {
		client := newClient(t, url)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for cursor := uint64(0); ; {
			page, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(prefix+":*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				t.Logf("clean up %s: %v", prefix, err)
				return
			}
			for _, key := range page.Elements {
				client.Do(ctx, client.B().Unlink().Key(key).Build())
			}
			if cursor = page.Cursor; cursor == 0 {
				return
			}
		}
	})
	return prefix
}

// newClient is a plain connection, to look at keys and to harm them.
func newClient(t testing.TB, url string) rueidis.Client {
	t.Helper()
	option := must.Get(redisledger.ParseURL(url))(t)
	option.DisableCache = true
	client := must.Get(rueidis.NewClient(option))(t)
	t.Cleanup(client.Close)
	return client
}

// command runs any command and fails the test if that fails.
func command(t testing.TB, client rueidis.Client, words ...string) rueidis.RedisMessage {
	t.Helper()
	message, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return message
}

func open(t testing.TB, url string, opts redisledger.Options) *redisledger.Ledger {
	t.Helper()
	l := must.Get(redisledger.Open(context.Background(), url, opts))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// tight are terms with limits.
func tight(total int64) sluice.Terms {
	return sluice.Terms{Version: 1, Total: total, MaxPerBuyer: 2, MaxOrders: 11}
}

// loose are terms without limits.
func loose(total int64) sluice.Terms {
	return sluice.Terms{Version: 1, Total: total, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited}
}

// loadOpen brings a sale in, under epoch 1, that has been open for an hour.
func loadOpen(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID, terms sluice.Terms) sluice.Terms {
	t.Helper()
	return loadEpoch(t, l, sale, 1, terms)
}

func loadEpoch(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) sluice.Terms {
	t.Helper()
	terms.OpensAt = time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	must.Succeed(t, l.Load(t.Context(), port.LoadImage{Sale: sale, Epoch: epoch, Terms: terms}))
	must.Succeed(t, l.Unfence(t.Context(), sale, epoch))
	return terms
}

// makeClaim makes the n-th claim of a sale: buyer, key and order follow from n.
func makeClaim(sale sluice.SaleID, n int) sluice.Claim {
	id := fmt.Sprintf("%032x", n)
	return sluice.Claim{
		Buyer: sluice.BuyerID(fmt.Sprint("buyer-", n)), Key: sluice.Key(id), Quantity: 1, Order: sale.Order(id),
	}
}

// makeClaims makes claims from to to-1.
func makeClaims(sale sluice.SaleID, from, to int) []sluice.Claim {
	claims := make([]sluice.Claim, 0, to-from)
	for n := from; n < to; n++ {
		claims = append(claims, makeClaim(sale, n))
	}
	return claims
}

func claim(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID, claims ...sluice.Claim) []sluice.Decision {
	t.Helper()
	decisions := must.Get(l.Claim(t.Context(), sale, claims))(t)
	return decisions
}

// wantAll checks that all decisions have one code.
func wantAll(t testing.TB, decisions []sluice.Decision, want sluice.Code) {
	t.Helper()
	for i, d := range decisions {
		if d.Code != want {
			t.Fatalf("decision %d of %d: %s, want %s", i, len(decisions), d.Code, want)
		}
	}
}

func read(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID) port.Reading {
	t.Helper()
	readings := must.Get(l.Read(t.Context(), []sluice.SaleID{sale}))(t)
	return readings[0]
}

// wantLost checks that the sale is fenced as lost, and stays so for everybody.
func wantLost(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID, why string) {
	t.Helper()
	r := read(t, l, sale)
	if !r.Loaded || !strings.HasPrefix(r.Fence, port.FenceLost) || !strings.Contains(r.Fence, why) {
		t.Errorf("loaded %t, fence %q; want one that begins with %q and says %q", r.Loaded, r.Fence, port.FenceLost, why)
	}
	wantAll(t, claim(t, l, sale, makeClaim(sale, 999_999)), sluice.Unavailable)
}

// streamID is the id of an entry in its stream.
func streamID(e port.Entry) string { return strings.TrimPrefix(e.ID, fmt.Sprintf("%d:", e.Epoch)) }
