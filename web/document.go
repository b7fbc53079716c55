package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// policy lets a page load its own scripts, styles and pictures, speak to its
// own server, and nothing else. Nobody may frame it: a frame could have a
// buyer press the button unawares.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secure are the headers that all answers of the pages have.
var secure = http.Header{
	"Content-Security-Policy":      {policy},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"no-referrer"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Permissions-Policy":           {"camera=(), geolocation=(), microphone=(), payment=()"},
}

// document is an answer, ready to be sent: plain, and compressed for those who
// take that.
type document struct {
	status  int
	plain   []byte
	gzipped []byte // nil where it would not be smaller
	etag    string // weak: the same for both
	kind    string // Content-Type
	keep    string // Cache-Control
}

func newDocument(content []byte, kind, keep string) *document {
	d := &document{status: http.StatusOK, plain: content, kind: kind, keep: keep, etag: `W/"` + hash(content) + `"`}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is one
	_, _ = z.Write(content)                               // memory does not fail
	_ = z.Close()
	if b.Len() < len(content) {
		d.gzipped = b.Bytes()
	}
	return d
}

// hash names a content in 16 characters.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}

func (d *document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, values := range secure {
		h[name] = values
	}
	h.Set("Cache-Control", d.keep)
	h.Set("Vary", "Accept-Encoding")
	if d.status == http.StatusOK {
		h.Set("Etag", d.etag)
		if matches(r.Header.Values("If-None-Match"), d.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := d.plain
	if d.gzipped != nil && takesGzip(r.Header.Values("Accept-Encoding")) {
		body = d.gzipped
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", d.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}

// matches compares ETags weakly, as RFC 9110 wants it for If-None-Match.
func matches(header []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(header, ","), ",") {
		tag = strings.TrimSpace(tag)
		if tag == "*" || tag != "" && strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}

// takesGzip: gzip is named, and not with a quality of 0.
func takesGzip(header []string) bool {
	for coding := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, parameter, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, quality, weighted := strings.Cut(parameter, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(quality), 64)
		return !weighted || err != nil || q > 0
	}
	return false
}
