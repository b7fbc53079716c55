package method

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/loadgen"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

var embeddedMethod = Method{
	Name: "sluice", Title: "Sluice embedded", Own: true,
	Does: "the engine in this process, ledger and orders in SQLite, every claim on disk before its answer",
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		return openEngine(ctx, engine.Config{DataDir: on.Dir})
	},
}

var redisMethod = Method{
	Name: "sluice-redis", Title: "Sluice on Redis", Own: true,
	Does:  "the engine in this process, ledger in Redis, orders in PostgreSQL",
	Redis: []string{"ledger"},
	Open: func(ctx context.Context, on Servers) (Seller, error) {
		return openEngine(ctx, engine.Config{DataDir: on.Dir, Ledger: "redis://" + on.Redis[0], Store: on.Database})
	},
}

var fsyncMethod = Method{
	Name: "sluice-fsync", Title: "Sluice on Redis, fsync", Own: true,
	Does:  "the same, every claim on Redis' disk before its answer",
	Redis: []string{"ledger"}, Fsync: true,
	Open: redisMethod.Open,
}

// own is Sluice, asked through its HTTP handler without the network: tokens are
// verified, requests and answers are JSON.
type own struct {
	engine *engine.Engine
	tokens sync.Map // Authorization, by buyer
}

const ownSale = sluice.SaleID("phone")

func openEngine(ctx context.Context, c engine.Config) (Seller, error) {
	e, err := engine.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &own{engine: e}, nil
}

func (o *own) WarmUp(ctx context.Context, units int64) error {
	s := sluice.NewSale(units, 1)
	s.ID, s.SKU, s.Title = ownSale, "PHONE-1", "A phone"
	s.Price = sluice.Money{Amount: 99900, Currency: "CNY"}
	s.OpensAt = time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	_, err := o.engine.Control().Create(ctx, s)
	return err
}

func (o *own) Expect(buyer string) error {
	token, err := loadgen.Mint([]byte(o.engine.BuyerSecret()), sluice.BuyerID(buyer), time.Now(), time.Hour)
	o.tokens.Store(buyer, "Bearer "+token)
	return err
}

var claimURL = url.URL{Path: "/v1/sales/" + string(ownSale) + "/orders"}

func (o *own) Buy(ctx context.Context, buyer, key string) (Answer, error) {
	token, ok := o.tokens.Load(buyer)
	if !ok {
		return "", fmt.Errorf("buyer %s was not expected", buyer)
	}
	const body = `{"quantity":1}`
	r := (&http.Request{
		Method: http.MethodPost, URL: &claimURL, RequestURI: claimURL.Path, Host: "shop.example",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "192.0.2.1:40000",
		Header: http.Header{
			"Authorization": {token.(string)}, "Idempotency-Key": {key},
			"Content-Type": {"application/json"},
		},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}).WithContext(ctx)
	w := &reply{header: http.Header{}}
	o.engine.Handler().ServeHTTP(w, r)
	if w.status == http.StatusAccepted {
		return Accepted, nil
	}
	var problem struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(w.body.Bytes(), &problem); err != nil {
		return "", err
	}
	switch problem.Code {
	case sluice.SoldOut.String():
		return SoldOut, nil
	case sluice.BuyerLimit.String():
		return Bought, nil
	case sluice.NotOpen.String():
		return NotOpen, nil
	}
	return "", fmt.Errorf("answer %d %s", w.status, w.body.Bytes())
}

// Work is done by the engine.
func (o *own) Work(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (o *own) Stored(ctx context.Context) (int64, error) {
	report, err := o.engine.Audit(ctx, ownSale)
	if err != nil || report.Figures == nil {
		return 0, err
	}
	return report.Figures.Store.LiveUnits, nil
}

// Orders asks as a merchant does, page by page.
func (o *own) Orders(ctx context.Context) (all []Order, err error) {
	for cursor := ""; ; {
		u := url.URL{Path: "/v1/admin/orders", RawQuery: url.Values{
			"sale": {string(ownSale)}, "limit": {"500"}, "cursor": {cursor},
		}.Encode()}
		r := (&http.Request{
			Method: http.MethodGet, URL: &u, RequestURI: u.RequestURI(), Host: "shop.example", RemoteAddr: "192.0.2.1:40000",
			Header: http.Header{"Authorization": {"Bearer " + o.engine.AdminKey()}}, Body: http.NoBody,
		}).WithContext(ctx)
		w := &reply{header: http.Header{}, status: http.StatusOK}
		o.engine.Handler().ServeHTTP(w, r)
		var page api.OrderPage
		if err := json.Unmarshal(w.body.Bytes(), &page); err != nil || w.status != http.StatusOK {
			return nil, fmt.Errorf("orders: answer %d %s: %w", w.status, w.body.Bytes(), err)
		}
		for _, order := range page.Orders {
			all = append(all, Order{string(order.OrderID), string(order.BuyerID)})
		}
		if cursor = page.NextCursor; cursor == "" {
			return all, nil
		}
	}
}

func (o *own) Close() { _ = o.engine.Close(context.Background()) }

// reply is a ResponseWriter in memory.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *reply) Header() http.Header         { return r.header }
func (r *reply) WriteHeader(status int)      { r.status = status }
func (r *reply) Write(b []byte) (int, error) { return r.body.Write(b) }
