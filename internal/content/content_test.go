package content

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// fetch asks a real server, so that what net/http adds is seen, too.
func fetch(t *testing.T, url, method string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	// DisableCompression: the test reads what is sent.
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	response := must.Get(client.Do(request))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(t)
	return response, body
}

func TestAnswer(t *testing.T) {
	for name, body := range map[string][]byte{
		"small":    []byte("small"),
		"buffered": bytes.Repeat([]byte("abc "), 500),
		"large":    bytes.Repeat([]byte("abc "), 5000),
	} {
		t.Run(name, func(t *testing.T) {
			a := New(Form{Type: "application/json", Cache: "public, max-age=1"}, body)
			server := httptest.NewServer(a)
			defer server.Close()

			full, got := fetch(t, server.URL, "GET")
			etag := full.Header.Get("ETag")
			if full.StatusCode != 200 || !bytes.Equal(got, body) || full.ContentLength != int64(len(body)) {
				t.Fatalf("GET: %d, %d bytes, length %d; want 200 and the %d bytes", full.StatusCode, len(got), full.ContentLength,
					len(body))
			}
			if !strings.HasPrefix(etag, `"`) || len(etag) < 10 {
				t.Errorf("ETag %q: want a strong one", etag)
			}
			if full.Header.Get("Content-Type") != "application/json" || full.Header.Get("Cache-Control") != "public, max-age=1" {
				t.Errorf("header: %v", full.Header)
			}
			head, got := fetch(t, server.URL, "HEAD")
			if head.StatusCode != 200 || len(got) != 0 || head.ContentLength != int64(len(body)) ||
				head.Header.Get("ETag") != etag {
				t.Errorf("HEAD: %d, %d bytes, %v; want what GET says, without the body", head.StatusCode, len(got), head.Header)
			}

			for _, match := range []string{etag, "W/" + etag, `"other", ` + etag, `"other",W/` + etag + `, "more"`, "*"} {
				for _, method := range []string{"GET", "HEAD"} {
					same, got := fetch(t, server.URL, method, "If-None-Match: "+match)
					if same.StatusCode != 304 || len(got) != 0 || same.Header.Get("ETag") != etag ||
						same.Header.Get("Cache-Control") == "" {
						t.Errorf("%s, If-None-Match %s: %d, %v; want 304 with the ETag", method, match, same.StatusCode, same.Header)
					}
				}
			}
			for n, status := range map[int]int{longest: 304, longest + 1: 200, 14_000: 200} {
				match := etag + strings.Repeat(",", n-len(etag))
				if long, _ := fetch(t, server.URL, "GET", "If-None-Match: "+match); long.StatusCode != status {
					t.Errorf("If-None-Match of %d bytes: %d, want %d", n, long.StatusCode, status)
				}
			}
			if two, _ := fetch(t, server.URL, "GET", `If-None-Match: "other"`, "If-None-Match: "+etag); two.StatusCode != 304 {
				t.Errorf("If-None-Match on two lines: %d, want 304", two.StatusCode)
			}
			for _, match := range []string{`"other"`, strings.Trim(etag, `"`), "", `"` + strings.Trim(etag, `"`)} {
				if other, _ := fetch(t, server.URL, "GET", "If-None-Match: "+match); other.StatusCode != 200 {
					t.Errorf("If-None-Match %q: %d, want 200", match, other.StatusCode)
				}
			}

			packed, got := fetch(t, server.URL, "GET", "Accept-Encoding: br, gzip")
			if len(body) < compressFrom {
				if packed.Header.Get("Content-Encoding") != "" || packed.Header.Get("Vary") != "" {
					t.Errorf("a small body is compressed: %v", packed.Header)
				}
				return
			}
			if packed.Header.Get("Content-Encoding") != "gzip" || packed.Header.Get("Vary") != "Accept-Encoding" ||
				full.Header.Get("Vary") != "Accept-Encoding" {
				t.Fatalf("compressed: %v", packed.Header)
			}
			if packed.Header.Get("ETag") == etag {
				t.Error("two encodings have the same strong ETag")
			}
			unpack := must.Get(gzip.NewReader(bytes.NewReader(got)))(t)
			if text, err := io.ReadAll(unpack); err != nil || !bytes.Equal(text, body) {
				t.Errorf("unpacked: %d bytes, %v", len(text), err)
			}
			if same, _ := fetch(t, server.URL, "GET", "Accept-Encoding: gzip",
				"If-None-Match: "+packed.Header.Get("ETag")); same.StatusCode != 304 {
				t.Errorf("the compressed tag: %d, want 304", same.StatusCode)
			}
		})
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br": false, "br,gzip": true, "gzip;q=0": false, "gzip; q=0.5": true,
		"gzip;Q=0.0": false,
		"*":          true, "*;q=0": false, "gzip;q=0, *": false, "identity": false, "xgzip": false, "gzip;q=x": false,
	} {
		if got := acceptsGzip([]string{header}); got != want {
			t.Errorf("Accept-Encoding %q: %v, want %v", header, got, want)
		}
	}
	if !acceptsGzip([]string{"br", "gzip"}) {
		t.Error("the second line of Accept-Encoding is not read")
	}
}

// An error page is sent in full to every client.
func TestOtherStatus(t *testing.T) {
	a := New(Form{Type: "text/html", Cache: "no-store", Status: http.StatusNotFound, Level: gzip.BestCompression},
		bytes.Repeat([]byte("none "), 500))
	server := httptest.NewServer(a)
	defer server.Close()
	for _, headers := range [][]string{nil, {"If-None-Match: *"}, {"Accept-Encoding: gzip"}} {
		for _, method := range []string{"GET", "HEAD"} {
			got, body := fetch(t, server.URL, method, headers...)
			if got.StatusCode != 404 || got.Header.Get("ETag") != "" || got.Header.Get("Cache-Control") != "no-store" ||
				(len(body) == 0) != (method == "HEAD") {
				t.Errorf("%s %v: %d, %d bytes, %v", method, headers, got.StatusCode, len(body), got.Header)
			}
		}
	}
}

func TestWith(t *testing.T) {
	a := New(Form{Type: "text/css", Cache: "public"}, bytes.Repeat([]byte("p { color: red } "), 200))
	for form, want := range map[*Answer]string{a: "public", a.With("no-cache"): "no-cache"} {
		for _, encoding := range []string{"", "gzip"} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept-Encoding", encoding)
			w.Header().Set("Vary", "Origin")
			form.ServeHTTP(w, r)
			if got := w.Header().Get("Cache-Control"); got != want || w.Header().Get("Content-Encoding") != encoding {
				t.Errorf("Accept-Encoding %q: Cache-Control %q, want %q", encoding, got, want)
			}
			if vary := w.Header()["Vary"]; len(vary) != 1 || vary[0] != "Origin, Accept-Encoding" {
				t.Errorf("Vary: %q", vary)
			}
		}
	}
}

// What does not get smaller is sent as it is, to everybody.
func TestABodyThatDoesNotShrink(t *testing.T) {
	body := make([]byte, 2*compressFrom)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	server := httptest.NewServer(New(Form{Type: "application/octet-stream", Cache: "no-cache"}, body))
	defer server.Close()
	full, _ := fetch(t, server.URL, "GET")
	same, got := fetch(t, server.URL, "GET", "Accept-Encoding: gzip")
	if same.Header.Get("Content-Encoding") != "" || same.Header.Get("ETag") != full.Header.Get("ETag") ||
		!bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v; want %d bytes, %v", len(got), same.Header, len(body), full.Header)
	}
}
