package console

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/auth"
)

// The console changes nothing by itself: it asks the API of its own server, as any other program does. So the
// API's rules are its rules: roles, limits, messages, and the record of who did what.

// asking is the context of the calls for a request: who has signed in, and from where.
func asking(w http.ResponseWriter, r *http.Request, admin auth.Admin) context.Context {
	return context.WithValue(auth.SignIn(r.Context(), admin), fromKey{}, origin{r, w})
}

type fromKey struct{}

// origin is the request that a call of the API is made for.
type origin struct {
	*http.Request
	w http.ResponseWriter
}

// inProcess is an http.RoundTripper that asks a handler of this process.
type inProcess struct{ api http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if path.Clean(r.URL.Path) != r.URL.Path { // an id of points: the API would send the call elsewhere
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/problem+json"}}, Request: r,
			Body:  io.NopCloser(strings.NewReader(`{"title":"There is no such thing","status":404,"code":"not_found"}`)),
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	}
	inner := r.Clone(r.Context())
	inner.RequestURI = r.URL.RequestURI()
	if inner.Body == nil {
		inner.Body = http.NoBody
	}
	if from, ok := r.Context().Value(fromKey{}).(origin); ok {
		inner.RemoteAddr, inner.TLS, inner.Host = from.RemoteAddr, from.TLS, from.Host
		for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Request-Id"} { // which the API may believe
			if values := from.Header.Values(name); len(values) > 0 {
				inner.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	if from, ok := r.Context().Value(fromKey{}).(origin); ok {
		w.to = from.w
	}
	p.api.ServeHTTP(w, inner)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// answer is a http.ResponseWriter that keeps what is written.
type answer struct {
	to     http.ResponseWriter // of the page; nil: none
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

// SetWriteDeadline lets a call of the API that takes long put off the deadline of the page. It can change nothing
// else of the connection: what it has not read of its request is not on it.
func (a *answer) SetWriteDeadline(t time.Time) error {
	if a.to == nil {
		return http.ErrNotSupported
	}
	return http.NewResponseController(a.to).SetWriteDeadline(t)
}

// Flush does nothing: the answer is kept.
func (a *answer) Flush() {}

func (a *answer) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.wrote = true
	return a.body.Write(p)
}

// newClient returns a client of the API. Without a key its calls are those of who has signed in.
func newClient(api http.Handler, key string) *client.Client {
	c, err := client.New("http://console", client.Options{
		AdminKey: key, HTTPClient: &http.Client{Transport: inProcess{api}},
	})
	if err != nil {
		panic(err) // the address is ours
	}
	return c
}
