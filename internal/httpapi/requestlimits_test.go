package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// A thousand requests for the databases at the same time: few are asked at a time,
// the merchant's are not among them, and a request that waits too long gets an error.
func TestDatabasesAreAskedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRequestLimits(time.Now())
		var now, most, answered, refused atomic.Int64
		var wg sync.WaitGroup
		ask := func() error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			return nil
		}
		at := func() error { return nil }
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		for range 1000 {
			wg.Go(func() {
				err := inTurn(request.Context(), turns("ann", s.changes), ask)
				w := httptest.NewRecorder()
				if err == nil {
					answered.Add(1)
				} else if (&Server{}).failed(w, request, err); w.Code == 503 && w.Header().Get("Retry-After") == "1" {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if inTurn(request.Context(), turns("", s.changes), at) != nil || time.Since(start) > 0 {
			t.Error("the merchant waits behind buyers")
		}
		wg.Wait()
		if took := time.Since(start); most.Load() != buyerChanges || answered.Load()+refused.Load() != 1000 ||
			answered.Load() < 300 || took > patience+time.Second {
			t.Errorf("%d at a time, %d answered, %d refused, after %v", most.Load(), answered.Load(), refused.Load(), took)
		}
	})
}

// hungLedger is a ledger that does not answer, behind a store that does.
type hungLedger struct{ port.Reader }

func (hungLedger) Find(ctx context.Context, _ sluice.OrderID, _ sluice.BuyerID) (port.Record, error) {
	<-ctx.Done()
	return port.Record{}, ctx.Err()
}

type emptyStore struct{ port.Store }

func (emptyStore) Order(context.Context, sluice.OrderID) (sluice.Order, error) {
	return sluice.Order{}, sluice.ErrOrderNotFound
}

// Requests for orders of a sale whose ledger hangs hold none of the places from
// which the databases are asked: they are those of other sales as well.
func TestHungLedgerHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{
			Options: Options{Store: emptyStore{}, Ledger: hungLedger{}, Log: slog.New(slog.DiscardHandler)},
			limits:  newRequestLimits(time.Now()),
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		var wg sync.WaitGroup
		for range 2 * buyerReads {
			wg.Go(func() {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				r.SetPathValue("order", "phones.0123456789abcdef0123456789abcdef")
				_, _ = s.Order(r.Context(), orderOf(r), "ann")
			})
		}
		synctest.Wait()
		start := time.Now()
		if inTurn(t.Context(), turns("bob", s.limits.reads),
			func() error { return nil }) != nil || time.Since(start) > 0 {
			t.Errorf("another sale's order waited %v", time.Since(start))
		}
		leave()
		wg.Wait()
	})
}

// Cancellations that wait for the locked row of one sale leave a turn to those of
// another.
func TestLockedSaleLeavesATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRequestLimits(time.Now())
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		var wg sync.WaitGroup
		for range 2 * buyerChanges {
			wg.Go(func() {
				_ = inTurn(r.Context(), s.changeOf("phones", "ann"), func() error { time.Sleep(3 * time.Second); return nil })
			})
		}
		synctest.Wait()
		other := s.changeOf("lamps", "bob")
		for i := 0; other[0] == s.changeOf("phones", "ann")[0]; i++ {
			other = s.changeOf(sluice.SaleID(fmt.Sprintf("lamps-%d", i)), "bob")
		}
		start := time.Now()
		if inTurn(r.Context(), other, func() error { return nil }) != nil || time.Since(start) > 0 {
			t.Errorf("another sale's cancellation waited %v", time.Since(start))
		}
		wg.Wait()
	})
}

// One buyer has a part of the server, not all of it; others have theirs.
func TestOneBuyersShare(t *testing.T) {
	now := time.Now()
	s := newRequestLimits(now)
	for range buyerRequests {
		if !s.enter("ann") {
			t.Fatal("too few")
		}
	}
	if s.enter("ann") || !s.enter("bob") {
		t.Error("ann has more than a buyer may have, or bob nothing")
	}
	s.leave("ann")
	if !s.enter("ann") {
		t.Error("what has ended still counts")
	}
	for range buyerRequests {
		s.leave("ann")
	}
	s.leave("bob")
	for i := range s.shards {
		if n := len(s.shards[i].now); n != 0 {
			t.Errorf("%d buyers are kept who ask nothing", n)
		}
	}

	server := &Server{Options: Options{Now: func() time.Time { return now }}, limits: s, problems: newProblems("")}
	ask := func(buyer sluice.BuyerID) int {
		w := httptest.NewRecorder()
		server.metered(func(w http.ResponseWriter, _ *http.Request, _ auth.Token) { w.WriteHeader(204) })(w, nil,
			auth.Token{Buyer: buyer})
		if w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return w.Code
	}
	for range 100 {
		if code := ask("ann"); code != 204 {
			t.Fatal(code)
		}
	}
	if ask("ann") != 429 || ask("bob") != 204 {
		t.Error("ann asks too often, bob does not")
	}
	if now = now.Add(50 * time.Millisecond); ask("ann") != 204 || ask("ann") != 429 {
		t.Error("20 a second")
	}
}

// A buyer's requests beyond what one may have at a time are refused at once, whatever
// they ask for.
func TestOneBuyersRequestsAtATime(t *testing.T) {
	secret := []byte("the shop's secret, long enough")
	server := &Server{
		Options: Options{Buyers: auth.NewVerifier(auth.Options{Secret: secret})},
		limits:  newRequestLimits(time.Now()), problems: newProblems(""),
	}
	inside, leave := make(chan string, 2*buyerRequests), make(chan struct{})
	handler := server.asBuyer(func(w http.ResponseWriter, _ *http.Request, token auth.Token) {
		inside <- string(token.Buyer)
		<-leave
	})
	var asking sync.WaitGroup
	answers := make(chan *httptest.ResponseRecorder, 2*buyerRequests)
	ask := func(buyer string) {
		claims := jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Minute).Unix()}
		token := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(secret))(t)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		asking.Go(func() {
			w := httptest.NewRecorder()
			handler(w, r)
			answers <- w
		})
	}
	for range buyerRequests {
		ask("ann")
		<-inside
	}
	ask("ann")
	select {
	case <-inside:
		t.Errorf("%d requests of one buyer are answered at a time", buyerRequests+1)
	case w := <-answers:
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("answer %d, %v", w.Code, w.Header())
		}
	}
	ask("bob")
	if who := <-inside; who != "bob" {
		t.Errorf("%s is answered, want bob", who)
	}
	close(leave)
	asking.Wait()
}
