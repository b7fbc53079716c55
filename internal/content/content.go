// Package content holds answers that many readers get: encoded once, compressed
// once, when the first reader wants that, and sent with an ETag.
package content

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Form says how a body is sent.
type Form struct {
	Type  string // Content-Type
	Cache string // Cache-Control

	// Status is the answer's; default 200. An answer with another one has
	// no ETag and is sent in full to everybody.
	Status int

	// Level is gzip's; default gzip.BestSpeed. A body that is made once and sent
	// for long deserves gzip.BestCompression.
	Level int
}

// Answer is an answer that many readers get. It never changes, and is safe for
// concurrent use.
type Answer struct {
	status                    int
	contentType, cacheControl []string
	plain                     variant
	packed                    func() *variant // plain if it is no smaller; nil where compressing does not pay
}

// variant is the answer in one encoding, with its header values ready to be
// assigned. They are shared, and never written to.
type variant struct {
	body          []byte
	etag          string
	tag, encoding []string
	length        []string // nil: net/http says it itself
}

const (
	// compressFrom is the least size, in bytes, that is worth a compressed
	// variant: below, all fits into one packet anyway.
	compressFrom = 1400
	// bufferedSize is how much net/http gathers before it sends: of an answer
	// within it, net/http writes the length itself, cheaper than we can.
	bufferedSize = 2048
)

var (
	gzipEncoding = []string{"gzip"}
	varyEncoding = []string{"Accept-Encoding"}
)

// New makes an answer of a body, which is sent as it is, or compressed. It must
// not be changed any more. The ETag is strong, of the body's bytes.
func New(form Form, body []byte) *Answer {
	sum := sha256.Sum256(body)
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	a := &Answer{
		status: cmp.Or(form.Status, http.StatusOK), contentType: []string{form.Type}, cacheControl: []string{form.Cache},
		plain: newVariant(body, `"`+tag+`"`),
	}
	if len(body) >= compressFrom && form.Type != "image/jpeg" { // which is compressed already
		a.packed = sync.OnceValue(func() *variant {
			v := newVariant(pack(body, cmp.Or(form.Level, gzip.BestSpeed)), `"`+tag+`-gzip"`)
			if v.encoding = gzipEncoding; len(v.body) < len(body) {
				return &v
			}
			return &a.plain
		})
	}
	return a
}

func pack(body []byte, level int) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		panic(err) // no such level: a bug
	}
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	return packed.Bytes()
}

func newVariant(body []byte, etag string) variant {
	v := variant{body: body, etag: etag, tag: []string{etag}}
	if len(body) > bufferedSize {
		v.length = []string{strconv.Itoa(len(body))}
	}
	return v
}

// Size is how many bytes the body has.
func (a *Answer) Size() int { return len(a.plain.body) }

// With returns the same answer with another Cache-Control.
func (a *Answer) With(cacheControl string) *Answer {
	other := *a
	other.cacheControl = []string{cacheControl}
	return &other
}

// ServeHTTP answers GET and HEAD: with the body, or 304 without. It leaves the
// headers that are set already, and adds to Vary. It does not compress an
// answer that a middleware has said it will compress.
func (a *Answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &a.plain
	h := w.Header()
	encoded := h["Content-Encoding"] != nil
	if a.packed != nil && !encoded {
		if before := h["Vary"]; before == nil {
			h["Vary"] = varyEncoding
		} else {
			h["Vary"] = []string{strings.Join(before, ", ") + ", Accept-Encoding"}
		}
		if acceptsGzip(r.Header["Accept-Encoding"]) {
			v = a.packed()
		}
	}
	h["Cache-Control"] = a.cacheControl
	if a.status == http.StatusOK {
		h["Etag"] = v.tag
		if match := r.Header["If-None-Match"]; match != nil && matches(match, v.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h["Content-Type"] = a.contentType
	if v.encoding != nil {
		h["Content-Encoding"] = v.encoding
	}
	if v.length != nil && !encoded {
		h["Content-Length"] = v.length
	}
	if a.status != http.StatusOK {
		w.WriteHeader(a.status)
	}
	_, _ = w.Write(v.body) // a client that is gone needs no answer
}

// longest is how much is read of a header that is a list, in bytes: it costs more to take apart than
// the whole answer. Browsers send a hundred.
const longest = 1024

// short returns the header, or nothing of one that is longer than any client's.
func short(header []string) []string {
	n := 0
	for _, line := range header {
		if n += len(line) + 1; n > longest+1 {
			return nil
		}
	}
	return header
}

// matches compares as RFC 9110 wants it for If-None-Match: weakly, a list,
// over several lines perhaps, or "*".
func matches(header []string, etag string) bool {
	for _, line := range short(header) {
		if line == etag {
			return true
		}
		for tag := range strings.SplitSeq(line, ",") { // our tags have no comma
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == etag {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reads Accept-Encoding: gzip (or "*", if gzip is not named) with a
// weight above 0.
func acceptsGzip(header []string) bool {
	rest := false // what "*" says
	for _, line := range short(header) {
		for item := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(item, ";")
			name = strings.TrimSpace(name)
			ok := true
			if q, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q="); found {
				value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
				ok = err == nil && value > 0
			}
			switch {
			case strings.EqualFold(name, "gzip"):
				return ok
			case name == "*":
				rest = ok
			}
		}
	}
	return rest
}
