package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// slowServer is the API's own server on a real listener, with its limits made
// shorter, so that no test waits for minutes.
func slowServer(t *testing.T, handler http.Handler) (address string) {
	t.Helper()
	return slowly(t, handler, false)
}

// slowly is slowServer, whose handler the program may have replaced.
func slowly(t *testing.T, handler http.Handler, replaced bool) (address string) {
	t.Helper()
	server := httpapi.NewServer(handler, httpapi.NewConnections(1000, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
	for _, limit := range []struct {
		name    string
		real    *time.Duration
		shorter time.Duration
	}{
		{"ReadTimeout", &server.ReadTimeout, 2 * time.Second}, // of the header, too, unless that has a limit of its own
		{"WriteTimeout", &server.WriteTimeout, 4 * time.Second},
		{"IdleTimeout", &server.IdleTimeout, time.Second},
	} {
		if *limit.real <= 0 || *limit.real > 2*time.Minute {
			t.Errorf("%s is %v: a slow client could hold a connection", limit.name, *limit.real)
		}
		*limit.real = limit.shorter
	}
	if server.MaxHeaderBytes <= 0 || server.MaxHeaderBytes > 64<<10 {
		t.Errorf("MaxHeaderBytes is %d", server.MaxHeaderBytes)
	}
	if replaced {
		mux := http.NewServeMux()
		mux.Handle("/", handler)
		server.Handler = mux
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("tcp", address))(t)
	t.Cleanup(func() { conn.Close() })
	must.Succeed(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	return conn
}

// ended reads until the server closes the connection, and returns what it said.
func ended(t *testing.T, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the server holds the connection")
	}
	return string(said) // an error is a connection that was reset, which ends it as well
}

// Slow clients, and those who have gone without saying so, are shed; meanwhile
// everybody else is served.
func TestSlowClientsAreShed(t *testing.T) {
	for name, replaced := range map[string]bool{"of the server": false, "in a program's own mux": true} {
		t.Run(name, func(t *testing.T) { slowClientsAreShed(t, replaced) })
	}
}

func slowClientsAreShed(t *testing.T, replaced bool) {
	t.Parallel()
	address := slowly(t, bare(t, httpapi.Options{Store: &forgetful{}}), replaced)
	serves := func() bool {
		response, err := http.Get("http://" + address + "/healthz")
		if err != nil { // the limits are for others; a machine that is busy enough meets them
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	const head = "POST /v1/admin/sales/phone/restock HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + operatorKey + "\r\n"
	for name, send := range map[string]string{
		"nothing at all":            "",
		"half a request line":       "GET /v1/sa",
		"half a header":             head,
		"a body that stays out":     head + "Content-Length: 20\r\n\r\n",
		"half a body":               head + "Content-Length: 20\r\n\r\n{\"id\":",
		"half a chunked body":       head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n",
		"one request, then silence": "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"a header without end":      "GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, address)
			if _, err := io.WriteString(conn, send); err != nil && !strings.Contains(name, "without end") {
				t.Fatal(err)
			}
			said := ended(t, conn)
			if strings.Contains(name, "body") && !strings.HasPrefix(said, "HTTP/1.1 400") {
				t.Errorf("the answer to %s: %q", name, said)
			}
			if strings.Contains(name, "silence") && !strings.HasPrefix(said, "HTTP/1.1 200") {
				t.Errorf("the answer before the silence: %q", said)
			}
		})
	}
	t.Run("one byte at a time", func(t *testing.T) {
		t.Parallel()
		conn := dial(t, address)
		stop := make(chan struct{})
		fed := make(chan struct{})
		go func() { // never as slow as to be idle, never done
			defer close(fed)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nX: ")
			for err == nil {
				select {
				case <-stop:
					return
				case <-tick.C:
					_, err = conn.Write([]byte("x"))
				}
			}
		}()
		ended(t, conn)
		close(stop)
		<-fed
	})
	t.Run("others meanwhile", func(t *testing.T) {
		t.Parallel()
		for deadline := time.Now().Add(time.Minute); !serves(); {
			if time.Now().After(deadline) {
				t.Fatal("no client is served")
			}
		}
	})
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) Close() error {
	close(p)
	return nil
}

// A refusal that needs no body does not wait for it, and its connection waits for the
// rest for a second. If all of the body is there, the connection stays. So it is in a
// program that gives the server a handler of its own.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	const (
		head = " /v1/admin/sales/phone/restock HTTP/1.1\r\nHost: x\r\n"
		key  = "Authorization: Bearer " + operatorKey + "\r\n"
		some = "Content-Length: 20\r\n"
	)
	for name, c := range map[string]struct{ request, want string }{
		"no key":         {"POST" + head + some + "\r\n", "401"},
		"a wrong key":    {"POST" + head + "Authorization: Bearer no-key\r\n" + some + "\r\n{", "401"},
		"chunked":        {"POST" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", "401"},
		"would continue": {"POST" + head + some + "Expect: 100-continue\r\n\r\n", "401"},
		"no such path":   {"POST /nowhere HTTP/1.1\r\nHost: x\r\n" + some + "\r\n", "404"},
		"another method": {"PUT" + head + key + some + "\r\n", "405"},
		"too large":      {"POST" + head + key + "Content-Length: 100000\r\n\r\n{", "413"},
		"all is there":   {"POST" + head + some + "\r\n{" + strings.Repeat(" ", 18) + "}", "401"},
	} {
		for _, own := range []bool{true, false} {
			t.Run(name+map[bool]string{false: ", in a program's own mux"}[own], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					handler := bare(t, httpapi.Options{Store: &forgetful{}})
					server := httpapi.NewServer(handler, httpapi.NewConnections(10, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
					if !own {
						mux := http.NewServeMux()
						mux.Handle("/", handler)
						server.Handler = mux
					}
					idle := server.IdleTimeout // Serve has it kept otherwise
					listener := make(pipes)
					go func() { _ = server.Serve(listener) }()
					defer server.Close()
					conn, end := net.Pipe()
					listener <- end
					begin := time.Now()
					must.Get(io.WriteString(conn, c.request))(t)
					answers := bufio.NewReader(conn)
					answer, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Fatal(err)
					}
					_, err = io.Copy(io.Discard, answer.Body)
					if took := time.Since(begin); err != nil || !strings.HasPrefix(answer.Status, c.want) || took > 0 {
						t.Errorf("%s after %v, %v", answer.Status, took, err)
					}
					_, err = answers.ReadByte()
					ended, stays := time.Since(begin), strings.HasPrefix(name, "all")
					if err == nil || answer.Close == stays || stays != (ended == idle) ||
						!stays && ended != time.Second {
						t.Errorf("ended after %v, announced: %v", ended, answer.Close)
					}
				})
			})
		}
	}
}

// What a client has not finished to ask keeps no server from ending; what is worked on is
// answered first.
func TestShutdownWaitsForNoClient(t *testing.T) {
	t.Parallel()
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
	for name, c := range map[string]struct {
		request string
		answer  bool
		within  time.Duration
	}{
		"half a body":      {head + "{", false, time.Second},
		"half a header":    {"POST / HTTP/1.1\r\nHost", false, time.Second},
		"nothing":          {"", false, time.Second},
		"one under way":    {head + "{}", true, 6 * time.Second},
		"one without body": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", true, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				works := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err == nil {
						time.Sleep(5 * time.Second)
					}
					w.WriteHeader(http.StatusNoContent)
				})
				server := httpapi.NewServer(works, httpapi.NewConnections(10, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
				listener := make(pipes)
				go func() { _ = server.Serve(listener) }()
				conn, end := net.Pipe()
				listener <- end
				must.Get(io.WriteString(conn, c.request))(t)
				answered := make(chan bool, 1)
				go func() {
					text, _ := io.ReadAll(conn)
					answered <- bytes.Contains(text, []byte(" 204 "))
				}()
				synctest.Wait()
				begun := time.Now()
				err := server.Shutdown(t.Context())
				if took := time.Since(begun); err != nil || took > c.within {
					t.Errorf("shut down after %v: %v", took, err)
				}
				if got := <-answered; got != c.answer {
					t.Errorf("answered: %v", got)
				}
				time.Sleep(time.Second) // until the server has looked for connections in vain
			})
		})
	}
}

// A handler's own deadline is of its request alone: the next one of the connection has the
// server's, and so it is when what came before was too late to be answered.
func TestDeadlinesEndWithTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			switch r.URL.Path {
			case "/short":
				_ = control.SetWriteDeadline(time.Now().Add(time.Second))
			case "/long": // longer than the server's
				_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
				time.Sleep(time.Minute)
			case "/late":
				time.Sleep(time.Minute)
			case "/works": // longer than the server waits for a request
				if time.Sleep(20 * time.Second); r.Context().Err() != nil {
					return
				}
			}
			w.WriteHeader(http.StatusNoContent)
		})
		server := httpapi.NewServer(handler, httpapi.NewConnections(10, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
		listener := make(pipes)
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		conn, end := net.Pipe()
		defer conn.Close()
		listener <- end
		answers := bufio.NewReader(conn)
		ask := func(path string) (*http.Response, error) {
			must.Get(io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			return http.ReadResponse(answers, nil)
		}
		for _, path := range []string{"/short", "/", "/long", "/", "/works"} {
			if answer, err := ask(path); err != nil || answer.StatusCode != http.StatusNoContent {
				t.Fatalf("%s: %v, %v", path, answer, err)
			}
			time.Sleep(time.Minute) // longer than /short had, shorter than a pause may be
		}
		if answer, err := ask("/late"); err == nil {
			t.Errorf("an answer that took too long was given: %v", answer)
		}
	})
}

// Requests of HTTP/2 share a connection: each has the limits to itself, also on a server that
// has served without TLS before.
func TestSlowRequestsOfHTTP2(t *testing.T) {
	for name, before := range map[string]bool{"TLS alone": false, "both": true} {
		t.Run(name, func(t *testing.T) { slowRequestsOfHTTP2(t, before) })
	}
}

func slowRequestsOfHTTP2(t *testing.T, before bool) {
	t.Parallel()
	freed := make(chan error, 1)
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpapi.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			_, err := io.ReadAll(r.Body)
			freed <- err
		case "/answer":
			var err error
			for chunk := make([]byte, 1<<20); err == nil; {
				_, err = w.Write(chunk)
			}
			freed <- err
		}
	}), httpapi.NewConnections(1000, httpapi.Proxies{}, slog.New(slog.DiscardHandler)))
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, 2*time.Second
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	if before {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		go func() { _ = server.Config.Serve(listener) }() // until the server is closed
		answer := must.Get(http.Get("http://" + listener.Addr().String()))(t)
		answer.Body.Close()
	}
	for _, path := range []string{"/body", "/answer"} {
		body, never := io.Pipe()
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, body))(t)
		if path == "/answer" {
			request.Body = nil
		}
		go func() {
			if answer, err := server.Client().Do(request); err == nil {
				t.Cleanup(func() { answer.Body.Close() }) // it is not read
			}
		}()
		for range 3 { // others of the connection are answered
			answer, err := server.Client().Get(server.URL)
			if err != nil || answer.ProtoMajor != 2 {
				t.Fatal(answer, err)
			}
			answer.Body.Close()
		}
		select {
		case err := <-freed:
			if !errors.Is(err, os.ErrDeadlineExceeded) && path == "/body" || err == nil {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: the handler waits", path)
		}
		_ = never.Close()
	}
}

// A client that has gone, or does not read, cannot hold a handler.
func TestReadersWhoDoNotReadAreShed(t *testing.T) {
	t.Parallel()
	freed := make(chan error, 1)
	address := slowServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		var err error
		for err == nil {
			_, err = w.Write(chunk)
		}
		freed <- err
	}))
	conn := dial(t, address)
	must.Get(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != nil { // it has begun
		t.Fatal(err)
	}
	select {
	case <-freed:
	case <-time.After(time.Minute):
		t.Error("the handler waits for a client that does not read")
	}
}

// lister is a store that reads the lists that it is given.
type lister struct{ forgetful }

func (*lister) ReplaceList(_ context.Context, sale sluice.SaleID, kind sluice.ListKind,
	buyers iter.Seq2[sluice.BuyerID, error],
) (port.BuyerList, error) {
	list := port.BuyerList{Sale: sale, Kind: kind}
	for _, err := range buyers {
		if err != nil {
			return list, err
		}
		list.Size++
	}
	return list, nil
}

// An upload that keeps coming may take longer than other requests, although its
// answer is held back until it is recorded.
func TestUploadsMayTakeLonger(t *testing.T) {
	t.Parallel()
	store := &lister{}
	address := slowServer(t, bare(t, httpapi.Options{Store: store}))
	conn := dial(t, address)
	send := func(text string) {
		t.Helper()
		must.Get(io.WriteString(conn, text))(t)
	}
	send("PUT /v1/admin/sales/phone/lists/deny HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: " +
		"text/plain\r\nContent-Length: 12\r\n" +
		"Authorization: Bearer " + operatorKey + "\r\n\r\nalice\n")
	time.Sleep(4500 * time.Millisecond) // longer than the server waits for a body, or to write an answer
	send("bobby\n")
	if said := ended(t, conn); !strings.HasPrefix(said, "HTTP/1.1 200") || !strings.Contains(said, `"size":2`) {
		t.Errorf("the answer: %q", said)
	}
	if len(store.tried) != 1 || store.tried[0].Status != 200 {
		t.Errorf("recorded: %+v", store.tried)
	}
}
