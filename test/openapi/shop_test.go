// Package openapi asks a live server everything that its OpenAPI document describes,
// and judges each request and each answer by that document, read by a library for
// OpenAPI. It is no part of the product's module, so that the library is not either.
package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// shop is a running engine with its HTTP API on a real socket.
type shop struct {
	t      *testing.T
	engine *engine.Engine
	url    string
	dir    string // of its data
}

func open(t *testing.T) *shop {
	t.Helper()
	dir := t.TempDir()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: dir, RefreshInterval: 20 * time.Millisecond,
		Pages: engine.Pages{PictureHosts: []string{"cdn.shop.example"}},
	}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &shop{t: t, engine: e, url: server.URL, dir: dir}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
	fields map[string]any // of a JSON object
}

func (a answer) code() string { s, _ := a.fields["code"].(string); return s }

func (a answer) text(field string) string { return fmt.Sprint(a.fields[field]) }

// do sends a request; headers are "Name: value".
func (s *shop) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	request := s.request(method, path, body, headers...)
	response := must.Get(http.DefaultClient.Do(request))(s.t)
	defer response.Body.Close()
	content := must.Get(io.ReadAll(response.Body))(s.t)
	a := answer{status: response.StatusCode, header: response.Header, body: string(content)}
	_ = json.Unmarshal(content, &a.fields)
	return a
}

func (s *shop) request(method, path, body string, headers ...string) *http.Request {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body)))(s.t)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	return request
}

// key is the merchant's header.
func (s *shop) key() string { return "Authorization: Bearer " + s.engine.AdminKey() }

func (s *shop) admin(method, path, body string) answer {
	s.t.Helper()
	return s.do(method, path, body, s.key())
}

// auth is a buyer's header.
func (s *shop) auth(buyer string) string {
	s.t.Helper()
	token := must.Get(loadgen.Mint([]byte(s.engine.BuyerSecret()), sluice.BuyerID(buyer), time.Now(), time.Hour))(s.t)
	return "Authorization: Bearer " + token
}

// claim sends a claim of one unit.
func (s *shop) claim(sale, buyer, key string) answer {
	s.t.Helper()
	return s.do("POST", "/v1/sales/"+sale+"/orders", `{"quantity":1}`, s.auth(buyer), "Idempotency-Key: "+key)
}

// create makes a sale; the fields given replace those of a good one.
func (s *shop) create(id string, fields ...string) answer {
	s.t.Helper()
	return s.admin("POST", "/v1/admin/sales", saleJSON(id, fields...))
}

// saleJSON is a sale whose fields, "name=JSON", replace or add to those of a good one.
func saleJSON(id string, fields ...string) string {
	sale := map[string]json.RawMessage{}
	good := `{"sku":"SKU","title":"Title","price":{"amount":100,"currency":"CNY"},"total":10,"max_per_buyer":1,
		"opens_at":"2026-01-01T00:00:00Z","closes_at":null}`
	if err := json.Unmarshal([]byte(good), &sale); err != nil {
		panic(err)
	}
	sale["id"] = json.RawMessage(`"` + id + `"`)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		sale[name] = json.RawMessage(value)
	}
	body, err := json.Marshal(sale)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// must fails the test unless the answer has the status.
func (s *shop) must(a answer, status int) answer {
	s.t.Helper()
	if a.status != status {
		s.t.Fatalf("answer %d %s, want %d", a.status, a.body, status)
	}
	return a
}

// eventually repeats a request until it has the status, and returns the last answer.
func (s *shop) eventually(do func() answer, status int) (a answer) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if a = do(); a.status == status {
			return a
		}
	}
	return a
}

// stored waits until the order is stored.
func (s *shop) stored(id string) {
	s.t.Helper()
	last := s.eventually(func() answer {
		a := s.must(s.admin("GET", "/v1/admin/orders/"+id, ""), 200)
		if a.text("status") == "queued" {
			a.status = 0
		}
		return a
	}, 200)
	s.must(last, 200)
}

// events reads the feed after an event, in pages, until there are n.
func (s *shop) events(after string, n, limit int) (all []api.Event) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a := s.must(s.admin("GET", fmt.Sprintf("/v1/admin/events?after=%s&limit=%d", after, limit), ""), 200)
		var page api.EventPage
		must.Succeed(s.t, json.Unmarshal([]byte(a.body), &page))
		all = append(all, page.Events...)
		after = page.Next
		if len(all) >= n && len(page.Events) < limit {
			return all
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d events, want %d: %+v", len(all), n, all)
		}
	}
}
