package servertest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// StartNginx starts an nginx of the test's own, once `nginx -t` accepts its
// configuration, and returns when it listens at addr. Its files are in a folder
// that replaces /var/cache/nginx in the configuration.
func StartNginx(t testing.TB, config, addr string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			Unavailable(t, "nginx", "no nginx on the PATH or in /usr/sbin")
		}
	}
	dir, err := os.MkdirTemp("", "sluice-nginx-")
	failIf(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	global := "daemon off; pid " + filepath.Join(dir, "pid") + ";"
	if os.Geteuid() == 0 {
		global += " user root;" // no other user can reach the folder
	}
	// Only root may write to the folders that Debian's nginx was built with.
	own := "http {"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += " " + kind + "_temp_path " + filepath.Join(dir, kind) + ";"
	}
	config = strings.Replace(strings.ReplaceAll(config, "/var/cache/nginx", dir), "http {", own, 1)
	file := filepath.Join(dir, "nginx.conf")
	failIf(t, os.WriteFile(file, []byte(config), 0o600))
	line := []string{program, "-e", "stderr", "-c", file, "-g", global}
	if out, err := exec.Command(line[0], append(line[1:], "-t")...).CombinedOutput(); err != nil {
		t.Fatalf("servertest: nginx -t: %v\n%s", err, out)
	}
	s := &supervised{name: "nginx", dir: dir, last: "TERM"} // KILL would leave its workers
	failIf(t, s.start(line, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	t.Cleanup(func() {
		if err := s.end("TERM"); err != nil {
			t.Error(err)
		}
	})
}
