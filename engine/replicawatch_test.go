package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Before a sale opens no claim shows that the replica is missing which claims wait for:
// sale check, the log and /readyz say so, and the server stays ready. One that lags is
// connected, and only sale check sees it.
func TestMissingReplicasAreSeen(t *testing.T) {
	t.Parallel()
	primary := servertest.StartRedis(t, "--repl-diskless-sync-delay", "0")
	replica := primary.Replica(t)
	out := &logged{}
	b := openBranch(t, engine.Config{
		Ledger: primary.URL(), Store: servertest.Postgres(t), Node: "one", WaitReplicas: 1, Log: out.logger(),
	})
	sale := prepared("phones", time.Now().Add(time.Hour), sluice.Rules{})
	must.Get(b.engine.Control().Create(t.Context(), sale))(t)
	sees := func(when, check, ready string) {
		t.Helper()
		until(t, "sale check and /readyz to be right "+when, func() bool {
			answer := must.Get(b.client.CheckSale(t.Context(), "phones"))(t)
			state := must.Get(b.client.Ready(t.Context()))(t)
			for _, c := range answer.Checks {
				if c.Name == "replicas" {
					return strings.HasPrefix(string(c.Status)+" "+c.Detail, check) && strings.HasPrefix(state.LedgerState, ready)
				}
			}
			t.Fatal("no word about replicas")
			return false
		})
	}
	good := string(api.CheckOK) + " have what is written after "
	bad := string(api.CheckFail) + " claims are not accepted: "
	sees("at first", good, "ok")
	said := func() int { return len(out.lines("too few replicas for wait_replicas", "has 0 of 1 replicas")) }
	before := said() // a replica that is late has been missed already
	replica.Kill()
	sees("without the replica", bad, "too few replicas")
	until(t, "the log to say it", func() bool { return said() > before })
	if said() > before+1 {
		t.Error("the log says it twice")
	}
	replica.Start()
	sees("with the replica", good, "ok")
	replica.Freeze()
	defer replica.Thaw()
	sees("with a replica that lags", bad, "ok")
}
