package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// till is a server on a real socket, and a crowd's way to it.
type till struct {
	engine *engine.Engine
	url    string
	http   *http.Client
}

func openTill(b *testing.B, cfg engine.Config, connections int) *till {
	b.Helper()
	cfg.DataDir, cfg.BuyerSecret = b.TempDir(), "buyer-secret-of-the-fleet"
	e := must.Get(engine.Open(context.Background(), cfg))(b)
	server := httptest.NewUnstartedServer(nil)
	server.Config = e.NewServer()
	server.Start()
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = e.Close(context.Background())
	})
	return &till{e, server.URL, &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections,
	}}}
}

func tokenOf(b *testing.B, buyer string) string {
	signed := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte("buyer-secret-of-the-fleet")))(b)
	return signed
}

// claim sends one claim, and returns status, code and opens_at of the answer.
func (k *till) claim(sale sluice.SaleID, token, key string) (status int, code, opens string, err error) {
	request, err := http.NewRequest(http.MethodPost, k.url+"/v1/sales/"+string(sale)+"/orders",
		strings.NewReader(`{"quantity":1}`))
	if err != nil {
		return 0, "", "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Idempotency-Key", key)
	response, err := k.http.Do(request)
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var fields struct {
		Code    string `json:"code"`
		OpensAt string `json:"opens_at"`
	}
	if err == nil {
		err = json.Unmarshal(body, &fields)
	}
	return response.StatusCode, fields.Code, fields.OpensAt, err
}

// BenchmarkOpening lets a crowd press on three servers from before an opening
// until all is sold, and reports how long after the opening the first claim was
// accepted (by the ledger's clock) and answered. Run it with -benchtime 5x.
func BenchmarkOpening(b *testing.B) {
	redis, store := servertest.StartRedis(b, "--appendonly", "yes", "--appendfsync", "always"), servertest.Postgres(b)
	var tills []*till
	for _, node := range []string{"one", "two", "three"} {
		tills = append(tills, openTill(b, engine.Config{Ledger: redis.URL(), Store: store, Node: node}, 100))
	}
	const buyers = 90
	var tokens []string
	for i := range buyers {
		tokens = append(tokens, tokenOf(b, fmt.Sprint("buyer-", i)))
	}
	var accepted, answered, early, worstAccepted, worstAnswered float64
	for n := range b.N {
		sale := prepared(fmt.Sprint("phones-", n), time.Now().Add(2500*time.Millisecond), sluice.Rules{AdmissionRatio: 2})
		sale.Total = buyers / 2
		must.Get(tills[0].engine.Control().Create(context.Background(), sale))(b)
		time.Sleep(time.Until(sale.OpensAt.Add(-time.Second)))
		var first, before atomic.Int64
		var crowd sync.WaitGroup
		for i, token := range tokens {
			crowd.Go(func() {
				for {
					status, code, opens, err := tills[i%3].claim(sale.ID, token, "key-00001")
					now := time.Now()
					switch {
					case err != nil:
						b.Error(err)
						return
					case code == "not_open":
						before.Add(1)
						if at, err := time.Parse(time.RFC3339, opens); err != nil || !at.Equal(sale.OpensAt) {
							b.Errorf("not_open carries %q, want %v", opens, sale.OpensAt)
						}
					case status == http.StatusAccepted:
						first.CompareAndSwap(0, now.UnixMicro())
						return
					case code == "sold_out":
						return
					}
				}
			})
		}
		crowd.Wait()
		var at time.Time
		for deadline := time.Now().Add(20 * time.Second); at.IsZero(); time.Sleep(20 * time.Millisecond) {
			report, err := tills[1].engine.Audit(context.Background(), sale.ID)
			if err != nil || time.Now().After(deadline) {
				b.Fatalf("audit: %v, %+v", err, report)
			}
			if report.OK && report.InFlight == 0 { // I8 among it: no buyer was early
				at = firstAccepted(b, tills[0], sale.ID)
			}
		}
		a := float64(at.Sub(sale.OpensAt).Microseconds()) / 1000
		r := float64(first.Load()-sale.OpensAt.UnixMicro()) / 1000
		accepted, answered, early = accepted+a, answered+r, early+float64(before.Load())
		worstAccepted, worstAnswered = max(worstAccepted, a), max(worstAnswered, r)
	}
	n := float64(b.N)
	b.ReportMetric(accepted/n, "ms-to-first-accepted")
	b.ReportMetric(worstAccepted, "ms-worst-accepted")
	b.ReportMetric(answered/n, "ms-to-first-answer")
	b.ReportMetric(worstAnswered, "ms-worst-answer")
	b.ReportMetric(early/n, "refused-before")
	b.ReportMetric(0, "ns/op")
}

// firstAccepted is when the first claim of the sale was accepted.
func firstAccepted(b *testing.B, k *till, sale sluice.SaleID) time.Time {
	request := must.Get(http.NewRequest(http.MethodGet, k.url+"/v1/admin/orders?limit=1000&sale="+string(sale), nil))(b)
	request.Header.Set("Authorization", "Bearer "+k.engine.AdminKey())
	response := must.Get(k.http.Do(request))(b)
	defer response.Body.Close()
	var page struct {
		Orders []struct {
			AcceptedAt time.Time `json:"accepted_at"`
		} `json:"orders"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil || len(page.Orders) == 0 {
		b.Fatalf("%v, %d orders", err, len(page.Orders))
	}
	first := page.Orders[0].AcceptedAt
	for _, o := range page.Orders {
		if o.AcceptedAt.Before(first) {
			first = o.AcceptedAt
		}
	}
	return first
}

// BenchmarkFlood measures what 100 buyers a second notice, each claiming once,
// of one buyer who tries 1,000 times a second over 16 connections: with no
// flood, with a rate per buyer, and without one. Run it with -benchtime 1x on a
// machine that has nothing else to do; the crowd runs on it too.
func BenchmarkFlood(b *testing.B) {
	rate := sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 10, PerS: 1}}
	shared := rate
	shared.BuyerRate.Shared = true
	for _, c := range []struct {
		name  string
		rules sluice.Rules
		flood int
	}{
		{"quiet", rate, 0},
		{"flood-limited", rate, 16},
		{"flood-limited-shared", shared, 16},
		{"flood-unlimited", sluice.Rules{}, 16},
	} {
		b.Run(c.name, func(b *testing.B) {
			redis := servertest.StartRedis(b, "--appendonly", "yes", "--appendfsync", "always")
			k := openTill(b, engine.Config{Ledger: redis.URL()}, 200)
			sale := prepared("phones", time.Now().Add(-time.Minute), c.rules)
			sale.Total, sale.MaxPerBuyer, sale.MaxOrders = 1_000_000, sluice.Unlimited, sluice.Unlimited
			must.Get(k.engine.Control().Create(context.Background(), sale))(b)
			const buyers = 500
			var tokens []string
			for i := range buyers {
				tokens = append(tokens, tokenOf(b, fmt.Sprint("buyer-", i)))
			}
			flooder := tokenOf(b, "flooder")
			stop := make(chan struct{})
			var floods, passed atomic.Int64
			var all sync.WaitGroup
			for i := range c.flood {
				all.Go(func() {
					tick := time.NewTicker(16 * time.Millisecond)
					defer tick.Stop()
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
						status, _, _, err := k.claim("phones", flooder, fmt.Sprintf("flood-%d-%d", i, n))
						if err != nil {
							b.Error(err)
							return
						}
						floods.Add(1)
						if status == http.StatusAccepted {
							passed.Add(1)
						}
					}
				})
			}
			took := make([]time.Duration, buyers)
			begin := time.Now().Add(time.Second)
			var polite sync.WaitGroup
			for i, token := range tokens {
				due := begin.Add(time.Duration(i) * 10 * time.Millisecond) // open loop: from the intended start
				polite.Go(func() {
					time.Sleep(time.Until(due))
					if status, code, _, err := k.claim("phones", token, "key-00001"); err != nil || status != http.StatusAccepted {
						b.Errorf("a polite buyer gets %d %s, %v", status, code, err)
					}
					took[i] = time.Since(due)
				})
			}
			polite.Wait()
			seconds := time.Since(begin).Seconds() + 1
			close(stop)
			all.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[buyers/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[buyers*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(floods.Load())/seconds, "floods/s")
			b.ReportMetric(float64(passed.Load())/seconds, "flood-accepted/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
