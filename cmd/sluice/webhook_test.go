package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// Events and webhooks as an operator types them, against a real server.
func TestEventsByHand(t *testing.T) {
	s := serve(t)
	got := make(chan string, 100)
	var secret atomic.Pointer[string]
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for secret.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		event, err := client.VerifyWebhook(*secret.Load(), r.Header, body)
		if err != nil {
			t.Error(err)
		}
		got <- event.ID
	}))
	defer receiver.Close()
	receive := func() string {
		t.Helper()
		select {
		case id := <-got:
			return id
		case <-time.After(60 * time.Second):
			t.Fatal("no webhook")
			return ""
		}
	}
	made := okJSON[api.Webhook](t, s.env, "webhook", "create", receiver.URL, "--types", "sale.created,sale.updated",
		"--description", "shop")
	id := string(made.ID)
	secret.Store(&made.Secret)
	if !strings.HasPrefix(made.Secret, "whsec_") || made.Status != api.WebhookActive || len(made.Types) != 2 {
		t.Errorf("%+v", made)
	}
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "3")
	first := receive()

	lines := strings.Split(strings.TrimSpace(ok(t, s.env, "events", "--json", "--limit", "1")), "\n")
	var event api.Event
	if err := json.Unmarshal([]byte(lines[0]), &event); err != nil || len(lines) != 1 || event.ID != first ||
		event.Type != "sale.created" {
		t.Errorf("%s: %v, want %s", lines, err, first)
	}
	ok(t, s.env, "sale", "pause", "phone")
	receive()
	if text := ok(t, s.env, "events", "--after", first); !strings.Contains(text, "sale.available") ||
		!strings.Contains(text, "sale.updated") || strings.Contains(text, "sale.created") {
		t.Errorf("events:\n%s", text)
	}
	if r := okJSON[api.WebhookReplayed](t, s.env, "webhook", "replay", id, "--event", first); r.Replayed != 1 ||
		receive() != first {
		t.Errorf("%+v", r)
	}
	if text := ok(t, s.env, "webhook", "replay", id, "--failed"); text != "0 events will be sent again\n" {
		t.Error(text)
	}
	if w := okJSON[api.Webhook](t, s.env, "webhook", "disable", id); w.Status != api.WebhookDisabled {
		t.Errorf("%+v", w)
	}
	if w := okJSON[api.Webhook](t, s.env, "webhook", "enable", id); w.Status != api.WebhookActive {
		t.Errorf("%+v", w)
	}
	if text := ok(t, s.env, "webhook", "show", id); !strings.Contains(text, receiver.URL) ||
		strings.Contains(text, made.Secret) {
		t.Errorf("show:\n%s", text)
	}
	if page := okJSON[api.DeliveryPage](t, s.env, "webhook", "deliveries", id); page.NextCursor != "" {
		t.Errorf("%+v", page)
	}
	if tested := okJSON[api.WebhookTested](t, s.env, "webhook", "test", id); !tested.Delivered || tested.Status != 200 ||
		receive() != tested.EventID {
		t.Errorf("%+v", tested)
	}
	if list := okJSON[api.WebhookList](t, s.env, "webhook", "list"); len(list.Webhooks) != 1 {
		t.Errorf("%+v", list)
	}
	ok(t, s.env, "webhook", "delete", id)
	for want, args := range map[string][]string{
		"webhook_not_found": {"webhook", "show", id},
		"stale_cursor":      {"events", "--after", "evt_1_00000000"},
		"want one of":       {"webhook", "replay", id},
		"url: want http":    {"webhook", "create", "ftp://host"},
		"order.eaten":       {"webhook", "create", "http://host", "--types", "order.eaten"},
		"want the id":       {"events", "--after", "17"},
		"want 0":            {"events", "--limit", "-1"},
	} {
		if got := command(t, s.env, args...); got.code == exitOK || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	s.end(t)
}
