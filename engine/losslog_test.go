package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A server warns of a loss once, unless the sale is back before it has looked; one of them
// reports the rebuild.
func TestALossIsAWarning(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var logs []*logged
	var branches []*branch
	for _, node := range []string{"a", "b"} {
		log := new(logged)
		logs = append(logs, log)
		branches = append(branches, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: node, Log: log.logger(),
		}))
	}
	sell(t, branches, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, DisableCache: true}))(t)
	defer c.Close()

	for loss := 1; loss <= 2; loss++ {
		must.Succeed(t, c.Do(t.Context(), c.B().Flushall().Build()).Error())
		for _, b := range branches {
			until(t, "the sale to be rebuilt", func() bool {
				sale, err := b.client.AdminSale(t.Context(), "phones")
				return err == nil && sale.Epoch == int64(loss)+1 && sale.Fence == "" && sale.Loaded
			})
		}
		warned := 0
		for i, log := range logs {
			got := log.lines("level=WARN", "has been lost", "sale=phones", fmt.Sprintf(" epoch=%d ", loss))
			warned += len(got)
			if len(got) > 1 {
				t.Errorf("of loss %d server %d has warned: %q", loss, i, got)
			}
		}
		if warned == 0 {
			t.Errorf("no server has warned of loss %d", loss)
		}
		until(t, "one rebuild per loss to be logged", func() bool { // the sale is seen to be back a moment earlier
			rebuilt := 0
			for _, log := range logs {
				rebuilt += len(log.lines("level=INFO", "a sale is rebuilt", "sale=phones"))
			}
			return rebuilt == loss
		})
	}
}
