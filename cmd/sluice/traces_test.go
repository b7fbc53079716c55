package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// A server sends traces where it is told to, and says where it cannot.
func TestTraces(t *testing.T) {
	var messages atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			messages.Add(1)
		}
	}))
	defer receiver.Close()
	s := serve(t, "--trace-endpoint", receiver.URL, "--trace-ratio", "1")
	okJSON[api.AdminSale](t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "5")
	okJSON[any](t, s.env, "load", "--sale", "phone", "--buyers", "5")
	for deadline := time.Now().Add(time.Minute); messages.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no traces")
		}
	}
	answer := must.Get(http.Get(s.url + "/metrics"))(t)
	defer answer.Body.Close()
	var text strings.Builder
	_ = answer.Write(&text)
	if !strings.Contains(text.String(), "\nsluice_spans_dropped_total 0\n") {
		t.Errorf("%s", text.String())
	}
	for _, wrong := range []string{
		"127.0.0.1:4318", "grpc://collector:4317", "http://", "http://user:pw@collector",
		"http://collector/?api-key=:pw@", "https://collector/v1/traces#:pw@", "grpc://collector?:pw@", "http://%zz?:pw@",
		"user:pw@collector",
	} {
		got := command(t, nil, "serve", "--data-dir", t.TempDir(), "--trace-endpoint", wrong)
		if got.code != exitUsage || !strings.Contains(got.stderr, "trace_endpoint") ||
			!strings.Contains(got.stderr, "want ") || strings.Contains(got.stderr, "pw@") {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
	if got := command(t, nil, "serve", "--data-dir", t.TempDir(), "--trace-ratio", "0"); got.code != exitUsage ||
		!strings.Contains(got.stderr, "trace_ratio") {
		t.Errorf("%+v", got)
	}
}
