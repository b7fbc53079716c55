package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/api"
)

// The reference for people: one page, made of the same tables as the document,
// without script and without a request to anywhere.

//go:embed reference.html
var referenceText string

//go:embed reference.css
var referenceStyle string

// referencePolicy allows the page its own style and nothing else.
var referencePolicy = []string{"default-src 'none'; style-src 'sha256-" + styleHash() + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}

func styleHash() string {
	sum := sha256.Sum256([]byte(referenceStyle))
	return base64.StdEncoding.EncodeToString(sum[:])
}

var noSniff = []string{"nosniff"}

func (s *Server) reference(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Content-Security-Policy"], h["X-Content-Type-Options"], h["Referrer-Policy"] = referencePolicy, noSniff, []string{"no-referrer"}
	apiDocuments.make().page.ServeHTTP(w, r)
}

// referenceRow is an operation as the page shows it.
type referenceRow struct {
	ID, Method, Path, Access, Summary, More string
	Parameters                              []referenceParameter
	Request, Response                       *referenceBody
	Problems                                []referenceProblem
}

type referenceParameter struct {
	Name, In, Type, What string
	Required             bool
}

// referenceBody is a message: its fields, and an example.
type referenceBody struct {
	Status  int // of a response
	Media   string
	Fields  []referenceField
	Example string
}

type referenceField struct {
	Name, Type, Link string // Link: the name of a type on this page, if it is or holds one
	Required         bool
}

type referenceType struct {
	Name   string
	Fields []referenceField
}

type referenceProblem struct {
	Status      int
	Code, Title string
}

type referenceTag struct {
	ID, Name string
	Rows     []referenceRow
}

func referencePage(operations []describedRoute) []byte {
	// Through JSON, so that the page says what the document says.
	var doc document
	text, err := json.Marshal(openAPI(operations))
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil {
		panic(err)
	}
	var groups []referenceTag
	for i := range operations {
		o := &operations[i]
		if len(groups) == 0 || groups[len(groups)-1].Name != o.tag {
			groups = append(groups, referenceTag{ID: "tag-" + strconv.Itoa(len(groups)), Name: o.tag})
		}
		g := &groups[len(groups)-1]
		g.Rows = append(g.Rows, doc.row(o))
	}
	page := template.Must(template.New("reference").Parse(referenceText))
	var out bytes.Buffer
	err = page.Execute(&out, struct {
		Style       template.CSS
		Description string
		Groups      []referenceTag
		Types       []referenceType
	}{template.CSS(referenceStyle), apiDescription, groups, doc.types()})
	if err != nil {
		panic(err)
	}
	return out.Bytes()
}

// document is what the page needs of the OpenAPI document.
type document struct {
	Paths      map[string]map[string]documentOperation
	Components struct{ Schemas map[string]documentSchema }
}

type documentOperation struct {
	Parameters []struct {
		Name, In, Description string
		Required              bool
		Schema                documentSchema
	}
	RequestBody *struct{ Content map[string]documentMedia }
	Responses   map[string]struct{ Content map[string]documentMedia }
}

type documentMedia struct {
	Schema  documentSchema
	Example json.RawMessage
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

func (d *document) row(o *describedRoute) referenceRow {
	op := d.Paths[o.path][strings.ToLower(o.method)]
	row := referenceRow{ID: operationID(o.method, o.path), Method: o.method, Path: o.path, Access: string(o.Access), Summary: o.summary, More: o.more}
	for _, p := range op.Parameters {
		row.Parameters = append(row.Parameters, referenceParameter{Name: p.Name, In: p.In, Type: p.Schema.words(), What: p.Description, Required: p.Required})
	}
	if op.RequestBody != nil {
		row.Request = d.body(op.RequestBody.Content)
	}
	row.Response = d.body(op.Responses[strconv.Itoa(o.success())].Content)
	row.Response.Status = o.success()
	for _, code := range o.problems() {
		row.Problems = append(row.Problems, referenceProblem{Status: statuses[code], Code: code, Title: api.Title(code)})
	}
	return row
}

func (d *document) body(content map[string]documentMedia) *referenceBody {
	b := &referenceBody{}
	for media, m := range content {
		b.Media = strings.TrimPrefix(b.Media+", "+media, ", ")
		b.Fields = d.fields(m.Schema)
		if len(m.Example) == 0 {
			continue
		}
		var text string
		if json.Unmarshal(m.Example, &text) == nil {
			b.Example = text
			continue
		}
		var out bytes.Buffer
		if json.Indent(&out, m.Example, "", "  ") == nil {
			b.Example = out.String()
		}
	}
	return b
}

// fields lists the fields of a message, its required ones first.
func (d *document) fields(s documentSchema) []referenceField {
	if s.Ref != "" {
		s = d.Components.Schemas[s.name()]
	}
	var fields []referenceField
	for _, required := range []bool{true, false} {
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) == required {
				field := s.Properties[name]
				fields = append(fields, referenceField{Name: name, Type: field.words(), Link: d.link(field), Required: required})
			}
		}
	}
	return fields
}

// types are the components that have fields.
func (d *document) types() []referenceType {
	var types []referenceType
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		types = append(types, referenceType{Name: name, Fields: d.fields(d.Components.Schemas[name])})
	}
	return types
}

func (s documentSchema) name() string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// link is the component that a field is or holds, if any.
func (d *document) link(s documentSchema) string {
	switch {
	case s.Ref != "":
		return s.name()
	case s.Items != nil:
		return d.link(*s.Items)
	case len(s.AnyOf) > 0:
		return d.link(s.AnyOf[0])
	}
	return ""
}

// words says a schema in a few words.
func (s documentSchema) words() string {
	switch kinds, _ := s.Type.([]any); {
	case s.Ref != "":
		return s.name()
	case len(s.AnyOf) > 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, one.words())
		}
		return strings.Join(all, " or ")
	case len(s.Enum) > 0:
		return strings.Join(s.Enum, " | ")
	case s.Items != nil:
		return "array of " + s.Items.words()
	case kinds != nil:
		all := make([]string, len(kinds))
		for i, kind := range kinds {
			one := s
			one.Type = kind
			all[i] = one.words()
		}
		return strings.Join(all, " or ")
	case s.Format == "date-time" && s.Type == "string":
		return "time"
	case s.Type == nil:
		return "any JSON"
	}
	kind, _ := s.Type.(string)
	return kind
}
