package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

var update = flag.Bool("update", false, "write openapi.json or reference.html again")

// The document that is served is made of the one that people edit.
func TestDocumentIsCurrent(t *testing.T) {
	text := must.Get(os.ReadFile("openapi.yaml"))(t)
	var source yaml.Node
	must.Succeed(t, yaml.Unmarshal(text, &source))
	top := source.Content[0]
	for i := 0; i < len(top.Content); i += 2 {
		switch top.Content[i].Value {
		case "x-shared":
			top.Content = slices.Delete(top.Content, i, i+2)
			i -= 2
		case "components":
			var schemas yaml.Node
			if err := yaml.Unmarshal([]byte(inJSON(t, allSchemas())), &schemas); err != nil { // YAML has JSON in it
				t.Fatal(err)
			}
			name := &yaml.Node{Kind: yaml.ScalarNode, Value: "schemas"}
			top.Content[i+1].Content = append(top.Content[i+1].Content, name, schemas.Content[0])
		}
	}
	var made bytes.Buffer
	writeJSONOf(t, &made, top)
	made.WriteByte('\n')
	if *update {
		must.Succeed(t, os.WriteFile("openapi.json", made.Bytes(), 0o600))
		return
	}
	if !bytes.Equal(made.Bytes(), openAPIText) {
		t.Error("openapi.json is not what openapi.yaml and the types of package api make: run this test with -update")
	}
}

// writeJSONOf writes YAML as JSON, in the same order, with aliases and merges
// ("<<") resolved.
func writeJSONOf(t *testing.T, out *bytes.Buffer, n *yaml.Node) {
	t.Helper()
	switch n.Kind {
	case yaml.AliasNode:
		writeJSONOf(t, out, n.Alias)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, element := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSONOf(t, out, element)
		}
		out.WriteByte(']')
	case yaml.MappingNode:
		out.WriteByte('{')
		for i, m := range members(n) {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(strconv.Quote(m[0].Value) + ":")
			writeJSONOf(t, out, m[1])
		}
		out.WriteByte('}')
	default:
		var v any
		if err := n.Decode(&v); err != nil {
			t.Fatalf("openapi.yaml:%d: %v", n.Line, err)
		}
		out.WriteString(inJSON(t, v))
	}
}

// members are the names and values of a mapping, and those that it merges and
// does not have itself.
func members(n *yaml.Node) (all [][2]*yaml.Node) {
	has := map[string]bool{}
	add := func(name, value *yaml.Node) {
		if !has[name.Value] {
			has[name.Value] = true
			all = append(all, [2]*yaml.Node{name, value})
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "<<" {
			add(n.Content[i], n.Content[i+1])
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" {
			for _, m := range members(n.Content[i+1].Alias) {
				add(m[0], m[1])
			}
		}
	}
	return all
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// servedDocument returns the document; test/openapi has another library read it.
func servedDocument(t *testing.T) *document {
	t.Helper()
	doc := &document{}
	must.Succeed(t, json.Unmarshal(openAPIText, doc))
	return doc
}

// What the document refers to is in it.
func TestReferencesOfTheDocument(t *testing.T) {
	doc := servedDocument(t)
	for _, ref := range regexp.MustCompile(`"\$ref":"([^"]*)"`).FindAllSubmatch(openAPIText, -1) {
		name, ok := strings.CutPrefix(string(ref[1]), "#/components/schemas/")
		if _, there := doc.Components.Schemas[name]; !ok || !there {
			t.Errorf("%s: there is no such schema: does openapi_schema_test.go list the type?", ref[1])
		}
	}
}

// operations yields each operation, with its method and path.
func (d *document) operations(yield func(*documentOperation) bool) {
	for path, item := range d.Paths {
		for method, o := range item {
			o.Method, o.Path = strings.ToUpper(method), path
			if !yield(&o) {
				return
			}
		}
	}
}

// Every route is described, with who may ask for it, and nothing else is.
func TestEveryRouteIsDescribed(t *testing.T) {
	doc := servedDocument(t)
	operationID, named := regexp.MustCompile(`^[a-z]+[A-Z][A-Za-z]+$`), map[string]bool{}
	routes := map[string]Access{}
	for _, r := range Routes() {
		routes[strings.TrimSuffix(r.Pattern, "{$}")] = r.Access
	}
	delete(routes, "/") // what answers unknown paths is no operation
	for o := range doc.operations {
		name := o.Method + " " + o.Path
		access, ok := routes[name]
		if !ok {
			t.Errorf("%s: is described, but no route", name)
		}
		delete(routes, name)
		if o.Summary == "" || len(o.Tags) != 1 || !slices.Contains(doc.Tags, documentTag{o.Tags[0]}) {
			t.Errorf("%s: want a summary, and a tag of the list", name)
		}
		if !operationID.MatchString(o.OperationID) || named[o.OperationID] {
			t.Errorf("%s: operationId %q: want a name of its own, like placeOrder", name, o.OperationID)
		}
		named[o.OperationID] = true
		need, role := `[{"admin":[]}]`, "For admins with the role "+string(access)+", or a stronger one."
		switch access {
		case Anyone:
			need, role = `[]`, ""
		case Buyers:
			need, role = `[{"buyer":[]}]`, ""
		case Viewers, Operators, Owners:
		}
		if o.Access != access || string(o.Security) != need || !strings.HasSuffix(o.Description, role) {
			t.Errorf("%s: is for %s, and described for %s, %s: %s", name, access, o.Access, o.Security, o.Description)
		}
	}
	for name := range routes {
		t.Errorf("%s: is not described: internal/httpapi/openapi.yaml wants it", name)
	}
}

// Every code of the API stands in the document, as it is answered.
func TestEveryCodeIsDocumented(t *testing.T) {
	documented := map[string]bool{
		sluice.Accepted.String(): true,                                 // no problem
		api.CodeNotFound:         true, api.CodeMethodNotAllowed: true, // of no route
	}
	for o := range servedDocument(t).operations {
		has := map[string]bool{}
		for status, r := range o.Responses {
			if examples := r.Content[problemType[0]].Examples; examples != nil {
				checkProblems(t, o, status, r)
				for code := range examples {
					documented[code], has[code] = true, true
				}
			}
		}
		for _, code := range everyHas(o) {
			if !has[code] {
				t.Errorf("%s %s: lacks the code %q, which every operation of its kind has", o.Method, o.Path, code)
			}
		}
	}
	for code := range codes {
		if !documented[code] {
			t.Errorf("code %q is of no operation", code)
		}
	}
}

// checkProblems compares the problems of one status with those that the server answers.
func checkProblems(t *testing.T, o *documentOperation, status string, r documentBody) {
	t.Helper()
	var titles []string
	waits := 0
	for code, example := range r.Content[problemType[0]].Examples {
		titles = append(titles, code+": "+codes[code].title)
		if retryAfter[code] != "" {
			waits++
		}
		want := api.Problem{Type: "/docs#" + code, Title: codes[code].title, Status: codes[code].status, Code: code}
		if inJSON(t, example.Value) != inJSON(t, want) || status != strconv.Itoa(want.Status) {
			t.Errorf("%s %s: %s has the example %s, want %s", o.Method, o.Path, status, inJSON(t, example.Value),
				inJSON(t, want))
		}
	}
	slices.Sort(titles)
	if want := strings.Join(titles, "; "); r.Description != want {
		t.Errorf("%s %s: %s is described as %q, want %q", o.Method, o.Path, status, r.Description, want)
	}
	after, has := r.Headers["Retry-After"]
	if has != (waits > 0) || has && after.Required != (waits == len(titles)) {
		t.Errorf("%s %s: %s: of %d problems %d have Retry-After: %+v", o.Method, o.Path, status, len(titles), waits, after)
	}
	if _, has := r.Headers["WWW-Authenticate"]; has != (status == "401") {
		t.Errorf("%s %s: %s: WWW-Authenticate is of 401", o.Method, o.Path, status)
	}
}

// everyHas are the codes of every operation with this access and method.
func everyHas(o *documentOperation) (codes []string) {
	if o.Access != Anyone {
		codes = append(codes, api.CodeUnauthenticated, api.CodeForbidden)
	}
	query := slices.ContainsFunc(o.Parameters, func(p documentParameter) bool { return p.In == "query" })
	changes := o.Method != http.MethodGet // then it reads a body
	if changes || query {                 // strict in what they read, also where they want no body
		codes = append(codes, api.CodeBadRequest)
	}
	if changes {
		codes = append(codes, api.CodeTooLarge)
	}
	if o.Access == Buyers { // the key of the token may not be known yet
		codes = append(codes, sluice.Unavailable.String())
	}
	return codes
}

// The page loads nothing from other hosts, and its policy fits its style.
func TestReferencePage(t *testing.T) {
	w := httptest.NewRecorder()
	referencePage().ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	for _, not := range []string{"<script ", "http://", "https://", "src=", "@import", "url(", "<link", "style="} {
		if at := strings.Index(page, not); at >= 0 {
			t.Errorf("the page has %q: %s", not, page[at:min(at+60, len(page))])
		}
	}
	for _, text := range []string{"<style>" + referenceStyle + "</style>", "<script>" + referenceScript + "</script>"} {
		if strings.Count(page, text[:7]) != 1 || !strings.Contains(page, text) {
			t.Errorf("%s is not in the page once, as its hash in the policy has it", text[:8])
		}
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[id[1]] {
			t.Errorf("id %q is duplicated", id[1])
		}
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !ids[link[1]] {
			t.Errorf("a link to #%s, which is not there", link[1])
		}
	}
	for o := range servedDocument(t).operations {
		if !ids[o.OperationID] || !strings.Contains(page, o.Path) {
			t.Errorf("%s %s is not on the page", o.Method, o.Path)
		}
	}
}
