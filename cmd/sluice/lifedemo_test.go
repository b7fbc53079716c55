package main

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
)

// lifecycleArgs: small enough for a test, and the losers come back in
// earnest, since expired units return after the rush. On a busy machine some
// payments may come too late; the sums are exact all the same.
var lifecycleArgs = []string{
	"demo", "--lifecycle", "--payment-window", "2s", "--seed", "7", "--buyers", "3000",
	"--stock", "60",
}

func checkLifecycle(t *testing.T, r demoResult, stock int64) {
	t.Helper()
	life := r.Lifecycle
	if life == nil || !r.Audit.OK || r.Errors != 0 {
		t.Fatalf("%+v", r)
	}
	if life.Paid != stock || life.Available != 0 || life.Cancelled+life.Expired+life.Refunded != life.Returned ||
		life.SoldAgain != life.Returned || life.Accepted != stock+life.Returned || *r.OrdersStored != life.Accepted {
		t.Errorf("%+v", life)
	}
	// A third cancels and a third expires; a cancellation that comes after the
	// window, on a busy machine, has expired.
	if life.Refunded == 0 && (life.Cancelled == 0 || life.Expired < stock/3 ||
		life.Cancelled+life.Expired != 2*(stock/3)) {
		t.Errorf("a third should cancel, and a third expire: %+v", life)
	}
	if life.CameBack.Buyers == 0 || life.CameBack.Errors != 0 ||
		int64(life.CameBack.Left) != int64(life.CameBack.Buyers)-life.CameBack.Decisions[sluice.Accepted] {
		t.Errorf("%+v", life.CameBack)
	}
	names := map[string]bool{}
	for _, c := range r.Audit.Checks {
		names[c.ID+" "+c.Name] = c.OK
	}
	for _, name := range []string{
		"I2 Conservation", "I2 Conservation (from outside)", "I6 One end (from outside)",
		"I7 No undersell", "I5 Every promise kept", "I4 Same answer (repeated)",
	} {
		if !names[name] {
			t.Errorf("%s was not checked", name)
		}
	}
}

func TestDemoLifecycle(t *testing.T) {
	checkLifecycle(t, okJSON[demoResult](t, nil, lifecycleArgs...), 60)
}

// With more units than buyers no buyer comes back, and what returns stays.
func TestDemoLifecycleWithoutACrowd(t *testing.T) {
	r := okJSON[demoResult](t, nil, "demo", "--lifecycle", "--payment-window", "1s", "--buyers", "30", "--stock", "100",
		"--again", "0")
	life := r.Lifecycle
	if !r.Audit.OK || life.Accepted != 30 || life.Paid+life.Available != 100 || life.Paid+life.Returned != 30 ||
		life.SoldAgain != 0 || life.CameBack.Buyers != 0 {
		t.Errorf("%+v", life)
	}
}

func TestDemoLifecycleOnRedis(t *testing.T) {
	for name, store := range map[string]func(testing.TB) string{
		"PostgreSQL": servertest.Postgres, "MariaDB": servertest.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--ledger", servertest.Redis(t), "--store", store(t)}, lifecycleArgs[1:]...)
			checkLifecycle(t, okJSON[demoResult](t, nil, append([]string{"demo"}, args...)...), 60)
		})
	}
}
