package e2e

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server is killed amid a crowd, with permits of a shared admission ratio in use:
// over all servers there are never more permits than ratio x available units, the
// ledger decides at most twice as many claims as there are units, and all are sold
// though the dead server does not return its permits.
func TestPermitsOfAKilledServer(t *testing.T) {
	t.Parallel()
	for try := 0; !killedWithPermits(t, 3000); try++ {
		if try == 3 {
			t.Fatal("no server died with permits that it used: the test shows nothing")
		}
	}
}

// The same with 24,000 claims, again and again for as long as SLUICE_TEST_SOAK says.
func TestSoakPermits(t *testing.T) {
	for end := time.Now().Add(soak(t)); time.Now().Before(end) && !t.Failed(); {
		killedWithPermits(t, 24_000)
	}
}

// killedWithPermits reports whether the others had to wait for the permits of the
// dead server; it may have said just before that it uses none any more.
func killedWithPermits(t *testing.T, claims int) (waited bool) {
	t.Helper()
	const total, perBuyer = 200, 1
	redis := servertest.StartRedis(t)
	servers, _ := startCluster(t, 3, backends{redis.URL(), servertest.Postgres(t)})
	sale := createSale(t, servers[0], total, perBuyer)
	if _, err := servers[0].merchant().PatchSale(t.Context(), sale, api.PatchSale{
		PatchRules: api.PatchRules{Admission: api.Value(api.Admission{Ratio: 1.5, Shared: true})},
	}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, servers, sale, "open")
	time.Sleep(time.Second) // every server has read the rule
	watch := servertest.WatchPermits(t, redis)

	// The crowd comes through a load balancer. The first of them are at the victim with
	// a claim each when it dies, the others reach the other servers then.
	victim, other := servers[0], servers[1]
	killed, turn := make(chan struct{}), atomic.Int64{}
	shop := servertest.StartProxy(t, func(net.Conn) (string, func() bool) {
		n := turn.Add(1)
		if n > 120 {
			select {
			case <-killed:
			case <-t.Context().Done():
			}
		}
		select {
		case <-killed:
			return servers[1+n%2].addr, func() bool { return false }
		default:
			return victim.addr, func() bool { return false }
		}
	})
	redis.Freeze() // until those claims are there
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: claims, Connections: 450}, []string{"http://" + shop}, 61)
	await(t, "the crowd", func() bool { return turn.Load() >= 450 })
	time.Sleep(200 * time.Millisecond)
	leased := watch.FreezeWhen(60)
	redis.Thaw()
	<-leased
	victim.kill()
	close(killed)
	died := time.Now()
	redis.Thaw()
	await(t, "every unit to be sold", func() bool {
		got, err := other.merchant().AdminSale(t.Context(), sale)
		return err == nil && got.Taken == total
	})
	sold := time.Since(died)
	rush.wait()
	reached, most := watch.Seen(t)
	reached -= rush.outcomes[0].Replayed // in flight when the server died, and sent again to another
	victim.start()                       // it stores what it has accepted
	verify(t, other, rush, total, perBuyer)
	t.Logf("%d claims reached the ledger, at most %d permits in use; all units were sold %v after the server died",
		reached, most, sold.Round(time.Millisecond))
	if most > total*3/2 || reached > 2*total {
		t.Errorf("%d claims reached the ledger, at most %d permits in use; want at most %d and %d",
			reached, most, 2*total, total*3/2)
	}
	return sold > sluice.PermitLease-time.Second
}
