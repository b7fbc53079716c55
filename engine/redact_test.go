package engine

import (
	"strings"
	"testing"
)

// No password is shown, in whatever form a backend was given.
func TestRedactShowsNoPassword(t *testing.T) {
	for given, want := range map[string]string{
		"sqlite:/data/store.db":                 "sqlite:/data/store.db",
		"redis://:hunter2@h:1":                  "redis://:xxxxx@h:1",
		"postgres://ann:hunter2@h/shop":         "postgres://ann:xxxxx@h/shop",
		"postgres://h/shop?sslpassword=hunter2": "postgres://h/shop?sslpassword=xxxxx",
		"mysql://ann:hunter2%zz@h/shop":         "mysql://…",
		"hunter2@h":                             "***",
		"h":                                     "h",
	} {
		if got := Redact(given); got != want || strings.Contains(got, "hunter2") {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}
