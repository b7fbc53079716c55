package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/internal/outbound"
)

// Client posts messages to merchants' endpoints by the Standard Webhooks
// specification (https://www.standardwebhooks.com): the headers webhook-id,
// webhook-timestamp and webhook-signature. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	agent string
}

// maxBody is how much of an answer is read, so that the connection can be used
// again; more of it closes the connection.
const maxBody = 16 << 10

// NewClient returns a client that calls itself sluice/version. It follows no redirect
// and keeps no cookies; a proxy is the one of the environment (HTTPS_PROXY).
//
// Private addresses are allowed, those where a cloud keeps its machines' secrets
// are not (package outbound).
func NewClient(version string) *Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: outbound.Dialer().DialContext, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 90 * time.Second,
	}
	return &Client{agent: "sluice/" + version, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Post makes one attempt.
func (c *Client) Post(ctx context.Context, m *Message) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	h := request.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", c.agent)
	h.Set("Webhook-Id", m.ID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(m.At.Unix(), 10))
	h.Set("Webhook-Signature", Sign(m.Key, m.ID, m.At, m.Body))
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, maxBody) // the status has said it all
	return Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header.Get("Retry-After"), m.At)}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// withoutURL takes off the method and the URL, which may hold what others are
// not to know.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	return err
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds > 0 && seconds <= 24*3600 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// Sign returns the signature of a message: "v1," and the base64 of the
// HMAC-SHA256 of id, timestamp in seconds and body, with dots in between.
func Sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
