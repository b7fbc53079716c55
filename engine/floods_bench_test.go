package engine_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A flood: floodRate requests a second over floodConnections, of one buyer where a
// route is for buyers and else of a stranger. Beside it politeRate other buyers
// claim each second.
const (
	floodRate, floodConnections = 1000, 64
	politeRate, politeBuyers    = 150, 600
)

// BenchmarkFloods measures how long other buyers wait for their answers beside a
// flood of each route, and prints a table with the share of what they wait beside
// the same flood of /healthz: embedded, and with Redis and PostgreSQL on this machine.
// It needs minutes:
//
//	go test ./engine -run '^$' -bench Floods -benchtime 1x -timeout 1h
func BenchmarkFloods(b *testing.B) {
	servers := func() engine.Config {
		return engine.Config{Ledger: servertest.StartRedis(b).URL(), Store: servertest.Postgres(b)}
	}
	var routes, attacked []string
	for _, r := range httpapi.Routes() {
		routes = append(routes, r.Pattern)
	}
	for name := range attacks {
		attacked = append(attacked, name)
	}
	slices.Sort(attacked)
	b.Run("embedded", func(b *testing.B) { floodAll(b, engine.Config{}, routes) })
	b.Run("servers", func(b *testing.B) { floodAll(b, servers(), routes) })
	b.Run("attacks", func(b *testing.B) { floodAll(b, servers(), attacked) })
}

// attacks are floods of what costs most; each changes a request for a sale. The pages of a board of distantSales are
// asked for in turn.
var attacks = map[string]func(f *floods, r *http.Request, n int64){
	"many sales that open in a month": func(_ *floods, r *http.Request, n int64) {
		r.URL.Path = fmt.Sprint("/v1/sales/distant-", n%distantSales)
	},
	"If-None-Match of 14,000 commas": func(_ *floods, r *http.Request, _ int64) {
		r.Header.Set("If-None-Match", strings.Repeat(",", 14_000))
	},
	"a path of 3,500 segments": func(_ *floods, r *http.Request, _ int64) {
		r.URL.Path = "/v1/sales" + strings.Repeat("/x", 3500)
	},
	"a token of 8 kB": func(f *floods, r *http.Request, n int64) {
		header, rest, _ := strings.Cut(f.buyer, ".")
		r.URL.Path = "/v1/orders"
		r.Header.Set("Authorization", "Bearer "+header+"."+strings.Repeat(fmt.Sprintf("%08x", n), 1000)+"."+rest)
	},
	"a guessed key of an admin for buyers": func(_ *floods, r *http.Request, n int64) {
		r.URL.Path = "/v1/buyer"
		r.Header.Set("Authorization", fmt.Sprint("Bearer a-guessed-key-", n))
	},
	"a risk service before which two buyers crowd": func(f *floods, r *http.Request, n int64) {
		r.Method, r.URL.Path = http.MethodPost, "/v1/sales/judged/ticket"
		r.Header.Set("Authorization", "Bearer "+tokenOf(f.b, fmt.Sprint("crowd-", n%2)))
	},
}

// distantSales is how many sales wait beside the one that sells, for attacks.
const distantSales = 1000

// The table has all routes, as the last run printed it; those it did not have yet are
// without figures.
func TestFloodsOfAllRoutesAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("../docs/costs.md"))(t)
	_, table, _ := strings.Cut(string(text), "\n| a flood of |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	routes := httpapi.Routes()
	for i := range max(len(rows), len(routes)) {
		row, want := "", ""
		if i < len(rows) {
			row = rows[i]
		}
		if i < len(routes) {
			want = fmt.Sprintf("| `%s` | %s | ", routes[i].Pattern, routes[i].Access)
		}
		if want == "" || !strings.HasPrefix(row, want) {
			t.Fatalf("row %d is %q, want %q", i+1, row, want)
		}
	}
}

func floodAll(b *testing.B, cfg engine.Config, patterns []string) {
	k := openTill(b, cfg, 2*floodConnections+politeBuyers)
	sale := prepared(fmt.Sprint("flood-", time.Now().UnixNano()), time.Now().Add(-time.Second), sluice.Rules{})
	sale.Total, sale.MaxPerBuyer = sluice.Unlimited, 1
	must.Get(k.engine.Control().Create(context.Background(), sale))(b)
	f := &floods{
		b: b, till: k, sale: sale.ID, buyer: tokenOf(b, "flooder"), p50: map[string][]time.Duration{},
		p99: map[string][]time.Duration{},
	}
	if status, code, _, err := k.claim(sale.ID, f.buyer, "the-flooders-own"); err != nil || status != http.StatusAccepted {
		b.Fatalf("%d %s %v", status, code, err)
	}
	if attacks[patterns[0]] != nil {
		f.prepare()
	}
	// A reader who leaves a stream leaves its connection: such a flood is compared
	// with one that opens a connection for each request, too.
	const base, fresh, streams = "GET /healthz", "GET /healthz?new", "GET /v1/sales/{sale}/events"
	f.measure(base) // to warm up
	delete(f.p50, base)
	delete(f.p99, base)
	for range b.N {
		for i, pattern := range patterns {
			if i%6 == 0 {
				f.measure(base)
				f.measure(fresh)
			}
			if pattern != base {
				f.measure(pattern)
			}
		}
	}
	middle := func(of []time.Duration) time.Duration {
		slices.Sort(of)
		return of[(len(of)-1)/2]
	}
	beside, besideNew := middle(f.p99[base]), middle(f.p99[fresh])
	var table strings.Builder
	worst := 0.0
	access := map[string]string{}
	for _, r := range httpapi.Routes() {
		access[r.Pattern] = string(r.Access)
	}
	for _, pattern := range patterns {
		p99 := middle(f.p99[pattern])
		ratio := float64(p99) / float64(beside)
		if pattern == streams {
			ratio = float64(p99) / float64(besideNew)
		}
		worst = max(worst, ratio)
		fmt.Fprintf(&table, "| `%s` | %s | %.1f | %.1f | %.1f |\n", pattern, access[pattern], ms(middle(f.p50[pattern])),
			ms(p99), ratio)
	}
	// b.Log cuts what is longer than ten lines.
	fmt.Printf("\n%s\n| a flood of | for | p50 ms | p99 ms | to /healthz |\n|---|---|---|---|---|\n%s", b.Name(), &table)
	b.ReportMetric(ms(beside), "ms-p99-healthz")
	b.ReportMetric(ms(besideNew), "ms-p99-healthz-new")
	b.ReportMetric(worst, "worst-ratio")
	b.ReportMetric(0, "ns/op")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type floods struct {
	b        *testing.B
	till     *till
	sale     sluice.SaleID
	buyer    string // the flooder's token
	n        atomic.Int64
	p50, p99 map[string][]time.Duration
}

// prepare creates what attacks are about: many sales that open in a month, and one with a risk service, which takes
// its time.
func (f *floods) prepare() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(w, `{"allow":false}`)
	}))
	f.b.Cleanup(service.Close)
	judged := prepared("judged", time.Now().Add(-time.Second), sluice.Rules{
		Ticket: sluice.Ticket{BeforeS: 60}, Risk: sluice.Risk{URL: service.URL, TimeoutMS: 1000, OnFailure: sluice.Deny},
	})
	must.Get(f.till.engine.Control().Create(context.Background(), judged))(f.b)
	for n := range distantSales {
		distant := prepared(fmt.Sprint("distant-", n), time.Now().Add(30*24*time.Hour), sluice.Rules{})
		must.Get(f.till.engine.Control().Create(context.Background(), distant))(f.b)
	}
}

// request is one of a flood; each names another order, key and address of nothing.
func (f *floods) request(ctx context.Context, pattern string) (*http.Request, error) {
	n := f.n.Add(1)
	if attack := attacks[pattern]; attack != nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.till.url+"/v1/sales/"+string(f.sale), http.NoBody)
		if err == nil {
			attack(f, r, n)
		}
		return r, err
	}
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = http.MethodGet, fmt.Sprint("/no/such/path/", n)
	}
	path = strings.NewReplacer("{$}", "", "{sale}", string(f.sale), "{order}",
		string(f.sale.Order(fmt.Sprintf("%032x", n))),
		"{list}", "allow", "{profile}", "cpu",
		"{id}", fmt.Sprint(n), "{webhook}", "wh-1", "{build}", "x", "{file}", "x.js").Replace(path)
	body := ""
	if method == http.MethodPost && strings.HasSuffix(path, "/orders") {
		body = `{"quantity":1}`
	}
	r, err := http.NewRequestWithContext(ctx, method, f.till.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = strings.HasSuffix(pattern, "?new")
	r.Header.Set("Idempotency-Key", fmt.Sprint("flood-", n))
	r.Header.Set("Accept-Encoding", "gzip") // so that the flooder, in this process, unpacks nothing
	switch {
	case strings.HasPrefix(path, "/v1/admin/"):
		r.Header.Set("Authorization", "Bearer a-guessed-key-"+fmt.Sprint(n))
	case strings.HasPrefix(path, "/v1/"):
		r.Header.Set("Authorization", "Bearer "+f.buyer)
	}
	return r, nil
}

// measure floods a route, and takes the time of those who buy meanwhile.
func (f *floods) measure(pattern string) {
	f.b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all, polite sync.WaitGroup
	for i := range floodConnections {
		all.Go(func() {
			const every = floodConnections * time.Second / floodRate
			time.Sleep(time.Duration(i) * every / floodConnections)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ctx.Err() == nil {
				r, err := f.request(ctx, pattern)
				if err != nil {
					f.b.Error(err)
					return
				}
				if response, err := f.till.http.Do(r); err == nil {
					if strings.HasSuffix(pattern, "/{sale}/events") {
						_, _ = response.Body.Read(make([]byte, 1)) // it never ends
					} else {
						_, _ = io.Copy(io.Discard, response.Body)
					}
					_ = response.Body.Close()
				}
				<-tick.C
			}
		})
	}
	took := make([]time.Duration, politeBuyers)
	begin := time.Now().Add(200 * time.Millisecond)
	for i := range took {
		due := begin.Add(time.Duration(i) * time.Second / politeRate) // open loop: from the intended start
		token := tokenOf(f.b, fmt.Sprint("polite-", f.n.Add(1)))
		polite.Go(func() {
			time.Sleep(time.Until(due))
			if status, code, _, err := f.till.claim(f.sale, token, "key-00001"); err != nil || status != http.StatusAccepted {
				f.b.Errorf("beside a flood of %s a polite buyer gets %d %s, %v", pattern, status, code, err)
			}
			took[i] = time.Since(due)
		})
	}
	polite.Wait()
	stop()
	all.Wait()
	slices.Sort(took)
	f.p50[pattern] = append(f.p50[pattern], took[len(took)/2])
	f.p99[pattern] = append(f.p99[pattern], took[len(took)*99/100])
}
