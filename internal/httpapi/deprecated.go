package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// deprecated has the headers of each route that the document marks as deprecated: since
// when it is (RFC 9745), from when on it may be gone (RFC 8594), and the policy. The dates
// are the document's x-deprecated and x-sunset. A document that marks nothing is not read.
func deprecated(document []byte) map[string]http.Header {
	if !bytes.Contains(document, []byte(`"deprecated":true`)) {
		return nil
	}
	var all struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	_ = json.Unmarshal(document, &all) // the document is embedded, and tested
	headers := map[string]http.Header{}
	for path, operations := range all.Paths {
		for method, text := range operations {
			var operation struct {
				Deprecated bool   `json:"deprecated"`
				Since      string `json:"x-deprecated"`
				Sunset     string `json:"x-sunset"`
			}
			if json.Unmarshal(text, &operation) != nil || !operation.Deprecated {
				continue // or it is what all operations of the path share
			}
			since, _ := time.Parse(time.DateOnly, operation.Since)
			sunset, _ := time.Parse(time.DateOnly, operation.Sunset)
			headers[strings.ToUpper(method)+" "+path] = http.Header{
				"Deprecation": {fmt.Sprint("@", since.Unix())},
				"Sunset":      {sunset.Format(http.TimeFormat)},
				"Link":        {`<` + deprecationPolicy + `>; rel="deprecation"; type="text/html"`},
			}
		}
	}
	return headers
}

const deprecationPolicy = "https://github.com/sluicehq/sluice/blob/main/docs/releases.md#deprecation"

// announce adds headers to whatever a handler answers.
func announce(headers http.Header, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), headers)
		next.ServeHTTP(w, r)
	})
}
