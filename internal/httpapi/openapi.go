package httpapi

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/content"
)

// The document of the API, OpenAPI 3.1, is made from the table of routes, the
// table of operations and the types of package api, when somebody first asks.

// apiVersion is of the paths: v1.
const apiVersion = "1"

const apiDescription = "Sluice sells a scarce thing to a crowd: it answers every buyer at once, never sells a unit twice and never loses an order it promised. " +
	"Errors are problems (RFC 9457) whose code says what happened. Bodies are read strictly: unknown, repeated and differently spelled fields are errors. " +
	"Times are RFC 3339 in UTC with milliseconds; money is in minor units."

// documents are the document and its page.
type documents struct {
	once       sync.Once
	json, page *content.Answer
}

var apiDocuments documents

func (d *documents) make() *documents {
	d.once.Do(func() {
		operations := described(Routes())
		text, err := json.Marshal(openAPI(operations))
		if err != nil {
			panic(err)
		}
		d.json = content.New(content.Form{Type: jsonType[0], Cache: keepReference}, append(text, '\n'))
		d.page = content.New(content.Form{Type: "text/html; charset=utf-8", Cache: keepReference}, referencePage(operations))
	})
	return d
}

// keepReference is how long the document and its page may be kept.
const keepReference = "public, max-age=300, stale-while-revalidate=86400"

func (s *Server) openAPI(w http.ResponseWriter, r *http.Request) {
	apiDocuments.make().json.ServeHTTP(w, r)
}

// describedRoute is a route with its description.
type describedRoute struct {
	Route
	operation
	method, path string
}

// described joins the tables, in the order of the reference.
func described(routes []Route) []describedRoute {
	var all []describedRoute
	for _, r := range routes {
		method, path, found := strings.Cut(r.Pattern, " ")
		op, ok := operations[r.Pattern]
		if !found || !ok {
			continue // what matches nothing else; a test finds what is missing
		}
		all = append(all, describedRoute{Route: r, operation: op, method: method, path: strings.TrimSuffix(path, "{$}")})
	}
	slices.SortStableFunc(all, func(a, b describedRoute) int { return slices.Index(tags, a.tag) - slices.Index(tags, b.tag) })
	return all
}

func openAPI(operations []describedRoute) object {
	s := &schemas{components: object{}}
	paths := object{}
	for i := range operations {
		o := &operations[i]
		path, ok := paths[o.path].(object)
		if !ok {
			path = object{}
			paths[o.path] = path
		}
		path[strings.ToLower(o.method)] = s.operation(o)
	}
	var tagList []object
	for _, name := range tags {
		tagList = append(tagList, object{"name": name})
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "Sluice", "version": apiVersion, "description": apiDescription, "license": object{"name": "See the LICENSE of the program"}},
		"servers": []object{{"url": "/"}},
		"tags":    tagList,
		"paths":   paths,
		"components": object{
			"schemas": s.components,
			"securitySchemes": object{
				"buyer": object{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "a buyer's token, minted by the shop's login"},
				"admin": object{"type": "http", "scheme": "bearer", "description": "an admin's key; each has a role: viewer, operator or owner"},
			},
		},
	}
}

// variable finds the parameters of a path.
var variable = regexp.MustCompile(`\{([a-z]+)\}`)

// pathSchemas are the schemas of parameters of paths; others are strings.
var pathSchemas = map[string]object{
	"sale":  leaves[typed[sluice.SaleID]()],
	"order": leaves[typed[sluice.OrderID]()],
	"id":    whole,
	"list":  {"type": "string", "enum": []string{"allow", "deny"}},
}

func (s *schemas) operation(o *describedRoute) object {
	made := object{
		"operationId": operationID(o.method, o.path), "summary": o.summary, "tags": []string{o.tag}, "responses": s.responses(o),
		"x-access": o.Access,
	}
	if o.more != "" {
		made["description"] = o.more
	}
	switch o.Access {
	case Anyone:
		made["security"] = []object{}
	case Buyers:
		made["security"] = []object{{"buyer": []string{}}}
	case Viewers, Operators, Owners:
		made["security"] = []object{{"admin": []string{}}}
		made["description"] = strings.TrimSpace(o.more + " For admins with the role " + string(o.Access) + ", or a stronger one.")
	}
	var parameters []object
	for _, name := range variable.FindAllStringSubmatch(o.path, -1) {
		schema := pathSchemas[name[1]]
		if schema == nil {
			schema = text
		}
		parameters = append(parameters, object{"name": name[1], "in": "path", "required": true, "schema": schema})
	}
	for where, list := range map[string][]parameter{"query": o.query, "header": o.header} {
		for _, p := range list {
			parameters = append(parameters, object{"name": p.name, "in": where, "required": p.required, "description": p.what, "schema": p.schema})
		}
	}
	if o.cached {
		parameters = append(parameters, object{"name": "If-None-Match", "in": "header", "required": false, "description": "the ETag of what the reader has", "schema": text})
	}
	slices.SortStableFunc(parameters, func(a, b object) int { return strings.Compare(b["in"].(string), a["in"].(string)) }) // the order of the map is none
	if parameters != nil {
		made["parameters"] = parameters
	}
	switch {
	case o.request != nil:
		media := object{"schema": s.request(o.request, o.required)}
		if o.example != "" {
			media["example"] = json.RawMessage(o.example)
		}
		made["requestBody"] = object{"required": !o.optionalBody, "content": object{"application/json": media}}
	case o.bodyMedia != nil:
		content := object{}
		for _, media := range o.bodyMedia {
			content[media] = object{"schema": text}
		}
		made["requestBody"] = object{"required": true, "content": content}
	}
	return made
}

// responses are that of success and, by status, the problems.
func (s *schemas) responses(o *describedRoute) object {
	success := object{"description": "OK"}
	media := object{}
	switch {
	case o.response != nil:
		media["schema"] = s.of(o.response)
		if o.answer != "" {
			media["example"] = json.RawMessage(o.answer)
		}
		success["content"] = object{"application/json": media}
	default:
		media["schema"] = text
		if o.media == jsonType[0] {
			media["schema"] = object{"type": "object"}
		}
		if o.answer != "" {
			media["example"] = o.answer
		}
		success["content"] = object{o.media: media}
	}
	headers := object{}
	if o.cached {
		headers["ETag"] = object{"description": "of exactly these bytes", "schema": text}
		headers["Cache-Control"] = object{"schema": text}
	}
	for _, h := range o.header {
		if h.name == "Idempotency-Key" {
			headers["Idempotent-Replayed"] = object{"description": "true if this key was accepted before: the body is the same", "schema": text}
			headers["Location"] = object{"description": "of the order", "schema": text}
		}
	}
	if o.changes() && o.Access != Buyers {
		headers["X-Request-Id"] = object{"description": "by which GET /v1/admin/actions lists the request", "schema": text}
	}
	if len(headers) > 0 {
		success["headers"] = headers
	}
	all := object{strconv.Itoa(o.success()): success}
	if o.cached {
		all["304"] = object{"description": "the reader has it already"}
	}
	byStatus := map[int][]string{}
	for _, code := range o.problems() {
		byStatus[statuses[code]] = append(byStatus[statuses[code]], code)
	}
	for status, codes := range byStatus {
		all[strconv.Itoa(status)] = s.problems(status, codes)
	}
	for _, status := range o.pages {
		all[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": object{o.media: object{"schema": text}}}
	}
	return all
}

func (o *describedRoute) success() int {
	if o.status == 0 {
		return http.StatusOK
	}
	return o.status
}

// changes reports whether a route may change something: then it reads a body.
func (o *describedRoute) changes() bool { return o.method != http.MethodGet }

// problems are the codes that a route may answer: its own, and those of every
// route of its kind.
func (o *describedRoute) problems() []string {
	codes := slices.Clone(o.codes)
	add := func(more ...string) {
		for _, code := range more {
			if !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
		}
	}
	if o.Access != Anyone {
		add(api.CodeUnauthenticated, api.CodeForbidden)
	}
	if o.changes() || len(o.query) > 0 { // strict in what they read, also where they want no body
		add(api.CodeBadRequest)
	}
	if o.changes() {
		add(api.CodeTooLarge)
	}
	if o.Access == Buyers { // the key of the token may not be known yet
		add(sluice.Unavailable.String())
	}
	slices.Sort(codes)
	return codes
}

func (s *schemas) problems(status int, codes []string) object {
	examples := object{}
	titles := make([]string, len(codes))
	for i, code := range codes {
		p := api.Problem{Title: api.Title(code), Status: status, Code: code}
		examples[code] = object{"value": p}
		titles[i] = code + ": " + p.Title
	}
	made := object{
		"description": strings.Join(titles, "; "),
		"content":     object{problemType[0]: object{"schema": s.of(typed[api.Problem]()), "examples": examples}},
	}
	headers, waiting := object{}, 0
	for _, code := range codes {
		if _, waits := retryAfter[code]; waits || code == api.CodeOrderQueued {
			waiting++
		}
	}
	if waiting > 0 { // always there if every code of this status has it
		headers["Retry-After"] = object{"description": "seconds to wait", "required": waiting == len(codes), "schema": object{"type": "integer", "minimum": 1}}
	}
	if status == http.StatusUnauthorized {
		headers["WWW-Authenticate"] = object{"description": "Bearer", "required": true, "schema": text}
	}
	if len(headers) > 0 {
		made["headers"] = headers
	}
	return made
}

// operationID names an operation: get-v1-sales-sale.
func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '{' || c == '}' || c == '.' })
	return strings.Join(append([]string{strings.ToLower(method)}, words...), "-")
}
