package httpapi

import (
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

var openAPIAnswer = sync.OnceValue(func() *content.Answer {
	return content.New(content.Form{Type: jsonType[0], Cache: keepReference, Level: gzip.BestCompression}, openAPIText)
})

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) { openAPIAnswer().ServeHTTP(w, r) }

// referenceText is the reference for people: one page, without script and without
// a request to anywhere. It is made of the document and of reference.tmpl.html, with
// reference.css in it: see TestReferenceIsCurrent.
//
//go:embed reference.html
var referenceText []byte

var referencePage = sync.OnceValue(func() *content.Answer {
	return content.New(content.Form{
		Type: "text/html; charset=utf-8", Cache: keepReference, Level: gzip.BestCompression,
	}, referenceText)
})

//go:embed reference.css
var referenceStyle string

// referencePolicy allows the page its own style and nothing else.
var referencePolicy = []string{"default-src 'none'; style-src 'sha256-" + styleHash() +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}

func styleHash() string {
	sum := sha256.Sum256([]byte(referenceStyle))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var noSniff = []string{"nosniff"}

func (s *Server) reference(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Security-Policy"], h["X-Content-Type-Options"] = referencePolicy, noSniff
	h["Referrer-Policy"] = []string{"no-referrer"}
	referencePage().ServeHTTP(w, r)
}
