package httpapi

import (
	"bytes"
	"encoding/json"
	"html/template"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// The reference for people says what the document says.
func TestReferenceIsCurrent(t *testing.T) {
	var doc document
	must.Succeed(t, json.Unmarshal(openAPIText, &doc))
	page := template.Must(template.New("reference.tmpl.html").Funcs(template.FuncMap{"fields": doc.fields}).
		ParseFiles("reference.tmpl.html"))
	var made bytes.Buffer
	must.Succeed(t, page.Execute(&made, struct {
		*document
		Style  template.CSS
		Script template.JS
		Groups []referenceGroup
		Codes  []referenceCode
	}{&doc, template.CSS(referenceStyle), template.JS(referenceScript), doc.groups(), referenceCodes(t)}))
	if *update {
		must.Succeed(t, os.WriteFile("reference.html", made.Bytes(), 0o600))
		return
	}
	if !bytes.Equal(made.Bytes(), referenceText) {
		t.Error("reference.html is not what openapi.json, reference.tmpl.html and reference.css make: " +
			"run this test with -update")
	}
}

// document is what the page, and the tests of routes and codes, need of the OpenAPI document.
type document struct {
	Info       struct{ Description string }
	Tags       []documentTag
	Paths      map[string]map[string]documentOperation
	Components struct{ Schemas map[string]documentSchema }
}

type documentTag struct{ Name string }

type documentOperation struct {
	Method, Path                      string
	OperationID, Summary, Description string
	Access                            Access `json:"x-access"`
	Security                          json.RawMessage
	Tags                              []string
	Parameters                        []documentParameter
	RequestBody                       *documentBody
	Responses                         map[string]documentBody
}

type documentParameter struct {
	Name, In, Description string
	Required              bool
	Schema                documentSchema
}

// documentBody is a message, in one form or several.
type documentBody struct {
	Description string
	Headers     map[string]struct{ Required bool }
	Content     map[string]struct {
		Schema   documentSchema
		Example  json.RawMessage
		Examples map[string]struct{ Value api.Problem }
	}
}

type documentSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Enum       []string
	AnyOf      []documentSchema
	Items      *documentSchema
	Properties map[string]documentSchema
	Required   []string
}

// referenceGroup are the operations of one tag.
type referenceGroup struct {
	ID, Name string
	Rows     []documentOperation
}

// groups are in the order of the tags, their rows in that of the routes.
func (d *document) groups() []referenceGroup {
	var groups []referenceGroup
	for i, tag := range d.Tags {
		group := referenceGroup{ID: "tag-" + strconv.Itoa(i), Name: tag.Name}
		for _, r := range Routes() {
			method, path, _ := strings.Cut(strings.TrimSuffix(r.Pattern, "{$}"), " ")
			if o, ok := d.Paths[path][strings.ToLower(method)]; ok && slices.Contains(o.Tags, tag.Name) {
				o.Method, o.Path = method, path
				group.Rows = append(group.Rows, o)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// More is the description without what the page says of the access anyway.
func (o documentOperation) More() string {
	more, _, _ := strings.Cut(o.Description, "For admins with the role ")
	return strings.TrimSpace(more)
}

// Success is the status of the answer that is no problem.
func (o documentOperation) Success() string {
	return slices.Min(slices.Collect(maps.Keys(o.Responses)))
}

// Response is the body of that answer.
func (o documentOperation) Response() documentBody { return o.Responses[o.Success()] }

// Problems are those of all statuses, by their codes.
func (o documentOperation) Problems() map[string]api.Problem {
	all := map[string]api.Problem{}
	for _, r := range o.Responses {
		for _, m := range r.Content {
			for code, example := range m.Examples {
				all[code] = example.Value
			}
		}
	}
	return all
}

// Media are the forms of a body.
func (b documentBody) Media() string { return strings.Join(slices.Sorted(maps.Keys(b.Content)), ", ") }

// Schema is that of a body; all of its forms have the same.
func (b documentBody) Schema() (schema documentSchema) {
	for _, m := range b.Content {
		schema = m.Schema
	}
	return schema
}

// Example is that of a body, if it has one: a text, or JSON.
func (b documentBody) Example() string {
	for _, m := range b.Content {
		var text string
		if json.Unmarshal(m.Example, &text) == nil {
			return text
		}
		var out bytes.Buffer
		if json.Indent(&out, m.Example, "", "  ") == nil {
			return out.String()
		}
	}
	return ""
}

type referenceField struct {
	documentSchema
	Name     string
	Required bool
}

// fields lists the fields of a message, its required ones first.
func (d *document) fields(s documentSchema) (fields []referenceField) {
	if s.Ref != "" {
		s = d.Components.Schemas[s.Link()]
	}
	for _, required := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) == required {
				fields = append(fields, referenceField{s.Properties[name], name, required})
			}
		}
	}
	return fields
}

// Link is the component that a schema is or holds, if any.
func (s documentSchema) Link() string {
	switch {
	case s.Items != nil:
		return s.Items.Link()
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].Link()
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

// Words says a schema in a few words.
func (s documentSchema) Words() string {
	var choices []string
	kinds, several := s.Type.([]any)
	for _, one := range s.AnyOf {
		choices = append(choices, one.Words())
	}
	for _, kind := range kinds {
		one := s
		one.Type = kind
		choices = append(choices, one.Words())
	}
	switch {
	case s.Ref != "":
		return s.Link()
	case len(s.AnyOf) > 0:
		return strings.Join(choices, " or ")
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, " | ")
	case s.Items != nil:
		return "array of " + s.Items.Words()
	case several:
		return strings.Join(choices, " or ")
	case s.Format == "date-time" && s.Type == "string":
		return "time"
	case s.Type == nil:
		return "any JSON"
	}
	kind, _ := s.Type.(string)
	return kind
}

// referenceCode is a code of a problem, as docs/codes.md explains it.
type referenceCode struct {
	Code    string
	Status  int
	Meaning template.HTML
}

// referenceCodes are the codes of problems, in the order of docs/codes.md.
func referenceCodes(t *testing.T) (all []referenceCode) {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/codes.md"))(t)
	row := regexp.MustCompile("(?m)^(?:\\| \\d+ )?\\| (`[a-z_`/ ]+`) \\| \\d[^|]*\\| ([^|]+) \\|")
	link, code := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`), regexp.MustCompile("`([^`]*)`")
	explained := map[string]bool{sluice.Accepted.String(): true} // no problem
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		meaning := template.HTMLEscapeString(strings.ReplaceAll(link.ReplaceAllString(cells[2], "$1"), "**", ""))
		for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
			if explained[name[1]] {
				continue
			}
			explained[name[1]] = true
			all = append(all, referenceCode{
				name[1], codes[name[1]].status, template.HTML(code.ReplaceAllString(meaning, "<code>$1</code>")),
			})
		}
	}
	for name := range codes {
		if !explained[name] {
			t.Errorf("%s: docs/codes.md has no row of it", name)
		}
	}
	return all
}
