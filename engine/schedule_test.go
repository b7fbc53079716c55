package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/pgstore"
)

// branch is one server of a shop that shares a ledger and a store.
type branch struct {
	t      *testing.T
	engine *engine.Engine
	client *client.Client
}

func openBranch(t *testing.T, cfg engine.Config) *branch {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.AdminKey, cfg.BuyerSecret = "admin-key-of-the-shop", cmp.Or(cfg.BuyerSecret, "buyer-secret-of-the-fleet")
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	server := httptest.NewServer(e.Handler())
	b := &branch{t: t, engine: e}
	t.Cleanup(func() {
		server.Close()
		b.close()
	})
	b.client = must.Get(client.New(server.URL, client.Options{AdminKey: cfg.AdminKey}))(t)
	return b
}

func (b *branch) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.engine.Close(ctx)
}

// post sends one request of a buyer, and returns status and fields of the answer.
func (b *branch) post(path, buyer string, headers map[string]string, body string) (int, map[string]any) {
	signed := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte("buyer-secret-of-the-fleet")))(b.t)
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+signed)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	b.engine.Handler().ServeHTTP(answer, request)
	var fields map[string]any
	_ = json.Unmarshal(answer.Body.Bytes(), &fields)
	return answer.Code, fields
}

func (b *branch) claim(sale, buyer, ticket string) (int, map[string]any) {
	headers := map[string]string{"Idempotency-Key": "attempt-" + buyer}
	if ticket != "" {
		headers["Sluice-Ticket"] = ticket
	}
	return b.post("/v1/sales/"+sale+"/orders", buyer, headers, `{"quantity":1}`)
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func prepared(id string, opens time.Time, rules sluice.Rules) sluice.Sale {
	return sluice.Sale{
		ID: sluice.SaleID(id), SKU: "sku", Title: "title", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 100, MaxPerBuyer: 1, MaxOrders: 10,
			OpensAt: opens.UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: time.Minute, PaymentGrace: time.Second, Rules: rules,
	}
}

// A sale that was only written down, by a server that died before it could load
// it, is loaded before its opening by one that lives, and opens without anybody
// doing anything; a server that starts after the opening sells it as well.
func TestASaleIsWarmedUpAndOpensByItself(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	one := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "one"})
	two := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "two"})
	written := must.Get(pgstore.Open(t.Context(), store, pgstore.Options{}))(t)
	defer written.Close()
	opens := time.Now().Add(7 * time.Second)
	must.Get(written.CreateSale(t.Context(),
		prepared("phones", opens, sluice.Rules{Ticket: sluice.Ticket{BeforeS: 3600}})))(t)
	until(t, "one of them to load it", func() bool {
		check, err := one.client.CheckSale(t.Context(), "phones")
		return err == nil && statusOf(check, "loaded") == api.CheckOK
	})
	row, err := written.Sale(t.Context(), "phones")
	if err != nil || row.Epoch != 1 || row.LoadedEpoch != 1 {
		t.Errorf("loaded as epoch %d, %d, %v; want once", row.Epoch, row.LoadedEpoch, err)
	}
	var ticket string
	until(t, "a ticket", func() bool {
		var status int
		var answer map[string]any
		status, answer = two.post("/v1/sales/phones/ticket", "ann", nil, "")
		ticket, _ = answer["ticket"].(string)
		return status == http.StatusOK
	})
	// The ticket of one server is good at the other; before the opening both
	// say when it is, and then both sell.
	for i, b := range []*branch{one, two} {
		buyer := []string{"ann", "bob"}[i]
		if i == 1 {
			_, answer := one.post("/v1/sales/phones/ticket", buyer, nil, "")
			ticket, _ = answer["ticket"].(string)
		}
		until(t, "an accepted claim", func() bool {
			status, answer := b.claim("phones", buyer, ticket)
			if status == http.StatusConflict && (answer["code"] != "not_open" || answer["opens_at"] != api.At(opens).String()) {
				t.Errorf("refused with %v, want not_open and the opening time", answer)
			}
			if status == http.StatusForbidden {
				t.Errorf("refused with %v", answer)
				return true
			}
			return status == http.StatusAccepted
		})
	}
	late := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "late"})
	status, answer := late.post("/v1/sales/phones/ticket", "cid", nil, "")
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	if status, answer := late.claim("phones", "cid", answer["ticket"].(string)); status != http.StatusAccepted {
		t.Errorf("at the server that started late: %d %v", status, answer)
	}
	if status, answer := late.claim("phones", "ann", ""); status != http.StatusAccepted { // a repeat (I4)
		t.Errorf("a repeat at another server: %d %v", status, answer)
	}
	until(t, "the orders to be stored", func() bool {
		row, err := written.Sale(t.Context(), "phones")
		return err == nil && row.Taken == 3
	})
	report, err := late.engine.Audit(t.Context(), "phones")
	if err != nil || !report.OK { // I8 among them: nothing before the opening
		t.Errorf("audit %+v, %v", report, err)
	}
	for _, b := range []*branch{one, two, late} {
		until(t, "all to know of each other", func() bool {
			check, err := b.client.CheckSale(t.Context(), "phones")
			return err == nil && slices.ContainsFunc(check.Checks, func(c api.Check) bool {
				return c.Detail == "live: late, one, two"
			})
		})
	}
}

func statusOf(check api.SaleCheck, name string) api.CheckStatus {
	for _, c := range check.Checks {
		if c.Name == name {
			return c.Status
		}
	}
	return ""
}

// A list that is uploaded at one server holds at the others in a moment.
func TestListsReachAllServers(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	one := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "one"})
	two := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "two"})
	must.Get(one.client.CreateSale(t.Context(), api.CreateSale{
		ID: api.Some[sluice.SaleID]("phones"), SKU: "sku", Title: "title",
		Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
		Total: api.Value[int64](1_000_000), MaxPerBuyer: api.Null[int64](),
		OpensAt:    api.Some(api.At(time.Now().Add(-time.Hour))),
		PatchRules: api.PatchRules{Eligibility: api.Value(sluice.EligibleList)},
	}))(t)
	must.Get(one.client.ReplaceBuyers(t.Context(), "phones", sluice.AllowList, strings.NewReader("ann\nbob\n")))(t)
	if status, answer := one.claim("phones", "ann", ""); status != http.StatusAccepted {
		t.Errorf("at the server that took the list: %d %v", status, answer)
	}
	until(t, "the other server to let bob in", func() bool {
		status, _ := two.claim("phones", "bob", "")
		return status == http.StatusAccepted
	})
	if status, answer := two.claim("phones", "eve", ""); status != http.StatusForbidden ||
		answer["reason"] != "not_eligible" {
		t.Errorf("eve: %d %v", status, answer)
	}
	must.Get(two.client.ReplaceBuyers(t.Context(), "phones", sluice.DenyList, strings.NewReader("ann\nbob\n")))(t)
	until(t, "the first server to know the deny list", func() bool {
		status, answer := one.post("/v1/sales/phones/orders", "ann",
			map[string]string{"Idempotency-Key": "another-" + time.Now().Format("150405.000000")[7:]}, `{"quantity":1}`)
		return status == http.StatusForbidden && answer["reason"] == "denied"
	})
	if status, answer := one.claim("phones", "ann", ""); status != http.StatusAccepted { // what was accepted stays (I4)
		t.Errorf("ann's repeat: %d %v", status, answer)
	}
}
