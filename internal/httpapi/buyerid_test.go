package httpapi_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// Spellings of one buyer that a shop's login takes for one account share the limit,
// the lists, the orders and the merchant's view of them.
func TestSpellingsDoNotEvadeTheLimit(t *testing.T) {
	spellings := []string{"bob@shop.example", " bob@shop.example", "BOB@shop.example", "ｂｏｂ@shop.example"}
	for _, c := range []struct {
		mode string
		same int // of the spellings, how many are one buyer
	}{{"exact", 1}, {"trimmed", 2}, {"casefold", 4}} {
		t.Run(c.mode, func(t *testing.T) {
			s := openWith(t, func(cfg *engine.Config) { cfg.BuyerID = c.mode })
			s.must(s.create("phone"), 201)
			placed := s.must(s.claim("phone", spellings[0], "attempt-0"), 202)
			for i, name := range spellings {
				want := "buyer_limit"
				if i >= c.same {
					want = ""
				}
				if a := s.claim("phone", name, "attempt-1"); a.code() != want {
					t.Errorf("%q: %d %s, want %q", name, a.status, a.body, want)
				}
				if i >= c.same {
					continue
				}
				again := s.must(s.claim("phone", name, "attempt-0"), 202)
				if again.body != placed.body {
					t.Errorf("%q: the repeat is %s", name, again.body)
				}
			}
			id := placed.text("order_id")
			s.until("the order is stored", func() bool {
				return s.do("GET", "/v1/orders/"+id, "", s.auth(spellings[0])).text("status") == "pending"
			})
			other := spellings[c.same-1]
			s.must(s.do("GET", "/v1/orders/"+id, "", s.auth(other)), 200)
			if seen := s.must(s.admin("GET", "/v1/admin/orders/"+id, ""), 200); seen.text("buyer_id") != spellings[0] {
				t.Errorf("stored as %s", seen.body)
			}
			query := strings.NewReplacer(" ", "%20", "@", "%40").Replace(other)
			if list := s.must(s.admin("GET", "/v1/admin/orders?buyer="+query, ""), 200); !strings.Contains(list.body, id) {
				t.Errorf("orders of %q: %s", other, list.body)
			}

			s.must(s.create("vip"), 201)
			s.must(s.do("PUT", "/v1/admin/sales/vip/lists/deny", `"`+other+`"`+"\n", "Content-Type: application/x-ndjson",
				"Authorization: Bearer "+s.engine.AdminKey()), 200)
			s.until("the deny list holds", func() bool {
				return s.claim("vip", spellings[0], "attempt-0").code() == "forbidden"
			})
		})
	}
}

// A buyer who asks to be erased by the spelling that was stored before buyer_id was changed is
// erased under that one as well.
func TestErasureOfAnOlderSpelling(t *testing.T) {
	cfg := engine.Config{DataDir: t.TempDir(), RefreshInterval: 20 * time.Millisecond, Retention: time.Millisecond}
	serve := func() (s *shop, stop func()) {
		e := must.Get(engine.Open(t.Context(), cfg))(t)
		server := httptest.NewServer(e.Handler())
		return &shop{t: t, engine: e, url: server.URL}, func() {
			server.Close()
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	s, stop := serve()
	s.must(s.create("phone"), 201)
	id := s.must(s.claim("phone", "Alice", "attempt-1"), 202).text("order_id")
	s.stored(id)
	s.must(s.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"p-1"}`), 200)
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200)
	s.until("the sale is archived", func() bool {
		return s.admin("GET", "/v1/admin/sales/phone", "").text("archived_at") != "<nil>"
	})
	stop()
	cfg.BuyerID = "casefold"
	s, stop = serve()
	defer stop()
	if erased := s.must(s.admin("POST", "/v1/admin/buyers/erase", `{"buyer_id":"Alice"}`), 200); erased.text("orders") !=
		"1" {
		t.Errorf("erased: %s", erased.body)
	}
}
