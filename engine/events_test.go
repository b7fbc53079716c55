package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// A sale that is created in a running engine reaches the merchant's endpoint,
// signed, also when the endpoint fails first; the feed says the same; and what
// was delivered is sent again when an operator asks for it.
func TestWebhooksEndToEnd(t *testing.T) {
	t.Parallel()
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir()}))(t)
	server := httptest.NewServer(e.Handler())
	defer func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()

	var mu sync.Mutex
	var secret string
	var got []api.Event
	refuse := true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		var event api.Event
		verifier, err := standard.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err == nil {
			err = json.Unmarshal(body, &event)
		}
		if err != nil || event.ID != r.Header.Get("webhook-id") {
			t.Errorf("%s: %v", body, err)
		}
		if refuse {
			refuse = false
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got = append(got, event)
	}))
	defer receiver.Close()
	received := func() []api.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, received())
			}
		}
	}

	c := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
	mu.Lock()
	hook, err := c.CreateWebhook(t.Context(), api.CreateWebhook{URL: receiver.URL, Description: "orders"})
	secret = hook.Secret
	mu.Unlock()
	if err != nil || hook.Status != api.WebhookActive {
		t.Fatalf("%+v, %v", hook, err)
	}
	sale := sluice.Sale{
		ID: "phone", SKU: "sku", Title: "手机", Price: sluice.Money{Amount: 100, Currency: "CNY"}, PaymentWindow: time.Hour,
		Terms: sluice.Terms{Total: 1, MaxPerBuyer: 1, MaxOrders: 2, OpensAt: time.Now().Add(-time.Hour)},
	}
	must.Get(e.Control().Create(t.Context(), sale))(t)
	until("both events arrive", func() bool { return len(received()) == 2 })
	if first, second := received()[0], received()[1]; first.Type != "sale.created" || second.Type != "sale.available" ||
		first.Data.Sale.Title != "手机" {
		t.Errorf("events %+v, %+v", first, second)
	}
	until("nothing waits", func() bool {
		w, err := c.Webhook(t.Context(), hook.ID)
		return err == nil && w.Pending == 0 && w.Behind == 0 && w.Delivered == 2 && w.Secret == "" &&
			w.LastFailureAt != nil && w.LastError == "HTTP 500 Internal Server Error"
	})
	page, err := c.Events(t.Context(), "", 0)
	if err != nil || len(page.Events) != 2 || page.Events[0].ID != received()[0].ID || page.Next != received()[1].ID {
		t.Errorf("the feed: %+v, %v", page, err)
	}
	for i, replay := range []api.ReplayWebhook{{Event: page.Events[1].ID}, {From: page.Events[0].ID}} {
		if n, err := c.ReplayWebhook(t.Context(), hook.ID, replay); err != nil || n != int64(i)+1 {
			t.Errorf("replayed %d, %v", n, err)
		}
		until("it is sent again", func() bool { return len(received()) == 3+2*i })
	}
	if _, err := c.ReplayWebhook(t.Context(), hook.ID, api.ReplayWebhook{Event: "evt_1_00000000"}); client.CodeOf(err) !=
		api.CodeEventNotFound {
		t.Errorf("replay of no event: %v", err)
	}
	if err := c.DeleteWebhook(t.Context(), hook.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Webhook(t.Context(), hook.ID); client.CodeOf(err) != api.CodeWebhookNotFound {
		t.Errorf("a deleted webhook: %v", err)
	}
}
