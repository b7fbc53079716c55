package engine_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// The limit of an address reaches the streams, and what it refuses is counted.
func TestEventsPerAddress(t *testing.T) {
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), EventsPerAddress: 1}))(t)
	defer e.Close(context.Background())
	server := httptest.NewUnstartedServer(nil)
	server.Config = e.NewServer()
	server.Start()
	defer server.Close()
	must.Get(e.Control().Create(t.Context(), prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{})))(t)
	get := func(path string) *http.Response {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil))(t)
		answer := must.Get(http.DefaultClient.Do(request))(t)
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	if first, second := get("/v1/sales/phones/events"), get("/v1/sales/phones/events"); first.StatusCode != 200 ||
		second.StatusCode != 503 || second.Header.Get("Retry-After") == "" {
		t.Errorf("the first of one is answered %d, the second %d %v", first.StatusCode, second.StatusCode, second.Header)
	}
	metrics, err := io.ReadAll(get("/metrics").Body)
	for _, want := range []string{
		"\nsluice_event_streams 1\n", `sluice_event_streams_refused_total{limit="address"} 1`,
		`sluice_event_streams_refused_total{limit="total"} 0`,
	} {
		if err != nil || !strings.Contains(string(metrics), want) {
			t.Errorf("%v, the metrics lack %s", err, want)
		}
	}
}
