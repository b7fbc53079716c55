package openapi

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/sluicehq/sluice/internal/must"
)

// checked is a shop of which every request and answer is judged by the API's
// own document.
type checked struct {
	*shop
	doc    *openapi3.T
	router routers.Router
	seen   map[string]bool // "METHOD /path status" of what was answered
}

func openChecked(t *testing.T) *checked {
	t.Helper()
	s := open(t)
	document := s.must(s.do("GET", "/openapi.json", ""), 200)
	if document.header.Get("ETag") == "" || document.header.Get("Content-Type") != "application/json" {
		t.Errorf("/openapi.json: %v", document.header)
	}
	if same := s.do("GET", "/openapi.json", "", "If-None-Match: "+document.header.Get("ETag")); same.status != 304 {
		t.Errorf("/openapi.json with its own ETag: %d", same.status)
	}
	doc := must.Get(openapi3.NewLoader().LoadFromData([]byte(document.body)))(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("the document is of OpenAPI %s", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatalf("the document is not valid: %v", err)
	}
	router := must.Get(gorillamux.NewRouter(doc))(t)
	return &checked{shop: s, doc: doc, router: router, seen: map[string]bool{}}
}

// call sends a request and judges the answer; the request too, which the
// document must find right or wrong, as is said here.
func (c *checked) call(wantStatus int, wrong bool, method, path, body string, headers ...string) answer {
	c.t.Helper()
	if body != "" {
		headers = append(headers, "Content-Type: application/json")
	}
	a, err := c.judge(wantStatus, method, path, body, headers...)
	if (err != nil) != wrong {
		c.t.Errorf("%s %s %s: by the document the request is right: %v; want %v (%v)", method, path, body, err == nil, !wrong,
			err)
	}
	return a
}

// judge sends a request and judges the answer; the error is what the document
// says against the request.
func (c *checked) judge(wantStatus int, method, path, body string, headers ...string) (answer, error) {
	c.t.Helper()
	a := c.do(method, path, body, headers...)
	if a.status != wantStatus {
		c.t.Errorf("%s %s %.200s: %d %.300s; want %d", method, path, body, a.status, a.body, wantStatus)
	}
	return a, c.fits(a, method, path, body, headers...)
}

// fits judges an answer by the document, and notes that it came.
func (c *checked) fits(a answer, method, path, body string, headers ...string) error {
	c.t.Helper()
	request := c.request(method, path, body, headers...)
	route, params, err := c.router.FindRoute(request)
	if err != nil {
		c.t.Fatalf("%s %s: the document does not have it: %v", method, path, err)
	}
	c.seen[fmt.Sprintf("%s %s %d", route.Method, route.Path, a.status)] = true
	options := &openapi3filter.Options{
		IncludeResponseStatus: true,
		AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
	}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route, Options: options}
	wrong := openapi3filter.ValidateRequest(c.t.Context(), input)
	err = openapi3filter.ValidateResponse(c.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewBufferString(a.body)),
		Options: options,
	})
	if err != nil {
		c.t.Errorf("%s %s: answer %d %.300s: %v", method, path, a.status, a.body, err)
	}
	if code := a.code(); a.status >= 400 && code != "" {
		if problem := route.Operation.Responses.Status(a.status); problem == nil ||
			problem.Value.Content["application/problem+json"].Examples[code] == nil {
			c.t.Errorf("%s %s: the document does not have %d %s there", method, path, a.status, code)
		}
	}
	return wrong
}

func init() { // types that the validator does not know are texts
	for _, media := range []string{
		"text/html", "text/event-stream", "text/javascript", "text/css", "image/svg+xml", "text/calendar", "image/jpeg",
		"image/png", "image/webp",
	} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
}
