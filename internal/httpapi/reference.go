package httpapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"sync"

	"github.com/sluicehq/sluice/internal/content"
)

// openAPIText is the document of the API, OpenAPI 3.1. It is made of
// openapi.yaml, which people edit, and of the types of package api: see
// TestDocumentIsCurrent.
//
//go:embed openapi.json
var openAPIText []byte

// keepReference is how long the document and its page may be kept.
const keepReference = "public, max-age=300, stale-while-revalidate=86400"

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) { s.document().ServeHTTP(w, r) }

// newDocument is the document, with the path under which it is served, when it is asked for.
func newDocument(base string) func() *content.Answer {
	return sync.OnceValue(func() *content.Answer {
		text := bytes.Replace(openAPIText, []byte(`"servers":[{"url":"/"}]`), []byte(`"servers":[{"url":"`+cmp.Or(base, "/")+`"}]`), 1)
		return content.New(content.Form{Type: jsonType[0], Cache: keepReference, Level: gzip.BestCompression}, text)
	})
}

// referenceText is the reference for people: one page, which makes requests to its own
// server alone, and only when a reader has one tried. It is made of the document and of
// reference.tmpl.html, with reference.css and reference.js in it: see
// TestReferenceIsCurrent.
//
//go:embed reference.html
var referenceText []byte

//go:embed reference.css
var referenceStyle string

//go:embed reference.js
var referenceScript string

var referencePage = sync.OnceValue(func() *content.Answer {
	return content.New(content.Form{
		Type: "text/html; charset=utf-8", Cache: keepReference, Level: gzip.BestCompression,
	}, referenceText)
})

// referencePolicy allows the page its own style and script, requests to its own server,
// and nothing else.
var referencePolicy = []string{"default-src 'none'; style-src '" + inlineHash(referenceStyle) + "'; script-src '" +
	inlineHash(referenceScript) + "'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}

func inlineHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

var noSniff = []string{"nosniff"}

func (s *Server) reference(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Security-Policy"], h["X-Content-Type-Options"] = referencePolicy, noSniff
	h["Referrer-Policy"] = []string{"no-referrer"}
	referencePage().ServeHTTP(w, r)
}
