package servertest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// PermitWatch is what a Redis ledger is asked for, as MONITOR shows it.
type PermitWatch struct {
	redis   *RedisServer
	mark    chan string
	mu      sync.Mutex
	reached int64 // claims
	most    int64 // permits in use at a time
	// Of FreezeWhen; 0: no more.
	freezeAt int64
	frozen   chan struct{}
}

// WatchPermits follows a Redis until the test ends.
func WatchPermits(t testing.TB, redis *RedisServer) *PermitWatch {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Addr())
	failIf(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	failIf(t, err)
	w, lines := &PermitWatch{redis: redis, mark: make(chan string, 1)}, bufio.NewReaderSize(conn, 1<<20)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", line, err)
	}
	go func() {
		defer close(w.mark)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			w.take(line)
		}
	}()
	return w
}

func (w *PermitWatch) take(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, args, ok := strings.Cut(line, `:journal" "`); ok { // of claim.lua the tenth is the number of claims
		if fields := strings.SplitN(args, `" "`, 15); len(fields) == 15 && strings.Contains(fields[13], `\t`) {
			n, _ := strconv.ParseInt(fields[9], 10, 64)
			w.reached += n
		}
	}
	if _, value, ok := strings.Cut(line, `:permits" "`); ok && strings.Contains(line, `lua] "SET"`) {
		value, _, _ = strings.Cut(value, `"`)
		var sum int64
		for _, server := range strings.Split(value, `\n`)[1:] {
			n, _ := strconv.ParseInt(strings.Split(server, `\t`)[2], 10, 64)
			if sum += n; w.freezeAt > 0 && n >= w.freezeAt {
				w.freezeAt = 0
				w.redis.Freeze()
				close(w.frozen)
			}
		}
		w.most = max(w.most, sum)
	}
	if _, mark, ok := strings.Cut(line, `"ECHO" "`); ok {
		w.mark <- mark
	}
}

// FreezeWhen freezes the Redis, until Thaw, as soon as one server is known to use so
// many permits, and then closes the channel.
func (w *PermitWatch) FreezeWhen(permits int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freezeAt, w.frozen = permits, make(chan struct{})
	return w.frozen
}

// Seen returns how many claims have reached the ledger, and how many permits were
// in use at most, up to now.
func (w *PermitWatch) Seen(t testing.TB) (reached, most int64) {
	t.Helper()
	mustAsk(t, w.redis, "ECHO seen") // MONITOR is behind
	select {
	case <-w.mark:
	case <-time.After(redisStartTimeout):
		t.Fatal("servertest: MONITOR does not follow")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reached, w.most
}
