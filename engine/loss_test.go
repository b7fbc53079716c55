package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// fleet is some engines on one Redis and one PostgreSQL.
type fleet struct {
	t         *testing.T
	redis     *servertest.RedisServer // nil: the store is the ledger
	store     string
	early     func() // called when a quarter of the units are promised
	lose      func() // called when half of them are
	engines   []*engine.Engine
	clients   []*client.Client
	sale      sluice.SaleID
	retention time.Duration
	node      string // what the names of the servers begin with; "node" if empty
}

func newFleet(t *testing.T, servers int, total int64) *fleet {
	f := &fleet{t: t, redis: servertest.StartRedis(t), store: servertest.Postgres(t), sale: "phone"}
	f.lose = f.flush
	return f.open(servers, total, f.redis.URL())
}

// open starts engines, and creates the sale.
func (f *fleet) open(servers int, total int64, ledger string) *fleet {
	f.t.Helper()
	f.join(servers, ledger)
	f.create(f.sale, total)
	return f
}

// create creates a sale that has been open for an hour.
func (f *fleet) create(id sluice.SaleID, total int64) {
	f.t.Helper()
	must.Get(f.clients[0].CreateSale(f.t.Context(), api.CreateSale{
		ID: api.Some(id), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
		Total: api.Value(total), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
	}))(f.t)
}

// join starts engines on a ledger.
func (f *fleet) join(servers int, ledger string) {
	t := f.t
	t.Helper()
	for i := range servers {
		e := must.Get(engine.Open(t.Context(), engine.Config{
			DataDir: t.TempDir(), Ledger: ledger, Store: f.store, Node: fmt.Sprint(cmp.Or(f.node, "node"), "-", i),
			ReconcileInterval: time.Second, Retention: f.retention, WebhookKey: strings.Repeat("k", 32),
			AdminKey: "admin-key-of-the-fleet", BuyerSecret: "buyer-secret-of-the-fleet",
		}))(t)
		server := httptest.NewServer(e.Handler())
		t.Cleanup(func() {
			server.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = e.Close(ctx)
		})
		c := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
		f.engines, f.clients = append(f.engines, e), append(f.clients, c)
	}
}

// flush is what an operator does to the wrong Redis.
func (f *fleet) flush() {
	f.t.Helper()
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true}))(f.t)
	defer c.Close()
	must.Succeed(f.t, c.Do(f.t.Context(), c.B().Flushall().Build()).Error())
}

func token(buyer string) string {
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte("buyer-secret-of-the-fleet"))
	if err != nil {
		panic(err)
	}
	return signed
}

// claim tries once on one server and returns the status and the order id.
func (f *fleet) claim(server, buyer int) (status int, order string) {
	status, answer := f.answer(server, buyer)
	return status, answer.OrderID
}

// answer tries once on one server.
func (f *fleet) answer(server, buyer int) (status int, answer struct{ OrderID, Code string }) {
	name := fmt.Sprintf("buyer-%05d", buyer)
	request := httptest.NewRequest(http.MethodPost, "/v1/sales/"+string(f.sale)+"/orders",
		strings.NewReader(`{"quantity":1}`))
	request.Header.Set("Authorization", "Bearer "+token(name))
	request.Header.Set("Idempotency-Key", "attempt-"+name)
	recorder := httptest.NewRecorder()
	f.engines[server].Handler().ServeHTTP(recorder, request)
	member := func(name string) string {
		_, rest, _ := strings.Cut(recorder.Body.String(), `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	answer.OrderID, answer.Code = member("order_id"), member("code")
	return recorder.Code, answer
}

// buys claims for a buyer until the claim is accepted, as often as needed, and returns the order.
func (f *fleet) buys(server, buyer int) (order string) {
	f.t.Helper()
	f.until("a claim to be accepted", func() bool {
		status, got := f.claim(server, buyer)
		order = got
		return status == http.StatusAccepted
	})
	return order
}

// keeps claims again with the buyer's key, and fails the test unless the answer is the order
// that was promised (I4). A server whose ledger does not answer, or is being rebuilt, is asked again: that
// takes a quarter of a minute where a database has become an older copy of itself.
func (f *fleet) keeps(server, buyer int, promised string) bool {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		status, answer := f.answer(server, buyer)
		silent := answer.Code == sluice.Unavailable.String() || answer.Code == api.CodeOutcomeUnknown
		switch {
		case status == http.StatusAccepted && answer.OrderID == promised:
			return true
		case !silent || time.Now().After(deadline):
			f.t.Errorf("%s: buyer %d was promised %s; the same key now gets %d %+v on server %d (I4)", f.sale, buyer, promised,
				status, answer, server)
			return false
		}
	}
}

// stored reports whether all that was accepted is, and the sale goes on.
func (f *fleet) stored() bool {
	sale, err := f.clients[0].AdminSale(f.t.Context(), f.sale)
	return err == nil && sale.Fence == "" && sale.Backlog == 0 && sale.StoredTaken == sale.Taken
}

// until waits for long: what the database refuses is set aside a minute after it came.
func (f *fleet) until(what string, reached func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			sale, err := f.clients[0].AdminSale(f.t.Context(), f.sale)
			f.t.Fatalf("waited three minutes for %s; the sale: %+v, %v", what, sale, err)
		}
	}
}

// Redis is emptied in the middle of a rush. The sale fences itself, is rebuilt
// from the servers' memory and the store, and goes on: nothing is oversold,
// and every promise is kept under its own order id.
func TestRedisIsEmptiedInARush(t *testing.T) { newFleet(t, 2, 1000).rush(t, 1500, 1000) }

// The same with locks that keep nothing apart: every server gets every lease, so all
// of them rebuild the sale, compare it and number its events at the same time.
func TestEveryServerHoldsEveryLock(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, 1000)
	db := must.Get(pgx.Connect(t.Context(), f.store))(t)
	defer db.Close(context.Background())
	must.Get(db.Exec(t.Context(), `CREATE FUNCTION no_holder() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN NEW.expires_at = now() - interval '1 hour'; RETURN NEW; END $$;
		CREATE TRIGGER no_holder BEFORE UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION no_holder();
		UPDATE leases SET holder = ''`))(t)
	f.rush(t, 1500, 1000)
	var holders int
	if err := db.QueryRow(t.Context(),
		"SELECT count(*) FROM leases WHERE expires_at > now()").Scan(&holders); err != nil || holders > 0 {
		t.Errorf("%d leases are held, %v: the locks were not broken", holders, err)
	}
	stored := map[sluice.OrderID]bool{}
	after, seq := "", int64(0)
	f.until("an event of each order", func() bool {
		page := must.Get(f.clients[0].Events(t.Context(), after, 1000))(t)
		after = page.Next
		for _, e := range page.Events {
			if seq++; e.Seq != seq {
				t.Fatalf("event %d, want %d", e.Seq, seq)
			}
			if e.Type != sluice.EventOrderCreated {
				continue
			}
			if stored[e.Data.Order.OrderID] {
				t.Errorf("%s of %s twice", e.Type, e.Data.Order.OrderID)
			}
			stored[e.Data.Order.OrderID] = true
		}
		return len(stored) == 1000
	})
}

// rush is a crowd that meets an empty Redis in its middle.
func (f *fleet) rush(t *testing.T, buyers int, total int64) {
	t.Helper()
	servers := len(f.engines)
	var promised sync.Map // buyer -> order id
	var promises atomic.Int64
	flushed := make(chan struct{})
	var rush sync.WaitGroup
	var next atomic.Int64
	for g := range 16 {
		rush.Go(func() {
			for {
				buyer := int(next.Add(1))
				if buyer > buyers {
					return
				}
				for {
					status, order := f.claim(g%servers, buyer)
					if status == http.StatusAccepted {
						promised.Store(buyer, order)
						switch n := promises.Add(1); {
						case n == total/2:
							close(flushed)
						case n == total/4 && f.early != nil:
							f.early()
						}
						break
					}
					if status == http.StatusConflict {
						break
					}
					time.Sleep(20 * time.Millisecond) // 503: again, with the same key
				}
			}
		})
	}
	<-flushed
	f.lose()
	rush.Wait()
	f.until("the journal to be stored", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		return err == nil && sale.Epoch >= 2 && sale.Fence == "" && sale.Backlog == 0 && sale.StoredTaken == sale.Taken
	})

	if promises.Load() != total {
		t.Errorf("%d promises for %d units", promises.Load(), total)
	}
	lost := 0
	promised.Range(func(buyer, order any) bool {
		if !f.keeps(0, buyer.(int), order.(string)) {
			lost++
		}
		return lost < 5
	})
	report, err := f.engines[0].Audit(t.Context(), f.sale)
	if err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report.Checks, err)
	}
	sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
	if err != nil || sale.StoredTaken != total || sale.Taken != total {
		t.Errorf("taken %d by the ledger, %d by the store, %v; want %d", sale.Taken, sale.StoredTaken, err, total)
	}
}

// Whichever keys of a sale are gone, or hold something else, the sale comes back by
// itself, with every promise that was made.
func TestAnyKeysOfASaleAreGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 10)
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true}))(t)
	defer c.Close()
	keys := []string{"sale", "buyers", "journal"}
	type promise struct {
		buyer int
		order string
	}
	promised := map[sluice.SaleID][]promise{}
	for n := range 2 * (1<<len(keys) - 1) {
		gone, damage := n/2+1, n%2 == 1
		f.sale = sluice.SaleID(fmt.Sprintf("sale-%03b-%v", gone, damage))
		_, err := f.clients[0].CreateSale(t.Context(), api.CreateSale{
			ID: api.Some(f.sale), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
			Total: api.Value[int64](10), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
		})
		if err != nil {
			t.Fatal(err)
		}
		promised[f.sale] = nil
		for buyer := range 4 {
			promised[f.sale] = append(promised[f.sale], promise{buyer, f.buys(buyer%2, buyer)})
		}
		for i, key := range keys {
			name := "sluice:{" + string(f.sale) + "}:" + key
			command := c.B().Del().Key(name).Build()
			if damage {
				command = c.B().Set().Key(name).Value("something else").Build()
			}
			if gone&(1<<i) == 0 {
				continue
			}
			must.Succeed(t, c.Do(t.Context(), command).Error())
		}
	}
	for id, promises := range promised {
		f.sale = id
		f.until(fmt.Sprintf("%s to come back", id), func() bool {
			sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
			return err == nil && sale.Epoch >= 2 && sale.Fence == "" && sale.Backlog == 0 && sale.StoredTaken == 4 &&
				sale.Taken == 4
		})
		for _, p := range promises {
			f.keeps(0, p.buyer, p.order)
		}
		f.until("a new claim to be accepted by the other server", func() bool {
			status, _ := f.claim(1, 9)
			return status == http.StatusAccepted
		})
		report, err := f.engines[0].Audit(t.Context(), f.sale)
		if err != nil || !report.OK {
			t.Errorf("%s: audit %+v, %v", id, report.Checks, err)
		}
	}
}

// What other keys of a sale hold is no promise: one that holds something else is
// replaced, and neither the buyer whose rate it is nor any other is refused for it.
func TestOtherKeysOfASaleHoldSomethingElse(t *testing.T) {
	dir, url, redis := redisShop(t)
	b := openBranch(t, engine.Config{DataDir: dir, Ledger: url, Node: "one"})
	sell(t, []*branch{b}, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{
		BuyerRate:   sluice.BuyerRate{Requests: 50, PerS: 60, Shared: true},
		AddressRate: sluice.AddressRate{Requests: 5000, PerS: 60, Shared: true},
	}))
	buyers := 0
	for _, key := range []string{"rate:%s", "addr:192.0.2.1"} {
		for _, plant := range [][]string{
			{"SET", "%", "something else"},
			{"SET", "%", "nan"},
			{"LPUSH", "%", "x"},
			{"HSET", "%", "x", "y"},
			{"XADD", "%", "*", "x", "y"},
		} {
			ann, bob := fmt.Sprint("ann-", buyers), fmt.Sprint("bob-", buyers)
			buyers++
			name := "sluice:{phones}:" + strings.Replace(key, "%s", ann, 1)
			plant[1] = name
			for _, command := range [][]string{{"DEL", name}, plant} {
				must.Succeed(t, redis.Do(t.Context(), redis.B().Arbitrary(command...).Build()).Error())
			}
			for _, buyer := range []string{ann, bob} {
				if status, answer := b.claim("phones", buyer, ""); status != http.StatusAccepted {
					t.Errorf("%v, %s: %d %v", plant, buyer, status, answer)
				}
			}
			if text, err := redis.Do(t.Context(), redis.B().Get().Key(name).Build()).ToString(); err != nil ||
				strings.Trim(text, "0123456789") != "" {
				t.Errorf("%v: %q is there now, %v", plant, text, err)
			}
		}
	}
}

// audited audits the sale when all that was accepted is stored.
func (f *fleet) audited() {
	f.t.Helper()
	f.until("all to be stored", f.stored)
	report, err := f.engines[0].Audit(f.t.Context(), f.sale)
	if err != nil || !report.OK {
		f.t.Errorf("audit: %s, %v", fmt.Sprint(report.Checks), err)
	}
}
