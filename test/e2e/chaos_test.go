package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Everything at once: three servers, one Redis and one PostgreSQL, or PostgreSQL alone,
// and at every moment something of it is killed, frozen, stopped or emptied.
func TestChaos(t *testing.T) {
	t.Run("redis and postgres", func(t *testing.T) {
		t.Parallel()
		newChaos(t, servertest.StartRedis(t)).round(t, seeded(t, 4), 8)
	})
	t.Run("postgres alone", func(t *testing.T) {
		t.Parallel()
		newChaos(t, nil).round(t, seeded(t, 4), 8)
	})
}

// The same for as long as SLUICE_TEST_SOAK says.
func TestSoakChaos(t *testing.T) {
	end := time.Now().Add(soak(t))
	both, alone := newChaos(t, servertest.StartRedis(t)), newChaos(t, nil)
	seed := uint64(time.Now().UnixNano())
	for n := uint64(0); time.Now().Before(end) && !t.Failed(); n++ {
		both.round(t, seeded(t, seed+n), 30)
		alone.round(t, seeded(t, seed+n), 30)
	}
}

type chaos struct {
	redis    *servertest.RedisServer // nil: PostgreSQL is the ledger
	postgres *servertest.PostgresServer
	servers  []*server
	urls     []string
}

func newChaos(t *testing.T, redis *servertest.RedisServer) *chaos {
	c := &chaos{redis: redis, postgres: servertest.StartPostgres(t)}
	on := backends{"store", c.postgres.URL()}
	if redis != nil {
		on.ledger = redis.URL()
	}
	c.servers, c.urls = startCluster(t, 3, on)
	return c
}

// round is one sale with so many events.
func (c *chaos) round(t *testing.T, r *rand.Rand, events int) {
	t.Helper()
	perBuyer := 1 + r.Int64N(3)
	buyers := 1500 + 400*events
	total := int64(buyers)/2 + r.Int64N(int64(buyers))
	sale := createSale(t, c.servers[0], total, perBuyer)
	awaitState(t, c.servers, sale, sluice.StateOpen)
	// Two of the crowds are the same buyers with the same keys.
	seed := r.Uint64() >> 16
	crowd := loadgen.Options{Sale: sale, Buyers: buyers, Again: r.Float64(), Connections: 1 + r.IntN(32)}
	rush := startRush(t, crowd, c.urls, seed, seed, seed+1)
	kinds := r.Perm(8)
	for n := range events {
		if !rush.awaitDecided(rush.planned() * int64(n+1) / int64(events+2)) {
			break
		}
		c.event(t, r, kinds[n%len(kinds)])
	}
	verify(t, c.servers[r.IntN(3)], rush, total, perBuyer)
}

// event harms something, of eight kinds, and mends it.
func (c *chaos) event(t *testing.T, r *rand.Rand, what int) {
	t.Helper()
	pause := func() { time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) }
	victim := c.servers[r.IntN(len(c.servers))]
	if c.redis == nil && (what == 3 || what == 5) { // the ledger, and nothing else
		c.postgres.Kill(t)
		pause()
		c.postgres.Start(t)
		return
	}
	switch what {
	case 0, 1:
		victim.kill()
		pause()
		victim.start()
	case 2:
		if code := victim.terminate(); code != 0 {
			t.Errorf("exit %d after SIGTERM", code)
		}
		victim.start()
	case 3:
		c.redis.Kill()
		pause()
		c.redis.Start()
	case 4:
		c.postgres.Kill(t)
		victim.kill() // what it has read of the journal waits for it
		pause()
		c.postgres.Start(t)
		victim.start()
	case 5:
		redisCommand(t, c.redis.Addr(), "SCRIPT FLUSH")
	case 6: // in the midst of a batch: when it goes on, its transactions and leases may be over
		thaw := freeze(t, victim.cmd.Process.Pid)
		time.Sleep(time.Duration(r.IntN(4500)) * time.Millisecond)
		thaw()
	case 7:
		c.postgres.Stop(t)
		pause()
		c.postgres.Start(t)
	}
}
