package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// refusedClaims are claims that this server refuses by itself, each on a sale of
// its own, by their answers.
var refusedClaims = []struct {
	code   string
	status int
	fields []string
}{
	{"sold_out", 409, []string{`total=0`}},
	{"not_open", 409, []string{`opens_at="2099-01-01T00:00:00Z"`}},
	{"closed", 409, []string{`total=5`}}, // by hand, below
	{"rate_limited", 429, []string{`total=1000`, `buyer_rate={"requests":1,"per_s":86400}`}},
}

// again is a request that can be sent any number of times, and its answer.
type again struct {
	request *http.Request
	body    *bytes.Reader
	header  http.Header
	status  int
}

const oneUnit = `{"quantity":1}`

func newAgain(sale, token string) *again {
	a := &again{body: bytes.NewReader(nil), header: http.Header{}}
	a.request = httptest.NewRequest(http.MethodPost, "/v1/sales/"+sale+"/orders", nil)
	a.request.Header = http.Header{
		"Authorization": {"Bearer " + token}, "Idempotency-Key": {"attempt-1"},
		"Content-Type": {"application/json"},
	}
	a.request.Body = io.NopCloser(a.body)
	a.request.ContentLength = int64(len(oneUnit))
	return a
}

func (a *again) Header() http.Header         { return a.header }
func (a *again) Write(p []byte) (int, error) { return len(p), nil }
func (a *again) WriteHeader(status int)      { a.status = status }

// send sends it, as net/http would: with headers of its own for the answer.
func (a *again) send(h http.Handler) int {
	a.body.Reset([]byte(oneUnit))
	clear(a.header)
	a.status = http.StatusOK
	h.ServeHTTP(a, a.request)
	return a.status
}

// refusing opens a server with the sales of refusedClaims, and returns when it
// refuses claims on each by itself.
func refusing(t testing.TB) (*engine.Engine, []*again) {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	token := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(e.BuyerSecret())))(t)
	var all []*again
	for i, c := range refusedClaims {
		id := fmt.Sprint("sale-", i)
		create := httptest.NewRequest(http.MethodPost, "/v1/admin/sales", bytes.NewBufferString(saleJSON(id, c.fields...)))
		create.Header.Set("Authorization", "Bearer "+e.AdminKey())
		answer := httptest.NewRecorder()
		e.Handler().ServeHTTP(answer, create)
		if answer.Code != http.StatusCreated {
			t.Fatal(answer.Body)
		}
		if c.code == "closed" {
			end := httptest.NewRequest(http.MethodPost, "/v1/admin/sales/"+id+"/close", nil)
			end.Header.Set("Authorization", "Bearer "+e.AdminKey())
			answer := httptest.NewRecorder()
			if e.Handler().ServeHTTP(answer, end); answer.Code != http.StatusOK {
				t.Fatal(answer.Body)
			}
		}
		all = append(all, newAgain(id, token))
		for deadline := time.Now().Add(30 * time.Second); all[i].send(e.Handler()) !=
			c.status; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("a claim gets %d, want %d %s", all[i].status, c.status, c.code)
			}
		}
	}
	return e, all
}

// A refused claim costs this many allocations at most, from the handler on, and
// what the server does besides meanwhile: nearly everybody is refused.
const mostAllocations = 6

func TestRefusalsAllocateLittle(t *testing.T) {
	e, all := refusing(t)
	for i, c := range refusedClaims {
		if n := testing.AllocsPerRun(5000, func() {
			if all[i].send(e.Handler()) != c.status {
				t.Errorf("%s: %d", c.code, all[i].status)
			}
		}); n > mostAllocations {
			t.Errorf("%s: %v allocations, want at most %d", c.code, n, mostAllocations)
		}
	}
}

func BenchmarkRefusedClaim(b *testing.B) {
	e, all := refusing(b)
	for i, c := range refusedClaims {
		b.Run(c.code, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if all[i].send(e.Handler()) != c.status {
					b.Fatal(all[i].status)
				}
			}
		})
	}
}
