package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// events reads the feed after an event, in pages, until there are n, and
// returns the next cursor.
func (s *shop) events(after string, n, limit int) (all []api.Event, next string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a := s.must(s.admin("GET", fmt.Sprintf("/v1/admin/events?after=%s&limit=%d", after, limit), ""), 200)
		var page api.EventPage
		must.Succeed(s.t, json.Unmarshal([]byte(a.body), &page))
		if len(page.Events) > limit {
			s.t.Fatalf("a page of %d events, limit %d", len(page.Events), limit)
		}
		all = append(all, page.Events...)
		after = page.Next
		if len(all) >= n && len(page.Events) < limit {
			return all, after
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d events, want %d: %+v", len(all), n, all)
		}
	}
}

func typesOf(events []api.Event) (types []string) {
	for _, e := range events {
		types = append(types, string(e.Type))
	}
	return types
}

// The feed reports the life of a sale and of its orders, and can be resumed
// from any cursor.
func TestFeed(t *testing.T) {
	t.Parallel()
	s := open(t)
	if empty := s.must(s.admin("GET", "/v1/admin/events", ""), 200); empty.body != `{"events":[],"next":""}`+"\n" {
		t.Errorf("an empty feed: %s", empty.body)
	}
	s.must(s.create("phone", "total=3"), 201)
	id := s.must(s.claim("phone", "alice", "attempt-1", `{"quantity":1,"meta":{"colour":"red"}}`), 202).text("order_id")
	s.stored(id)
	first, after := s.events("", 3, 100)
	if diff := cmp.Diff([]string{"sale.created", "sale.available", "order.created"}, typesOf(first)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	s.must(s.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-1"}`), 200)
	s.must(s.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-2"}`), 409, "payment_conflict")
	paid, last := s.events(after, 2, 1)
	if diff := cmp.Diff([]string{"order.paid", "order.payment_refused"}, typesOf(paid)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	if again, _ := s.events("", 5, 2); cmp.Diff(append(first, paid...), again) != "" {
		t.Errorf("read again:\n%s", cmp.Diff(append(first, paid...), again))
	}

	// The order as it was then, and as the API shows it.
	created, now := first[2].Data.Order, paid[0].Data.Order
	if created.Status != "pending" || created.PaymentID != "" || string(created.Meta) != `{"colour":"red"}` ||
		created.BuyerID != "alice" || paid[1].Data.RefusedPaymentID != "p-2" {
		t.Errorf("events %+v, %+v", created, paid[1].Data)
	}
	var shown api.Order
	must.Succeed(t, json.Unmarshal([]byte(s.must(s.admin("GET", "/v1/admin/orders/"+id, ""), 200).body), &shown))
	if diff := cmp.Diff(&shown, now); diff != "" {
		t.Errorf("the order (-by the API +by the event):\n%s", diff)
	}
	if sale := first[0].Data.Sale; sale.ID != "phone" || *sale.Total != 3 || sale.MaxPerBuyer == nil ||
		sale.ClosesAt != nil || sale.PaymentWindowS != 900 {
		t.Errorf("the sale is %+v", sale)
	}

	// From now on, and from what is not there.
	if latest := s.must(s.admin("GET", "/v1/admin/events?after=latest", ""), 200); latest.body != `{"events":[],"next":"`+
		last+`"}`+"\n" {
		t.Errorf("the latest: %s, want %s", latest.body, last)
	}
	for _, stale := range []string{"evt_9999_00000000", "evt_3_00000000"} {
		s.must(s.admin("GET", "/v1/admin/events?after="+stale, ""), 409, "stale_cursor")
	}
	for _, bad := range []string{
		"after=3", "after=evt_03_00000000", "after=evt_0_00000000", "limit=0", "limit=1001",
		"limit=x", "sale=phone", "limit=1&limit=2",
	} {
		s.must(s.admin("GET", "/v1/admin/events?"+bad, ""), 400, "bad_request")
	}
	s.must(s.do("GET", "/v1/admin/events", ""), 401, "unauthenticated")
}

// A reader goes on after the event of a refused payment when the buyer was erased since.
func TestFeedGoesOnAfterErasure(t *testing.T) {
	t.Parallel()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), RefreshInterval: 20 * time.Millisecond, Retention: time.Millisecond,
	}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &shop{t: t, engine: e, url: server.URL}
	s.must(s.create("phone", "total=3"), 201)
	id := s.must(s.claim("phone", "alice", "attempt-1", `{"quantity":1}`), 202).text("order_id")
	s.stored(id)
	s.must(s.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-1"}`), 200)
	s.must(s.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-2"}`), 409, "payment_conflict")
	all, cursor := s.events("", 5, 100)
	last := all[len(all)-1]
	if string(last.Type) != "order.payment_refused" {
		t.Fatalf("the last event is %+v", last)
	}
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		erased := s.must(s.admin("POST", "/v1/admin/buyers/erase", `{"buyer_id":"alice"}`), 200)
		if erased.text("orders") == "1" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the buyer waits: %s", erased.body)
		}
	}
	if rest, _ := s.events(cursor, 1, 100); len(rest) == 0 || rest[0].Seq != last.Seq+1 {
		t.Errorf("after %s: %+v", cursor, rest)
	}
	s.must(s.admin("GET", "/v1/admin/events?after=evt_"+fmt.Sprint(last.Seq)+"_00000000", ""), 409, "stale_cursor")
}
