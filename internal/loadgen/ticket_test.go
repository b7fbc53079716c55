package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// store is a real embedded server, and how often each path was asked for.
type store struct {
	t      *testing.T
	engine *engine.Engine
	http   *httptest.Server
	client *client.Client

	mu    sync.Mutex
	asked map[string]int64 // by the last word of the path
}

func openStore(t *testing.T) *store {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir()}))(t)
	s := &store{t: t, engine: e, asked: map[string]int64{}}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]++
		s.mu.Unlock()
		e.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.http.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	transport := &http.Transport{DisableKeepAlives: true} // nothing is left behind
	s.client = must.Get(client.New(s.http.URL, client.Options{
		AdminKey: e.AdminKey(), HTTPClient: &http.Client{Transport: transport},
	}))(t)
	return s
}

// sell creates the sale s1 of 40 units, one per buyer.
func (s *store) sell(opens time.Time, rules sluice.Rules) {
	s.t.Helper()
	must.Get(s.engine.Control().Create(s.t.Context(), sluice.Sale{
		ID: "s1", SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 40, MaxPerBuyer: 1, MaxOrders: 10,
			OpensAt: opens.UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Minute, PaymentGrace: time.Second, Rules: rules,
	}))(s.t)
}

// window is what the server says of its sale.
func (s *store) window() *TicketWindow {
	s.t.Helper()
	sale, err := s.client.Sale(s.t.Context(), "s1")
	if err != nil || sale.TicketsFrom == nil {
		s.t.Fatalf("%v, %+v", err, sale)
	}
	return &TicketWindow{TicketsFrom: sale.TicketsFrom.Time, Opens: sale.OpensAt.Time}
}

// crowd rushes with 60 buyers, half of them twice.
func (s *store) crowd(edit func(*Options)) (*Crowd, *Outcome) {
	s.t.Helper()
	o := Options{
		URL: s.http.URL, Sale: "s1", Buyers: 60, Again: 0.5, Connections: 8, Seed: 7,
		Secret: []byte(s.engine.BuyerSecret()),
	}
	edit(&o)
	c := must.Get(New(o))(s.t)
	out := must.Get(c.Rush(s.t.Context()))(s.t)
	return c, out
}

func (s *store) requests(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

var (
	longAgo = time.Now().Add(-time.Hour)
	guarded = sluice.Rules{Ticket: sluice.Ticket{BeforeS: 60}, Challenge: sluice.Challenge{Difficulty: 4}}
)

func TestBuyersGetTicketsBeforeTheyTry(t *testing.T) {
	s := openStore(t)
	s.sell(longAgo, guarded)
	c, out := s.crowd(func(o *Options) { o.Tickets = s.window() })
	if out.Decisions[sluice.Accepted] != 40 || out.Decisions[sluice.Accepted]+out.Decisions[sluice.SoldOut]+
		out.Decisions[sluice.BuyerLimit] != 90 || out.Errors != 0 {
		t.Errorf("%+v", out.Result)
	}
	// Each buyer one ticket, for all tries. At first no connection knows that the
	// sale wants a proof of work: at most each learns it once.
	got := out.Tickets
	if got == nil || got.HandedOut != 60 || got.Solved != 60 || got.Errors != 0 || len(got.Refused) != 0 ||
		got.Requests < 121 || got.Requests > 128 {
		t.Fatalf("tickets %+v", got)
	}
	if s.requests("orders") != 90 || out.Requests != 90 || s.requests("ticket")+s.requests("challenge") != got.Requests ||
		s.requests("challenge") != 60 {
		t.Errorf("%v, %d claims and %d for tickets", s.asked, out.Requests, got.Requests)
	}
	if l := got.LatencyMS; !(0 < l.P50 && l.P50 <= l.Max) || got.WorkMS.Max <= 0 || got.DurationS <= 0 {
		t.Errorf("tickets %+v", got)
	}
	// Repeats carry the ticket that is there.
	if broken := c.Repeat(t.Context(), out.Promises); len(broken) != 0 || s.requests("challenge") != 60 {
		t.Errorf("repeated: %v, %v", broken, s.asked)
	}
}

func TestWithoutTheRuleNothingMoreIsAsked(t *testing.T) {
	s := openStore(t)
	s.sell(longAgo, sluice.Rules{})
	_, out := s.crowd(func(*Options) {})
	s.mu.Lock()
	defer s.mu.Unlock()
	if out.Tickets != nil || out.Decisions[sluice.Accepted] != 40 || len(s.asked) != 1 || s.asked["orders"] != 90 {
		t.Errorf("%v: %+v", s.asked, out.Result)
	}
	if text, err := json.Marshal(out.Result); err != nil || strings.Contains(string(text), "ticket") ||
		strings.Contains(string(text), "forbidden") {
		t.Errorf("%v, %s", err, text)
	}
}

// The rule may go while buyers are on their way to a ticket, with the proof of
// work or after it.
func TestTicketsThatAreNotAskedForAnyMore(t *testing.T) {
	s := openStore(t)
	s.sell(longAgo, sluice.Rules{})
	for _, work := range []bool{false, true} {
		c := must.Get(New(Options{
			URL: s.http.URL, Sale: "s1", Buyers: 20, Connections: 1, Secret: []byte(s.engine.BuyerSecret()),
			Seed: map[bool]uint64{true: 1}[work], Tickets: &TicketWindow{TicketsFrom: longAgo, Opens: longAgo},
		}))(t)
		c.wallet.work.Store(work)
		out := must.Get(c.Rush(t.Context()))(t)
		// The answer to the first one says that no proof is needed.
		want := map[bool]int64{false: 20, true: 21}[work]
		if got := out.Tickets; got.Requests != want || got.HandedOut != 0 || got.Errors != 0 || len(got.Refused) != 0 ||
			out.Errors != 0 || out.Requests != 20 {
			t.Errorf("work %t: %+v, tickets %+v", work, out.Result, got)
		}
	}
}

// A crowd that does not know of the rule gets its tickets at the first refusal.
func TestTicketsThatAreAskedForLater(t *testing.T) {
	s := openStore(t)
	s.sell(longAgo, guarded)
	_, out := s.crowd(func(o *Options) { o.Again = 0 })
	if out.Decisions[sluice.Accepted] != 40 || out.Decisions[sluice.SoldOut] != 20 || out.Errors != 0 ||
		out.Tickets == nil {
		t.Fatalf("%+v", out.Result)
	}
	// A buyer who comes after the last unit needs no ticket to get that answer.
	if got := out.Tickets; got.HandedOut < 40 || got.HandedOut > 60 || out.Requests != 60+got.HandedOut ||
		got.DurationS != 0 {
		t.Errorf("%d claims, tickets %+v", out.Requests, got)
	}
}

// Who is not let in has got a decision, by code and reason.
func TestWhoIsNotLetIn(t *testing.T) {
	t.Run("by invitation", func(t *testing.T) {
		s := openStore(t)
		rules := guarded
		rules.Eligibility = sluice.EligibleToken
		s.sell(longAgo, rules)
		_, out := s.crowd(func(o *Options) { o.Tickets = s.window() })
		if out.Decisions[Forbidden] != 90 || out.ForbiddenReasons["not_eligible"] != 90 || out.Errors != 0 ||
			out.Tickets.Refused["not_eligible"] != 60 || out.Tickets.HandedOut != 0 {
			t.Errorf("%+v, tickets %+v", out.Result, out.Tickets)
		}
		_, out = s.crowd(func(o *Options) { o.Tickets, o.Invited = s.window(), true })
		if out.Decisions[sluice.Accepted] != 40 || out.Decisions[Forbidden] != 0 || out.Tickets.HandedOut != 60 {
			t.Errorf("invited: %+v, tickets %+v", out.Result, out.Tickets)
		}
	})
	t.Run("by the risk service", func(t *testing.T) {
		var asked atomic.Int64
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q struct{ Buyer string }
			_ = json.NewDecoder(r.Body).Decode(&q)
			asked.Add(1)
			fmt.Fprintf(w, `{"allow": %t}`, !strings.HasSuffix(q.Buyer, "7"))
		}))
		defer service.Close()
		s := openStore(t)
		rules := guarded
		rules.Risk = sluice.Risk{URL: service.URL, TimeoutMS: 10_000, OnFailure: sluice.Deny}
		s.sell(longAgo, rules)
		_, out := s.crowd(func(o *Options) { o.Tickets, o.Again = s.window(), 0 })
		// A refused buyer whose claim is refused for it asks once more; who comes
		// after the last unit hears of that.
		barred := out.Decisions[Forbidden]
		if out.Tickets.HandedOut != 54 || out.Decisions[sluice.Accepted] != 40 ||
			out.Decisions[sluice.SoldOut] != 20-barred || out.ForbiddenReasons["risk"] != barred {
			t.Errorf("%+v", out.Result)
		}
		if again := out.Tickets.Refused["risk"]; again != 6+barred || asked.Load() != 54+again {
			t.Errorf("%d refused by the service, of %d; tickets %+v", barred, asked.Load(), out.Tickets)
		}
	})
}

// The crowd comes when tickets are handed out, and tries when the sale opens,
// by the server's clock.
func TestTheCrowdWaitsForTheOpening(t *testing.T) {
	s := openStore(t)
	opens := time.Now().Add(1500 * time.Millisecond)
	rules := guarded
	rules.Ticket.BeforeS = 1
	s.sell(opens, rules)
	_, out := s.crowd(func(o *Options) { o.Tickets = s.window() })
	if out.Decisions[sluice.Accepted] != 40 || out.Decisions[sluice.NotOpen] != 0 || out.Tickets.HandedOut != 60 ||
		len(out.Tickets.Refused) != 0 || time.Now().Before(opens) {
		t.Errorf("%+v, tickets %+v", out.Result, out.Tickets)
	}
}

// doorman stands before a shop and wants a ticket. Trouble answers the n-th
// request of a buyer for one.
type doorman struct {
	*shop
	trouble func(n int, w http.ResponseWriter) (done bool)
	early   func(n int) bool // the n-th claim of all comes before the opening

	difficulty int64

	mu     sync.Mutex
	asked  map[string]int
	claims int
}

func (d *doorman) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var claims jwt.RegisteredClaims
	_, _, _ = jwt.NewParser().ParseUnverified(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), &claims)
	ticket := "ticket-of-" + claims.Subject
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/s1/ticket"):
		d.asked[claims.Subject]++
		if d.trouble == nil || !d.trouble(d.asked[claims.Subject], w) {
			_ = json.NewEncoder(w).Encode(api.Ticket{Ticket: ticket})
		}
	case strings.HasSuffix(r.URL.Path, "/s1/challenge"):
		_ = json.NewEncoder(w).Encode(api.Challenge{Challenge: "e", Difficulty: max(d.difficulty, 1)})
	case r.Header.Get("Sluice-Ticket") != ticket:
		bar(w, "ticket_missing")
	default:
		if d.claims++; d.early != nil && d.early(d.claims) {
			refuse(w, 409, "not_open")
			return
		}
		d.shop.ServeHTTP(w, r)
	}
}

func bar(w http.ResponseWriter, reason string) {
	w.WriteHeader(403)
	_ = json.NewEncoder(w).Encode(api.Problem{Title: "Forbidden", Status: 403, Code: api.CodeForbidden, Reason: reason})
}

// Whatever time mends does not keep a buyer from the ticket.
func TestTroubleOnTheWayToATicket(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trouble func(w http.ResponseWriter)
		least   float64 // of the tickets' latency, in ms
	}{
		{"too many", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "rate_limited")
		}, 1000},
		{"too early", func(w http.ResponseWriter) {
			from := time.Now().Add(time.Second)
			w.WriteHeader(409)
			_ = json.NewEncoder(w).Encode(api.Problem{Status: 409, Code: "not_open", TicketsFrom: api.AtOrNull(from)})
		}, 900},
		{"a new challenge", func(w http.ResponseWriter) { bar(w, "challenge_expired") }, 0},
		{"no proof any more", func(w http.ResponseWriter) { bar(w, "challenge_missing") }, 0},
		{"overloaded", func(w http.ResponseWriter) { refuse(w, 503, "overloaded") }, 0},
		{"reply lost", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0},
		{"no ticket", func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) }, 0},
		{"no header", func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"ticket":"a\r\nb"}`)) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &doorman{shop: newShop(t, 5), asked: map[string]int{}}
			d.trouble = func(n int, w http.ResponseWriter) bool {
				if n == 1 {
					tc.trouble(w)
				}
				return n == 1
			}
			out, _ := rush(t, d, func(o *Options) {
				o.Buyers, o.Again, o.Tickets = 10, 0, &TicketWindow{TicketsFrom: longAgo, Opens: longAgo}
			})
			if out.Tickets.HandedOut != 10 || out.Tickets.Errors != 0 || len(out.Tickets.Refused) != 0 ||
				out.Decisions[sluice.Accepted] != 5 || out.Requests != 10 {
				t.Errorf("%+v, tickets %+v", out.Result, out.Tickets)
			}
			if out.Tickets.LatencyMS.Max < tc.least {
				t.Errorf("latency of tickets %+v", out.Tickets.LatencyMS)
			}
		})
	}
}

// Buyers who get no ticket have no decision if the server gave none, and try
// all the same.
func TestNoTicketToBeHad(t *testing.T) {
	for _, tc := range []struct {
		trouble func(w http.ResponseWriter)
		refused string
		reason  string
	}{
		{func(w http.ResponseWriter) { refuse(w, 503, "unavailable") }, "", "unavailable"},
		{func(w http.ResponseWriter) { refuse(w, 401, "unauthenticated") }, "", "unauthenticated"},
		{func(w http.ResponseWriter) { refuse(w, 409, "closed") }, "closed", ""},
		{func(w http.ResponseWriter) { bar(w, "denied") }, "denied", ""},
		{func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "60")
			refuse(w, 429, "rate_limited")
		}, "rate_limited", ""},
	} {
		t.Run(tc.refused+tc.reason, func(t *testing.T) {
			d := &doorman{shop: newShop(t, 5), asked: map[string]int{}}
			d.trouble = func(_ int, w http.ResponseWriter) bool {
				tc.trouble(w)
				return true
			}
			out, _ := rush(t, d, func(o *Options) {
				o.Buyers, o.Again, o.RetryFor, o.Tickets = 3, 0, 100*time.Millisecond,
					&TicketWindow{TicketsFrom: longAgo, Opens: longAgo}
			})
			got := out.Tickets
			if got.HandedOut != 0 || out.Requests != 3 {
				t.Errorf("%+v, tickets %+v", out.Result, got)
			}
			if tc.reason != "" && (got.Errors != 6 || got.ErrorReasons[tc.reason] != 6 || out.Errors != 3 ||
				out.ErrorReasons[tc.reason] != 3) {
				t.Errorf("want %s: %+v, tickets %+v", tc.reason, out.Result, got)
			}
			if tc.refused != "" && (got.Errors != 0 || got.Refused[tc.refused] != 6 || out.Errors != 0) {
				t.Errorf("want %s: %+v, tickets %+v", tc.refused, out.Result, got)
			}
		})
	}
}

// A ticket that the server does not take is replaced once.
func TestATicketThatIsNoGood(t *testing.T) {
	d := &doorman{shop: newShop(t, 5), asked: map[string]int{}}
	d.trouble = func(_ int, w http.ResponseWriter) bool {
		_ = json.NewEncoder(w).Encode(api.Ticket{Ticket: "another's"})
		return true
	}
	out, _ := rush(t, d, func(o *Options) {
		o.Buyers, o.Again, o.Tickets = 3, 0, &TicketWindow{TicketsFrom: longAgo, Opens: longAgo}
	})
	if out.Decisions[Forbidden] != 3 || out.ForbiddenReasons["ticket_missing"] != 3 || out.Requests != 6 ||
		out.Tickets.HandedOut != 6 {
		t.Errorf("%+v, tickets %+v", out.Result, out.Tickets)
	}
}

// A claim's latency has no part of the time that its ticket took.
func TestTicketsAreNotInTheLatencyOfClaims(t *testing.T) {
	d := &doorman{shop: newShop(t, 5), asked: map[string]int{}}
	d.trouble = func(n int, w http.ResponseWriter) bool {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "rate_limited")
		}
		return n == 1
	}
	// The crowd does not know of tickets: it asks in the middle of a try.
	out, _ := rush(t, d, func(o *Options) { o.Buyers, o.Again = 1, 0 })
	if out.Decisions[sluice.Accepted] != 1 || out.Requests != 2 || out.Tickets.LatencyMS.Max < 1000 {
		t.Fatalf("%+v, tickets %+v", out.Result, out.Tickets)
	}
	if most := out.DurationS*1000 - 990; out.LatencyMS.Max > most { // 10 ms for the histogram's rounding
		t.Errorf("a rush of %v s with a second for the ticket, and a claim of %v ms", out.DurationS, out.LatencyMS.Max)
	}
}

// The work is shown apart from what the server takes.
func TestWorkIsNotInTheLatencyOfTickets(t *testing.T) {
	d := &doorman{shop: newShop(t, 5), asked: map[string]int{}, difficulty: 18} // its challenge takes 570,189 hashes
	d.trouble = func(n int, w http.ResponseWriter) bool {
		if n == 1 {
			bar(w, "challenge_missing")
		}
		return n == 1
	}
	out, _ := rush(t, d, func(o *Options) {
		o.Buyers, o.Again, o.Tickets = 1, 0, &TicketWindow{TicketsFrom: longAgo, Opens: longAgo}
	})
	got := out.Tickets
	if got.HandedOut != 1 || got.Solved != 1 || got.WorkMS.Max < 10 {
		t.Fatalf("tickets %+v", got)
	}
	if most := got.DurationS*1000 - 0.99*got.WorkMS.Max + 1; got.LatencyMS.Max > most { // rounding
		t.Errorf("%v s with %v ms of work, and a latency of %v ms", got.DurationS, got.WorkMS.Max, got.LatencyMS.Max)
	}
}

// The server's clock may be a little behind what it has said.
func TestTooEarlyIsTriedAgain(t *testing.T) {
	for _, within := range []time.Duration{0, time.Hour} {
		d := &doorman{shop: newShop(t, 10), asked: map[string]int{}, early: func(n int) bool { return n <= 10 }}
		srv := httptest.NewServer(d)
		defer srv.Close()
		c := must.Get(New(Options{
			URL: srv.URL + "/base", Sale: "s1", Buyers: 10, Connections: 4, Secret: secret,
			Tickets: &TicketWindow{TicketsFrom: longAgo, Opens: time.Now().Add(-time.Second)},
		}))(t)
		c.early = within
		out := must.Get(c.Rush(t.Context()))(t)
		if within == 0 && out.Decisions[sluice.NotOpen] != 10 || within > 0 &&
			(out.Decisions[sluice.Accepted] != 10 || out.Requests != 20) {
			t.Errorf("within %s: %+v", within, out.Result)
		}
	}
}

func TestTicketWindowByTheServersClock(t *testing.T) {
	start := time.Now()
	d := &doorman{shop: newShop(t, 10), asked: map[string]int{}}
	out, _ := rush(t, d, func(o *Options) { // a server whose clock is an hour ahead opens in a second
		o.Buyers, o.Again = 2, 0
		o.Tickets = &TicketWindow{
			TicketsFrom: start.Add(time.Hour), Opens: start.Add(time.Hour + time.Second),
			Ahead: time.Hour,
		}
	})
	if took := time.Since(start); took < time.Second || took > 10*time.Minute || out.Decisions[sluice.Accepted] != 2 {
		t.Errorf("%s: %+v", took, out.Result)
	}
}

// While a crowd waits for the opening, or works, it can be called off.
func TestCancelEndsTheWayToTickets(t *testing.T) {
	d := &doorman{shop: newShop(t, 10), asked: map[string]int{}}
	for _, e := range []TicketWindow{
		{TicketsFrom: time.Now().Add(time.Hour)}, {Opens: time.Now().Add(time.Hour)},
	} {
		srv := httptest.NewServer(d)
		defer srv.Close()
		c := must.Get(New(Options{URL: srv.URL + "/base", Sale: "s1", Buyers: 2, Secret: secret, Tickets: &e}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if out, err := c.Rush(ctx); err == nil || out != nil || len(d.tries) != 0 {
			t.Errorf("%v, %+v", err, out)
		}
	}
	hard := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/challenge") {
			_ = json.NewEncoder(w).Encode(api.Challenge{Challenge: "c", Difficulty: 200})
			return
		}
		bar(w, "challenge_missing")
	})
	srv := httptest.NewServer(hard)
	defer srv.Close()
	c := must.Get(New(Options{URL: srv.URL, Sale: "s1", Buyers: 20, Secret: secret, Tickets: &TicketWindow{}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Rush(ctx); err == nil {
		t.Error("an impossible proof was found")
	}
}

func TestTicketsJSON(t *testing.T) {
	r := Result{
		Decisions: Decisions{sluice.Accepted: 2, Forbidden: 4}, ForbiddenReasons: map[string]int64{"risk": 4},
		Tickets: &Tickets{
			HandedOut: 3, Refused: map[string]int64{"risk": 1}, Errors: 1, Requests: 9, Solved: 3, DurationS: 0.5,
			LatencyMS: Latency{P50: 1, P95: 2, P99: 3, Max: 4}, WorkMS: Latency{P50: 5, P95: 6, P99: 7, Max: 8},
			ErrorReasons: map[string]int64{"unavailable": 1},
		},
	}
	got, err := json.Marshal(r)
	for _, want := range []string{
		`"decisions":{"accepted":2,"sold_out":0,"buyer_limit":0,"forbidden":4}`, `"forbidden_reasons":{"risk":4}`,
		`"tickets":{"handed_out":3,"refused":{"risk":1},"errors":1,"requests":9,"solved":3,"duration_s":0.5,` +
			`"latency_ms":{"p50":1,"p95":2,"p99":3,"max":4},"work_ms":{"p50":5,"p95":6,"p99":7,"max":8},"error_reasons":{"unavailable":1}}`,
	} {
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%v, %s\nwant %s", err, got, want)
		}
	}
	var back Result
	if err := json.Unmarshal(got, &back); err != nil || back.Decisions[Forbidden] != 4 || back.Tickets.WorkMS.Max != 8 {
		t.Errorf("%v, %+v", err, back)
	}
}
