package referee

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fits finds a field that the type does not have, or a value of another kind, with
// its place.
func fits(at string, tree any, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if tree == nil { // as if it were not there
		return nil
	}
	text, _ := json.Marshal(tree)
	want := func(ok bool, kind string) error {
		if ok {
			return nil
		}
		return fmt.Errorf("%s: want %s, not %.80s", cmp.Or(at, "the file"), kind, text)
	}
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[Duration]():
		if err := new(Duration).UnmarshalJSON(text); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	case kind == reflect.String:
		_, ok := tree.(string)
		return want(ok, "a text in quotes")
	case kind == reflect.Int:
		_, err := strconv.Atoi(string(text))
		return want(err == nil, "a whole number")
	case kind == reflect.Float64:
		_, ok := tree.(json.Number)
		return want(ok, "a number")
	case kind == reflect.Slice:
		list, ok := tree.([]any)
		for i, item := range list {
			if err := fits(fmt.Sprintf("%s[%d]", at, i), item, t.Elem()); err != nil {
				return err
			}
		}
		return want(ok, "a list in []")
	}
	object, ok := tree.(map[string]any)
	known := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			if name := f.Tag.Get("json"); name != "" {
				known[name] = f.Type
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		place := strings.TrimPrefix(at+"."+name, ".")
		field, ok := known[name]
		if t.Kind() == reflect.Map {
			field, ok = t.Elem(), true
		}
		if !ok {
			return fmt.Errorf("%s: there is no such field; there are: %s", place,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := fits(place, object[name], field); err != nil {
			return err
		}
	}
	return want(ok, "an object in {}")
}

// mistakes collects the mistakes of one file, each with its place.
type mistakes []error

func (m *mistakes) must(ok bool, format string, args ...any) {
	if !ok {
		*m = append(*m, fmt.Errorf(format, args...))
	}
}

func (m *mistakes) commands(at string, lines ...[]string) {
	for _, line := range lines {
		m.must(len(line) > 0 && line[0] != "", `%s: is missing: a program and its arguments, like ["node", "shop.js"]`, at)
	}
}

func (m *mistakes) url(at, url string) {
	ok := url == ""
	for _, begin := range []string{"http://", "https://", "{"} {
		ok = ok || strings.HasPrefix(url, begin)
	}
	m.must(ok, "%s: %q: want http://... or https://...", at, url)
}

// check says what is missing or cannot be right.
func (a *Adapter) check() error {
	var m mistakes
	m.must(a.Name != "", "name: is missing: the shop's name, for the report")
	for _, name := range slices.Sorted(maps.Keys(a.Set)) {
		m.must(placed.FindString("{"+name+"}") == "{"+name+"}", "set.%s: want a name of a-z, 0-9 and _", name)
		m.must(!slices.Contains(slices.Concat(always, ofSale, ofBuyer, ofCursor), name),
			"set.%s: want another name: {%s} is what the referee puts there", name, name)
	}
	m.commands("build", a.Build...)
	m.commands("end", a.End...)
	var names []string
	for i, p := range a.Processes {
		at := fmt.Sprintf("processes[%d]", i)
		m.must(p.Name != "", `%s.name: is missing: for instance "server"`, at)
		m.must(!slices.Contains(names, p.Name) && !strings.Contains(p.Name, "/"),
			`%s.name: %q: want a name of its own, without a slash`, at, p.Name)
		m.commands(at+".start", p.Start)
		m.must(p.Ready.URL == "" || p.Ready.TCP == "", "%s.ready: want url or tcp, not both", at)
		m.url(at+".ready.url", p.Ready.URL)
		names = append(names, p.Name)
	}
	for i, s := range a.Reset {
		at := fmt.Sprintf("reset[%d]", i)
		m.must((s.URL == "") != (s.Command == nil), "%s: want url or command", at)
		m.url(at+".url", s.URL)
	}
	if t := a.Tokens; t != nil {
		m.must((t.HS256 == "") != (t.Command == nil), "tokens: want hs256, the secret, or command")
	}
	if m.must(a.Buy != nil, "buy: is missing: the request that asks for one unit"); a.Buy != nil {
		m.must(a.Buy.URL != "", "buy.url: is missing: for instance http://127.0.0.1:{port.http}/buy")
		m.url("buy.url", a.Buy.URL)
	}
	a.checkAnswers(&m)
	switch o := a.Orders; {
	case o == nil || (o.URL == "") == (o.Command == nil):
		m.must(false, "orders: want url, with list, id and buyer, or command")
	case o.URL != "":
		m.url("orders.url", o.URL)
		m.must(o.Buyer != "", "orders.buyer: is missing: the field of an order that is the buyer's name")
		request, _ := json.Marshal(o.Request)
		m.must(o.Next == "" || bytes.Contains(request, []byte("{cursor}")),
			"orders.url: want {cursor} in it: orders.next is the cursor of the next page")
	}
	trial := a.Trial(0)
	if err := trial.check(); err != nil {
		m.must(false, "crowd: %w", err)
	}
	for i := range a.Faults {
		a.Faults[i].check(&m, fmt.Sprintf("faults[%d]", i), names)
	}
	a.checkNames(&m)
	return errors.Join(m...)
}

func (a *Adapter) checkAnswers(m *mistakes) {
	promises := false
	for i := range a.Answers {
		r := &a.Answers[i]
		at := fmt.Sprintf("answers[%d]", i)
		kind := slices.Index(kindNames, r.Means)
		m.must(kind >= 0, "%s.means: %q: want %s", at, r.Means, strings.Join(kindNames, ", "))
		m.must(r.Is == "" || r.Field != "", "%s.field: is missing: the field that is %q", at, r.Is)
		m.must(r.Status == 0 || r.Status >= 100 && r.Status < 600, "%s.status: %d: want 100 to 599", at, r.Status)
		r.kind = Kind(max(kind, 0))
		m.must(r.kind != Promise || r.Status > 0 || r.Field+r.Contains != "",
			"%s: every answer would be a promise, errors too: want status, field or contains", at)
		promises = promises || r.kind == Promise
	}
	m.must(promises, `answers: no rule means "promise"`)
}

// check also sets what is preset. The names are names of processes.
func (f *PlanFault) check(m *mistakes, at string, names []string) {
	f.Times = cmp.Or(f.Times, 1)
	m.must(f.Times > 0 && f.Times <= 1000, "%s.times: %d: want 1 to 1000", at, f.Times)
	m.commands(at+".break", f.Break...)
	m.commands(at+".mend", f.Mend...)
	if f.Break != nil {
		return
	}
	f.How = cmp.Or(f.How, "kill")
	m.must(f.How == "kill" || f.How == "freeze", "%s.how: %q: want kill or freeze", at, f.How)
	m.must(slices.Contains(names, f.Name),
		"%s.name: %q is no process (there are: %s); any other fault needs break, a list of commands",
		at, f.Name, strings.Join(names, ", "))
}

// placed finds {names}; other braces stand for themselves.
var placed = regexp.MustCompile(`\{[a-z][a-z0-9_]*(\.[A-Za-z0-9_]+)?\}`)

// Names that are known at any time, after the reset, in buy, and in a listing.
var (
	always   = []string{"dir", "build", "folder", "sale", "seed"}
	ofSale   = []string{"units"}
	ofBuyer  = []string{"buyer", "key", "token"}
	ofCursor = []string{"cursor"}
)

// checkNames finds {names} that stand for nothing at their place.
func (a *Adapter) checkNames(m *mistakes) {
	look := func(at string, part any, more ...[]string) {
		known := append(slices.Clone(always), slices.Sorted(maps.Keys(a.Set))...)
		for _, names := range more {
			known = append(known, names...)
		}
		text, _ := json.Marshal(part)
		for _, found := range placed.FindAllString(string(text), -1) {
			name := strings.Trim(found, "{}")
			m.must(slices.Contains(known, name) || strings.HasPrefix(name, "port."),
				"%s: %s stands for nothing here; there are {port.NAME} and {%s}", at, found, strings.Join(known, "}, {"))
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
}
