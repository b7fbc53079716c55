package httpapi

import (
	_ "embed"
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
	return content.New(content.Form{Type: jsonType[0], Cache: keepReference}, openAPIText)
})

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) { openAPIAnswer().ServeHTTP(w, r) }
