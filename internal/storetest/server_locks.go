package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// stuckFor is how long a call may take that meets a row which another session
// does not let go of.
const stuckFor = 8 * time.Second

// soon is a context that ends a call which would hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*stuckFor)
	t.Cleanup(cancel)
	return ctx
}

// dueSales stores ten orders of each sale, all of them due, and two releases.
func dueSales(
	t *testing.T, server *Server, url string, s port.Store, ids ...sluice.SaleID,
) map[sluice.SaleID]*source {
	t.Helper()
	sources := map[sluice.SaleID]*source{}
	for _, id := range ids {
		create(t, s, aSale(id, sluice.Unlimited))
		sources[id] = &source{sale: id, epoch: 1}
		sources[id].store(t, s, 12)
		for _, o := range look(t, s, id).Orders[:2] {
			change(t, s, want(o.ID, sluice.Cancel))
		}
		server.Age(t, url)(id, 24*time.Hour)
	}
	return sources
}

// pendingOf counts the pending orders of a sale.
func pendingOf(t *testing.T, s port.Store, id sluice.SaleID) (n int) {
	t.Helper()
	for _, o := range look(t, s, id).Orders {
		if o.Status == sluice.Pending {
			n++
		}
	}
	return n
}

// Locks runs what rows that other sessions hold must not do.
func (s *Server) Locks(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *Server){
		"ALockedRowStopsOneSale": testLockedRow, "ALockedFeedStopsNoLonger": testLockedFeed,
		"AnOrderCommittedLateIsNumbered": testCommittedLate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, s)
		})
	}
}

// Another session holds the rows of two sales and does not let go. The orders
// of the third end, and their units return, at once; what needs the held rows
// fails after a while, by an error that says so, and goes on when they are free.
func testLockedRow(t *testing.T, server *Server) {
	url := server.Empty(t)
	s := server.open(t, url)
	sources := dueSales(t, server, url, s, "held-1", "held-2", "other")
	tx := must.Get(server.Raw(t, url).BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	for _, id := range []string{"held-1", "held-2"} {
		must.Get(tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE sales SET taken = taken + 1 WHERE id = '%s'",
			id)))(t)
	}
	alive := func() { // the database ends a session that is idle for too long
		t.Helper()
		must.Get(tx.ExecContext(t.Context(), "SELECT 1"))(t)
	}
	start := time.Now()
	n, err := expireDue(soon(t), s, 100)
	if took := time.Since(start); n != 10 || !errors.Is(err, sluice.ErrStoreBusy) || took > stuckFor {
		t.Errorf("%d expired in %v, %v, want those of the other sale", n, took, err)
	}
	// From now on that sale is passed over for a while, without waiting.
	sources["other"].store(t, s, 3)
	server.Age(t, url)("other", time.Hour)
	alive()
	_, _ = expireDue(soon(t), s, 100) // the other held sale is waited for, once
	alive()
	start = time.Now()
	if n, err := expireDue(soon(t), s, 100); n != 0 || err != nil || time.Since(start) > time.Second {
		t.Errorf("%d expired in %v, %v, want none at once", n, time.Since(start), err)
	}
	if n := pendingOf(t, s, "other"); n != 0 {
		t.Errorf("%d orders of the other sale are pending", n)
	}

	alive()
	start = time.Now()
	_, err = s.Insert(soon(t), "held-1", []port.Entry{sources["held-1"].entry(5)})
	if took := time.Since(start); !errors.Is(err, sluice.ErrStoreBusy) || took > stuckFor {
		t.Errorf("insert: %v in %v, want ErrStoreBusy", err, took)
	}
	alive()
	start = time.Now()
	_, err = s.Change(soon(t), want(look(t, s, "held-1").Orders[5].ID, sluice.Cancel))
	if took := time.Since(start); !errors.Is(err, sluice.ErrStoreBusy) || took > stuckFor {
		t.Errorf("cancel: %v in %v, want ErrStoreBusy", err, took)
	}

	must.Succeed(t, tx.Rollback())
	if n, err := expireDue(soon(t), s, 100); n != 20 || err != nil {
		t.Errorf("%d expired, %v, once the rows are free; want 20", n, err)
	}
	for _, id := range []sluice.SaleID{"held-1", "held-2", "other"} {
		mustBeSound(t, s, id)
	}
}

// The row of the feed is held: numbering fails after a while, and goes on.
func testLockedFeed(t *testing.T, server *Server) {
	url := server.Empty(t)
	s := server.open(t, url)
	dueSales(t, server, url, s, "phones")
	tx := must.Get(server.Raw(t, url).BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	must.Get(tx.ExecContext(t.Context(), "UPDATE event_feed SET last_event = last_event + 1"))(t)
	start := time.Now()
	n, err := s.NumberEvents(soon(t), 100)
	if took := time.Since(start); n != 0 || !errors.Is(err, sluice.ErrStoreBusy) || took > stuckFor {
		t.Errorf("%d numbered, %v in %v, want ErrStoreBusy", n, err, took)
	}
	must.Succeed(t, tx.Rollback())
	if n, err := s.NumberEvents(soon(t), 100); n == 0 || err != nil {
		t.Errorf("%d numbered, %v, once the row is free", n, err)
	}
}

// Databases hand out positions before rows are committed: an order of a sale that sells
// little appears when those of a rush after it have their numbers, and another of its sale
// after that. It is numbered first, and at once.
func testCommittedLate(t *testing.T, server *Server) {
	url := server.Empty(t)
	s := server.open(t, url)
	slow, rush := selling(t, s, "slow", sluice.Unlimited), selling(t, s, "rush", sluice.Unlimited)
	slow.store(t, s, 1)
	rush.store(t, s, 1)
	numberAll(t, s, 100)
	tx := must.Get(server.Raw(t, url).BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	const same = `sale_id, buyer_id, quantity, meta, price_amount, currency, status, reason, epoch, terms, node,
		accepted_at, stored_at, expires_at, keep_until, updated_at`
	const copied = "INSERT INTO orders (order_id, claim_key, seq, " + same + `)
		SELECT replace(order_id, 'slow.0', 'slow.f'), 'of-another', seq + 1000, ` + same + `
		FROM orders WHERE sale_id = 'slow'`
	must.Get(tx.ExecContext(t.Context(), copied))(t)
	must.Get(tx.ExecContext(t.Context(), `INSERT INTO order_events
			(sale_id, after_position, upto_position, orders, stored_at)
		SELECT sale_id, max(position) - 1, max(position), 1, max(stored_at)
		FROM orders WHERE sale_id = 'slow' GROUP BY sale_id`))(t)
	rush.store(t, s, 3)
	numberAll(t, s, 100)
	must.Succeed(t, tx.Commit())
	slow.store(t, s, 1)
	if n := must.Get(s.NumberEvents(t.Context(), 100))(t); n != 2 {
		t.Errorf("%d numbered, want the late one and the one after", n)
	}
	mustFollowHistory(t, s, feed(t, s, 100))
}

// childEnv marks a test binary as the child of testFrozenServer.
const childEnv = "SLUICE_TEST_STORE_CHILD"

// Child is the server that testFrozenServer freezes: a test of the adapter that
// is skipped unless the test binary was started for that.
func (s *Server) Child(t *testing.T) {
	url := os.Getenv(childEnv)
	if url == "" {
		t.Skip("only for the child of another test")
	}
	store := s.open(t, url)
	src := &source{sale: "frozen", epoch: 1, seq: 1000, made: 1000}
	fmt.Println("working")
	for t.Context().Err() == nil {
		_, _ = store.Insert(t.Context(), "frozen", []port.Entry{src.entry(200)})
	}
}

// A server is frozen inside an insert, with the sale's row locked, and neither
// dies nor goes on. The database ends its session after a while; other sales do
// not notice it.
func testFrozenServer(t *testing.T, server *Server) {
	process := server.Start(t)
	url := process.URL()
	s := server.open(t, url)
	sources := dueSales(t, server, url, s, "frozen", "other")
	child := exec.Command(os.Args[0], "-test.run", "^TestChild$", "-test.timeout", "3m")
	child.Env = append(os.Environ(), childEnv+"="+url)
	out := must.Get(child.StdoutPipe())(t)
	must.Succeed(t, child.Start())
	defer func() {
		_ = servertest.Thaw(child.Process.Pid)
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "working") {
		t.Fatalf("the child says %q, %v", line, err)
	}
	go io.Copy(io.Discard, out)

	raw := server.Raw(t, url)
	locked := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		tx := must.Get(raw.BeginTx(ctx, nil))(t)
		defer tx.Rollback()
		rows := must.Get(tx.QueryContext(ctx, "SELECT id FROM sales WHERE id = 'frozen' FOR UPDATE SKIP LOCKED"))(t)
		defer rows.Close()
		return !rows.Next()
	}
	inside := false
	for try := 0; try < 200 && !inside; try++ {
		if try > 0 {
			_ = servertest.Thaw(child.Process.Pid)
			time.Sleep(time.Duration(try%17) * time.Millisecond)
		}
		must.Succeed(t, servertest.Freeze(child.Process.Pid))
		for range 3 { // what was on its way may still be done
			time.Sleep(50 * time.Millisecond)
			inside = locked()
		}
	}
	if !inside {
		t.Skip("the child was never caught inside an insert")
	}
	start := time.Now()
	if n, err := expireDue(soon(t), s, 100); n != 10 || time.Since(start) > stuckFor {
		t.Errorf("%d expired in %v, %v, want those of the other sale", n, time.Since(start), err)
	}
	for locked() && time.Since(start) < time.Minute {
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("the row was locked for %v", time.Since(start))
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the row was locked for %v", took)
	}
	if _, err := s.Insert(soon(t), "frozen", []port.Entry{sources["frozen"].entry(5)}); err != nil {
		t.Error(err)
	}
	if n, err := expireDue(soon(t), s, 100); n != 10 || err != nil {
		t.Errorf("%d expired, %v, once the row is free", n, err)
	}
}
