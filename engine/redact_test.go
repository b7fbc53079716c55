package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
)

// No password is shown, in whatever form a backend was given.
func TestRedactShowsNoPassword(t *testing.T) {
	for given, want := range map[string]string{
		"sqlite:/data/store.db":                 "sqlite:/data/store.db",
		"redis://:hunter2@h:1":                  "redis://:***@h:1",
		"postgres://ann:hunter2@h/shop":         "postgres://ann:***@h/shop",
		"postgres://h/shop?sslpassword=hunter2": "postgres://h/shop?sslpassword=***",
		"mysql://ann:hunter2%zz@h/shop":         "mysql://***",
		"hunter2@h":                             "***",
		"h":                                     "h",
	} {
		if got := auth.Redact(given); got != want || strings.Contains(got, "hunter2") {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}

// Whatever an engine warns of again and again is logged once, and then counted.
func TestWarningsOfAnEngineAreCounted(t *testing.T) {
	var out bytes.Buffer
	e := must.Get(Open(t.Context(), Config{DataDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&out, nil))}))(t)
	for range 1000 {
		e.cfg.Log.Warn("trouble")
	}
	must.Succeed(t, e.Close(t.Context()))
	if lines := strings.Count(out.String(), "msg=trouble"); lines != 2 ||
		!strings.Contains(out.String(), "msg=trouble repeated=999") {
		t.Errorf("%d lines of one trouble:\n%.1000s", lines, out.String())
	}
}
