package e2e

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// redisCommand sends one inline command and returns the first line of the answer.
func redisCommand(t testing.TB, addr, command string) string {
	t.Helper()
	return redisLines(t, addr, command, func(string) bool { return true })
}

func redisLines(t testing.TB, addr, command string, found func(string) bool) string {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", addr, 5*time.Second))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	must.Get(conn.Write([]byte(command + "\r\n")))(t)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "-") {
			t.Fatalf("redis: %s: %s", command, lines.Text())
		}
		if found(lines.Text()) {
			return lines.Text()
		}
	}
	t.Fatalf("redis: %s: no answer: %v", command, lines.Err())
	return ""
}
