package engine_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// A middleware that compresses says so before the handler runs, as gin's does: what the
// engine would compress itself, and streams, come compressed once.
func TestBehindAMiddlewareThatCompresses(t *testing.T) {
	t.Parallel()
	e := opened(t, engine.Config{DataDir: t.TempDir()})
	onSale(t, e, "phone", 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		defer packed.Close()
		e.Handler().ServeHTTP(compressor{w, packed}, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(e.Drain)
	for path, want := range map[string]string{
		"/s/phone": "<!doctype html>", "/openapi.json": `{"openapi"`, "/v1/sales/phone/events": "retry: ",
	} {
		res := must.Get(http.Get(server.URL + path))(t) // it unpacks once
		defer res.Body.Close()
		begin := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != want || !res.Uncompressed {
			t.Errorf("%s begins with %q, %v, want %q", path, begin, err, want)
		}
	}
}

type compressor struct {
	http.ResponseWriter
	packed *gzip.Writer
}

func (c compressor) Write(text []byte) (int, error) { return c.packed.Write(text) }
func (c compressor) Unwrap() http.ResponseWriter    { return c.ResponseWriter }

func (c compressor) FlushError() error {
	if err := c.packed.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// A total that a program has forgotten is 0: that is said.
func TestASaleOfNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := opened(t, engine.Config{DataDir: t.TempDir(), Log: slog.New(slog.NewJSONHandler(&log, nil))})
	onSale(t, e, "nothing", 0)
	onSale(t, e, "something", 1)
	if err := e.Close(t.Context()); err != nil { // which also writes what the log has held back
		t.Fatal(err)
	}
	var warned []sluice.SaleID
	for line := range strings.Lines(log.String()) {
		var said struct {
			Msg  string
			Sale sluice.SaleID
		}
		must.Succeed(t, json.Unmarshal([]byte(line), &said))
		if strings.Contains(said.Msg, "has no units") {
			warned = append(warned, said.Sale)
		}
	}
	if len(warned) != 1 || warned[0] != "nothing" {
		t.Errorf("warned of %q", warned)
	}
}
