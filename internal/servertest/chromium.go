package servertest

import (
	"os/exec"
	"testing"
)

// Chromium returns the path of the browser. Who starts it sees to its end.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Unavailable(t, "chromium", "neither chromium nor google-chrome is installed")
	return ""
}
