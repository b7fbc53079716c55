package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// market is a Source that changes.
type market struct {
	mu       sync.Mutex
	sales    shelf
	snapshot int
	listed   atomic.Int64 // how often it was asked for all
}

func (m *market) Picture(context.Context, sluice.SaleID, string, int) ([]byte, error) {
	return nil, sluice.ErrNoPicture
}

func (m *market) Sales() []api.Sale {
	m.listed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]api.Sale(nil), m.sales...)
}

func (m *market) Snapshot() any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot
}

func (m *market) Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sales.Sale(ctx, id)
}

// change makes another snapshot of it.
func (m *market) change(what func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what()
	m.snapshot++
}

// renders counts the pages that p renders from now on: each names the style
// sheet once.
func renders(p *Pages) func() int {
	var n atomic.Int64
	p.tmpl.Funcs(template.FuncMap{"asset": func(name string) (string, error) {
		if name == "pages.css" {
			n.Add(1)
		}
		return p.assets.path(name)
	}})
	return func() int { return int(n.Swap(0)) }
}

const anyOrder = "/o/lamp.0123456789abcdef0123456789abcdef"

// No client can make the server render or compress by asking again, by asking
// for what does not exist, or with other headers.
func TestNothingIsRenderedPerRequest(t *testing.T) {
	p := pages(t, shelf{lamp()}, Options{})
	rendered := renders(p)
	var tags []string
	for _, path := range []string{"/", "/s/lamp"} {
		tags = append(tags, get(p, "GET", path).Header.Get("Etag"))
	}
	if n := rendered(); n != 2 {
		t.Errorf("the list and a sale, for the first time: %d pages rendered, want 2", n)
	}
	for i := range 5 {
		for path, want := range map[string]int{
			"/": 200, "/?lang=zh": 200, "/s/lamp": 200, "/s/lamp?lang=en": 200, anyOrder: 200,
			fmt.Sprintf("/o/lamp.%032d", i): 200,
			"/s/none":                       404, fmt.Sprintf("/s/none-%d", i): 404, "/s/N": 404, "/s/down": 503, "/o/none": 404,
			fmt.Sprintf("/o/none-%d", i): 404,
		} {
			for _, method := range []string{"GET", "HEAD"} {
				for _, encoding := range []string{"", "gzip", "*"} {
					for _, language := range []string{"en", "zh"} {
						if r := get(p, method, path, "Accept-Encoding", encoding, "Accept-Language", language); r.StatusCode != want {
							t.Errorf("%s %s: %d, want %d", method, path, r.StatusCode, want)
						}
					}
				}
				get(p, method, path, "If-None-Match", "*")
				get(p, method, path, "If-None-Match", tags[0]+", "+tags[1])
			}
		}
	}
	if n := rendered(); n != 0 {
		t.Errorf("%d pages rendered for those who ask again", n)
	}
	if p.sales.count != 1 {
		t.Errorf("%d pages of sales are kept, of one sale", p.sales.count)
	}
}

// The list is read once per snapshot, rendered once per change of its content,
// and keeps its ETag as long as the content is the same.
func TestListIsKept(t *testing.T) {
	m := &market{sales: soon(3)}
	p := pages(t, m, Options{})
	rendered := renders(p)
	look := func(what string, wantListed int64, wantRendered int) string {
		t.Helper()
		var crowd sync.WaitGroup
		tags := make([]string, 20)
		for i := range tags {
			crowd.Go(func() { tags[i] = get(p, "GET", "/", "Accept-Encoding", "gzip").Header.Get("Etag") })
		}
		crowd.Wait()
		for _, tag := range tags {
			if tag == "" || tag != tags[0] {
				t.Errorf("%s: ETags %q and %q", what, tags[0], tag)
			}
		}
		if got := m.listed.Swap(0); got != wantListed {
			t.Errorf("%s: the sales were told %d times, want %d", what, got, wantListed)
		}
		if got := rendered(); got != wantRendered {
			t.Errorf("%s: rendered %d times, want %d", what, got, wantRendered)
		}
		return tags[0]
	}
	first := look("the first time", 1, 1)
	if again := look("again", 0, 0); again != first {
		t.Error("the ETag is another, and nothing has happened")
	}
	available := int64(3)
	m.change(func() { m.sales[0].Available, m.sales[0].State = &available, sluice.StateOpen })
	if sold := look("units were sold", 1, 0); sold != first {
		t.Error("the list depends on what is sold")
	}
	m.change(func() { m.sales[1].Title = "another lamp" })
	named := look("another title", 1, 1)
	if named == first || !strings.Contains(text(t, get(p, "GET", "/")), "another lamp") {
		t.Error("the list has the old title")
	}
	m.change(func() { m.sales = m.sales[1:] })
	if closed := look("a sale closed", 1, 1); closed == named ||
		strings.Contains(text(t, get(p, "GET", "/")), `"/s/lamp-0"`) {
		t.Error("the closed sale is still listed")
	}
	m.change(func() { m.sales = nil })
	empty := look("all have closed", 1, 1)
	m.change(func() {})
	if still := look("still", 1, 0); still != empty {
		t.Error("the ETag of an empty list changes")
	}
}

// A crowd that comes after a change has the page of the sale rendered once.
func TestSalePageIsMadeOnceForACrowd(t *testing.T) {
	m := &market{sales: soon(2)}
	p := pages(t, m, Options{})
	rendered := renders(p)
	before := ""
	for _, title := range []string{"one", "two"} {
		m.change(func() { m.sales[0].Title = title })
		var crowd sync.WaitGroup
		for range 20 {
			crowd.Go(func() {
				if r := get(p, "GET", "/s/lamp-0"); r.StatusCode != http.StatusOK || r.Header.Get("Etag") == before {
					t.Errorf("title %s: %d %v", title, r.StatusCode, r.Header)
				}
			})
		}
		crowd.Wait()
		if n := rendered(); n != 1 {
			t.Errorf("title %s: rendered %d times, want once", title, n)
		}
		r := get(p, "GET", "/s/lamp-0")
		if before = r.Header.Get("Etag"); !strings.Contains(text(t, r), "<title>"+title+"</title>") {
			t.Errorf("the page lacks its title %s", title)
		}
	}
}

// However many sales there have been, the pages kept are bounded.
func TestSalePagesAreBounded(t *testing.T) {
	p := pages(t, soon(7), Options{})
	p.sales.most = 3
	for range 2 {
		for i := range 7 {
			if r := get(p, "GET", fmt.Sprintf("/s/lamp-%d", i)); !strings.Contains(text(t, r),
				fmt.Sprintf(`data-sale="lamp-%d"`, i)) {
				t.Errorf("sale %d has another one's page", i)
			}
			kept := 0
			p.sales.kept.Range(func(any, any) bool { kept++; return true })
			if kept != p.sales.count || kept == 0 || kept > 3 {
				t.Errorf("%d pages are kept, counted as %d; want 1 to 3", kept, p.sales.count)
			}
		}
	}
}

// A source that fails is asked again: nothing of it is kept.
func TestTroubleIsNotKept(t *testing.T) {
	f := &failing{shelf: shelf{lamp()}, err: errors.New("no answer")}
	p := pages(t, f, Options{})
	for _, c := range []struct {
		err  error
		want int
	}{{f.err, 503}, {sluice.ErrSaleNotFound, 404}, {nil, 200}, {f.err, 503}, {nil, 200}} {
		f.err = c.err
		if r := get(p, "GET", "/s/lamp"); r.StatusCode != c.want {
			t.Errorf("%v: %d, want %d", c.err, r.StatusCode, c.want)
		}
	}
}

type failing struct {
	shelf
	err error
}

func (f *failing) Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error) {
	if f.err != nil {
		return api.Sale{}, f.err
	}
	return f.shelf.Sale(ctx, id)
}
