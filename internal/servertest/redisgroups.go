package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// StartSentinel starts a sentinel of the test's own that alone decides when
// the primary, which it knows as name, is down: after five seconds, since a
// busy machine may keep one that is well from answering.
func StartSentinel(t testing.TB, name string, primary *RedisServer) *RedisServer {
	t.Helper()
	return startSentinel(t, name, primary.Addr(), 1, 5*time.Second)
}

// StartSentinels starts three sentinels, two of which must agree that the primary at
// this address is down, and returns when they know each other and so many replicas.
func StartSentinels(t testing.TB, name, primary string, replicas int, down time.Duration) []*RedisServer {
	t.Helper()
	var all []*RedisServer
	for range 3 {
		all = append(all, startSentinel(t, name, primary, 2, down))
	}
	for _, s := range all {
		awaitLines(t, s, "SENTINEL MASTERS", func(lines []string) bool {
			return followed(lines, "num-slaves", strconv.Itoa(replicas)) && followed(lines, "num-other-sentinels", "2")
		})
	}
	return all
}

func startSentinel(t testing.TB, name, primary string, quorum int, down time.Duration) *RedisServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf(
		"sentinel monitor %s %s %d\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 5000\n",
		name, strings.Replace(primary, ":", " ", 1), quorum, name, down.Milliseconds(), name)
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	return startOwn(t, &RedisServer{t: t, program: redisProgram(t), file: file, args: []string{"--sentinel"}})
}

// followed reports whether a field of an answer has this value: both are strings
// of their own, with their lengths before them.
func followed(lines []string, field, value string) bool {
	i := slices.Index(lines, field)
	return i >= 0 && i+2 < len(lines) && lines[i+2] == value
}

// StartCluster starts a Redis Cluster of n primaries without replicas, which
// share the slots evenly in their order. A shard that is down leaves the others
// their slots.
func StartCluster(t testing.TB, n int, args ...string) []*RedisServer {
	t.Helper()
	args = append([]string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}, args...)
	nodes := make([]*RedisServer, n)
	for i := range nodes {
		nodes[i] = StartRedis(t, args...)
		mustAsk(t, nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", i*slots/n, (i+1)*slots/n-1)
		if i > 0 {
			mustAsk(t, nodes[i], "CLUSTER MEET 127.0.0.1 %d", nodes[0].port)
		}
	}
	awaitCluster(t, nodes)
	return nodes
}

// StartReplicatedCluster is StartCluster with a replica of each primary: the
// i-th of the second half is that of the i-th of the first.
func StartReplicatedCluster(t testing.TB, n int, args ...string) []*RedisServer {
	t.Helper()
	nodes := StartCluster(t, n, args...)
	for _, primary := range nodes[:n:n] {
		replica := StartRedis(t, primary.args...)
		mustAsk(t, replica, "CLUSTER MEET 127.0.0.1 %d", nodes[0].port)
		nodes = append(nodes, replica)
	}
	awaitCluster(t, nodes)
	for i, primary := range nodes[:n] {
		// The length of the id is on a line before it.
		mustAsk(t, nodes[n+i], "CLUSTER REPLICATE %s", mustAsk(t, primary, "CLUSTER MYID")[1])
	}
	for _, primary := range nodes[:n] {
		awaitLines(t, primary, "INFO replication", func(lines []string) bool {
			return slices.Contains(lines, "connected_slaves:1") && strings.Contains(strings.Join(lines, ""), "state=online")
		})
	}
	return nodes
}

// awaitCluster waits until all nodes know each other and the owner of each slot.
func awaitCluster(t testing.TB, nodes []*RedisServer) {
	t.Helper()
	want := []string{
		"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(nodes)), "cluster_slots_ok:" + strconv.Itoa(slots),
	}
	for _, node := range nodes {
		awaitLines(t, node, "CLUSTER INFO", func(lines []string) bool {
			return !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(lines, line) })
		})
	}
}

// slots is how many a Redis Cluster has.
const slots = 16384

func mustAsk(t testing.TB, s *RedisServer, format string, values ...any) []string {
	t.Helper()
	lines, err := s.Ask(fmt.Sprintf(format, values...))
	if err != nil {
		t.Fatalf("servertest: "+format+": %v", append(values, err)...)
	}
	return lines
}

// awaitLines asks until the answer is as wanted.
func awaitLines(t testing.TB, s *RedisServer, command string, wanted func(lines []string) bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * redisStartTimeout); ; time.Sleep(5 * time.Millisecond) {
		lines, err := s.Ask(command) // a busy machine may not answer in time
		if err == nil && wanted(lines) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("servertest: the redis servers do not come together: %v\n%s", err, strings.Join(lines, "\n"))
		}
	}
}
