package metrics

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// keepFor is how long rendered metrics are handed out: rendering costs more the
// more sales there are, and must not cost more the more often it is asked for.
const keepFor = time.Second

// kept renders the metrics once a second and format at most, however often they are
// scraped: one request renders while the others wait for its text.
type kept struct {
	render http.Handler

	turn    chan struct{} // holds a value while one request reads or makes what is below
	formats [2]format     // text, and Prometheus' own, which alone has native histograms
}

// format is the metrics in one format.
type format struct {
	at     time.Time // when they were rendered
	page   *page     // nil: never
	zipped []byte    // nil until a client wants it
}

// protobuf is what a client accepts that takes native histograms.
const protobuf = "application/vnd.google.protobuf"

func newKept(render http.Handler) *kept { return &kept{render: render, turn: make(chan struct{}, 1)} }

// ServeHTTP implements http.Handler.
func (k *kept) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	zip := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	page, text := k.get(r, zip)
	h := w.Header()
	for name, values := range page.header {
		h[name] = values
	}
	h["Vary"] = []string{"Accept, Accept-Encoding"}
	if zip {
		h["Content-Encoding"] = []string{"gzip"}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	w.WriteHeader(page.status)
	_, _ = w.Write(text)
}

func (k *kept) get(r *http.Request, zip bool) (*page, []byte) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	f, accept := &k.formats[0], []string(nil)
	if strings.Contains(r.Header.Get("Accept"), protobuf) {
		f, accept = &k.formats[1], []string{protobuf + "; proto=io.prometheus.client.MetricFamily; encoding=delimited"}
	}
	if age := time.Since(f.at); f.page == nil || age < 0 || age >= keepFor {
		page := &page{header: http.Header{}, status: http.StatusOK}
		plain := r.Clone(r.Context())
		plain.Header = http.Header{} // the same for all who ask for the format
		if accept != nil {
			plain.Header["Accept"] = accept
		}
		k.render.ServeHTTP(page, plain)
		f.at, f.page, f.zipped = time.Now(), page, nil
	}
	if !zip {
		return f.page, f.page.body.Bytes()
	}
	if f.zipped == nil {
		var b bytes.Buffer
		zipper, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		_, _ = zipper.Write(f.page.body.Bytes())
		_ = zipper.Close()
		f.zipped = b.Bytes()
	}
	return f.page, f.zipped
}

// page is an http.ResponseWriter that keeps what is written.
type page struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (p *page) Header() http.Header            { return p.header }
func (p *page) Write(text []byte) (int, error) { return p.body.Write(text) }
func (p *page) WriteHeader(status int)         { p.status = status }
