package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// strait is a network path to a database that can freeze: connections stay,
// new ones are made, and nothing passes.
type strait struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
}

func newStrait(t *testing.T, target string) *strait {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &strait{listener: listener, target: target}
	s.thawed = sync.NewCond(&s.mu)
	t.Cleanup(func() {
		s.freeze(false)
		listener.Close()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go s.carry(near)
		}
	}()
	return s
}

// url returns a database's URL with the strait's address in it.
func (s *strait) url(t *testing.T, of string) string {
	u := must.Get(url.Parse(of))(t)
	u.Host = s.listener.Addr().String()
	return u.String()
}

func (s *strait) freeze(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = on
	s.thawed.Broadcast()
}

func (s *strait) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", s.target)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			defer func() { done <- struct{}{} }()
			buffer := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(buffer)
				s.mu.Lock()
				for s.frozen {
					s.thawed.Wait()
				}
				s.mu.Unlock()
				if _, failed := way[1].Write(buffer[:n]); err != nil || failed != nil {
					return
				}
			}
		}()
	}
	<-done
}

// A database that hangs is worse than one that is down: no call fails. Every
// request is answered all the same, by the side that can answer, and what was
// promised meanwhile is kept.
func TestADatabaseHangs(t *testing.T) {
	t.Parallel()
	redis, postgres := servertest.StartRedis(t), servertest.Postgres(t)
	at := must.Get(url.Parse(postgres))(t)
	if at.Hostname() == "" {
		t.Skip("PostgreSQL is not reached by TCP here")
	}
	toRedis, toPostgres := newStrait(t, redis.Addr()), newStrait(t, at.Host)
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), Ledger: toRedis.url(t, redis.URL()), Store: toPostgres.url(t, postgres), Node: "node",
		AdminKey: "admin-key-of-the-fleet", BuyerSecret: "buyer-secret-of-the-fleet",
	}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		toRedis.freeze(false)
		toPostgres.freeze(false)
		server.Close()
		_ = e.Close(t.Context())
	})
	merchant := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
	f := &fleet{t: t, redis: redis, engines: []*engine.Engine{e}, clients: []*client.Client{merchant}, sale: "phone"}
	if _, err := merchant.CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(f.sale), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
		Total: api.Value[int64](100), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
	}); err != nil {
		t.Fatal(err)
	}

	// ask sends a request; a test that hangs ends by the client's limit.
	ask := func(method, path, body, bearer string) (int, string) {
		t.Helper()
		request := must.Get(http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body)))(t)
		request.Header.Set("Authorization", "Bearer "+bearer)
		answer, err := (&http.Client{Timeout: 30 * time.Second}).Do(request)
		if err != nil {
			t.Fatalf("%s %s is not answered: %v", method, path, err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	want := func(what string, gotStatus int, gotBody string, status int, contains string) {
		t.Helper()
		if gotStatus != status || !strings.Contains(gotBody, contains) {
			t.Errorf("%s: %d %s; want %d and %q", what, gotStatus, gotBody, status, contains)
		}
	}
	order := func(buyer int, id string) (int, string) {
		return ask("GET", "/v1/orders/"+id, "", token(fmt.Sprintf("buyer-%05d", buyer)))
	}

	status, first := f.claim(0, 1)
	want("the first claim", status, "", 202, "")
	f.until("the first order to be stored", func() bool {
		_, body := order(1, first)
		return strings.Contains(body, `"pending"`)
	})

	toPostgres.freeze(true)
	status, body := ask("GET", "/readyz", "", "")
	want("ready while the store hangs", status, body, 200, "down")
	status, second := f.claim(0, 2)
	want("a claim while the store hangs", status, "", 202, "")
	status, body = order(1, first)
	want("a stored order while the store hangs", status, body, 503, "unavailable")
	status, body = ask("PATCH", "/v1/admin/sales/phone", `{"title":"another"}`, e.AdminKey())
	want("a change while the store hangs", status, body, 503, "")
	toPostgres.freeze(false)
	f.until("the second order to be stored", func() bool {
		_, body := order(2, second)
		return strings.Contains(body, `"pending"`)
	})
	f.until("a change of the sale", func() bool {
		status, _ := ask("PATCH", "/v1/admin/sales/phone", `{"title":"another"}`, e.AdminKey())
		return status == 200
	})

	fresh := must.Get(merchant.AdminSale(t.Context(), f.sale))(t)
	if age := fresh.ServerTime.Sub(fresh.AsOf.Time); fresh.State != sluice.StateOpen || age > time.Second {
		t.Errorf("the sale is %s, by figures of %v ago", fresh.State, age)
	}
	toRedis.freeze(true)
	f.until("no readiness while the ledger hangs", func() bool { // what it said of late counts for a moment
		status, body := ask("GET", "/readyz", "", "")
		return status == 503 && strings.Contains(body, "unavailable")
	})
	status, body = order(2, second)
	want("a stored order while the ledger hangs", status, body, 200, `"pending"`)
	f.until("a merchant to hear that the ledger is silent, since when, and the figures of then", func() bool {
		last, err := merchant.AdminSale(t.Context(), f.sale)
		return err == nil && last.State == sluice.StateUnavailable && *last.Available == 98 &&
			last.ServerTime.Sub(last.AsOf.Time) > 2*time.Second
	})
	claims := make(chan string, 3)
	for i := range cap(claims) { // one is sent, and the others wait behind it
		go func() {
			request := httptest.NewRequest(http.MethodPost, "/v1/sales/phone/orders", strings.NewReader(`{"quantity":1}`))
			request.Header.Set("Authorization", "Bearer "+token(fmt.Sprintf("buyer-%05d", 3+i)))
			request.Header.Set("Idempotency-Key", fmt.Sprintf("attempt-buyer-%05d", 3+i))
			answer := httptest.NewRecorder()
			e.Handler().ServeHTTP(answer, request)
			claims <- fmt.Sprintf("%d %s %s", answer.Code, answer.Header().Get("Retry-After"), answer.Body)
		}()
		time.Sleep(300 * time.Millisecond)
	}
	status, body = ask("POST", "/v1/admin/sales/phone/restock", `{"id":"more","delta":5}`, e.AdminKey())
	want("a restock while the ledger hangs", status, body, 503, "the ledger (Redis) does not answer; try again")
	f.until("readiness to name the ledger", func() bool { // a look that is late on a busy machine names none
		status, body := ask("GET", "/readyz", "", "")
		return status == 503 && strings.Contains(body, "the ledger (Redis) does not answer; try again")
	})
	heard := map[bool]int{}
	for range cap(claims) {
		answer := <-claims
		unknown := strings.Contains(answer, `"code":"outcome_unknown"`)
		if heard[unknown]++; !strings.HasPrefix(answer, "503 1") || !unknown && (!strings.Contains(answer,
			`"code":"unavailable"`) || !strings.Contains(answer, "the ledger (Redis) does not answer; this request decided")) {
			t.Errorf("a claim while the ledger hangs: %s", answer)
		}
	}
	if heard[true] != 1 || heard[false] != 2 {
		t.Errorf("the outcome of %d claims is unknown, nothing was decided of %d; want 1 and 2", heard[true], heard[false])
	}
	toRedis.freeze(false)
	third := ""
	f.until("the third claim, tried again with its key", func() bool {
		status, third = f.claim(0, 3)
		return status == 202
	})
	f.until("the third order to be stored", func() bool {
		_, body := order(3, third)
		return strings.Contains(body, `"pending"`)
	})
	if stored, err := merchant.AdminSale(t.Context(), f.sale); err != nil || stored.Taken != 3 || stored.StoredTaken != 3 {
		t.Errorf("taken %d, stored %d, %v; want 3 units, each once", stored.Taken, stored.StoredTaken, err)
	}
}

// An engine that is closed while everything hangs, and a claim waits, is closed when its time
// is over: what hangs does not keep a server from ending.
func TestCloseWhileAllHangs(t *testing.T) {
	onEachLedger(t, func(t *testing.T, cfg engine.Config) {
		var hang, goOn func()
		if cfg.Store == "" {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(cfg.DataDir, "ledger.db")+"?_pragma=busy_timeout(10000)")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			do := func(statement string) func() {
				return func() {
					if _, err := db.Exec(statement); err != nil {
						t.Error(err)
					}
				}
			}
			hang, goOn = do("BEGIN EXCLUSIVE"), do("ROLLBACK")
		} else {
			var straits []*strait
			for _, to := range []*string{&cfg.Ledger, &cfg.Store} {
				if at, err := url.Parse(*to); err == nil && at.Host != "" {
					s := newStrait(t, at.Host)
					straits, *to = append(straits, s), s.url(t, *to)
				}
			}
			if straits == nil {
				t.Skip("PostgreSQL is not reached by TCP here")
			}
			all := func(frozen bool) func() {
				return func() {
					for _, s := range straits {
						s.freeze(frozen)
					}
				}
			}
			hang, goOn = all(true), all(false)
		}
		e := opened(t, cfg)
		onSale(t, e, "phones", 10)
		claim := func(buyer sluice.BuyerID) error {
			c := sluice.Claim{Buyer: buyer, Key: "first-attempt", Quantity: 1}
			_, err := e.Claim(context.Background(), "phones", c, sluice.Caller{})
			return err
		}
		must.Succeed(t, claim("ann"))
		hang()
		claimed := make(chan error, 1)
		go func() { claimed <- claim("bob") }()
		time.Sleep(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		closed := make(chan error, 1)
		go func() { closed <- e.Close(ctx) }()
		select {
		case err := <-closed:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("closed with %v, want that its time was over", err)
			}
		case <-time.After(patience):
			t.Fatal("Close waits for what hangs")
		}
		goOn()
		if err := <-claimed; err != nil && !errors.Is(err, engine.ErrOutcomeUnknown) {
			t.Errorf("the claim did not wait for the ledger: %v", err)
		}
		await(t, "what hung to be freed", func() bool {
			again, err := engine.Open(t.Context(), cfg)
			if err == nil {
				err = again.Close(t.Context())
			}
			return !errors.Is(err, sluice.ErrInUse)
		})
	})
}
