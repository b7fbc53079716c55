package referee

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// small is an adapter without a process.
const small = `{
  "name": "shop",
  "set": {"place": "http://127.0.0.1:1"},
  "processes": [{"name": "server", "start": ["./server"]}],
  "buy": {"url": "{place}/buy?buyer={buyer}&key={key}&token={token}"},
  "answers": [
    {"status": 200, "field": "data.code", "is": "0", "means": "promise", "order": "data.order"},
    {"status": 200, "contains": "SOLD OUT", "means": "sold_out"},
    {"status": 403, "field": "reason", "means": "refused"}
  ],
  "orders": {"url": "{place}/orders?from={cursor}", "list": "page.orders", "id": "id", "buyer": "who.name", "next": "next"},
  "faults": [{"name": "server", "times": 2}]
}`

// A mistake in a file is found before anything starts: where it is, and what
// would be right.
func TestWrongAdapters(t *testing.T) {
	must.Get(parseAdapter([]byte(small), map[string]string{"place": "http://127.0.0.1:2"}))(t)
	for _, c := range []struct{ old, with, want string }{
		{`"name": "shop",`, `"name": "shop"`, `line 3: not JSON: invalid character '"' after object key:value pair`},
		{`"name": "shop"`, `"title": "shop"`, `title: there is no such field; there are: about, answers, build, buy, crowd,`},
		{`"start"`, `"begin"`, `processes[0].begin: there is no such field; there are: env, name, ready, start`},
		{`{"url": "{place}/buy`, `{"verb": "PUT", "url": "{place}/buy`, `buy.verb: there is no such field; there are: body, headers, method, url`},
		{small, `[]`, `the file: want an object in {}, not []`},
		{`"status": 403`, `"status": "403"`, `answers[2].status: want a whole number, not "403"`},
		{`"status": 403`, `"status": 4.03`, `answers[2].status: want a whole number, not 4.03`},
		{`"status": 403`, `"status": 40`, `answers[2].status: 40: want 100 to 599`},
		{`["./server"]`, `"./server"`, `processes[0].start: want a list in [], not "./server"`},
		{`["./server"]`, `["./server", 8080]`, `processes[0].start[1]: want a text in quotes, not 8080`},
		{`["./server"]`, `["./server"], "env": {"PORT": 8080}`, `processes[0].env.PORT: want a text in quotes, not 8080`},
		{`["./server"]`, `["./server"], "ready": {"tcp": "a:1", "url": "http://a"}`, `processes[0].ready: want url or tcp, not both`},
		{`["./server"]`, `["./server"], "ready": {"url": "localhost/"}`, `processes[0].ready.url: "localhost/": want http://`},
		{`["./server"]}`, `["./server"]}, {"name": "server", "start": ["a"]}`, `processes[1].name: "server": want a name of its own`},
		{`"place": "`, `"place": 1, "b": "`, `set.place: want a text in quotes, not 1`},
		{`"place": "`, `"Place": "", "place": "`, `set.Place: want a name of a-z, 0-9 and _`},
		{`"place": "`, `"dir": "/", "place": "`, `set.dir: want another name: {dir} is what the referee puts there`},
		{`{"status": 200, "field": "data.code", "is": "0", `, `{`, `answers[0]: every answer would be a promise, errors too`},
		{`from={cursor}`, `from=1`, `orders.url: want {cursor} in it`},
		{`"faults"`, `"build": [[]], "faults"`, `build: is missing: a program and its arguments`},
		{`"faults"`, `"crowd": {"lost": 1.5}, "faults"`, `crowd: lost: 1.5: want 0 to 1`},
		{`"faults"`, `"crowd": {"lost": "a"}, "faults"`, `crowd.lost: want a number, not "a"`},
		{`"faults"`, `"crowd": {"buyers": 0}, "faults"`, `crowd: buyers: 0: want 1 to 10000000`},
		{`"faults"`, `"crowd": {"connections": -1}, "faults"`, `crowd: connections: -1: want 1 to`},
		{`"name": "shop"`, `"about": "shop"`, `name: is missing: the shop's name, for the report`},
		{`"means": "sold_out"`, `"means": "soldout"`, `answers[1].means: "soldout": want unknown, promise, sold_out, refused`},
		{`"means": "promise"`, `"means": "refused"`, `answers: no rule means "promise"`},
		{`"field": "data.code", `, ``, `answers[0].field: is missing: the field that is "0"`},
		{`{buyer}`, `{buyr}`, `buy: {buyr} stands for nothing here; there are {port.NAME} and {dir}, {build}, {folder}`},
		{`"./server"`, `"./server", "{units}"`, `processes: {units} stands for nothing here`},
		{`["./server"]`, `[]`, `processes[0].start: is missing: a program and its arguments`},
		{`"buyer": "who.name", `, ``, `orders.buyer: is missing`},
		{`{"name": "server", "times": 2}`, `{"name": "redis"}`, `faults[0].name: "redis" is no process (there are: server)`},
		{`"times": 2`, `"how": "stop"`, `faults[0].how: "stop": want kill or freeze`},
		{`"times": 2`, `"times": -2`, `faults[0].times: -2: want 1 to 1000`},
		{`"faults"`, `"tokens": {}, "faults"`, `tokens: want hs256, the secret, or command`},
		{`"faults"`, `"reset": [{"method": "PUT"}], "faults"`, `reset[0]: want url or command`},
		{`"faults"`, `"crowd": {"settle": 5}, "faults"`, `crowd.settle: 5: want a duration like "500ms" or "1m"`},
	} {
		text := strings.Replace(small, c.old, c.with, 1)
		if _, err := parseAdapter([]byte(text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.with, err, c.want)
		}
	}
	if _, err := parseAdapter([]byte(small), map[string]string{"plaice": ""}); err == nil ||
		err.Error() != `"set" has no "plaice"; it has: place` {
		t.Error(err)
	}
}

// shopOf makes the shop of a file, with its place at the URL.
func shopOf(t *testing.T, text, place string) *Shop {
	t.Helper()
	a := must.Get(parseAdapter([]byte(text), map[string]string{"place": place}))(t)
	a.Folder = t.TempDir()
	s := must.Get(a.Shop(t.TempDir(), 1))(t)
	return s
}

// The first rule that fits says what an answer means; what fits none is unknown.
func TestAnswers(t *testing.T) {
	a := must.Get(parseAdapter([]byte(small), nil))(t)
	for _, c := range []struct {
		status int
		body   string
		want   Answer
	}{
		{200, `{"data": {"code": 0, "order": 12345678901234567890}}`, Answer{Promise, "12345678901234567890", "200 0"}},
		{200, `{"data": {"code": "0", "order": "o1"}}`, Answer{Promise, "o1", "200 0"}},
		{200, `{"data": {"code": 1, "text": "SOLD OUT"}}`, Answer{SoldOut, "", "200"}},
		{200, `{"data": {"code": 0}}`, Answer{Promise, "", "200 0 without data.order"}},
		{200, `SOLD OUT`, Answer{SoldOut, "", "200"}},
		{200, `{"data": {"code": 1}}`, Answer{Unknown, "", `200 {"data": {"code": 1}} (no rule)`}},
		{403, `{"reason": true}`, Answer{Refused, "", "403"}},
		{403, `{"reason": null}`, Answer{Unknown, "", `403 {"reason": null} (no rule)`}},
		{500, `{"data": {"code": 0}}`, Answer{Unknown, "", `500 {"data": {"code": 0}} (no rule)`}},
		{502, "<html>\n\t<p>", Answer{Unknown, "", `502 <html> <p> (no rule)`}},
		{502, ``, Answer{Unknown, "", `502  (no rule)`}},
	} {
		if got := a.judge(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%d %s: got %+v, want %+v", c.status, c.body, got, c.want)
		}
	}
}

// Requests carry what the file says; orders are read page by page.
func TestRequests(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		switch {
		case r.URL.Path == "/buy":
			http.Redirect(w, r, "/elsewhere", http.StatusSeeOther) // is not followed
		case r.FormValue("from") == "":
			fmt.Fprint(w, `{"page": {"orders": [{"id": 1, "who": {"name": "a"}}, {"id": 2, "who": {"name": "b"}}]}, "next": 7}`)
		default:
			fmt.Fprint(w, `{"page": {"orders": [{"id": "3", "who": {"name": "a"}}]}, "next": null}`)
		}
	}))
	defer server.Close()
	s := shopOf(t, small, server.URL)
	s.tokens = map[string]string{"a": "A"}
	if answer, err := s.Buy(t.Context(), "a", "k"); err != nil || answer.Kind != Unknown {
		t.Errorf("%+v, %v", answer, err)
	}
	orders, err := s.Orders(t.Context())
	if err != nil || fmt.Sprint(orders) != "[{1 a} {2 b} {3 a}]" {
		t.Errorf("%v, %v", orders, err)
	}
	server.Close()
	close(asked)
	var got []string
	for url := range asked {
		got = append(got, url)
	}
	if want := []string{"/buy?buyer=a&key=k&token=A", "/orders?from=", "/orders?from=7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := s.Buy(t.Context(), "a", "k"); err == nil || err.Error() != "connection refused" {
		t.Error(err)
	}
	if _, err := s.Orders(t.Context()); err == nil {
		t.Error("orders of a shop that is away")
	}
}

// A list that cannot be read is an error, and never a shop without orders.
func TestUnreadableLists(t *testing.T) {
	for answer, want := range map[string]string{
		`{"page": {"orders": null}}`:            "",
		`{"page": {"orders": []}}`:              "",
		`{"page": {"order": []}}`:               `orders.list: the answer has no "page.orders": {"page"`,
		`{"page": {"orders": {}}}`:              `orders.list: "page.orders" is no list: {"page"`,
		`<html>Please log in</html>`:            `orders.url: the answer is not JSON`,
		`{"page": {"orders": [{"i`:              `orders.url: the answer is not JSON`,
		`{"page": {"orders": [{}]}}`:            `orders.id: an order has no "id"`,
		`{"page":{"orders":[{"id":1}]}}`:        `orders.buyer: an order has no "who.name"`,
		`{"page": {"orders": []}, "next": "1"}`: "", // the last page of some has no list
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("from") == "1" {
				answer = "{}"
			}
			fmt.Fprint(w, answer)
		}))
		orders, err := shopOf(t, small, server.URL).Orders(t.Context())
		server.Close()
		said := fmt.Sprint(err)
		if want == "" && (err != nil || len(orders) > 0) || want != "" && !strings.Contains(said, want) {
			t.Errorf("%s: got %v, %v, want %s", answer, orders, err, want)
		}
	}
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	if _, err := shopOf(t, small, endless.URL).Buy(t.Context(), "a", "k"); err == nil ||
		err.Error() != "an answer of more than 1048576 bytes" {
		t.Error(err)
	}
}

// Orders and tokens may come from commands.
func TestCommands(t *testing.T) {
	listing := small[strings.Index(small, `"url": "{place}/orders`):strings.Index(small, `},
  "faults"`)]
	text := strings.Replace(small, listing,
		`"command": ["printf", "1 a\n2,b\n\n3\tc\n"]`, 1)
	text = strings.Replace(text, `"faults"`,
		`"tokens": {"command": ["sed", "s/^/token-of-/"]}, "crowd": {"buyers": 3}, "faults"`, 1)
	s := shopOf(t, text, "")
	if orders, err := s.Orders(t.Context()); err != nil || fmt.Sprint(orders) != "[{1 a} {2 b} {3 c}]" {
		t.Errorf("%v, %v", orders, err)
	}
	err := s.getTokens(t.Context())
	if err != nil || len(s.tokens) != 3 || s.tokens[buyerName(2)] != "token-of-buyer-000002" {
		t.Errorf("%v, %v", s.tokens, err)
	}
	_, err = ordersOfLines([]byte("1 a\n2\n"))
	if err == nil || err.Error() != `orders.command: line 2: want "ID BUYER": "2"` {
		t.Error(err)
	}
	if _, err := s.run(t.Context(), []string{"sh", "-c", "echo why >&2; exit 3"}, nil); err == nil ||
		!strings.Contains(err.Error(), "exit status 3: why") {
		t.Error(err)
	}
	if _, err := s.run(t.Context(), []string{"sh", "-c", "sleep 5 &"}, nil); err == nil ||
		!strings.Contains(err.Error(), "it left a program that writes to its output") {
		t.Error(err)
	}
	// One that is stopped ends with its children.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { _, err := s.run(ctx, []string{"sh", "-c", parentAndChild}, nil); ended <- err }()
	child := awaitChild(t, s.a.Folder)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	awaitEnd(t, child)
}

// parentAndChild is a program that notes the child that it starts.
const parentAndChild = `sleep 1000 & echo $! >child; wait`

func awaitChild(t *testing.T, dir string) (pid string) {
	t.Helper()
	await(t, "the start of the child", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "child"))
		pid = strings.TrimSpace(string(text))
		return strings.HasSuffix(string(text), "\n")
	})
	return pid
}

func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	await(t, "the end of the child", func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // an orphan may wait for its new parent
	})
}

// A process that ends by itself is started again, and one that is killed ends with
// its children and stays away until it is started.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	p := &process{
		name: "server", folder: dir, log: filepath.Join(dir, "log"), env: os.Environ(),
		line: []string{"sh", "-c", `test -e once || { touch once; echo crashed; exit 3; }; ` + parentAndChild},
	}
	must.Succeed(t, p.start(t.Context()))
	defer p.kill()
	child := awaitChild(t, dir)
	p.mu.Lock()
	was := p.cmd
	p.mu.Unlock()
	must.Succeed(t, p.kill())
	p.again(was)
	if p.crashes != 1 || !strings.Contains(p.tail(), "crashed") {
		t.Errorf("%d crashes%s", p.crashes, p.tail())
	}
	awaitEnd(t, child)
	if p.cmd != nil {
		t.Error("it runs again")
	}
	// One that cannot start says why.
	bad := &process{
		name: "bad", folder: dir, log: filepath.Join(dir, "bad"),
		line: []string{"sh", "-c", "echo no config; exit 1"}, tcp: "127.0.0.1:1",
	}
	defer bad.kill()
	if err := bad.start(t.Context()); err == nil || !strings.Contains(err.Error(), "no config") {
		t.Error(err)
	}
	if bad.mu.Lock(); bad.crashes > 50 {
		t.Errorf("it was started %d times", bad.crashes)
	}
	bad.mu.Unlock()
}

// What a referee has started ends with it, however it ends: its end of a pipe closes.
func TestWatchdog(t *testing.T) {
	dir := t.TempDir()
	p := &process{
		name: "server", folder: dir, log: filepath.Join(dir, "log"), env: os.Environ(),
		line: []string{"sh", "-c", parentAndChild},
	}
	must.Succeed(t, p.start(t.Context()))
	defer p.kill()
	child := awaitChild(t, dir)
	p.mu.Lock()
	p.leash.Close()
	p.mu.Unlock()
	awaitEnd(t, child)
}

// Another program at a process's place would be asked, and judged.
func TestAnotherProgramIsThere(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	dir := t.TempDir()
	p := &process{
		name: "server", folder: dir, log: filepath.Join(dir, "log"), line: []string{"sleep", "1000"}, tcp: l.Addr().String(),
	}
	defer p.kill()
	if err := p.start(t.Context()); err == nil || !strings.Contains(err.Error(), "answers before it is started") {
		t.Error(err)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if !sleep(ctx, 10*time.Millisecond) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// The document's adapter is right, and the document explains every field.
func TestDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/referee.md"))(t)
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := parseAdapter([]byte(example), nil); err != nil {
		t.Error(err)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[Adapter](), reflect.TypeFor[Ready](), reflect.TypeFor[Request](), reflect.TypeFor[Tokens](),
		reflect.TypeFor[Rule](), reflect.TypeFor[Listing](), reflect.TypeFor[Habits](), reflect.TypeFor[PlanFault](),
	} {
		for _, f := range reflect.VisibleFields(of) {
			name := f.Tag.Get("json")
			if name != "" && !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), `"`+name+`"`) {
				t.Errorf("docs/referee.md does not explain %s of %s", name, of.Name())
			}
		}
	}
}
