package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// A reply is lost on its way, and the buyer's client sends the claim again
// with its key: the same order, one unit (I4).
func TestReplyLost(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(*testing.T) backends{
		"sqlite":             func(*testing.T) backends { return backends{} },
		"redis and postgres": sharedBackends,
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, on(t))
			proxy := startCutter(t, s.addr)
			sale := createSale(t, s, 10, 5)
			for lost := range int64(3) {
				alice := buyer(t, proxy.url, "alice", client.Options{})
				key := client.NewKey()
				proxy.lose.Store(lost)
				got := must.Get(alice.Place(t.Context(), sale, key, api.PlaceOrder{Quantity: 1}))(t)
				if int64(got.Attempts) != lost+1 || got.Replayed != (lost > 0) {
					t.Errorf("after %d lost replies: %+v", lost, got)
				}
				again, err := alice.Place(t.Context(), sale, key, api.PlaceOrder{Quantity: 1})
				if err != nil || again.Placed != got.Placed || !again.Replayed {
					t.Errorf("repeated: %+v, %v; first %+v (I4)", again, err, got)
				}
			}
			awaitStored(t, s, sale)
			if orders := storedOrders(t, s, sale); len(orders) != 3 {
				t.Errorf("want 3 orders of one unit, have %+v", orders)
			}
			if shown, err := s.merchant().AdminSale(t.Context(), sale); err != nil || shown.Taken != 3 {
				t.Errorf("%d units are taken, want 3; %v", shown.Taken, err)
			}
		})
	}
}

// The same for a crowd of which every third reply is lost.
func TestRepliesLost(t *testing.T) {
	t.Parallel()
	s := startServer(t, backends{})
	proxy := startCutter(t, s.addr)
	proxy.every.Store(3)
	const buyers, perBuyer = 500, 2
	const total = int64(buyers)
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers, Again: 0.5}, []string{proxy.url}, 61)
	rush.wait()
	proxy.every.Store(0)
	verify(t, s, rush, total, perBuyer)
	if n := rush.outcomes[0].Replayed; n < total/10 {
		t.Errorf("%d claims were replayed, after %d lost replies", n, proxy.lost.Load())
	}
}

// cutter is a proxy that loses replies: it waits for the server's whole
// answer, and then cuts the connection to the client.
type cutter struct {
	url   string
	lose  atomic.Int64 // so many replies, from now on
	every atomic.Int64 // and every so-manieth; 0: none
	lost  atomic.Int64

	seen   atomic.Int64
	server string
}

func startCutter(t testing.TB, server string) *cutter {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &cutter{url: fmt.Sprintf("http://%s", l.Addr()), server: server}
	ctx, stop := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { c.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		stop()
		conns.Wait()
	})
	return c
}

// serve passes requests on, one after the other, until a reply is lost or one
// side has gone.
func (c *cutter) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	up, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer up.Close()
	requests, replies := bufio.NewReader(conn), bufio.NewReader(up)
	for {
		request, err := http.ReadRequest(requests)
		if err != nil || request.Write(up) != nil {
			return
		}
		reply, err := http.ReadResponse(replies, request)
		if err != nil {
			return
		}
		if c.loses() {
			_, _ = io.Copy(io.Discard, reply.Body) // decided, all of it said, none of it heard
			c.lost.Add(1)
			return
		}
		if reply.Write(conn) != nil {
			return
		}
	}
}

func (c *cutter) loses() bool {
	if c.lose.Load() > 0 {
		return c.lose.Add(-1) >= 0
	}
	every := c.every.Load()
	return every > 0 && c.seen.Add(1)%every == 0
}
