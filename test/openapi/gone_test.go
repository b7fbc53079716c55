package openapi

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// gone sells, archives and purges a sale, and asks for what is deleted.
func (c *checked) gone() {
	c.t.Helper()
	c.must(c.create("old", "total=3"), 201)
	id := c.must(c.claim("old", "alice", "attempt-1"), 202).text("order_id")
	c.stored(id)
	c.must(c.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-1"}`), 200)
	c.must(c.admin("POST", "/v1/admin/sales/old/close", ""), 200)
	events := c.events("", 1, 1000)
	c.must(c.create("newer"), 201)
	c.stored(c.must(c.claim("newer", "bob", "attempt-1"), 202).text("order_id"))
	c.purge("old")

	merchant := "Authorization: Bearer " + c.engine.AdminKey()
	wants := func(a answer, words ...string) {
		c.t.Helper()
		for _, w := range words {
			if !strings.Contains(a.body, w) {
				c.t.Errorf("want %q in %s", w, a.body)
			}
		}
	}
	today := time.Now().UTC().Format(time.DateOnly)[:8]
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		// Until the ledger has dropped the sale, it has the order; and a claim again gets no other.
		again := c.claim("old", "alice", "attempt-1")
		if again.status == 202 && again.text("order_id") != id || time.Now().After(deadline) {
			c.t.Fatalf("the claim again: %d %s", again.status, again.body)
		}
		if again.code() == "closed" && c.do("GET", "/v1/orders/"+id, "", c.auth("alice")).status == 404 {
			break
		}
	}
	c.call(404, false, "GET", "/v1/orders/"+id, "", c.auth("alice"))
	wants(c.call(410, false, "GET", "/v1/admin/orders/"+id, "", merchant), `"gone"`, "the sale old were deleted on "+today)
	for path, body := range map[string]string{
		"pay": `{"payment_id":"p-2"}`, "reject": `{"reason":"x"}`, "cancel": "", "refund": "",
		"extend": `{"expires_at":"2030-01-01T00:00:00Z"}`,
	} {
		c.call(410, false, "POST", "/v1/admin/orders/"+id+"/"+path, body, merchant)
	}
	for _, path := range []string{"/" + id, "/" + id + "/history", "?sale=old"} {
		c.call(410, false, "GET", "/v1/admin/orders"+path, "", merchant)
	}
	c.call(200, false, "GET", "/v1/admin/orders?sale=newer", "", merchant)
	wants(c.call(200, false, "GET", "/v1/admin/sales/old", "", merchant), `"deleted_orders":{"at":"`+today,
		`{"status":"paid","currency":"CNY","orders":1,"units":1,"amount":100}`, `"stored_taken":1`)
	wants(c.call(200, false, "GET", "/v1/admin/sales/old/audit", "", merchant), `"ok":true`, `"unchecked":true`,
		"1 orders deleted on "+today, "1 taken = 1 in live orders")

	// A refund that is owed keeps its order, which its sale lists.
	c.must(c.create("owes"), 201)
	owed := c.must(c.claim("owes", "alice", "attempt-1"), 202).text("order_id")
	paid := c.must(c.claim("owes", "bob", "attempt-1"), 202).text("order_id")
	c.stored(owed)
	c.stored(paid)
	c.must(c.admin("POST", "/v1/admin/orders/"+owed+"/cancel", ""), 200)
	c.must(c.admin("POST", "/v1/admin/orders/"+owed+"/pay", `{"payment_id":"p-3"}`), 200)
	c.must(c.admin("POST", "/v1/admin/orders/"+paid+"/pay", `{"payment_id":"p-4"}`), 200)
	c.must(c.admin("POST", "/v1/admin/sales/owes/close", ""), 200)
	c.stored(c.must(c.claim("newer", "cem", "attempt-1"), 202).text("order_id"))
	c.purge("owes")
	for _, filter := range []string{"", "&status=refund_due", "&buyer=alice"} {
		wants(c.call(200, false, "GET", "/v1/admin/orders?sale=owes"+filter, "", merchant), owed)
	}
	c.call(410, false, "GET", "/v1/admin/orders?sale=owes&status=paid", "", merchant)

	// A reader who is behind is not led past what is deleted; a new one begins with what is left.
	left := c.events("", 1, 1000)
	wants(c.call(410, false, "GET", "/v1/admin/events?after="+events[0].ID, "", merchant), `"gone"`,
		fmt.Sprintf("events up to number %d are deleted", left[0].Seq-1))
	hook := c.must(c.admin("POST", "/v1/admin/webhooks", `{"url":"http://127.0.0.1:9/hook"}`), 201).text("id")
	for _, ask := range []string{"event", "from"} {
		wants(c.call(410, false, "POST", "/v1/admin/webhooks/"+hook+"/replay", `{"`+ask+`":"`+events[0].ID+`"}`, merchant),
			`"gone"`, fmt.Sprintf("events up to number %d are deleted", left[0].Seq-1))
	}
	c.must(c.admin("DELETE", "/v1/admin/webhooks/"+hook, ""), 200)
	for _, e := range left {
		if e.Data.Order != nil && e.Data.Order.OrderID == sluice.OrderID(id) {
			c.t.Errorf("event %d has an order that is deleted", e.Seq)
		}
	}
	if rest := c.events(left[0].ID, 0, 1000); len(left) > 1 && rest[0].Seq != left[0].Seq+1 {
		c.t.Errorf("after the first event that is left comes %d", rest[0].Seq)
	}
	// One who has read up to there has missed nothing.
	for n := 0; ; n++ {
		c.stored(c.must(c.claim("newer", fmt.Sprint("buyer-", n), "attempt-1"), 202).text("order_id"))
		all := c.events("", 2, 1000)
		c.purge("owes")
		left := c.events("", 1, 1000)
		if at := slices.IndexFunc(all, func(e api.Event) bool { return e.Seq == left[0].Seq-1 }); at >= 0 {
			if rest := c.events(all[at].ID, 1, 1000); rest[0].ID != left[0].ID {
				c.t.Errorf("after event %d comes %d", all[at].Seq, rest[0].Seq)
			}
			break
		}
		if n == 50 {
			c.t.Fatal("no event was deleted that was read")
		}
	}
}

// purge archives a sale and deletes its orders beside the server; what is older than
// this call is old enough. A refund that is owed stays.
func (c *checked) purge(id sluice.SaleID) {
	c.t.Helper()
	s := must.Get(sqlitestore.Open(c.t.Context(), filepath.Join(c.dir, "store.db"), sqlitestore.Options{}))(c.t)
	defer s.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		archived, err := s.Archive(c.t.Context(), id)
		if err != nil || time.Now().After(deadline) {
			c.t.Fatal(archived, err)
		}
		if archived {
			break
		}
	}
	owed := []sluice.ErasureWait{{Sale: id, Why: sluice.OwedRefund}}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		done, err := s.PurgeOlder(c.t.Context(), time.Millisecond)
		if err != nil || time.Now().After(deadline) {
			c.t.Fatalf("%+v, %v", done, err)
		}
		if sale, err := s.Sale(c.t.Context(), id); err != nil {
			c.t.Fatal(err)
		} else if sale.Remains != nil && (!sale.Remains.At.IsZero() || slices.Equal(done.Waits, owed)) {
			return
		}
	}
}
