// Package servertest gives tests real servers: each private, on a free port of
// 127.0.0.1, in a temporary folder, stopped by its process id.
//
// A test asks for the server it needs, for instance with Redis(t). When the
// server's program is not on the machine the test is skipped and says why;
// SLUICE_TEST_REQUIRE=redis,postgres,pgbouncer,mysql,chromium,nginx,prometheus,php,node,python3,java,openssl,jq,gcc
// turns such a skip into a failure; further words are mount (the right to mount a disk,
// see Disk) and git (the test runs in a clone). Where SLUICE_TEST_REDIS_URL,
// SLUICE_TEST_POSTGRES_URL or SLUICE_TEST_MYSQL_URL is set, that server is used
// instead, and tests isolate themselves by unique names, never by flushing.
package servertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/must"
)

// Unavailable skips the test, or fails it if the server is required.
func Unavailable(t testing.TB, server, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SLUICE_TEST_REQUIRE"), ","), server) {
		t.Fatalf("%s is required by SLUICE_TEST_REQUIRE: %s", server, why)
	}
	t.Skipf("needs %s: %s", server, why)
}

// Nightly leaves a test to `make nightly`. A short case in `make test` guards the same.
func Nightly(t testing.TB) {
	t.Helper()
	if !IsNightly() {
		t.Skip("a long test of `make nightly`: set SLUICE_TEST_NIGHTLY")
	}
}

// IsNightly reports whether this is `make nightly`.
func IsNightly() bool { return os.Getenv("SLUICE_TEST_NIGHTLY") != "" }

// Program returns the path of one that the test runs; it comes with the server, or
// whatever else SLUICE_TEST_REQUIRE and scripts/install.sh have a word for.
func Program(t testing.TB, server, program string) (path string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Unavailable(t, server, err.Error())
	}
	return path
}

// FreePort returns a port of 127.0.0.1 that was free a moment ago, below the ports
// that outgoing connections get: it is free again when the server comes back.
func FreePort() (port int, err error) {
	for range 100 {
		port = 15000 + rand.IntN(15000)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("servertest: free port: %w", err)
}

// Chromium returns the path of the browser. A caller that starts it ends it.
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
	must.Succeed(t, err)
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
	must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	line := []string{program, "-e", "stderr", "-c", file, "-g", global}
	if out, err := exec.Command(line[0], append(line[1:], "-t")...).CombinedOutput(); err != nil {
		t.Fatalf("servertest: nginx -t: %v\n%s", err, out)
	}
	s := &supervised{name: "nginx", dir: dir, last: "TERM"} // KILL would leave its workers
	s.serve(t, line, addr)
}

// serve starts the server, which lives until the test ends, and returns when it listens.
func (s *supervised) serve(t testing.TB, line []string, addr string) {
	t.Helper()
	must.Succeed(t, s.start(line, func(ctx context.Context) error {
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

// StartPHP starts PHP's own web server with a script that answers all requests, and
// these variables besides the test's own. It returns its address, and what it has
// written so far: warnings, and a line for each request.
func StartPHP(t testing.TB, script string, env ...string) (addr string, log func() string) {
	t.Helper()
	program := Program(t, "php", "php")
	port, err := FreePort()
	must.Succeed(t, err)
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	script, err = filepath.Abs(script)
	must.Succeed(t, err)
	return addr, StartProgram(t, addr, env, program,
		"-d", "error_reporting=-1", "-d", "display_errors=0", "-d", "log_errors=1", "-d", "opcache.enable=0",
		"-S", addr, script)
}

// StartProgram starts a server of the test's own, with these variables besides the test's,
// and returns when it listens at addr. log is what it has written so far.
func StartProgram(t testing.TB, addr string, env []string, program string, args ...string) (log func() string) {
	t.Helper()
	name := filepath.Base(program)
	dir, err := os.MkdirTemp("", "sluice-"+name+"-")
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &supervised{name: name, dir: dir, last: "KILL"}
	s.serve(t, slices.Concat([]string{"env"}, env, []string{program}, args), addr)
	return func() string {
		text, err := os.ReadFile(filepath.Join(dir, "log"))
		must.Succeed(t, err)
		return string(text)
	}
}
