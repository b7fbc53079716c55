package httpapi

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
)

func TestSetLogLevel(t *testing.T) {
	var log bytes.Buffer
	level := new(slog.LevelVar)
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
	s := New(Options{Log: logger, LogLevel: level})
	logger.Debug("before")
	if got, err := s.setLogLevel(nil, &api.SetLogLevel{Level: "debug"}); err != nil ||
		got != (api.LogLevel{Level: "debug", Before: "info"}) {
		t.Errorf("%v, %v", got, err)
	}
	logger.Debug("after")
	for _, wrong := range []string{"", "loud", "DEBUG", "warn+2"} {
		if got, err := s.setLogLevel(nil, &api.SetLogLevel{Level: wrong}); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
	if text := log.String(); strings.Contains(text, "before") || !strings.Contains(text, "after") {
		t.Error(text)
	}
	if _, err := New(Options{}).setLogLevel(nil, &api.SetLogLevel{Level: "debug"}); err == nil {
		t.Error("without a level there is one to change")
	}
}

// Profiles are what the tools read, one of a kind at a time; and no other way leads to
// them: net/http/pprof would show them on http.DefaultServeMux.
func TestProfiles(t *testing.T) {
	s := New(Options{})
	take := func(name string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/admin/profiles/"+name, nil)
		name, _, _ = strings.Cut(name, "?")
		r.SetPathValue("profile", name)
		s.takeProfile(w, r)
		return w
	}
	for _, name := range []string{"heap", "allocs", "goroutine"} {
		if w := take(name); w.Code != 200 || !bytes.HasPrefix(w.Body.Bytes(), []byte{0x1f, 0x8b}) {
			t.Errorf("%s: %d, %q", name, w.Code, w.Body)
		}
	}
	if w := take("cpu?seconds=21"); w.Code != 400 || !strings.Contains(w.Body.String(), `"seconds: want 1 to 20"`) {
		t.Errorf("a profile of 21 s: %d, %q", w.Code, w.Body)
	}
	if err := trace.Start(io.Discard); err != nil {
		t.Skip(err) // the test itself is traced
	}
	busy := take("trace")
	trace.Stop()
	if busy.Code != http.StatusServiceUnavailable || busy.Header().Get("Retry-After") == "" ||
		busy.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("two traces at a time: %d %v %s", busy.Code, busy.Header(), busy.Body)
	}
	if _, pattern := http.DefaultServeMux.Handler(httptest.NewRequest("GET", "/debug/pprof/", nil)); pattern != "" {
		t.Errorf("http.DefaultServeMux has %s", pattern)
	}
}

// A profile does not hold the end of its server up.
func TestProfilesEndWithTheServer(t *testing.T) {
	s := New(Options{})
	s.CloseStreams()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/admin/profiles/trace?seconds=20", nil)
	r.SetPathValue("profile", "trace")
	begun := time.Now()
	if s.takeProfile(w, r); w.Code != http.StatusOK || time.Since(begun) > 10*time.Second {
		t.Errorf("%d after %v", w.Code, time.Since(begun))
	}
}
