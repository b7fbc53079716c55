package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Everything at once: three servers, one Redis and one PostgreSQL, and at
// every moment something of it is killed, stopped or emptied.
func TestChaos(t *testing.T) {
	t.Parallel()
	newChaos(t).round(t, seeded(t, 4), size(12, 5))
}

// The same for as long as SLUICE_TEST_SOAK says.
func TestSoakChaos(t *testing.T) {
	end := time.Now().Add(soak(t))
	c := newChaos(t)
	seed := uint64(time.Now().UnixNano())
	for n := uint64(0); time.Now().Before(end) && !t.Failed(); n++ {
		c.round(t, seeded(t, seed+n), 30)
	}
}

type chaos struct {
	redis    *servertest.RedisServer
	postgres *servertest.PostgresServer
	servers  []*server
	urls     []string
}

func newChaos(t *testing.T) *chaos {
	c := &chaos{redis: servertest.StartRedis(t), postgres: servertest.StartPostgres(t)}
	c.servers, c.urls = startCluster(t, 3, backends{c.redis.URL(), c.postgres.URL()})
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
	for n := range events {
		if !rush.awaitDecided(rush.planned() * int64(n+1) / int64(events+2)) {
			break
		}
		c.event(t, r)
	}
	verify(t, c.servers[r.IntN(3)], rush, total, perBuyer)
}

// event harms something and mends it.
func (c *chaos) event(t *testing.T, r *rand.Rand) {
	t.Helper()
	pause := func() { time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) }
	switch victim := c.servers[r.IntN(len(c.servers))]; r.IntN(6) {
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
	}
}
