// Package client speaks to a Sluice server over HTTP. It knows the codes of
// the API as typed errors, and places orders in a way that survives lost
// replies: every retry of one attempt carries the same Idempotency-Key, so the
// same attempt never becomes two orders (I4, I5).
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Options of a client. The zero value reads public pages only.
type Options struct {
	// Token is a buyer's bearer token, for orders.
	Token string
	// AdminKey is the merchant's key, for everything under /v1/admin.
	AdminKey string

	// HTTPClient makes the requests; default: one with its own connections,
	// and 15 seconds for a request. Redirects are not followed, whatever it says of them.
	HTTPClient *http.Client

	// PlaceAttempts bounds how often Place sends one claim; default 10, which
	// with the waits in between is about ten seconds. 1 never retries.
	PlaceAttempts int
}

// Client speaks to one server. It is safe for concurrent use.
type Client struct {
	base     string
	token    string
	adminKey string
	attempts int
	http     http.Client
}

// maxAnswer bounds what is read of one answer; the largest, a page of 1,000
// orders, is about a megabyte.
const maxAnswer = 32 << 20

// New makes a client of the server at rawURL, for instance
// http://127.0.0.1:8080. It does not connect yet.
func New(rawURL string, o Options) (*Client, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("client: the server's URL: want http://host:port or https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("client: the server's URL: want no user, query or fragment in it")
	}
	c := &Client{
		base: strings.TrimRight(u.String(), "/"), token: o.Token, adminKey: o.AdminKey,
		attempts: o.PlaceAttempts,
	}
	c.attempts = cmp.Or(max(c.attempts, 0), 10)
	if o.HTTPClient != nil {
		c.http = *o.HTTPClient
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		c.http = http.Client{Transport: transport, Timeout: 15 * time.Second}
	}
	c.http.CheckRedirect = refuseRedirect
	return c, nil
}

// refuseRedirect keeps keys, tokens and orders from other servers and from networks in the
// clear: net/http would send them to plain http on the same host. What such a server says
// is not believed either.
func refuseRedirect(to *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it redirects to %s://%s, which is not followed; if your server is there, use that URL",
		to.URL.Scheme, to.URL.Host)
}

// NewKey is sluice.NewKey: an Idempotency-Key for a new attempt.
func NewKey() sluice.Key { return sluice.NewKey() }

// request is one call of the API.
type request struct {
	method, path string
	bearer       string
	header       http.Header
	body         any // encoded as JSON, unless nil; an io.Reader: text as it is; patient: its content
	into         any // decoded from the answer, unless nil
}

// patient is a body whose answer takes as long as it takes.
type patient struct{ body any }

// answer is what remains of an HTTP response.
type answer struct {
	status int
	header http.Header
}

// untimed is the HTTP client without a limit of its own: contexts end its calls.
func (c *Client) untimed() *http.Client {
	long := c.http
	long.Timeout = 0
	return &long
}

// do sends one request, once. An answer of 400 or more is an *Error.
func (c *Client) do(ctx context.Context, r request) (answer, error) {
	var body io.Reader
	sender, kind, content := &c.http, "application/json", r.body
	if p, long := content.(patient); long {
		sender, content = c.untimed(), p.body
	}
	switch given := content.(type) {
	case nil:
	case io.Reader: // a list, or orders: it takes as long as it takes
		sender, kind, body = c.untimed(), "text/plain; charset=utf-8", given
	default:
		data, err := json.Marshal(given)
		if err != nil {
			return answer{}, fmt.Errorf("client: encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return answer{}, fmt.Errorf("client: %w", err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	if body != nil && r.header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", kind)
	}
	if r.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+r.bearer)
	}
	res, err := sender.Do(req)
	if err != nil {
		return answer{}, &NetworkError{URL: c.base, Err: unwrapURL(err)}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return answer{}, &NetworkError{URL: c.base, Err: err}
	}
	if len(data) > maxAnswer {
		return answer{}, &NetworkError{URL: c.base, Err: fmt.Errorf("the answer is larger than %d bytes", maxAnswer)}
	}
	a := answer{status: res.StatusCode, header: res.Header}
	if res.StatusCode >= 400 {
		return a, parseError(res, data)
	}
	if res.StatusCode >= 300 {
		return a, &NetworkError{URL: c.base, Err: fmt.Errorf("unexpected answer %s; is this a Sluice server?", res.Status)}
	}
	if r.into == nil {
		return a, nil
	}
	// Unknown fields are let pass: a newer server may say more.
	if err := json.Unmarshal(data, r.into); err != nil {
		return a, &NetworkError{
			URL: c.base,
			Err: fmt.Errorf("the answer is not the JSON expected; is this a Sluice server? %w", err),
		}
	}
	return a, nil
}

// call sends one request, once, and returns its answer.
func call[T any](ctx context.Context, c *Client, bearer, method, path string, body any) (answer T, err error) {
	_, err = c.do(ctx, request{method: method, path: path, bearer: bearer, body: body, into: &answer})
	return answer, err
}

// public asks for what anyone may see; get and post are calls of the merchant.
func public[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, "", http.MethodGet, path, nil)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, c.adminKey, http.MethodGet, path, nil)
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return call[T](ctx, c, c.adminKey, http.MethodPost, path, body)
}

// query is a query string of names and their values, without those that are empty.
func query(pairs ...string) string {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// collect reads a list page by page, each from the cursor of the one before on. It is never
// nil, which would be no list in JSON.
func collect[T any](page func(cursor string) (items []T, next string, err error)) (all []T, err error) {
	all = []T{}
	for cursor := ""; ; {
		var items []T
		if items, cursor, err = page(cursor); err != nil {
			return nil, err
		}
		if all = append(all, items...); cursor == "" {
			return all, nil
		}
	}
}

// positive is a number of a query; empty: the server's own.
func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// unwrapURL takes off the url.Error, which repeats method and URL.
func unwrapURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
