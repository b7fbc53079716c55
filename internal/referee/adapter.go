package referee

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Adapter says how a shop is started, asked and read. It is a file in JSON;
// docs/referee.md explains its fields. Texts may hold {names}, which are replaced.
type Adapter struct {
	Name   string            `json:"name"`
	About  string            `json:"about"`
	Folder string            `json:"folder"` // of all commands; relative to that of the file
	Set    map[string]string `json:"set"`    // names of the file's own

	Build     [][]string  `json:"build"`     // commands, run once
	Processes []Process   `json:"processes"` // started in this order
	End       [][]string  `json:"end"`       // commands, run at the end
	Reset     []Step      `json:"reset"`
	Tokens    *Tokens     `json:"tokens"`
	Buy       *Request    `json:"buy"`
	Answers   []Rule      `json:"answers"`
	Orders    *Listing    `json:"orders"`
	Crowd     Habits      `json:"crowd"`
	Faults    []PlanFault `json:"faults"`

	build string // folder of what Build makes
}

// Process is a program of the shop.
type Process struct {
	Name  string            `json:"name"`
	Start []string          `json:"start"`
	Env   map[string]string `json:"env"`
	Ready Ready             `json:"ready"`
}

// Ready is how one sees that a process can be asked. One of its fields is set.
type Ready struct {
	URL string `json:"url"` // answers 2xx
	TCP string `json:"tcp"` // accepts connections
}

// Request is one of HTTP.
type Request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// Step is a request that must be answered with 2xx, or a command that must
// succeed.
type Step struct {
	Request
	Command []string `json:"command"`
}

// Tokens says where the buyers' tokens come from. One of its fields is set.
type Tokens struct {
	HS256   string   `json:"hs256"`   // secret of JWTs with sub, iat and exp
	Command []string `json:"command"` // reads a buyer a line, and prints a token a line
}

// Rule says what an answer means. The first that fits decides; an answer that fits
// none is unknown.
type Rule struct {
	Status   int    `json:"status"`   // 0: any
	Field    string `json:"field"`    // of the JSON, with dots: "data.code"
	Is       string `json:"is"`       // its value; as text, if it is another kind of value
	Contains string `json:"contains"` // text somewhere in the body
	Means    string `json:"means"`
	Order    string `json:"order"` // field of the order's id

	kind Kind
}

// Listing says how orders are listed.
type Listing struct {
	Request
	List  string `json:"list"`  // field that holds the list; empty: the answer is it
	ID    string `json:"id"`    // field of an order
	Buyer string `json:"buyer"` // the same
	Next  string `json:"next"`  // field of the next page's cursor; empty or null: the last page

	Command []string `json:"command"` // or: prints a line "ID BUYER" for each order
}

// Habits are the crowd's, as Trial has them.
type Habits struct {
	Buyers      int      `json:"buyers"`
	Units       int      `json:"units"`
	Connections int      `json:"connections"`
	Lost        float64  `json:"lost"`
	Reload      float64  `json:"reload"`
	Again       float64  `json:"again"`
	Timeout     Duration `json:"timeout"`
	RetryFor    Duration `json:"retry_for"`
	Settle      Duration `json:"settle"`
	Quiet       Duration `json:"quiet"`
	Down        Duration `json:"down"`
}

// PlanFault is what is broken, and how often: a process by its name, or anything
// by commands.
type PlanFault struct {
	Name  string     `json:"name"`
	Times int        `json:"times"` // default 1
	How   string     `json:"how"`   // of a process: "kill" (SIGKILL and a new start) or "freeze" (SIGSTOP, SIGCONT)
	Break [][]string `json:"break"`
	Mend  [][]string `json:"mend"`
}

// Duration is written as Go does: "1.5s", "200ms".
type Duration time.Duration

func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	if err == nil {
		var parsed time.Duration
		if parsed, err = time.ParseDuration(s); err == nil && parsed >= 0 {
			*d = Duration(parsed)
			return nil
		}
	}
	return fmt.Errorf(`%s: want a duration like "500ms" or "1m"`, text)
}

// ReadAdapter reads and checks a file. set replaces values of its "set".
func ReadAdapter(file string, set map[string]string) (*Adapter, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	a, err := parseAdapter(text, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !filepath.IsAbs(a.Folder) {
		a.Folder = filepath.Join(filepath.Dir(file), a.Folder)
	}
	a.Folder, err = filepath.Abs(a.Folder)
	return a, err
}

func parseAdapter(text []byte, set map[string]string) (*Adapter, error) {
	var tree any
	var wrong *json.SyntaxError
	if err := json.Unmarshal(text, &tree); errors.As(err, &wrong) {
		return nil, fmt.Errorf("line %d: not JSON: %w", 1+bytes.Count(text[:wrong.Offset], []byte("\n")), err)
	}
	if err := knownFields("", tree, reflect.TypeFor[Adapter]()); err != nil {
		return nil, err
	}
	a := &Adapter{Crowd: Habits{
		Buyers: 5000, Units: 200, Connections: 64, Lost: 0.05, Reload: 0.05, Down: Duration(500 * time.Millisecond),
	}}
	if err := json.Unmarshal(text, a); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("%s: want %s, not a %s", kind.Field, inWords(kind.Type), kind.Value)
		}
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := a.Set[name]; !ok {
			return nil, fmt.Errorf(`"set" has no %q; it has: %s`, name, strings.Join(slices.Sorted(maps.Keys(a.Set)), ", "))
		}
		a.Set[name] = set[name]
	}
	return a, a.check()
}

// knownFields finds a field that the type does not have, with its place.
func knownFields(at string, tree any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch tree := tree.(type) {
	case []any:
		for i, item := range tree {
			if t.Kind() != reflect.Slice {
				break
			}
			if err := knownFields(fmt.Sprintf("%s[%d]", at, i), item, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			break
		}
		known := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			if name := f.Tag.Get("json"); name != "" {
				known[name] = f.Type
			}
		}
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			field, ok := known[name]
			place := strings.TrimPrefix(at+"."+name, ".")
			if !ok {
				return fmt.Errorf("%s: there is no such field; there are: %s", place,
					strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
			if err := knownFields(place, tree[name], field); err != nil {
				return err
			}
		}
	}
	return nil
}

func inWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// check says what is missing or cannot be right.
func (a *Adapter) check() error {
	want := func(at, value, what string) error {
		if value == "" {
			return fmt.Errorf("%s: is missing: %s", at, what)
		}
		return nil
	}
	all := []error{want("name", a.Name, "the shop's name, for the report")}
	for i, p := range a.Processes {
		at := fmt.Sprintf("processes[%d]", i)
		all = append(all, want(at+".name", p.Name, `for instance "server"`), command(at+".start", p.Start))
	}
	if a.Buy == nil {
		all = append(all, errors.New("buy: is missing: the request that asks for one unit"))
	} else {
		all = append(all, want("buy.url", a.Buy.URL, "for instance http://127.0.0.1:{port.http}/buy"))
	}
	promises := false
	for i := range a.Answers {
		r := &a.Answers[i]
		kind := slices.Index(kindNames, r.Means)
		if kind < 0 {
			all = append(all, fmt.Errorf("answers[%d].means: %q: want %s", i, r.Means, strings.Join(kindNames, ", ")))
		}
		if r.Is != "" && r.Field == "" {
			all = append(all, fmt.Errorf(`answers[%d].field: is missing: the field that is %q`, i, r.Is))
		}
		r.kind = Kind(max(kind, 0))
		promises = promises || r.kind == Promise
	}
	if !promises {
		all = append(all, errors.New(`answers: no rule means "promise"`))
	}
	switch o := a.Orders; {
	case o == nil || (o.URL == "") == (o.Command == nil):
		all = append(all, errors.New("orders: want url, with list, id and buyer, or command"))
	case o.URL != "":
		all = append(all, want("orders.buyer", o.Buyer, "the field of an order that is the buyer's name"))
	}
	if t := a.Tokens; t != nil && (t.HS256 == "") == (t.Command == nil) {
		all = append(all, errors.New("tokens: want hs256, the secret, or command"))
	}
	for i, s := range a.Reset {
		if (s.URL == "") == (s.Command == nil) {
			all = append(all, fmt.Errorf("reset[%d]: want url or command", i))
		}
	}
	for i := range a.Faults {
		all = append(all, a.checkFault(fmt.Sprintf("faults[%d]", i), &a.Faults[i]))
	}
	all = append(all, a.checkNames())
	return errors.Join(all...)
}

func command(at string, line []string) error {
	if len(line) == 0 || line[0] == "" {
		return fmt.Errorf(`%s: is missing: a program and its arguments, like ["node", "shop.js"]`, at)
	}
	return nil
}

func (a *Adapter) checkFault(at string, f *PlanFault) error {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Times < 0 || f.Times > 1000 {
		return fmt.Errorf("%s.times: %d: want 1 to 1000", at, f.Times)
	}
	if f.Break != nil {
		return nil
	}
	if f.How == "" {
		f.How = "kill"
	}
	if f.How != "kill" && f.How != "freeze" {
		return fmt.Errorf("%s.how: %q: want kill or freeze", at, f.How)
	}
	var names []string
	for _, p := range a.Processes {
		names = append(names, p.Name)
	}
	if !slices.Contains(names, f.Name) {
		return fmt.Errorf("%s.name: %q is no process (there are: %s); any other fault needs break, a list of commands",
			at, f.Name, strings.Join(names, ", "))
	}
	return nil
}

// placed finds {names}; other braces stand for themselves.
var placed = regexp.MustCompile(`\{[a-z][a-z0-9_]*(\.[a-z0-9_]+)?\}`)

// Names that are known at any time, after the reset, in buy, and in a listing.
var (
	always   = []string{"dir", "build", "folder", "sale", "seed"}
	ofSale   = []string{"units"}
	ofBuyer  = []string{"buyer", "key", "token"}
	ofCursor = []string{"cursor"}
)

// checkNames finds {names} that stand for nothing at their place.
func (a *Adapter) checkNames() error {
	var all []error
	look := func(at string, part any, more ...[]string) {
		known := append(slices.Clone(always), slices.Sorted(maps.Keys(a.Set))...)
		for _, names := range more {
			known = append(known, names...)
		}
		text, _ := json.Marshal(part)
		for _, found := range placed.FindAllString(string(text), -1) {
			name := strings.Trim(found, "{}")
			if !slices.Contains(known, name) && !strings.HasPrefix(name, "port.") {
				all = append(all, fmt.Errorf("%s: %s stands for nothing here; there are {port.NAME} and {%s}",
					at, found, strings.Join(known, "}, {")))
			}
		}
	}
	look("build", a.Build)
	look("processes", a.Processes)
	look("end", a.End)
	look("faults", a.Faults)
	look("tokens", a.Tokens)
	look("reset", a.Reset, ofSale)
	look("buy", a.Buy, ofSale, ofBuyer)
	look("orders", a.Orders, ofSale, ofCursor)
	return errors.Join(all...)
}
