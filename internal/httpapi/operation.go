package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// levels lists the values of the setting log_level.
var levels = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// setLogLevel changes what this server logs, until it stops.
func (s *Server) setLogLevel(_ *http.Request, message *api.SetLogLevel) (any, error) {
	i := slices.IndexFunc(levels, func(l slog.Level) bool { return strings.ToLower(l.String()) == message.Level })
	if i < 0 {
		return nil, badRequest("level: %q: want debug, info, warn or error", message.Level)
	}
	if s.LogLevel == nil {
		return nil, faultOf(api.CodeNotFound, "the program that embeds this server has not given its log's level to it")
	}
	before := strings.ToLower(s.LogLevel.Level().String())
	s.LogLevel.Set(levels[i])
	return api.LogLevel{Level: message.Level, Before: before}, nil
}

// mostProfiled is how long a profile may take, in seconds: less than an answer may.
const mostProfiled = 20

// profileTaken is how long a client may take to receive a profile.
const profileTaken = 10 * time.Second

const profilePattern = "GET /v1/admin/profiles/{profile}"

// takeProfile answers with a profile of this server, as go tool pprof (of trace: go tool
// trace) reads it. It does not go through net/http/pprof, which would show profiles to all
// clients of a program that serves http.DefaultServeMux.
func (s *Server) takeProfile(w http.ResponseWriter, r *http.Request) {
	seconds := 10
	err := readQuery(r, parameter{"seconds", func(value string) (err error) {
		if seconds, err = strconv.Atoi(value); err != nil || seconds < 1 || seconds > mostProfiled {
			return fmt.Errorf("want 1 to %d", mostProfiled)
		}
		return nil
	}})
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header()["Cache-Control"] = noStore
	// While one waits for its reader, the process can take no other.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Duration(seconds)*time.Second + profileTaken))
	switch name := r.PathValue("profile"); name {
	case "allocs", "goroutine", "heap":
		w.Header().Set("Content-Type", "application/octet-stream")
		_ = pprof.Lookup(name).WriteTo(w, 0)
	case "cpu":
		s.watch(w, r, seconds, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case "trace":
		s.watch(w, r, seconds, func() error { return trace.Start(w) }, trace.Stop)
	default:
		s.problem(w, api.CodeNotFound, "no such profile: want allocs, cpu, goroutine, heap or trace")
	}
}

// watch writes what start writes until stop, or until the client has left or the server ends.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, seconds int, start func() error, stop func()) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil { // nothing is written
		s.problem(w, sluice.Overloaded.String(), "a profile of this kind is being taken: "+err.Error())
		return
	}
	defer stop()
	select {
	case <-time.After(time.Duration(seconds) * time.Second):
	case <-r.Context().Done():
	case <-s.events.closed:
	}
}
