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
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
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
