package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
)

const inAYear = `opens_at="2039-01-01T00:00:00Z"`

// importInto sends a file of earlier orders.
func (s *shop) importInto(sale, file string) answer {
	s.t.Helper()
	return s.do("POST", "/v1/admin/sales/"+sale+"/import", file, "Authorization: Bearer "+s.engine.AdminKey(),
		"Content-Type: text/csv; charset=utf-8")
}

// Imported orders count from the import on: on the page of the sale, for the limits of
// their buyers, in the audit. The feed has no events of them, and they are found with
// the ids that they had.
func TestImport(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(cfg *engine.Config) { cfg.BuyerID = "casefold" })
	s.must(s.create("phone", "total=5", "max_per_buyer=2", inAYear), 201)
	file := "\xef\xbb\xbfbuyer,quantity,order_id\r\n Alice ,2,\"WC \"\"1\"\"\"\r\n\nbob, 1,WC-2\n"
	for _, want := range []string{
		`{"sale_id":"phone","orders":2,"units":3,"before":0,"paused":false}`,
		`{"sale_id":"phone","orders":0,"units":0,"before":2,"paused":false}`,
	} {
		if a := s.must(s.importInto("phone", file), 200); a.body != want+"\n" {
			t.Fatalf("the import answers %s, want %s", a.body, want)
		}
	}
	if seen := s.must(s.do("GET", "/v1/sales/phone", ""), 200); seen.text("available") != "2" ||
		seen.text("state") != "upcoming" {
		t.Errorf("buyers see %s", seen.body)
	}
	list := s.must(s.admin("GET", "/v1/admin/orders?sale=phone&status=paid&buyer=ALICE", ""), 200)
	if !strings.Contains(list.body, `"buyer_id":"alice"`) || !strings.Contains(list.body, `{"imported":"WC \"1\""}`) {
		t.Errorf("the order is shown as %s", list.body)
	}
	s.must(s.admin("POST", "/v1/admin/sales/phone/open", ""), 200)
	s.must(s.claim("phone", "alice", "attempt-1"), 409, "buyer_limit")
	s.must(s.claim("phone", "bob", "attempt-1"), 202)
	s.must(s.claim("phone", "carol", "attempt-1"), 202)
	s.must(s.claim("phone", "dan", "attempt-1"), 409, "sold_out")
	s.must(s.importInto("phone", file), 409, "sale_state")
	s.until("the audit has no objection", func() bool {
		report := s.must(s.admin("GET", "/v1/admin/sales/phone/audit", ""), 200).body
		return strings.HasPrefix(report, `{"sale_id":"phone","ok":true`)
	})
	s.until("the feed has the orders that were sold here", func() bool {
		return strings.Count(s.must(s.admin("GET", "/v1/admin/events", ""), 200).body, `"type":"order.created"`) == 2
	})
	if feed := s.must(s.admin("GET", "/v1/admin/events", ""), 200).body; strings.Contains(feed, `"imported"`) ||
		strings.Contains(feed, "order.paid") {
		t.Errorf("the feed tells of imported orders: %s", feed)
	}
}

// A file that is wrong changes nothing, and all that is wrong is named with its line.
func TestImportThatIsWrong(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.must(s.create("phone", "total=3", inAYear), 201)
	wrong := "buyer,quantity,order_id\n,1,a\nann,x,b\nann,0,c\nann,1\nbo\u200bb,1,f\nann,1,\"d\nann,1,e\n"
	a := s.must(s.importInto("phone", wrong), 400, "bad_request")
	for _, want := range []string{
		"line 2: buyer id of 0 bytes", "line 3: quantity: want a whole number", "line 4: quantity 0: want 1",
		"line 5: want the columns", "line 6: buyer id \"bo\\u200bb\" has an invisible character", "line 7:",
	} {
		if !strings.Contains(a.text("detail"), want) {
			t.Errorf("no %q in %q", want, a.text("detail"))
		}
	}
	a = s.must(s.importInto("phone", strings.Repeat("ann\n", 150)), 400)
	if strings.Count(a.text("detail"), "\n") != 101 ||
		!strings.HasSuffix(a.text("detail"), "line 100: want the columns buyer,quantity,order_id, have 1\nand more") {
		t.Errorf("of 150 wrong lines: %q", a.text("detail"))
	}
	s.must(s.importInto("phone", "ann,1,a\nbob,1,a\n"), 400, "bad_request")
	a = s.must(s.importInto("phone", "ann,2,a\nbob,2,b\n"), 409, "sale_state")
	if !strings.Contains(a.text("detail"), "line 2: with this order more units are sold than the total of 3") {
		t.Errorf("beyond the total: %s", a.body)
	}
	s.must(s.importInto("none", "ann,1,a\n"), 404, "sale_not_found")
	s.must(s.admin("POST", "/v1/admin/sales/phone/import", "ann,1,a\n"), 400, "bad_request") // of another type
	var long strings.Builder
	for i := range 200_001 {
		fmt.Fprintf(&long, "b,1,%d\n", i)
	}
	s.must(s.importInto("phone", long.String()), 413, "too_large")
	s.must(s.importInto("phone", strings.Repeat("b,1,"+strings.Repeat("x", 10_000)+"\n", 7000)), 413, "too_large")
	if sale := s.must(s.admin("GET", "/v1/admin/sales/phone", ""), 200); sale.text("stored_taken") != "0" ||
		sale.text("epoch") != "1" || sale.text("paused") != "false" {
		t.Errorf("the sale has changed: %s", sale.body)
	}
	s.must(s.importInto("phone", ""), 400, "bad_request")                   // a file that was not written
	s.must(s.importInto("phone", "\ufeffbuyer,quantity,order_id\r\n"), 200) // of a sale without orders
}

// 10,000 orders are imported in seconds, and one list of them all is found again.
func TestImportOfMany(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.must(s.create("phone", "total=10000", inAYear), 201)
	var file strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&file, "buyer-%d,1,WC-%d\n", i, i)
	}
	began := time.Now()
	if a := s.must(s.importInto("phone", file.String()), 200); a.text("orders") != "10000" {
		t.Errorf("imported: %s", a.body)
	}
	t.Logf("10,000 orders took %s", time.Since(began))
	if seen := s.must(s.do("GET", "/v1/sales/phone", ""), 200); seen.text("available") != "0" {
		t.Errorf("buyers see %s", seen.body)
	}
}

// A server holds the orders of one import at a time.
func TestOneImportAtATime(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.must(s.create("phone", inAYear), 201)
	slow, more := io.Pipe()
	first := make(chan error, 1)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/admin/sales/phone/import", slow)
		r.Header.Set("Authorization", "Bearer "+s.engine.AdminKey())
		r.Header.Set("Content-Type", "text/csv")
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			err = answer.Body.Close()
		}
		first <- err
	}()
	// More than clients and sockets keep: the server is reading when it is written.
	if _, err := io.WriteString(more, "ann,1,a"+strings.Repeat("\n", 20<<20)); err != nil {
		t.Fatal(err)
	}
	if a := s.must(s.importInto("phone", "bob,1,b\n"), 409, "sale_state"); !strings.Contains(a.body, "another import") {
		t.Errorf("a second import: %s", a.body)
	}
	if err := more.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	s.until("it is done", func() bool { return s.importInto("phone", "bob,1,b\n").status == http.StatusOK })
}
