package handler

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

// When a sale opens, tens of thousands of claims wait for the ledger at once, and using
// memory for the first time is much of what delays them. A claim needs some 6 KB of stack.
// Stacks double: with a little more than 7 KB it would have 16 KB, not 8, and keep it. What a
// function takes of it is said by go build -gcflags=-S ./internal/admission, in the lines with
// TEXT. Under the race detector functions take more.
func TestAClaimThatWaitsHasASmallStack(t *testing.T) {
	const claims, most = 500, 12 << 10 // 8 KB in place of 4 or 2, and 2 for net/http's look at the connection
	redis := servertest.StartRedis(t)
	e := openEngine(t, manyUnits, func(c *engine.Config) { c.Ledger, c.Store = redis.URL(), servertest.Postgres(t) })
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := e.NewServer()
	go func() { _ = server.Serve(listener) }() // ends by Close
	defer server.Close()
	ask := func(method, path, token, key, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, newRequest(method, path, token, key, body))
		return w
	}
	await := func(what string, reached func() bool) {
		for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	awaitMetric := func(name string, value int) {
		line := fmt.Sprintf("\n%s %d\n", name, value)
		await(line, func() bool { return strings.Contains(ask("GET", "/metrics", e.AdminKey(), "", "").Body.String(), line) })
	}

	// It is a sale for invited buyers, since what a token says is looked at there as well.
	w := ask("PATCH", "/v1/admin/sales/"+sale, e.AdminKey(), "", `{"eligibility":"token"}`)
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	token := func(i int64) (token, key string) {
		buyer, key := attempt(i)
		token = must.Get(auth.Sign([]byte(e.BuyerSecret()), map[string]any{
			"sub": buyer, "exp": time.Now().Add(time.Hour).Unix(), "sluice_sales": []string{sale},
		}))(t)
		return token, key
	}
	const body = `{"quantity":1}`
	await("the sale and its rules", func() bool {
		uninvited := prepare(t, e.BuyerSecret(), claims, 1)
		invited, key := token(claims)
		return ask("POST", ordersPath, uninvited.tokens[0], uninvited.keys[0], body).Code == http.StatusForbidden &&
			ask("POST", ordersPath, invited, key, body).Code == http.StatusAccepted
	})
	var conns []net.Conn
	for range claims {
		conn := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
		defer conn.Close()
		conns = append(conns, conn)
	}
	awaitMetric(`sluice_connections{listener="public"}`, claims)
	redis.Freeze()
	defer redis.Thaw()
	runtime.GC()
	before := stacks()
	for i, conn := range conns {
		token, key := token(int64(i))
		must.Get(fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer %s\r\n"+
			"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", ordersPath, token, key, len(body), body))(t)
	}
	awaitMetric("sluice_claims_on_their_way", claims)
	runtime.GC() // frees the smaller stacks that they had before
	if more := (stacks() - before) / claims; more > most {
		t.Errorf("a claim that waits has %d bytes of stacks, want at most %d: which function that its goroutine runs "+
			"has grown, even one that has returned?", more, most)
	}
}

// stacks is the memory of all goroutines' stacks, in bytes.
func stacks() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}
