package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func lease(t *testing.T, s port.Store, name, holder string, ttl time.Duration) bool {
	t.Helper()
	fence := must.Get(s.Lease(t.Context(), name, holder, 0, ttl))(t)
	return fence > 0
}

func testLeases(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	for i, step := range []struct {
		name, holder string
		want         bool
	}{
		{"rebuild", "a", true},
		{"rebuild", "b", false},
		{"rebuild", "a", true},
		{"rebuild", "A", false},
		{"Rebuild", "b", true},
		{"rebuild ", "b", true},
		{"rebuild", "b", false},
	} {
		if got := lease(t, []port.Store{s, other}[i%2], step.name, step.holder, time.Hour); got != step.want {
			t.Errorf("step %d: %s for %s: %v, want %v", i, step.name, step.holder, got, step.want)
		}
	}
	unlease := func(name, holder string) {
		t.Helper()
		must.Succeed(t, s.Unlease(t.Context(), name, holder))
	}
	unlease("rebuild", "b") // does not hold it
	if lease(t, s, "rebuild", "b", time.Hour) {
		t.Error("a server gave back the lease of another")
	}
	unlease("rebuild", "a")
	unlease("rebuild", "a")
	unlease("never", "a")
	unlease("", "\xff")
	if !lease(t, s, "rebuild", "b", time.Hour) || lease(t, s, "rebuild", "a", time.Hour) {
		t.Error("a lease that was given back is not the next one's")
	}
	for _, bad := range []struct {
		name, holder string
		ttl          time.Duration
	}{
		{"", "a", time.Hour},
		{"x", "", time.Hour},
		{"x", "a", 0},
		{"x", "a", -time.Hour},
		{"x", "a\x00", time.Hour},
		{strings.Repeat("x", 256), "a", time.Hour},
		{"x", "\xff", time.Hour},
	} {
		if got, err := s.Lease(t.Context(), bad.name, bad.holder, 0, bad.ttl); err == nil || got != 0 {
			t.Errorf("%q for %q, %v: %v, %v, want an error", bad.name, bad.holder, bad.ttl, got, err)
		}
	}
}

// A lease ends by the store's clock, and until then no other server gets it.
func testLeaseExpires(t *testing.T, db Database) {
	s := db.Open(t)
	const ttl = 300 * time.Millisecond
	began := time.Now()
	if !lease(t, s, "x", "a", ttl) {
		t.Fatal("not taken")
	}
	for !lease(t, s, "x", "b", ttl) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a lease that is not renewed does not end")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(began); took < ttl-10*time.Millisecond {
		t.Errorf("taken over after %v, want %v", took, ttl)
	}
	if lease(t, s, "x", "a", ttl) {
		t.Error("the one before got it back at once")
	}
	// Renewing counts from the renewal.
	if !lease(t, s, "y", "a", time.Millisecond) {
		t.Fatal("not taken")
	}
	if !lease(t, s, "y", "a", time.Hour) {
		t.Error("not renewed, or not taken again")
	}
	time.Sleep(5 * time.Millisecond) // longer than the first term
	if lease(t, s, "y", "b", time.Hour) {
		t.Error("taken over before it ended")
	}
}

// Several servers want a lease, and one at a time has it.
func testConcurrentLeases(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	const rounds = 12
	var holding, got atomic.Int64
	var running sync.WaitGroup
	for worker := range 6 {
		running.Go(func() {
			s, me := handles[worker%3], fmt.Sprint("node-", worker)
			for round := range rounds {
				name := fmt.Sprint("job-", round/4) // new names are wanted by all at once, too
				fence, err := s.Lease(t.Context(), name, me, 0, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if fence == 0 {
					continue
				}
				got.Add(1)
				if n := holding.Add(int64(1) << (8 * (round / 4))); n>>(8*(round/4))&0xff != 1 {
					t.Errorf("%s is held by %d", name, n>>(8*(round/4))&0xff)
				}
				if renewed, err := s.Lease(t.Context(), name, me, fence, time.Hour); err != nil || renewed != fence {
					t.Errorf("not renewed: %v", err)
				}
				holding.Add(-(int64(1) << (8 * (round / 4))))
				if err := s.Unlease(t.Context(), name, me); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if got.Load() < 3 {
		t.Errorf("leases were taken %d times", got.Load())
	}
	// All at once, and no server gives it back: one holds it.
	for round := range 5 {
		var winners atomic.Int64
		start := make(chan bool)
		for worker := range 6 {
			running.Go(func() {
				<-start
				fence, err := handles[worker%3].Lease(t.Context(), fmt.Sprint("once-", round),
					fmt.Sprint("node-", worker), 0, time.Hour)
				if err != nil {
					t.Error(err)
				}
				if fence > 0 {
					winners.Add(1)
				}
			})
		}
		close(start)
		running.Wait()
		if winners.Load() != 1 {
			t.Errorf("a lease was taken by %d", winners.Load())
		}
	}
}

func testHeartbeats(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	live := func(within time.Duration, want ...string) {
		t.Helper()
		got, err := other.LiveServers(t.Context(), within)
		if diff := cmp.Diff(want, port.Nodes(got), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("live: %v (-want +got):\n%s", err, diff)
		}
	}
	beat := func(node string) {
		t.Helper()
		must.Succeed(t, s.Heartbeat(t.Context(), port.Server{Node: node}))
	}
	live(time.Hour)
	for _, node := range []string{"b", "a", "b", "b", "手机"} {
		beat(node)
	}
	live(time.Hour, "a", "b", "手机")
	for {
		got := must.Get(other.LiveServers(t.Context(), 50*time.Millisecond))(t)
		if len(got) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	beat("b")
	live(time.Hour, "a", "b", "手机")
	is := port.Server{
		Node: "b", Version: "v1", Admin: "10.0.0.2:9090", Shared: map[string]string{"buyer_secret": "5f0c81d2"},
	}
	must.Succeed(t, s.Heartbeat(t.Context(), is))
	want := []port.Server{{Node: "a"}, is, {Node: "手机"}}
	if diff := cmp.Diff(want, must.Get(other.LiveServers(t.Context(), time.Hour))(t)); diff != "" {
		t.Errorf("servers: (-want +got):\n%s", diff)
	}
	if got, err := other.LiveServers(t.Context(), 40*time.Millisecond); err != nil || len(got) > 1 || len(got) == 1 &&
		got[0].Node != "b" {
		t.Errorf("lately: %v, %v, want b", got, err)
	}
	for _, node := range []string{"", "\xff", "a\x00", strings.Repeat("x", 256)} {
		if err := s.Heartbeat(t.Context(), port.Server{Node: node}); err == nil {
			t.Errorf("heartbeat of %q: no error", node)
		}
	}
}

// The store's clock stepped back by an hour while a server was dead: what the
// server left behind lies in the future, and holds up the others no longer than
// if the clock had gone on.
func testClockStepsBack(t *testing.T, db Database) {
	s := db.Open(t)
	const ttl, within = 15 * time.Second, 5 * time.Second
	for _, node := range []string{"dead", "alive"} {
		must.Succeed(t, s.Heartbeat(t.Context(), port.Server{Node: node}))
	}
	for _, name := range []string{"jobs", "renewed"} {
		if !lease(t, s, name, "dead", ttl) {
			t.Fatal("not taken")
		}
	}
	stepBack(t, db, time.Hour)
	must.Succeed(t, s.Heartbeat(t.Context(), port.Server{Node: "alive"}))
	if got, err := s.LiveServers(t.Context(), within); err != nil || len(got) != 1 || got[0].Node != "alive" {
		t.Errorf("live: %v, %v; want only the server that has sent a heartbeat since", got, err)
	}
	if !lease(t, s, "jobs", "alive", ttl) || lease(t, s, "jobs", "dead", ttl) {
		t.Error("a lease of the future is not expired, or not the next one's")
	}
	if !lease(t, s, "renewed", "dead", ttl) || lease(t, s, "renewed", "alive", ttl) {
		t.Error("its holder cannot renew a lease of the future")
	}
	// A small step changes nothing: the holder is at work.
	if !lease(t, s, "small", "a", ttl) {
		t.Fatal("not taken")
	}
	stepBack(t, db, 500*time.Millisecond)
	if lease(t, s, "small", "b", ttl) {
		t.Error("a clock that stepped back by half a second ended a lease")
	}
	if got, err := s.LiveServers(t.Context(), within); err != nil || len(got) != 1 || got[0].Node != "alive" {
		t.Errorf("live after a small step: %v, %v", got, err)
	}
}

// stepBack moves what the store has noted of the cluster ahead, which is the
// same as a clock that steps back.
func stepBack(t *testing.T, db Database, by time.Duration) {
	t.Helper()
	for table, column := range map[string]string{"nodes": "seen_at", "leases": "expires_at"} {
		db.Execute(t, fmt.Sprintf("UPDATE %s SET %s = %s", table, column, db.Earlier(column, fmt.Sprint(-by.Seconds()))))
	}
}

func testConcurrentHeartbeats(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t)}
	var running sync.WaitGroup
	for worker := range 6 {
		running.Go(func() {
			for range 10 {
				if err := handles[worker%2].Heartbeat(t.Context(), port.Server{Node: fmt.Sprint("node-", worker/2)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if got, err := handles[0].LiveServers(t.Context(), time.Hour); err != nil || len(got) != 3 {
		t.Errorf("live: %v, %v, want 3", got, err)
	}
}

func testGathered(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	create(t, s, aSale("tablets", 10))
	mark := func(sale sluice.SaleID, epoch int64, node string) {
		t.Helper()
		must.Succeed(t, s.MarkGathered(t.Context(), sale, epoch, node, ""))
	}
	mark("phones", 1, "b")
	mark("phones", 1, "a")
	mark("phones", 1, "b")
	mark("phones", 2, "c")
	mark("tablets", 1, "d")
	// Gathered for a ledger that another one has replaced meanwhile: not for this one.
	must.Succeed(t, s.MarkGathered(t.Context(), "phones", 1, "e", "redis:replaced"))
	for _, test := range []struct {
		sale  sluice.SaleID
		epoch int64
		want  []string
	}{
		{"phones", 1, []string{"a", "b"}},
		{"phones", 2, []string{"c"}},
		{"tablets", 1, []string{"d"}},
		{"phones", 3, nil},
		{"none", 1, nil},
	} {
		got, err := s.Gathered(t.Context(), test.sale, test.epoch)
		if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s, epoch %d: %v (-want +got):\n%s", test.sale, test.epoch, err, diff)
		}
	}
	if err := s.MarkGathered(t.Context(), "phones", 1, "", ""); err == nil {
		t.Error("a mark without a server: no error")
	}
}

// A sale is loaded into the ledger that its row names, and into no other until that one
// has taken it.
func testTakeSale(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	must.Get(s.CreateSale(t.Context(), aSale("lamp", 10)))(t)
	s.UseLedger("redis:one")
	image, err := s.BeginLoad(t.Context(), "lamp", 0)
	if err == nil {
		err = s.ConfirmLoad(t.Context(), "lamp", image.Epoch)
	}
	if err == nil {
		err = s.MarkGathered(t.Context(), "lamp", image.Epoch, "node-1", "")
	}
	if err == nil {
		err = s.Heartbeat(t.Context(), port.Server{Node: "node-1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	take := func(ledger, node string, within time.Duration, want bool, refused string) {
		t.Helper()
		other.UseLedger(ledger)
		taken, err := other.TakeSale(t.Context(), "lamp", node, within, "moved")
		state, is := errors.AsType[*sluice.StateError](err)
		if taken != want || is != (refused != "") || is && !strings.Contains(state.Detail, refused) || err != nil && !is {
			t.Errorf("%s at %s takes the sale: %v, %v, want %v, %q", ledger, node, taken, err, want, refused)
		}
	}
	const never = time.Hour
	take("redis:one", "node-2", never, false, "")                  // has it
	take("redis:two", "node-2", time.Microsecond, false, "lately") // the store knows of no server that lives
	take("redis:two", "node-2", never, false, "that of node-1")    // has the ledger before
	must.Succeed(t, other.Heartbeat(t.Context(), port.Server{Node: "node-2"}))
	take("redis:two", "node-2", never, false, "that of node-1")
	if _, err := other.BeginLoad(t.Context(), "lamp", 0); !errors.Is(err, port.ErrOtherLedger) {
		t.Errorf("a load into another ledger: %v", err)
	}
	take("store", "node-1", never, true, "")
	sale, err := s.Sale(t.Context(), "lamp")
	if err != nil || sale.Ledger != "store" || sale.Fence != "moved" || sale.Epoch != image.Epoch {
		t.Errorf("%+v, %v", sale, err)
	}
	if nodes, err := s.Gathered(t.Context(), "lamp", image.Epoch); err != nil || len(nodes) > 0 {
		t.Errorf("gathered for the ledger before: %v, %v", nodes, err)
	}
	if _, err := s.BeginLoad(t.Context(), "lamp", 0); !errors.Is(err, port.ErrOtherLedger) {
		t.Errorf("a load into the ledger before: %v", err)
	}
	if image, err := other.BeginLoad(t.Context(), "lamp", 0); err != nil || image.Epoch != 2 {
		t.Errorf("%+v, %v", image, err)
	}
}

// What has done its work goes: of archived sales the lists, old leases, marks of
// epochs that are over. The rest stays.
func testTidy(t *testing.T, db Database) {
	s := db.Open(t)
	over, on := aSale("over", 10), aSale("on", 10)
	over.OpensAt, over.ClosesAt = time.Now().Add(-48*time.Hour), time.Time{}
	create(t, s, over)
	create(t, s, on)
	for _, id := range []sluice.SaleID{"over", "on"} {
		replace(t, s, id, sluice.DenyList, "eve")
		replace(t, s, id, sluice.AllowList, "ann", "bob", "cy")
		for epoch := range int64(2) {
			must.Succeed(t, s.MarkGathered(t.Context(), id, epoch, "a", ""))
		}
	}
	for _, name := range []string{"old", "held"} {
		if got, err := s.Lease(t.Context(), name, "a", 0, time.Hour); got == 0 || err != nil {
			t.Fatal(got, err)
		}
	}
	const longAgo = "(SELECT opens_at FROM sales WHERE id = 'over')"
	db.Execute(t, "UPDATE leases SET expires_at = "+longAgo+" WHERE name = 'old'")
	db.Execute(t, "UPDATE gathered SET gathered_at = "+longAgo)
	closed(t, s, "over")
	if archived, err := s.Archive(t.Context(), "over"); !archived || err != nil {
		t.Fatal(archived, err)
	}
	for range 2 {
		must.Succeed(t, s.Tidy(t.Context()))
	}
	lists, err := s.Lists(t.Context())
	if err != nil || len(lists) != 2 || lists[0].Sale != "on" || lists[1].Sale != "on" {
		t.Errorf("lists %+v, %v, want the two of the sale that goes on", lists, err)
	}
	// What is left of the other list would be in the way of these rows.
	for _, buyer := range []string{"ann", "bob", "cy"} {
		db.Execute(t, "INSERT INTO sale_buyers (sale_id, kind, generation, buyer_id) VALUES ('over', 'allow', 1, '"+buyer+
			"')")
	}
	db.Execute(t, "INSERT INTO leases (name, holder, expires_at) VALUES ('old', 'b', "+longAgo+")")
	if got, err := s.Lease(t.Context(), "held", "b", 0, time.Hour); got != 0 || err != nil {
		t.Errorf("a lease that is held is taken by another: %v, %v", got, err)
	}
	for _, id := range []sluice.SaleID{"over", "on"} {
		for epoch, want := range []int{0, 1} {
			if nodes, err := s.Gathered(t.Context(), id, int64(epoch)); err != nil || len(nodes) != want {
				t.Errorf("%s, epoch %d: gathered by %v, %v, want %d", id, epoch, nodes, err, want)
			}
		}
	}
}
