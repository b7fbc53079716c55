package main

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/servertest"
)

// When a sale opens, tens of thousands of claims wait for the ledger at once, and using
// memory for the first time is much of what delays them. A claim needs some 6 KB of stack.
// Stacks double: with a little more than 7 KB it would have 16 KB, not 8.
func TestAClaimThatWaitsHasASmallStack(t *testing.T) {
	const claims, most = 500, 12 << 10 // 8 KB in place of 4 or 2, and 2 for net/http's look at the connection
	redis := servertest.StartRedis(t)
	e := openEngine(t, manyUnits, func(c *engine.Config) { c.Ledger, c.Store = redis.URL(), servertest.Postgres(t) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := e.NewServer()
	go func() { _ = server.Serve(listener) }() // ends by Close
	defer server.Close()
	await := func(what string, reached func() bool) {
		for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	orders := prepare(t, e.BuyerSecret(), 0, 1+claims)
	body := `{"quantity":1}`
	request := func(i int) []byte {
		return fmt.Appendf(nil, "POST /v1/sales/%s/orders HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer %s\r\n"+
			"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", shopSale, orders.tokens[i], orders.keys[i], len(body), body)
	}
	var conns []net.Conn
	for range claims {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	await("the sale", func() bool {
		r := newRequest("POST", "/v1/sales/"+shopSale+"/orders", orders.tokens[claims], orders.keys[claims], body)
		w := &answer{header: map[string][]string{}}
		e.Handler().ServeHTTP(w, r)
		return w.status == 202
	})
	await("the connections", func() bool { return runtime.NumGoroutine() > claims })
	redis.Freeze()
	defer redis.Thaw()
	runtime.GC()
	goroutines, before := runtime.NumGoroutine(), stacks()
	for i, conn := range conns {
		if _, err := conn.Write(request(i)); err != nil {
			t.Fatal(err)
		}
	}
	await("the claims", func() bool { return runtime.NumGoroutine() >= goroutines+claims })
	runtime.GC() // frees the smaller stacks that they had before
	if more := (stacks() - before) / claims; more > most {
		t.Errorf("a claim that waits has %d bytes of stacks, want at most %d: which function on the way to "+
			"admission.Slot.Claim has grown?", more, most)
	}
}

// stacks is the memory of all goroutines' stacks, in bytes.
func stacks() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}
