package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// soon are n sales, one every ten minutes.
func soon(n int) shelf {
	var all shelf
	for i := range n {
		s := lamp()
		s.ID = sluice.SaleID(fmt.Sprintf("lamp-%d", i))
		s.OpensAt = api.At(s.OpensAt.Add(time.Duration(i) * 10 * time.Minute))
		all = append(all, s)
	}
	return all
}

// quiet is a client that keeps nothing of an answer but its status.
type quiet struct {
	header http.Header
	status int
}

func (q *quiet) Header() http.Header         { return q.header }
func (q *quiet) Write(p []byte) (int, error) { return len(p), nil }
func (q *quiet) WriteHeader(status int)      { q.status = status }

func BenchmarkPages(b *testing.B) {
	p := must.Get(New(soon(61), Options{}))(b)
	for _, c := range []struct {
		name, method, path string
		again              bool // with the ETag of the last time
		want               int
	}{
		{"list", "GET", "/", false, 200},
		{"list again", "GET", "/", true, 304},
		{"list HEAD", "HEAD", "/", false, 200},
		{"sale", "GET", "/s/lamp-7", false, 200},
		{"sale again", "GET", "/s/lamp-7", true, 304},
		{"order", "GET", "/o/lamp-7.0123456789abcdef0123456789abcdef", false, 200},
		{"order again", "GET", "/o/lamp-7.0123456789abcdef0123456789abcdef", true, 304},
		{"no sale", "GET", "/s/none", false, 404},
		{"no order", "GET", "/o/none", false, 404},
		{"script", "GET", "/assets/" + p.assets.build + "/sale.js", false, 200},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Header.Set("Accept-Encoding", "gzip, deflate, br")
			w := &quiet{header: http.Header{}}
			p.ServeHTTP(w, r)
			if c.again {
				r.Header.Set("If-None-Match", w.header.Get("Etag"))
			}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				w.status = http.StatusOK
				p.ServeHTTP(w, r)
				if w.status != c.want {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// What the first who asks after a reading of the board pays, when nothing that
// the list says has changed.
func BenchmarkListOfAnotherSnapshot(b *testing.B) {
	m := &market{sales: soon(61)}
	p := must.Get(New(m, Options{}))(b)
	first := p.listPage()
	b.ReportAllocs()
	for b.Loop() {
		m.snapshot++
		if p.listPage() != first {
			b.Fatal("rendered again")
		}
	}
}
