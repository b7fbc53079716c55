package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func aWebhook(id sluice.WebhookID) sluice.Webhook {
	w := sluice.Webhook{
		ID: id, URL: "http://127.0.0.1:9/orders?shop=1", Description: "订单",
		Types: []sluice.EventType{sluice.EventOrderPaid, sluice.EventSaleCreated},
	}
	w.SetKey(make([]byte, 24))
	return w
}

// withEvents makes a sale and n orders, 2 + n events.
func withEvents(t *testing.T, s port.Store, n int) {
	t.Helper()
	src := selling(t, s, "phones", sluice.Unlimited)
	src.store(t, s, n)
	numberAll(t, s, 1000)
}

func makeWebhook(t *testing.T, s port.Store, w sluice.Webhook) sluice.Webhook {
	t.Helper()
	w = must.Get(s.CreateWebhook(t.Context(), w))(t)
	return w
}

func getWebhook(t *testing.T, s port.Store, id sluice.WebhookID) sluice.Webhook {
	t.Helper()
	w := must.Get(s.Webhook(t.Context(), id))(t)
	return w
}

func testWebhooks(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	if all, err := s.Webhooks(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("an empty store has webhooks %+v, %v", all, err)
	}
	first := makeWebhook(t, s, aWebhook("wh_b"))
	withEvents(t, s, 3)
	second := aWebhook("wh_a")
	second.Types = nil
	second = makeWebhook(t, s, second)
	if first.Cursor != 0 || second.Cursor != 5 || second.CreatedAt.IsZero() || first.UpdatedAt != first.CreatedAt {
		t.Errorf("webhooks %+v, %+v", first, second)
	}
	all, err := other.Webhooks(t.Context())
	if diff := cmp.Diff([]sluice.Webhook{first, second}, all); err != nil || diff != "" {
		t.Errorf("list: %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(first, getWebhook(t, other, "wh_b")); diff != "" {
		t.Errorf("one (-want +got):\n%s", diff)
	}
	disabled, err := other.DisableWebhook(t.Context(), "wh_b", "it is gone\x00")
	if err != nil || disabled.DisabledAt.IsZero() || disabled.DisabledWhy != "it is gone\uFFFD" {
		t.Errorf("disabled: %+v, %v", disabled, err)
	}
	again, err := s.DisableWebhook(t.Context(), "wh_b", "once more")
	if diff := cmp.Diff(disabled, again); err != nil || diff != "" {
		t.Errorf("disabled again: %v (-first +second):\n%s", err, diff)
	}
	for range 2 {
		enabled, err := s.EnableWebhook(t.Context(), "wh_b")
		if err != nil || !enabled.DisabledAt.IsZero() || enabled.DisabledWhy != "" || enabled.Cursor != 0 {
			t.Errorf("enabled: %+v, %v", enabled, err)
		}
		if diff := cmp.Diff(enabled, getWebhook(t, other, "wh_b")); diff != "" {
			t.Errorf("enabled (-told +stored):\n%s", diff)
		}
	}
	if err := s.ReplayEvent(t.Context(), "wh_a", 2, "phones"); err != nil {
		t.Error(err)
	}
	must.Succeed(t, s.DeleteWebhook(t.Context(), "wh_a"))
	if pending, failed, err := s.CountDeliveries(t.Context(), "wh_a"); err != nil || pending != 0 || failed != 0 {
		t.Errorf("a deleted webhook keeps %d, %d, %v", pending, failed, err)
	}
	for _, id := range []sluice.WebhookID{"wh_a", "", "x\x00\xff"} {
		_, err := s.Webhook(t.Context(), id)
		wantError(t, err, sluice.ErrWebhookNotFound)
		wantError(t, s.DeleteWebhook(t.Context(), id), sluice.ErrWebhookNotFound)
		_, err = s.EnableWebhook(t.Context(), id)
		wantError(t, err, sluice.ErrWebhookNotFound)
		_, err = s.DisableWebhook(t.Context(), id, "why")
		wantError(t, err, sluice.ErrWebhookNotFound)
		_, err = s.ReplayFailed(t.Context(), id)
		wantError(t, err, sluice.ErrWebhookNotFound)
		wantError(t, s.ReplayFrom(t.Context(), id, 1), sluice.ErrWebhookNotFound)
		wantError(t, s.ReplayEvent(t.Context(), id, 1, "phones"), sluice.ErrWebhookNotFound)
		if done, err := s.Advance(t.Context(), id, port.Progress{}); err != nil || done {
			t.Errorf("progress of no webhook: %v, %v", done, err)
		}
	}
	for what, edit := range map[string]func(*sluice.Webhook){
		"url":    func(w *sluice.Webhook) { w.URL = "ftp://host" },
		"user":   func(w *sluice.Webhook) { w.URL = "http://a:b@host/" },
		"secret": func(w *sluice.Webhook) { w.Secret = "whsec_eA==" },
		"types":  func(w *sluice.Webhook) { w.Types = []sluice.EventType{"order.eaten"} },
		"text":   func(w *sluice.Webhook) { w.Description = "\x00" },
		"id":     func(w *sluice.Webhook) { w.ID = "" },
	} {
		w := aWebhook("wh_c")
		edit(&w)
		if _, err := s.CreateWebhook(t.Context(), w); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// kept is what is kept for a webhook, without the times that the store chose.
func kept(t *testing.T, s port.Store, id sluice.WebhookID) []sluice.Delivery {
	t.Helper()
	all := must.Get(s.Deliveries(t.Context(), id, "", 0, 100))(t)
	for i := range all {
		if all[i].UpdatedAt.IsZero() || all[i].NextAt.IsZero() || all[i].Webhook != id {
			t.Errorf("delivery %+v", all[i])
		}
		all[i].UpdatedAt, all[i].NextAt, all[i].Webhook = time.Time{}, time.Time{}, ""
	}
	return all
}

func testWebhookProgress(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	w := makeWebhook(t, s, aWebhook("wh_a"))
	makeWebhook(t, s, aWebhook("wh_b")) // which nothing here is about
	withEvents(t, s, 8)
	at := time.Date(2026, 11, 11, 12, 0, 0, 5e6, time.UTC)
	advance := func(want bool, p port.Progress) {
		t.Helper()
		if done, err := s.Advance(t.Context(), w.ID, p); err != nil || done != want {
			t.Fatalf("advance from %d to %d: %v, %v, want %v", p.From, p.To, done, err, want)
		}
	}
	keptNow := func(want ...sluice.Delivery) {
		t.Helper()
		if diff := cmp.Diff(want, kept(t, other, w.ID), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
	due := func(want ...int64) {
		t.Helper()
		got, err := other.DueDeliveries(t.Context(), w.ID, 100)
		var events []int64
		for _, d := range got {
			events = append(events, d.Event)
		}
		if diff := cmp.Diff(want, events, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("due: %v (-want +got):\n%s", err, diff)
		}
	}
	pending := sluice.DeliveryPending
	hour := time.Now().Add(time.Hour)

	// Two of the first six are kept; one waits for its time, one waits behind it.
	advance(true, port.Progress{
		From: 0, To: 6, Delivered: 3, Failures: 1, RetryAt: at, LastFailure: at, LastSuccess: at, LastError: "HTTP 500\x00",
		Kept: []sluice.Delivery{
			{Event: 2, Subject: "a", State: pending, Attempts: 1, NextAt: hour, LastStatus: 500, LastError: "HTTP 500"},
			{Event: 3, Subject: "b", State: pending},
			{Event: 5, Subject: "a", State: pending},
		},
	})
	keptNow(sluice.Delivery{Event: 2, Subject: "a", State: pending, Attempts: 1, LastStatus: 500, LastError: "HTTP 500"},
		sluice.Delivery{Event: 3, Subject: "b", State: pending}, sluice.Delivery{Event: 5, Subject: "a", State: pending})
	due(3)
	got := getWebhook(t, other, w.ID)
	if got.Cursor != 6 || got.Delivered != 3 || got.Failures != 1 || !got.RetryAt.Equal(at) ||
		!got.LastFailure.Equal(at) || !got.LastSuccess.Equal(at) || got.LastError != "HTTP 500\uFFFD" {
		t.Errorf("the webhook is %+v", got)
	}
	held, err := s.HeldSubjects(t.Context(), w.ID, []string{"b", "c", "a"})
	if diff := cmp.Diff([]string{"a", "b"}, held, cmpopts.SortSlices(func(a, b string) bool {
		return a < b
	})); err != nil || diff != "" {
		t.Errorf("held: %v (-want +got):\n%s", err, diff)
	}
	if held, err := s.HeldSubjects(t.Context(), w.ID, nil); err != nil || len(held) != 0 {
		t.Errorf("held of nothing: %q, %v", held, err)
	}

	// Another sender was faster: nothing is written.
	advance(false, port.Progress{
		From: 0, To: 8, Delivered: 8,
		Kept: []sluice.Delivery{{Event: 7, Subject: "x", State: pending}},
	})
	advance(false, port.Progress{From: 7, To: 7})
	if after := getWebhook(t, s, w.ID); cmp.Diff(got, after) != "" {
		t.Errorf("the webhook changed: %s", cmp.Diff(got, after))
	}

	// The one that was due fails for good; later all is due, and one is delivered.
	three := sluice.Delivery{Event: 3, Subject: "b", State: pending}
	failed := sluice.Delivery{State: sluice.DeliveryFailed, Attempts: 1, LastStatus: 404, LastError: "HTTP 404"}
	advance(true, port.Progress{
		From: 6, To: 6, Tried: []port.Tried{{Delivery: three, After: failed}},
		Recovered: true,
	})
	due(2)
	// as it never was
	advance(true, port.Progress{
		From: 6, To: 6, Delivered: 1,
		Tried: []port.Tried{{Delivery: sluice.Delivery{Event: 2, Attempts: 7}, Done: true}},
	})
	due(2)
	advance(true, port.Progress{
		From: 6, To: 6, Delivered: 1,
		Tried: []port.Tried{
			{Delivery: sluice.Delivery{Event: 2, Attempts: 1}, Done: true},
			{Delivery: sluice.Delivery{Event: 4}, Done: true},
		},
	})
	due(5)
	keptNow(sluice.Delivery{
		Event: 3, Subject: "b", State: sluice.DeliveryFailed, Attempts: 1, LastStatus: 404,
		LastError: "HTTP 404",
	},
		sluice.Delivery{Event: 5, Subject: "a", State: pending})
	if p, f, err := s.CountDeliveries(t.Context(), w.ID); err != nil || p != 1 || f != 1 {
		t.Errorf("counted %d pending, %d failed, %v", p, f, err)
	}
	if page, err := s.Deliveries(t.Context(), w.ID, sluice.DeliveryFailed, 0, 1); err != nil || len(page) != 1 ||
		page[0].Event != 3 {
		t.Errorf("failed: %+v, %v", page, err)
	}
	if page, err := s.Deliveries(t.Context(), w.ID, sluice.DeliveryFailed, 3, 10); err != nil || len(page) != 0 {
		t.Errorf("failed after 3: %+v, %v", page, err)
	}
	if got := getWebhook(t, s, w.ID); got.Delivered != 5 || got.Failures != 0 || !got.RetryAt.IsZero() ||
		!got.LastFailure.Equal(at) {
		t.Errorf("the webhook is %+v", got)
	}

	// Replays.
	if n, err := s.ReplayFailed(t.Context(), w.ID); err != nil || n != 1 {
		t.Errorf("replayed %d, %v", n, err)
	}
	due(3, 5)
	if err := s.ReplayEvent(t.Context(), w.ID, 1, "a"); err != nil { // delivered long ago
		t.Error(err)
	}
	if err := s.ReplayEvent(t.Context(), w.ID, 3, "b"); err != nil { // waits already
		t.Error(err)
	}
	due(1, 3)
	for _, event := range []int64{-1, 0, 7} {
		wantError(t, s.ReplayEvent(t.Context(), w.ID, event, "a"), sluice.ErrEventNotFound)
		wantError(t, s.ReplayFrom(t.Context(), w.ID, event), sluice.ErrEventNotFound)
	}
	if err := s.ReplayFrom(t.Context(), w.ID, 3); err != nil {
		t.Error(err)
	}
	due(1)
	if got := getWebhook(t, s, w.ID); got.Cursor != 2 {
		t.Errorf("the cursor is %d, want 2", got.Cursor)
	}
	if p, f, err := s.CountDeliveries(t.Context(), "wh_b"); err != nil || p != 0 || f != 0 {
		t.Errorf("the other webhook keeps %d, %d, %v", p, f, err)
	}
	if _, err := s.Advance(t.Context(), w.ID, port.Progress{From: 2, To: 1}); err == nil {
		t.Error("a cursor that goes back: no error")
	}
	if _, err := s.Advance(t.Context(), w.ID, port.Progress{
		From: 2, To: 3, Kept: []sluice.Delivery{{Event: 4, Subject: "a", State: pending}},
	}); err == nil {
		t.Error("an event beyond the cursor: no error")
	}
}

// Several servers send the same events, one records it, and the cursor passes
// each event once.
func testWebhookRivals(t *testing.T, db Database) {
	setup := db.Open(t)
	w := makeWebhook(t, setup, aWebhook("wh_a"))
	const last = 40
	var running sync.WaitGroup
	var recorded atomic.Int64
	for worker := range 4 {
		s := db.Open(t)
		running.Go(func() {
			for {
				now, err := s.Webhook(t.Context(), w.ID)
				if err != nil {
					t.Error(err)
					return
				}
				if now.Cursor >= last {
					return
				}
				p := port.Progress{From: now.Cursor, To: now.Cursor + 1, Delivered: 1}
				if p.To%4 == 0 {
					p.Kept = []sluice.Delivery{{
						Event: p.To, Subject: fmt.Sprint(p.To), State: sluice.DeliveryPending,
						Attempts: worker,
					}}
				}
				done, err := s.Advance(t.Context(), w.ID, p)
				if err != nil {
					t.Error(err)
					return
				}
				if done {
					recorded.Add(1)
				}
			}
		})
	}
	running.Wait()
	if got := getWebhook(t, setup, w.ID); got.Cursor != last || got.Delivered != last || recorded.Load() != last {
		t.Errorf("the webhook is %+v, recorded %d times", got, recorded.Load())
	}
	if p, _, err := setup.CountDeliveries(t.Context(), w.ID); err != nil || p != last/4 {
		t.Errorf("%d are kept, %v, want %d", p, err, last/4)
	}
}
