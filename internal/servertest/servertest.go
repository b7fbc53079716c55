// Package servertest gives tests real servers: each private, on a free port of
// 127.0.0.1, in a temporary folder, stopped by its process id.
//
// A test asks for the server it needs, for instance with Redis(t). When the
// server's program is not on the machine the test is skipped and says why;
// SLUICE_TEST_REQUIRE=redis,postgres,pgbouncer,mysql,chromium,nginx,gcc,mount,history
// turns such a skip into a failure (mount is the right to mount a disk, see Disk;
// history is that of the repository). Where SLUICE_TEST_REDIS_URL,
// SLUICE_TEST_POSTGRES_URL or SLUICE_TEST_MYSQL_URL is set, that server is used
// instead, and tests isolate themselves by unique names, never by flushing.
package servertest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// Unavailable skips the test, or fails it if the server is required.
func Unavailable(t testing.TB, server, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SLUICE_TEST_REQUIRE"), ","), server) {
		t.Fatalf("%s is required by SLUICE_TEST_REQUIRE: %s", server, why)
	}
	t.Skipf("needs %s: %s", server, why)
}

// FreePort returns a port of 127.0.0.1 that was free a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("servertest: free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
