package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice/internal/locktest"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lock"
	"github.com/sluicehq/sluice/lock/redislock"
	"github.com/sluicehq/sluice/lock/storelock"
	_ "github.com/sluicehq/sluice/store/mysqlstore"
	_ "github.com/sluicehq/sluice/store/pgstore"
	_ "github.com/sluicehq/sluice/store/sqlitestore"
)

func TestMain(m *testing.M) { locktest.Main(m, open) }

// open opens a store by its URL, and Redis servers by theirs; several, with
// commas between, are a Redlock.
func open(spec string) (lock.Backend, func(), error) {
	if strings.HasPrefix(spec, "redis:") {
		return openRedis(spec)
	}
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	db, err := storelock.Open(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	return db, func() { db.Close() }, nil
}

func openRedis(spec string) (lock.Backend, func(), error) {
	var backends []lock.Backend
	var clients []rueidis.Client
	closing := func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for url := range strings.SplitSeq(spec, ",") {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, nil, err
		}
		option.DisableCache = true
		c, err := rueidis.NewClient(option)
		if err != nil {
			closing()
			return nil, nil, err
		}
		clients = append(clients, c)
		backends = append(backends, redislock.New(c))
	}
	if len(backends) == 1 {
		return backends[0], closing, nil
	}
	majority, err := lock.Redlock(backends...)
	return majority, closing, err
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server, jump := servertest.StartRedisWithClock(t)
	locktest.Run(t, func(*testing.T) locktest.Locks {
		jump(0)
		mustAsk(t, server, "FLUSHALL")
		return locktest.Locks{Spec: server.URL(), Jump: jump}
	})
}

func TestRedlock(t *testing.T) {
	t.Parallel()
	first, jump := servertest.StartRedisWithClock(t)
	servers := []*servertest.RedisServer{first, servertest.StartRedis(t), servertest.StartRedis(t)}
	locktest.Run(t, func(*testing.T) locktest.Locks {
		jump(0)
		for _, s := range servers {
			mustAsk(t, s, "FLUSHALL")
		}
		return locktest.Locks{Spec: urls(servers), Jump: jump, Majority: true}
	})
}

func urls(servers []*servertest.RedisServer) string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.URL()
	}
	return strings.Join(all, ",")
}

func mustAsk(t *testing.T, s *servertest.RedisServer, command string) []string {
	t.Helper()
	lines := must.Get(s.Ask(command))(t)
	return lines
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) locktest.Locks {
		return locktest.Locks{Spec: "sqlite:" + t.TempDir() + "/store.db"}
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) locktest.Locks {
		return locktest.Locks{Spec: servertest.Postgres(t)}
	})
}

func TestMariaDB(t *testing.T) {
	servertest.Nightly(t)
	t.Parallel()
	locktest.Run(t, func(t *testing.T) locktest.Locks {
		return locktest.Locks{Spec: servertest.MySQL(t)}
	})
}

// Redlock goes on without a minority of its servers, gives nothing without a
// majority, and frees what it got in vain: also at a server that answered too late.
func TestRedlockWithoutServers(t *testing.T) {
	t.Parallel()
	var servers []*servertest.RedisServer
	for range 3 {
		servers = append(servers, servertest.StartRedis(t))
	}
	backend, done, err := open(urls(servers))
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	locker := lock.Locker{Backend: backend, TTL: 4 * time.Second}

	held := must.Get(locker.Try(t.Context(), "x"))(t)
	servers[0].Kill()
	time.Sleep(locker.TTL * 3 / 2)
	if err := held.Context().Err(); err != nil {
		t.Errorf("the loss of one server of three ended the lock: %v", context.Cause(held.Context()))
	}
	if _, err := locker.Try(t.Context(), "x"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("with two servers of three another gets %v, want ErrHeld", err)
	}
	first := held.Fence()
	if err := held.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
	if held, err = locker.Try(t.Context(), "x"); err != nil || held.Fence() <= first {
		t.Fatalf("with two servers of three: %v", err)
	}
	servers[1].Freeze()
	defer servers[1].Thaw()
	begun := time.Now()
	<-held.Context().Done()
	if took := time.Since(begun); took > locker.TTL {
		t.Errorf("without a majority the context ended after %v, want less than the ttl", took)
	}
	_ = held.Unlock()
	if _, err := locker.Try(t.Context(), "y"); err == nil || errors.Is(err, lock.ErrHeld) {
		t.Errorf("with one server of three: %v, want an error", err)
	}
	servers[1].Thaw()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		left := fmt.Sprint(mustAsk(t, servers[1], "EXISTS lock:{y}"), mustAsk(t, servers[2], "EXISTS lock:{y}"))
		if !strings.Contains(left, "1") {
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("a lock that was not got is not given back: %s", left)
		}
	}
}
