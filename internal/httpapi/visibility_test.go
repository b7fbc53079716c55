package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// until waits for what a setting does within seconds.
func (s *shop) until(what string, reached func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not reached: %s", what)
		}
	}
}

// event returns the next event of a stream.
func event(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	for {
		line := must.Get(lines.ReadString('\n'))(t)
		if strings.HasPrefix(line, "data: ") {
			return line
		}
	}
}

// listen opens the event stream of a sale, and returns what waits for its end.
func (s *shop) listen(sale string) (ended func(why string)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	s.t.Cleanup(cancel)
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/sales/"+sale+"/events", nil))(s.t)
	stream := must.Get(http.DefaultClient.Do(request))(s.t)
	s.t.Cleanup(func() { stream.Body.Close() })
	lines := bufio.NewReader(stream.Body)
	if first := event(s.t, lines); !strings.Contains(first, `"id":"`+sale+`"`) {
		s.t.Fatalf("stream: %q", first)
	}
	return func(why string) {
		s.t.Helper()
		if _, err := io.Copy(io.Discard, lines); err != nil {
			s.t.Errorf("%s, and its stream goes on: %v", why, err)
		}
	}
}

// buyersSee is what every way of a buyer to a sale answers.
func (s *shop) buyersSee(sale string) map[string]answer {
	s.t.Helper()
	return map[string]answer{
		"read":      s.do("GET", "/v1/sales/"+sale, ""),
		"stream":    s.do("HEAD", "/v1/sales/"+sale+"/events", ""),
		"page":      s.do("GET", "/s/"+sale, ""),
		"claim":     s.claim(sale, "visitor", "visit-00001"),
		"ticket":    s.do("POST", "/v1/sales/"+sale+"/ticket", "", s.auth("visitor")),
		"order":     s.do("GET", "/v1/orders/"+sale+"."+strings.Repeat("0", 32), "", s.auth("visitor")),
		"challenge": s.do("POST", "/v1/sales/"+sale+"/challenge", "", s.auth("visitor")),
	}
}

// To buyers a hidden sale does not exist: every answer is that of an id which there
// is not, to the byte. The merchant sees it, and shows it when it is time.
func TestHiddenSale(t *testing.T) {
	s := open(t)
	s.must(s.create("secret", `visibility="hidden"`, `ticket={"before_s":60}`), 201)
	none := s.buyersSee("nothing")
	for way, a := range s.buyersSee("secret") {
		if want := none[way]; a.status != 404 || a.body != want.body ||
			a.header.Get("Cache-Control") != want.header.Get("Cache-Control") {
			t.Errorf("%s of a hidden sale: %d %s, %v; of no sale: %d %s", way, a.status, a.body, a.header, want.status,
				want.body)
		}
	}
	for _, path := range []string{"/v1/sales", "/"} {
		if list := s.must(s.do("GET", path, ""), 200); strings.Contains(list.body, "secret") {
			t.Errorf("%s lists a hidden sale: %s", path, list.body)
		}
	}
	if seen := s.must(s.admin("GET", "/v1/admin/sales/secret", ""), 200); seen.text("visibility") != "hidden" ||
		seen.text("availability") != "exact" || seen.text("available") != "10" {
		t.Errorf("the merchant sees %s", seen.body)
	}
	if list := s.must(s.admin("GET", "/v1/admin/sales", ""), 200); !strings.Contains(list.body, `"id":"secret"`) {
		t.Errorf("the merchant's list: %s", list.body)
	}

	s.must(s.admin("PATCH", "/v1/admin/sales/secret", `{"visibility":"unlisted","ticket":null}`), 200)
	s.until("the sale is found by its id", func() bool { return s.do("GET", "/v1/sales/secret", "").status == 200 })
	s.must(s.do("GET", "/s/secret", ""), 200)
	placed := s.must(s.claim("secret", "alice", "attempt-1"), 202)
	for _, path := range []string{"/v1/sales", "/"} {
		if list := s.must(s.do("GET", path, ""), 200); strings.Contains(list.body, "secret") {
			t.Errorf("%s lists an unlisted sale: %s", path, list.body)
		}
	}

	s.must(s.admin("PATCH", "/v1/admin/sales/secret", `{"visibility":"listed"}`), 200)
	for _, path := range []string{"/v1/sales", "/"} {
		s.until(path+" lists the sale", func() bool { return strings.Contains(s.do("GET", path, "").body, "secret") })
	}
	ended := s.listen("secret")

	// Hidden again while it is sold: streams end, and what was accepted stays (I4).
	s.must(s.admin("PATCH", "/v1/admin/sales/secret", `{"visibility":"hidden"}`), 200)
	ended("the sale is hidden")
	s.until("the sale is gone", func() bool { return s.do("GET", "/v1/sales/secret", "").status == 404 })
	again := s.must(s.claim("secret", "alice", "attempt-1"), 202)
	if again.body != placed.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeat: %s, want %s", again.body, placed.body)
	}
	s.must(s.claim("secret", "alice", "attempt-2"), 404, "sale_not_found")
	s.must(s.claim("secret", "bob", "attempt-1"), 404, "sale_not_found")
	s.must(s.do("GET", "/v1/orders/"+placed.text("order_id"), "", s.auth("alice")), 200)
}

// What buyers read of the units is the merchant's to say, and can change at any
// moment: no number of them is in an answer, and nothing that can be read changes
// when one is sold.
func TestAvailabilityThatIsKept(t *testing.T) {
	for _, c := range []struct{ shows string }{{"some"}, {"none"}} {
		t.Run(c.shows, func(t *testing.T) {
			s := open(t)
			s.must(s.create("phone", `availability="`+c.shows+`"`, `total=7731`, `max_per_buyer=null`), 201)
			read := func() answer {
				t.Helper()
				a := s.must(s.do("GET", "/v1/sales/phone", ""), 200)
				if a.text("total") != "<nil>" || a.text("available") != "<nil>" || a.text("shows") != c.shows ||
					strings.Contains(a.body, "7731") || strings.Contains(a.body, "7724") {
					t.Errorf("a sale that shows %s: %s", c.shows, a.body)
				}
				return a
			}
			before, list := read(), s.do("GET", "/v1/sales", "")
			page := s.must(s.do("GET", "/s/phone", ""), 200)
			stream := must.Get(http.Get(s.url + "/v1/sales/phone/events"))(t)
			defer stream.Body.Close()
			lines := bufio.NewReader(stream.Body)
			if first := event(t, lines); strings.TrimSpace(first) != "data: "+strings.TrimSpace(before.body) {
				t.Errorf("the stream begins with %s", first)
			}

			s.must(s.claim("phone", "alice", "attempt-1", `{"quantity":7}`), 202)
			s.until("the merchant sees it", func() bool {
				return s.admin("GET", "/v1/admin/sales/phone", "").text("available") == "7724"
			})
			after := read()
			if after.body != before.body || after.header.Get("ETag") != before.header.Get("ETag") {
				t.Errorf("units were sold, and the answer changed: %s\n%s", before.body, after.body)
			}
			if l := s.do("GET", "/v1/sales", ""); l.body != list.body || l.header.Get("ETag") != list.header.Get("ETag") {
				t.Errorf("units were sold, and the list changed: %s", l.body)
			}
			if p := s.do("GET", "/s/phone", ""); p.body != page.body || strings.Contains(p.body, "7731") {
				t.Error("the page has the number of units, or changed")
			}

			s.must(s.claim("phone", "bob", "attempt-1", `{"quantity":7724}`), 202)
			s.until("a claim finds it sold out", func() bool {
				return s.claim("phone", "carol", "attempt-1").code() == "sold_out"
			})
			s.until("the merchant reads sold out", func() bool {
				return s.admin("GET", "/v1/admin/sales/phone", "").text("state") == "sold_out"
			})
			if c.shows == "some" {
				s.until("buyers read sold out", func() bool { return read().text("state") == "sold_out" })
				if next := event(t, lines); !strings.Contains(next, `"state":"sold_out"`) {
					t.Errorf("the next event: %s", next)
				}
			} else if last := read(); last.body != before.body {
				t.Errorf("a sale that shows nothing changed when it was sold out: %s", last.body)
			}

			s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"availability":"exact"}`), 200)
			s.until("buyers read all", func() bool {
				a := s.do("GET", "/v1/sales/phone", "")
				return a.text("available") == "0" && a.text("total") == "7731" && a.fields["shows"] == nil
			})
			if next := event(t, lines); !strings.Contains(next, `"available":0`) {
				t.Errorf("the event after: %s", next)
			}
		})
	}
}
