package engine_test

import (
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// postgresWithClock returns a database whose clock set puts ahead or back: its
// sessions find a clock of the test's before PostgreSQL's own.
func postgresWithClock(t *testing.T) (store string, set func(ahead time.Duration)) {
	t.Helper()
	u := must.Get(url.Parse(servertest.Postgres(t)))(t)
	query := u.Query()
	query.Set("search_path", query.Get("search_path")+",pg_catalog")
	u.RawQuery = query.Encode()
	db := must.Get(sql.Open("pgx", u.String()))(t)
	t.Cleanup(func() { db.Close() })
	set = func(ahead time.Duration) {
		t.Helper()
		must.Get(db.ExecContext(t.Context(), fmt.Sprintf(
			"CREATE OR REPLACE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql "+
				"AS $$SELECT pg_catalog.clock_timestamp() + interval '%d seconds'$$", ahead/time.Second)))(t)
	}
	set(0)
	return u.String(), set
}

// The clock of Redis, or of the database, is set an hour ahead or back while three
// sales go on, and later set right again. The ledger's clock opens and closes them,
// at both servers alike; a sale that is open by either time refuses no claim. What
// was accepted keeps its order, no order expires before its time, what ends comes
// back once, and no sale is taken for damaged.
func TestClocksAreSetByAnHour(t *testing.T) {
	t.Parallel()
	redis, setLedger := servertest.StartRedisWithClock(t)
	store, setStore := postgresWithClock(t)
	log := &logged{}
	var branches []*branch
	for _, node := range []string{"one", "two"} {
		branches = append(branches, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: node, Log: log.logger(), ReconcileInterval: 300 * time.Millisecond,
		}))
	}
	const open, upcoming, closed = sluice.StateOpen, sluice.StateUpcoming, sluice.StateClosed
	for _, step := range []struct {
		name, clock string
		set         func(ahead time.Duration)
		by          time.Duration
		now, soon   sluice.State  // of a sale that lasts half an hour yet, and of one that begins then
		early, late sluice.Status // of an order from before that is paid after the step, and from then after it is undone
	}{
		{"ledger-ahead", "ledger", setLedger, time.Hour, closed, open, sluice.Paid, sluice.Paid},
		{"ledger-behind", "ledger", setLedger, -time.Hour, upcoming, upcoming, sluice.Paid, sluice.Paid},
		{"store-ahead", "store", setStore, time.Hour, open, upcoming, sluice.RefundDue, sluice.Paid},
		{"store-behind", "store", setStore, -time.Hour, open, upcoming, sluice.Paid, sluice.RefundDue},
	} {
		t.Run(step.name, func(t *testing.T) {
			always, now, soon := sluice.SaleID(step.name), sluice.SaleID(step.name+"-now"), sluice.SaleID(step.name+"-soon")
			c := &clockTest{t: t, branches: branches, sales: []sluice.SaleID{always, now, soon}, orders: map[[2]string]any{}}
			c.create(always, -2*time.Hour, 0)
			c.create(now, -30*time.Minute, 30*time.Minute)
			c.create(soon, 30*time.Minute, 0)
			c.await(map[sluice.SaleID]sluice.State{always: open, now: open, soon: upcoming})
			for _, buyer := range []string{"ann", "bob", "cem"} {
				c.claim(always, buyer, open)
			}
			c.claim(now, "ann", open)
			c.awaitStored()

			step.set(step.by)
			for n := range 20 { // while the servers notice
				c.claim(always, fmt.Sprint("then-", n), open)
			}
			c.await(map[sluice.SaleID]sluice.State{always: open, now: step.now, soon: step.soon})
			c.noticed(step.clock, step.by)
			c.claim(now, "dan", step.now)
			c.claim(soon, "dan", step.soon)
			c.repeat()
			c.awaitStored()
			c.pay(always, "ann", step.early)
			c.pay(always, "then-0", sluice.Paid)
			c.cancel(always, "bob")

			step.set(0)
			for n := range 20 {
				c.claim(always, fmt.Sprint("later-", n), open)
			}
			c.await(map[sluice.SaleID]sluice.State{always: open, now: open, soon: upcoming})
			c.noticed(step.clock, 0)
			c.claim(now, "eva", open)
			c.claim(soon, "eva", upcoming)
			c.repeat()
			c.awaitStored()
			c.pay(always, "cem", sluice.Paid)
			c.pay(always, "then-1", step.late)
			c.verify()
		})
	}
	if len(log.lines("level=WARN", "clocks", "disagree")) == 0 { // a repeated line is left out
		t.Error("the log does not say that the clocks disagree")
	}
}

// While the clocks disagree nothing is deleted by its age, and the log says so.
func TestNothingIsDeletedWhileClocksDisagree(t *testing.T) {
	store, set := postgresWithClock(t)
	set(11 * 365 * 24 * time.Hour)
	log := &logged{}
	openBranch(t, engine.Config{Store: store, Log: log.logger(), OrderRetention: 10 * 365 * 24 * time.Hour})
	until(t, "a warning", func() bool {
		return len(log.lines("level=WARN", "cannot delete what is no longer needed", "clocks", "disagree")) > 0
	})
}

// clockTest is some sales at some servers, and who has which order.
type clockTest struct {
	t        *testing.T
	branches []*branch
	sales    []sluice.SaleID
	orders   map[[2]string]any // by sale and buyer
	ended    int64             // units that come back
}

func (c *clockTest) create(id sluice.SaleID, opens, closes time.Duration) {
	c.t.Helper()
	sale := prepared(string(id), time.Now().Add(opens), sluice.Rules{})
	if closes != 0 {
		sale.ClosesAt = time.Now().Add(closes).UTC().Truncate(time.Millisecond)
	}
	sale.PaymentWindow = 15 * time.Minute
	must.Get(c.branches[0].engine.Control().Create(c.t.Context(), sale))(c.t)
}

// await waits until every server shows the states.
func (c *clockTest) await(states map[sluice.SaleID]sluice.State) {
	c.t.Helper()
	for id, want := range states {
		for _, b := range c.branches {
			until(c.t, fmt.Sprintf("%s to be %s", id, want), func() bool {
				seen, err := b.client.Sale(c.t.Context(), id)
				return err == nil && seen.State == want
			})
		}
	}
}

// noticed waits until every server has seen how far a clock is ahead.
func (c *clockTest) noticed(clock string, by time.Duration) {
	c.t.Helper()
	for _, b := range c.branches {
		until(c.t, fmt.Sprintf("the clock of the %s to be %v ahead", clock, by), func() bool {
			answer, ahead := httptest.NewRecorder(), math.NaN()
			b.engine.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			_, after, _ := strings.Cut(answer.Body.String(), fmt.Sprintf("\nsluice_clock_ahead_seconds{clock=%q} ", clock))
			_, _ = fmt.Sscan(after, &ahead)
			return math.Abs(ahead-by.Seconds()) < 5
		})
	}
}

// claim claims at one of the servers, what a sale of that state answers.
func (c *clockTest) claim(sale sluice.SaleID, buyer string, state sluice.State) {
	c.t.Helper()
	status, answer := c.branches[len(c.orders)%2].claim(string(sale), buyer, "")
	want := map[sluice.State]any{sluice.StateUpcoming: "not_open", sluice.StateClosed: "closed"}[state]
	if (status == http.StatusAccepted) != (state == sluice.StateOpen) || answer["code"] != want {
		c.t.Errorf("%s claims of %s, which is %s: %d %v", buyer, sale, state, status, answer)
	}
	if status == http.StatusAccepted {
		c.orders[[2]string{string(sale), buyer}] = answer["order_id"]
	}
}

// repeat sends every accepted claim again, to every server (I4).
func (c *clockTest) repeat() {
	c.t.Helper()
	for of, order := range c.orders {
		for _, b := range c.branches {
			if status, answer := b.claim(of[0], of[1], ""); status != http.StatusAccepted || answer["order_id"] != order {
				c.t.Errorf("%s again: %d %v, want order %v", of, status, answer, order)
			}
		}
	}
}

func (c *clockTest) awaitStored() {
	c.t.Helper()
	for _, id := range c.sales {
		until(c.t, "every order to be stored, and every unit to be back", func() bool {
			sale, err := c.branches[0].client.AdminSale(c.t.Context(), id)
			return err == nil && sale.Backlog == 0 && sale.Taken == sale.StoredTaken
		})
	}
}

func (c *clockTest) pay(sale sluice.SaleID, buyer string, want sluice.Status) {
	c.t.Helper()
	id := sluice.OrderID(fmt.Sprint(c.orders[[2]string{string(sale), buyer}]))
	order, err := c.branches[0].client.PayOrder(c.t.Context(), id, fmt.Sprint("payment-", sale, "-", buyer))
	if err != nil || order.Status != want {
		c.t.Errorf("the order of %s is paid: %s, %v; want %s", buyer, order.Status, err, want)
	}
	if want == sluice.RefundDue {
		c.ended++
	}
}

func (c *clockTest) cancel(sale sluice.SaleID, buyer string) {
	c.t.Helper()
	id := sluice.OrderID(fmt.Sprint(c.orders[[2]string{string(sale), buyer}]))
	if order, err := c.branches[1].client.AdminCancelOrder(c.t.Context(), id); err != nil ||
		order.Status != sluice.Cancelled {
		c.t.Errorf("the order of %s is cancelled: %s, %v", buyer, order.Status, err)
	}
	c.ended++
}

// verify holds the sales against what was promised.
func (c *clockTest) verify() {
	c.t.Helper()
	c.awaitStored()
	var taken int64
	for _, id := range c.sales {
		until(c.t, "an audit", func() bool {
			report, err := c.branches[1].engine.Audit(c.t.Context(), id)
			if err == nil && !report.OK {
				c.t.Fatalf("the audit of %s: %+v", id, report)
			}
			return err == nil
		})
		sale, err := c.branches[0].client.AdminSale(c.t.Context(), id)
		if err != nil || sale.Epoch != 1 || sale.Fence != "" {
			c.t.Errorf("%s: %+v, %v; want it never loaded again", id, sale, err)
		}
		taken += sale.Taken
	}
	if want := int64(len(c.orders)) - c.ended; taken != want {
		c.t.Errorf("%d units are taken, want %d", taken, want)
	}
}
