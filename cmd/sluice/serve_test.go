package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// running is a `sluice serve` of this test.
type running struct {
	url, admin  string // the lines of its ready file; admin is empty without a second
	data        string
	env         []string // with which commands speak to it
	out, stderr safeBuffer
	stop        context.CancelFunc
	code        chan int
}

// serve starts a server and waits for its ready file.
func serve(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{data: t.TempDir(), code: make(chan int, 1)}
	ready := filepath.Join(t.TempDir(), "ready")
	must.Succeed(t, os.WriteFile(ready, []byte("http://of.a.killed.server\n"), 0o600))
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	args = append([]string{"serve", "--data-dir", r.data, "--listen", "127.0.0.1:0", "--ready-file", ready}, args...)
	go func() { r.code <- run(ctx, args, nil, &r.out, &r.stderr, nil) }()
	t.Cleanup(func() { r.end(t) })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if url, err := os.ReadFile(ready); err == nil && !strings.Contains(string(url), "killed") {
			r.url, r.admin, _ = strings.Cut(strings.TrimSpace(string(url)), "\n")
			break
		}
		if len(r.code) > 0 || time.Now().After(deadline) {
			t.Fatalf("no server: %s%s", r.out.String(), r.stderr.String())
		}
	}
	r.env = []string{"SLUICE_URL=" + r.url, "SLUICE_DATA_DIR=" + r.data}
	return r
}

// end stops the server as SIGTERM does; it must not have had trouble.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	select {
	case code := <-r.code:
		if code != exitOK {
			t.Errorf("serve: exit %d: %s", code, r.stderr.String())
		}
	case <-time.After(30 * time.Second):
		t.Error("serve does not stop")
	}
}

// What a new sale has by default and cannot be undone before buyers see it is said.
func TestCreatingSaysWhatWasNotGiven(t *testing.T) {
	shop := &merchantAPI{answers: map[string]func(string) any{"POST /v1/admin/sales": always(sampleSale)}}
	env := shop.against(t)
	for flags, said := range map[string]string{
		"":                              "phone is open now (without --opens-at), and is sold in CNY (without --currency).\n",
		"--currency CNY":                "phone is open now (without --opens-at).\n",
		"--opens-at now":                "phone is sold in CNY (without --currency).\n",
		"--opens-at now --currency CNY": "",
		"--json":                        "",
	} {
		args := append([]string{"sale", "create", "--title", "T", "--price", "1", "--total", "1"}, strings.Fields(flags)...)
		if got := command(t, env, args...); got.code != exitOK || got.stderr != said {
			t.Errorf("%s: %+v", flags, got)
		}
	}
}

func TestServeSellAudit(t *testing.T) {
	s := serve(t)
	if !strings.Contains(s.out.String(), s.url+"/v1/sales") || !strings.HasPrefix(s.url, "http://127.0.0.1:") {
		t.Errorf("banner: %s", s.out.String())
	}
	if key, _ := os.ReadFile(filepath.Join(s.data, adminKeyFile)); len(key) < 32 ||
		strings.Contains(s.out.String()+s.stderr.String(), strings.TrimSpace(string(key))) {
		t.Error("the admin key is short, or printed")
	}

	sale := okJSON[api.AdminSale](t, s.env, "sale", "create", "--id", "phone", "--title", "手机 A phone", "--price",
		"99900", "--total", "20")
	if sale.ID != "phone" || sale.State != sluice.StateOpen || *sale.Available != 20 {
		t.Errorf("%+v", sale)
	}
	again := command(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "1")
	if again.code != exitFailed || !strings.Contains(again.stderr, "a sale with this id exists") {
		t.Errorf("%+v", again)
	}

	load := okJSON[struct {
		loadgen.Result
		Decisions map[string]int64 `json:"decisions"`
	}](t, s.env, "load", "--sale", "phone", "--buyers", "200", "--again", "0.5", "--connections", "16",
		"--goal-errors", "0")
	if load.Decisions["accepted"] != 20 || load.Errors != 0 || *load.Stock != 20 || load.Requests != 300 ||
		load.Audit != nil {
		t.Errorf("%+v", load)
	}
	missed := command(t, s.env, "load", "--sale", "phone", "--buyers", "5", "--goal-p99", "1ns")
	if missed.code != exitMissed || !strings.Contains(missed.stderr, "goal missed: p99 is") ||
		!strings.Contains(missed.out, "requests") {
		t.Errorf("%+v", missed)
	}
	if got := command(t, s.env, "load", "--sale", "nosuch"); got.code != exitFailed ||
		!strings.Contains(got.stderr, "sale_not_found") {
		t.Errorf("%+v", got)
	}

	waitStored(t, s, "phone", 20)
	page := okJSON[api.OrderPage](t, s.env, "order", "list", "--sale", "phone", "--limit", "3", "--all")
	if len(page.Orders) != 20 || page.NextCursor != "" {
		t.Errorf("%d orders, next %q", len(page.Orders), page.NextCursor)
	}
	first := page.Orders[0]
	if shown := okJSON[api.Order](t, s.env, "order", "show", string(first.OrderID)); shown.BuyerID != first.BuyerID ||
		shown.Status != sluice.Pending {
		t.Errorf("%+v", shown)
	}
	for _, step := range []struct {
		verb string
		want sluice.State
	}{{"pause", sluice.StatePaused}, {"resume", sluice.StateSoldOut}, {"close", sluice.StateClosed}} {
		if got := okJSON[api.AdminSale](t, s.env, "sale", step.verb, "phone"); got.State != step.want {
			t.Errorf("%s: %s", step.verb, got.State)
		}
	}
	if out := ok(t, s.env, "sale", "list"); !strings.Contains(out, "phone  closed     20     20          0") {
		t.Errorf("list:\n%s", out)
	}

	// The audit reads beside the server, and after it.
	type report struct {
		OK    bool
		Sales []json.RawMessage
	}
	if r := okJSON[report](t, s.env, "audit"); !r.OK || len(r.Sales) != 1 {
		t.Errorf("%+v", r)
	}
	if got := command(t, s.env, "audit", "--sale", "nosuch"); got.code != exitFailed {
		t.Errorf("%+v", got)
	}
	s.end(t)
	if r := okJSON[report](t, s.env, "audit", "phone"); !r.OK || len(r.Sales) != 0 {
		t.Errorf("%+v", r)
	}
	loseAnOrder(t, s.data)
	got := command(t, s.env, "audit", "--sale", "phone", "--json")
	var lost report
	if err := json.Unmarshal([]byte(got.out), &lost); err != nil || got.code != exitViolated || lost.OK {
		t.Errorf("an order is missing, and the audit says: %v %+v", err, got)
	}
}

func waitStored(t *testing.T, s *running, sale string, units int64) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		now := okJSON[api.AdminSale](t, s.env, "sale", "show", sale)
		if now.StoredTaken == units && now.Backlog == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("stored %d of %d units", now.StoredTaken, units)
		}
	}
}

// loseAnOrder deletes one behind everybody's back.
func loseAnOrder(t *testing.T, data string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(data, "store.db")))(t)
	defer db.Close()
	must.Get(db.Exec("DELETE FROM orders WHERE rowid = (SELECT min(rowid) FROM orders)"))(t)
}

func TestTokensAreTheServersOwn(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "s1", "--title", "T", "--price", "1", "--total", "none", "--max-per-buyer",
		"none")
	token := strings.TrimSpace(ok(t, s.env, "token", "--buyer", "alice"))
	req, _ := http.NewRequest("POST", s.url+"/v1/sales/s1/orders", strings.NewReader(`{"quantity":3}`))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Idempotency-Key", "key-0001")
	res := must.Get(http.DefaultClient.Do(req))(t)
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		t.Errorf("%s: %s", res.Status, body)
	}

	// A crowd with tokens from a file.
	file := filepath.Join(t.TempDir(), "tokens")
	must.Succeed(t, os.WriteFile(file, []byte(token+"\n\n"+ok(t, s.env, "token", "--buyer", "bob")), 0o600))
	promises := filepath.Join(t.TempDir(), "promises")
	load := okJSON[map[string]any](t, s.env, "load", "--sale", "s1", "--tokens", file, "--again", "0", "--promises",
		promises)
	if load["buyers"] != 2.0 || load["stock"] != nil || load["requests"] != 2.0 {
		t.Errorf("%v", load)
	}
	promised, _ := os.ReadFile(promises)
	orders := strings.Fields(string(promised))
	if len(orders) != 2 {
		t.Fatalf("promises: %s", promised)
	}
	for _, id := range orders {
		if o := okJSON[api.Order](t, s.env, "order", "show", id); string(o.OrderID) != id {
			t.Errorf("%+v", o)
		}
	}
	// Wrong tokens are tries without a decision, with the reason.
	must.Succeed(t, os.WriteFile(file, []byte("not.a.token\n"), 0o600))
	bad := okJSON[loadErrors](t, s.env, "load", "--sale", "s1", "--tokens", file)
	if bad.Errors != 1 || bad.Reasons["unauthenticated"] != 1 {
		t.Errorf("%+v", bad)
	}
}

type loadErrors struct {
	Errors  int64
	Reasons map[string]int64 `json:"error_reasons"`
}

func TestSecondServeOnTheSameFolder(t *testing.T) {
	s := serve(t)
	got := command(t, nil, "serve", "--data-dir", s.data, "--listen", "127.0.0.1:0")
	if got.code != exitFailed || got.stderr != "sluice: the data folder "+s.data+
		" is in use by another process; give this one its own --data-dir\n" {
		t.Errorf("%+v", got)
	}
	taken := command(t, nil, "serve", "--data-dir", t.TempDir(), "--listen", strings.TrimPrefix(s.url, "http://"))
	if taken.code != exitFailed || !strings.Contains(taken.stderr, "address already in use") ||
		strings.Count(taken.stderr, "\n") != 1 {
		t.Errorf("%+v", taken)
	}
}

func TestServeBeyondLoopbackWarns(t *testing.T) {
	beyond := []string{"--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"}
	s := serve(t, append(beyond, "--admin-key", "just-long-enough")...)
	if log := s.stderr.String(); !strings.Contains(log, "without TLS") || strings.Contains(log, "short") {
		t.Error(log)
	}
	for setting, want := range map[string]string{
		"SLUICE_ADMIN_KEY=q7q": "admin_key", "SLUICE_BUYER_SECRET=q7q": "buyer_secret",
		"SLUICE_TICKET_SECRET=q7q": "ticket_secret",
	} {
		refused := command(t, []string{setting}, append([]string{"serve", "--data-dir", t.TempDir()}, beyond...)...)
		if refused.code == exitOK || !strings.Contains(refused.stderr, want+" (from the settings) is short") ||
			strings.Contains(refused.stderr, "q7q") {
			t.Errorf("%s: %+v", setting, refused)
		}
		checked := command(t, []string{setting}, append([]string{"config", "check"}, beyond...)...)
		if checked.code != exitUsage || !strings.Contains(checked.stderr, want) {
			t.Errorf("config check, %s: %+v", setting, checked)
		}
		if checked := command(t, []string{setting}, "config", "check"); checked.code != exitOK {
			t.Errorf("config check on loopback, %s: %+v", setting, checked)
		}
		checked = command(t, []string{setting, "SLUICE_TRUSTED_PROXIES=127.0.0.1"}, "config", "check")
		if checked.code != exitUsage || !strings.Contains(checked.stderr, want) {
			t.Errorf("config check behind a proxy on loopback, %s: %+v", setting, checked)
		}
	}
	if log := serve(t, "--admin-key", "short").stderr.String(); !strings.Contains(log, "admin_key is short") ||
		strings.Contains(log, "admin_key=short") {
		t.Errorf("short keys on loopback: %s", log)
	}
	if !strings.HasPrefix(s.url, "http://127.0.0.1:") {
		t.Error(s.url)
	}
	if log := serve(t).stderr.String(); log != "" {
		t.Errorf("a quiet server says %s", log)
	}
}

func TestAdminListener(t *testing.T) {
	status := func(url, path string) int {
		t.Helper()
		res := must.Get(http.Get(url + path))(t)
		_ = res.Body.Close()
		return res.StatusCode
	}
	s := serve(t, "--admin-listen", "127.0.0.1:0", "--admin-key", "an-admin-key-of-this-test")
	for path, want := range map[string][2]int{ // on the public listener, and on the other
		"/healthz": {200, 200}, "/readyz": {200, 200}, "/openapi.json": {200, 200}, "/v1/sales": {200, 404}, "/": {200, 404},
		"/v1/orders": {401, 404},
		"/metrics":   {404, 200}, "/v1/admin/sales": {404, 401}, "/v1/admin/orders/x/pay": {404, 405},
		"/no/such/path": {404, 404},
	} {
		if s.admin == "" || s.admin == s.url {
			t.Fatalf("ready file: %q, %q", s.url, s.admin)
		}
		if got := [2]int{status(s.url, path), status(s.admin, path)}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if !strings.Contains(s.out.String(), s.admin+"/metrics") {
		t.Errorf("banner: %s", s.out.String())
	}

	key := "SLUICE_ADMIN_KEY=an-admin-key-of-this-test"
	elsewhere := command(t, []string{"SLUICE_URL=" + s.url, key}, "sale", "list")
	if elsewhere.code != exitFailed || !strings.Contains(elsewhere.stderr, "SLUICE_ADMIN_URL") {
		t.Errorf("the wrong listener: %+v", elsewhere)
	}
	ok(t, []string{"SLUICE_URL=" + s.url, "SLUICE_ADMIN_URL=" + s.admin, key}, "sale", "create", "--id", "phone",
		"--title", "T", "--price", "1", "--total", "1")
	ok(t, []string{"SLUICE_ADMIN_URL=" + s.url, key}, "sale", "show", "phone", "--url", s.admin) // what was typed last
	ok(t, []string{"SLUICE_URL=" + s.url, key}, "sale", "check", "phone", "--admin-url", s.admin)

	if one := serve(t); one.admin != "" {
		t.Errorf("one listener on loopback has a second line %q in the ready file", one.admin)
	}
	busy := command(t, nil, "serve", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen",
		strings.TrimPrefix(s.admin, "http://"))
	if busy.code != exitFailed || !strings.Contains(busy.stderr, "address already in use") ||
		!strings.Contains(busy.stderr, "--admin-listen") {
		t.Errorf("a busy address: %+v", busy)
	}
}

func TestServeTLS(t *testing.T) {
	cert, key := selfSigned(t)
	s := serve(t, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatal(s.url)
	}
	res := must.Get(trusting(t, cert).Get(s.url + "/readyz"))(t)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	// Our own client does not trust it, and says so in a sentence.
	got := command(t, s.env, "sale", "list")
	if got.code != exitFailed || !strings.Contains(got.stderr, "certificate") {
		t.Errorf("%+v", got)
	}
	swapped := command(t, nil, "serve", "--data-dir", t.TempDir(), "--tls-cert", key, "--tls-key", cert)
	if swapped.code != exitUsage || !strings.Contains(swapped.stderr, "tls_cert") {
		t.Errorf("%+v", swapped)
	}
}

// The trial certificate of docs/deploy.md, made as it stands there, is one that curl and load believe when told.
func TestTrialCertificate(t *testing.T) {
	servertest.Program(t, "openssl", "openssl")
	folder := t.TempDir()
	var commands []string
	for _, name := range []string{"deploy.md", "deploy.zh-CN.md"} {
		text := string(must.Get(os.ReadFile("../../docs/" + name))(t))
		made := regexp.MustCompile(`openssl req (?:.*\\\n)+.*`).FindString(text)
		if commands = append(commands, made); made == "" || made != commands[0] {
			t.Fatalf("%s makes a certificate by %q", name, made)
		}
	}
	must.Succeed(t, os.Mkdir(filepath.Join(folder, "tls"), 0o700))
	openssl := exec.CommandContext(t.Context(), "sh", "-ec", commands[0])
	openssl.Dir = folder
	if out, err := openssl.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	cert, key := filepath.Join(folder, "tls", "cert.pem"), filepath.Join(folder, "tls", "key.pem")
	s := serve(t, "--tls-cert", cert, "--tls-key", key)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		s.env[0] = "SLUICE_URL=" + strings.Replace(s.url, "127.0.0.1", host, 1)
		adminKey := strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(s.data, "admin.key")))(t)))
		c := must.Get(client.New(s.url, client.Options{AdminKey: adminKey, HTTPClient: trusting(t, cert)}))(t)
		if _, err := c.CreateSale(t.Context(), api.CreateSale{
			ID: api.Some(sluice.SaleID("to-" + host[:1])), SKU: "S", Title: "T", Total: api.Value[int64](2),
			Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}), MaxPerBuyer: api.Value[int64](1),
			OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
		}); err != nil {
			t.Fatal(err)
		}
		load := []string{"load", "to-" + host[:1], "--buyers", "5", "--connections", "2", "--goal-errors", "0"}
		if got := command(t, s.env, load...); got.code != exitFailed || !strings.Contains(got.stderr, "certificate") {
			t.Errorf("without --ca: %+v", got)
		}
		if r := okJSON[loadgen.Result](t, s.env, append(load, "--ca", cert)...); r.Decisions[sluice.Accepted] != 2 {
			t.Errorf("with --ca: %+v", r)
		}
	}
	for path, want := range map[string]string{folder + "/none": "no such file", key: "there is no certificate"} {
		got := command(t, s.env, "load", "x", "--ca", path)
		if got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// The key that a server keeps in a folder here is not sent to a server elsewhere.
func TestKeptKeyStaysOnThisMachine(t *testing.T) {
	data := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(data, adminKeyFile), []byte("kept-admin-key\n"), 0o600))
	got := command(t, nil, "sale", "list", "--data-dir", data, "--url", "http://192.0.2.1:1")
	if got.code != exitUsage || !strings.Contains(got.stderr, "no admin key") {
		t.Errorf("%+v", got)
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "localhost": true, "::1": true, "127.9.9.9": true,
		"10.0.0.1": false, "": false, "example.com": false,
	} {
		if config.IsLoopback(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

// Nothing but the usual files in the usual places: paths relative to the
// folder one stands in.
func TestRelativeFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	var out safeBuffer
	go func() {
		done <- run(ctx, []string{"serve", "--listen", l.Addr().String()}, nil, &out, &out, nil)
	}()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(out.String(),
		"Ctrl-C"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(out.String())
		}
	}
	env := []string{"SLUICE_URL=http://" + l.Addr().String()}
	ok(t, env, "sale", "create", "--title", "T", "--price", "1", "--total", "1", "--opens-at", "+1h")
	ok(t, nil, "audit")
	stop()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d: %s", code, out.String())
	}
}

type demoResult struct {
	loadgen.Result
	Decisions map[string]int64 `json:"decisions"`
}

func TestDemo(t *testing.T) {
	for name, tc := range map[string]struct {
		args     []string
		accepted int64
	}{
		"more buyers than stock": {[]string{"--buyers", "3000", "--stock", "100"}, 100},
		"no stock":               {[]string{"--buyers", "500", "--stock", "0"}, 0},
		"more stock than buyers": {[]string{"--buyers", "500", "--stock", "1000", "--again", "1"}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			checkDemo(t, okJSON[demoResult](t, nil, append([]string{"demo", "--seed", "7"}, tc.args...)...), tc.accepted)
		})
	}
	t.Run("for people", func(t *testing.T) {
		got := command(t, nil, "demo", "--buyers", "300", "--stock", "10")
		if got.code != exitOK || !strings.Contains(got.out, "Nothing was sold twice") ||
			!strings.Contains(got.stderr, "answers  315 of 315") {
			t.Errorf("%+v", got)
		}
	})
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "sluice-demo-*"))
	if len(left) > 0 && os.Getenv("TMPDIR") != "" {
		t.Errorf("left behind: %v", left)
	}
}

func checkDemo(t *testing.T, r demoResult, accepted int64) {
	t.Helper()
	if r.Decisions["accepted"] != accepted || *r.OrdersStored != accepted || *r.DistinctBuyers != accepted ||
		r.Errors != 0 || !r.Audit.OK || r.Seed != 7 {
		t.Errorf("%+v", r)
	}
	ids := map[string]bool{}
	for _, c := range r.Audit.Checks {
		ids[c.ID] = true
	}
	for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
		if !ids[id] {
			t.Errorf("%s was not checked", id)
		}
	}
}

func TestDemoOnRedisAndPostgres(t *testing.T) {
	redis, postgres := servertest.Redis(t), servertest.Postgres(t)
	r := okJSON[demoResult](t, nil, "demo", "--seed", "7", "--buyers", "2000", "--stock", "50", "--ledger", redis,
		"--store", postgres)
	checkDemo(t, r, 50)
	if !strings.HasPrefix(r.Ledger, "redis://") || !strings.HasPrefix(r.Store, "postgres") {
		t.Errorf("%s %s", r.Ledger, r.Store)
	}
}

func TestDemoKeep(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, stderr safeBuffer
	stdin, typed := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"demo", "--keep", "--buyers", "50", "--stock", "5"}, stdin, &out, &stderr, nil)
	}()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(stderr.String(),
		"Ctrl-C stops it"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) || len(done) > 0 {
			t.Fatal(out.String(), stderr.String())
		}
	}
	get := func(url string) *http.Response {
		res := must.Get(http.Get(url))(t)
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", url, res.Status)
		}
		return res
	}
	// The crowd's sale is sold out, and others wait for the person.
	states := map[string]sluice.State{
		"demo-": sluice.StateSoldOut, "lamp-": sluice.StateUpcoming, "teapot-": sluice.StateOpen,
		"sneaker-": sluice.StateUpcoming,
	}
	pages, sold := 0, ""
	for _, word := range strings.Fields(stderr.String()) {
		if !strings.HasPrefix(word, "http://") {
			continue
		}
		get(word)
		pages++
		server, id, found := strings.Cut(word, "/s/")
		if !found {
			continue
		}
		var sale api.Sale
		err := json.NewDecoder(get(server + "/v1/sales/" + id).Body).Decode(&sale)
		prefix := id[:strings.Index(id, "-")+1]
		if err != nil || sale.State != states[prefix] || len(sale.Pictures.Names()) != 1 || sale.Titles.ZH == "" {
			t.Errorf("%s: %v %+v", id, err, sale)
		}
		if delete(states, prefix); prefix == "demo-" {
			sold = server + "/v1/sales/" + id
		}
	}
	if len(states) > 0 || pages != 9 {
		t.Errorf("%d addresses, and not of %v:\n%s", pages, states, stderr.String())
	}
	// Enter sends another crowd, for as many units as there were.
	must.Get(typed.Write([]byte("\n")))(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var sale api.Sale
		must.Succeed(t, json.NewDecoder(get(sold).Body).Decode(&sale))
		if *sale.Total == 10 && sale.State == sluice.StateSoldOut {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v\n%s", sale, stderr.String())
		}
	}
	stop()
	if code := <-done; code != exitOK {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out, stderr safeBuffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"demo", "--buyers", "1000000"}, nil, &out, &stderr, nil)
	}()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(stderr.String(),
		"A server on"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(stderr.String())
		}
	}
	stop()
	if code := <-done; code != exitFailed || !strings.HasSuffix(stderr.String(), "sluice: interrupted\n") ||
		out.String() != "" {
		t.Errorf("exit %d: %s", code, stderr.String())
	}
}
