package engine_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server with a replica starts without it, shows what another server sells,
// sells itself, and misses nothing while the replica is down or hangs.
func TestAReplicaMayBeDown(t *testing.T) {
	t.Parallel()
	primary, store := servertest.StartRedis(t, "--repl-diskless-sync-delay", "0"), servertest.Postgres(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := servertest.StartRedis(t, "--replicaof", host+" "+port)
	replica.Kill()

	seller := openBranch(t, engine.Config{Ledger: primary.URL(), Store: store, Node: "seller"})
	reader := openBranch(t, engine.Config{
		Ledger: primary.URL(), LedgerReplica: replica.URL(), Store: store,
		Node: "reader",
	})
	sale := prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{})
	sell(t, []*branch{seller, reader}, sale)
	up := func(want int) {
		t.Helper()
		until(t, fmt.Sprintf("the metric to say %d", want), func() bool {
			answer := httptest.NewRecorder()
			reader.engine.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return strings.Contains(answer.Body.String(), fmt.Sprintf("\nsluice_ledger_replica_up %d\n", want))
		})
	}
	left := sale.Total
	buy := func(from *branch) {
		t.Helper()
		left--
		if code := from.try("phones", fmt.Sprint("buyer-", left), "attempt-1"); code != "accepted" {
			t.Fatalf("with %d left a claim is %s", left+1, code)
		}
		until(t, fmt.Sprintf("the reader to show %d", left), func() bool {
			seen, err := reader.client.Sale(t.Context(), "phones")
			return err == nil && seen.Available != nil && *seen.Available == left
		})
	}
	for range 2 {
		up(0)
		buy(seller)
		buy(reader)
		replica.Start()
		up(1)
		buy(seller)
		buy(reader)
		replica.Freeze()
		up(0)
		buy(seller)
		buy(reader)
		replica.Thaw()
		up(1)
		buy(seller)
		replica.Kill()
	}
	if ready, err := reader.client.Ready(t.Context()); err != nil {
		t.Errorf("without its replica the server is not ready: %+v, %v", ready, err)
	}
}
