package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// content is an answer that many readers get: encoded once, with a strong ETag
// of its bytes. It never changes.
type content struct {
	plain variant
	gzip  *variant // nil where compressing does not pay
}

// variant is the content in one encoding, with its header values ready to be
// assigned. They are shared, and never written to.
type variant struct {
	body                                     []byte
	etag                                     string
	contentType, cacheControl, tag, encoding []string
	length                                   []string // nil: net/http says it itself
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
	gzipEncoding  = []string{"gzip"}
	varyEncoding  = []string{"Accept-Encoding"}
	varyBoth      = []string{"Origin, Accept-Encoding"}
	publicBriefly = []string{"public, max-age=1, stale-while-revalidate=2"}
)

// newContent encodes nothing but may compress: the body is as it will be sent.
func newContent(contentType, cacheControl []string, body []byte) *content {
	sum := sha256.Sum256(body)
	tag := base64.RawURLEncoding.EncodeToString(sum[:12])
	c := &content{plain: newVariant(contentType, cacheControl, body, `"`+tag+`"`)}
	if len(body) < compressFrom {
		return c
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(body)                                 // a buffer takes all
	_ = w.Close()
	if packed.Len() < len(body) {
		v := newVariant(contentType, cacheControl, packed.Bytes(), `"`+tag+`-gzip"`)
		v.encoding = gzipEncoding
		c.gzip = &v
	}
	return c
}

func newVariant(contentType, cacheControl []string, body []byte, etag string) variant {
	v := variant{body: body, etag: etag, tag: []string{etag}, contentType: contentType, cacheControl: cacheControl}
	if len(body) > bufferedSize {
		v.length = []string{strconv.Itoa(len(body))}
	}
	return v
}

// serve answers GET and HEAD: 200 with the body, or 304 without.
func (c *content) serve(w http.ResponseWriter, r *http.Request) {
	v := &c.plain
	h := w.Header()
	if c.gzip != nil {
		if h["Vary"] == nil {
			h["Vary"] = varyEncoding
		} else {
			h["Vary"] = varyBoth // only CORS sets it before
		}
		if acceptsGzip(r.Header["Accept-Encoding"]) {
			v = c.gzip
		}
	}
	h["Etag"], h["Cache-Control"] = v.tag, v.cacheControl
	if match := r.Header["If-None-Match"]; match != nil && matches(match, v.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h["Content-Type"] = v.contentType
	if v.encoding != nil {
		h["Content-Encoding"] = v.encoding
	}
	if v.length != nil {
		h["Content-Length"] = v.length
	}
	_, _ = w.Write(v.body) // a client that is gone needs no answer
}

// matches compares as RFC 9110 wants it for If-None-Match: weakly, a list,
// over several lines perhaps, or "*".
func matches(header []string, etag string) bool {
	for _, line := range header {
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
	for _, line := range header {
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
