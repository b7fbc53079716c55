package httpapi

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// Every route is described, and nothing else is.
func TestEveryRouteIsDescribed(t *testing.T) {
	routes := map[string]bool{}
	for _, r := range Routes() {
		routes[r.Pattern] = true
		op, ok := operations[r.Pattern]
		switch {
		case r.Pattern == "/":
			if ok {
				t.Error("what answers unknown paths is no operation")
			}
		case !ok:
			t.Errorf("%s: is not described: internal/httpapi/openapi_table.go wants a row", r.Pattern)
		case op.summary == "" || !slices.Contains(tags, op.tag) || op.response == nil && op.media == "":
			t.Errorf("%s: want a summary, a tag of the list, and a response or media", r.Pattern)
		}
		for _, code := range op.codes {
			if statuses[code] == 0 {
				t.Errorf("%s: code %q has no status", r.Pattern, code)
			}
		}
	}
	for pattern := range operations {
		if !routes[pattern] {
			t.Errorf("%s: is described, but no route", pattern)
		}
	}
}

// Every code of the API stands in the document.
func TestEveryCodeIsDocumented(t *testing.T) {
	documented := map[string]bool{
		sluice.Accepted.String(): true,                                 // no problem
		api.CodeNotFound:         true, api.CodeMethodNotAllowed: true, // of no route
	}
	for _, o := range described(Routes()) {
		for _, code := range o.problems() {
			documented[code] = true
		}
	}
	for code := range statuses {
		if !documented[code] {
			t.Errorf("code %q is of no operation", code)
		}
	}
}

// The page asks nobody for anything, and its policy fits its style.
func TestReferencePage(t *testing.T) {
	w := httptest.NewRecorder()
	apiDocuments.make().page.ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	for _, not := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "<link", "style="} {
		if at := strings.Index(page, not); at >= 0 {
			t.Errorf("the page has %q: %s", not, page[at:min(at+60, len(page))])
		}
	}
	if !strings.Contains(page, "<style>"+referenceStyle+"</style>") {
		t.Error("the style is not in the page as its hash in the policy has it")
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[id[1]] {
			t.Errorf("id %q stands twice", id[1])
		}
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !ids[link[1]] {
			t.Errorf("a link to #%s, which is not there", link[1])
		}
	}
	for _, o := range described(Routes()) {
		if !ids[operationID(o.method, o.path)] || !strings.Contains(page, o.path) {
			t.Errorf("%s %s is not on the page", o.method, o.path)
		}
	}
}
