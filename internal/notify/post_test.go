package notify

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// The environment has a proxy, for all tests, since net/http reads it once: what is sent by it goes nowhere.
func init() { _ = os.Setenv("HTTP_PROXY", "http://127.0.0.1:1") }

func message(url string) *Message {
	return &Message{
		URL: url, ID: "evt_17_0123abcd", At: time.Now(), Key: []byte("0123456789abcdef0123456789abcdef"),
		Body: []byte(`{"id":"evt_17_0123abcd","title":"手机 & <b>"}`),
	}
}

// What is sent verifies with the specification's own library, and with nothing
// changed.
func TestSignatureVerifies(t *testing.T) {
	var header http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/hook?shop=1" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	m := message(server.URL + "/hook?shop=1")
	client := NewClient("test")
	defer client.Close()
	answer, err := client.Post(t.Context(), m)
	if err != nil || answer != (Answer{Status: 204}) {
		t.Fatalf("%+v, %v", answer, err)
	}
	if string(body) != string(m.Body) || header.Get("Content-Type") != "application/json" ||
		header.Get("User-Agent") != "sluice/test" {
		t.Errorf("body %s, header %v", body, header)
	}
	var hook sluice.Webhook
	hook.SetKey(m.Key)
	verifier := must.Get(standard.NewWebhook(hook.Secret))(t)
	if err := verifier.Verify(body, header); err != nil {
		t.Errorf("it does not verify: %v", err)
	}
	for name, change := range map[string]func(http.Header){
		"id":        func(h http.Header) { h.Set("webhook-id", "evt_18_0123abcd") },
		"timestamp": func(h http.Header) { h.Set("webhook-timestamp", "1") },
		"signature": func(h http.Header) { h.Set("webhook-signature", "v1,AAAA") },
	} {
		h := header.Clone()
		change(h)
		if verifier.Verify(body, h) == nil {
			t.Errorf("another %s verifies", name)
		}
	}
	if verifier.Verify(append(body, ' '), header) == nil {
		t.Error("another body verifies")
	}
}

func TestAnswers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect was followed")
	}))
	defer elsewhere.Close()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/busy":
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/headers":
			w.Header().Set("X-Large", strings.Repeat("x", 100<<10))
		case "/silent":
			<-release
		case "/broken":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	defer close(release)
	client := NewClient("test")
	defer client.Close()
	for _, c := range []struct {
		path   string
		status int
		after  time.Duration
		error  string // contained
	}{
		{path: "/redirect", status: 307},
		{path: "/busy", status: 429, after: 2 * time.Minute},
		{path: "/endless", status: 200},
		{path: "/headers", error: "header"},
		{path: "/silent", error: "no answer in time"},
		{path: "/broken", error: "EOF"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if c.path == "/silent" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		answer, err := client.Post(ctx, message(server.URL+c.path))
		cancel()
		if c.error == "" && (err != nil || answer.Status != c.status || answer.RetryAfter != c.after) {
			t.Errorf("%s: %+v, %v", c.path, answer, err)
		}
		if c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error) ||
			strings.Contains(err.Error(), server.URL)) {
			t.Errorf("%s: %+v, %v, want %q", c.path, answer, err, c.error)
		}
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	if answer, err := client.Post(t.Context(), message(closed.URL)); err == nil {
		t.Errorf("no listener: %+v", answer)
	}
}

// An address that package outbound forbids gets nothing. It is the one of them
// that leads to this machine, so that the test sends nothing elsewhere, whatever
// is wrong with the guard. A proxy of the environment is no way around it.
func TestGuarded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is sent") }))
	defer server.Close()
	client := NewClient("test")
	defer client.Close()
	_, err := client.Post(t.Context(), message(strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1)))
	if err == nil || !strings.Contains(err.Error(), "not an address for a webhook") {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "99999999": 0, "x": 0,
		"Wed, 11 Nov 2026 12:00:30 GMT": 30 * time.Second, "Wed, 11 Nov 2026 11:00:30 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
