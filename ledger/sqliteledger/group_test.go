package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// queued waits until so many ops are queued behind a commit that hangs.
func (fl *failing) queued(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		fl.queue.mu.Lock()
		have := len(fl.queue.ops)
		fl.queue.mu.Unlock()
		if have == n {
			return
		}
	}
	t.Fatalf("%d ops were never queued", n)
}

// together has the writer run the ops as one group, in this order, and returns
// their errors.
func (fl *failing) together(t *testing.T, ops ...func() error) []error {
	t.Helper()
	reached, goOn := fl.hold()
	first := make(chan error, 1)
	go func() { first <- fl.Fence(context.Background(), "gate", 1, "x") }()
	<-reached
	errs := make([]error, len(ops))
	done := make(chan struct{})
	for i, op := range ops {
		go func() {
			errs[i] = op()
			done <- struct{}{}
		}()
		fl.queued(t, i+1)
	}
	goOn()
	for range ops {
		<-done
	}
	fl.set(nil)
	if err := <-first; err != nil {
		t.Error(err)
	}
	return errs
}

func openGated(t *testing.T) *failing {
	t.Helper()
	fl := openFailing(t)
	must.Succeed(t, errors.Join(
		fl.Load(t.Context(), port.LoadImage{Sale: "gate", Epoch: 1, Terms: fl.reading(t).Terms}),
		fl.Unfence(t.Context(), "gate", 1),
	))
	return fl
}

// state is all that readers see of the sale.
func (fl *failing) state(t *testing.T) (port.Reading, []port.Record, []port.Entry) {
	t.Helper()
	r := fl.reading(t)
	r.Now = time.Time{}
	var records []port.Record
	var entries []port.Entry
	must.Succeed(t, errors.Join(
		fl.Records(t.Context(), "s", func(r port.Record) bool { records = append(records, r); return true }),
		fl.PeekJournal(t.Context(), "s", func(e port.Entry) bool { entries = append(entries, e); return true }),
	))
	return r, records, entries
}

// TestGroup: ops of one group see each other, in order; calls for one sale
// share a row until something else is written for it; and the file says the
// same as memory.
func TestGroup(t *testing.T) {
	fl := openGated(t)
	terms := fl.reading(t).Terms
	var got [7][]sluice.Decision
	claim := func(n, from, count int) func() error {
		return func() (err error) {
			got[n], err = fl.Claim(context.Background(), "s", someClaims(from, count))
			return err
		}
	}
	raised := terms
	raised.Version, raised.Total = 2, 11
	errs := fl.together(t,
		claim(0, 1, 3), claim(1, 3, 2), // 3 is a repeat of what is not committed yet
		func() error { return fl.Apply(context.Background(), "s", 1, raised) },
		claim(2, 5, 2),
		func() error { return fl.Fence(context.Background(), "s", 1, "why") },
		claim(3, 1, 1),
		func() error { return fl.Unfence(context.Background(), "s", 1) },
		claim(4, 7, 6), // of which 5 fit
		func() error {
			return fl.Load(context.Background(), port.LoadImage{Sale: "s", Epoch: 1, Terms: terms})
		},
	)
	for i, err := range errs[:8] {
		if err != nil {
			t.Errorf("op %d: %v", i, err)
		}
	}
	if !errors.Is(errs[8], port.ErrStaleEpoch) {
		t.Errorf("load: %v, want ErrStaleEpoch", errs[8])
	}
	if d := got[1]; !d[0].Replayed || d[0].Seq != 3 || d[1].Replayed || d[1].Seq != 4 {
		t.Errorf("%+v, want a repeat at 3 and a claim at 4", d)
	}
	if d := got[3][0]; d.Code != sluice.Unavailable {
		t.Errorf("behind the fence: %+v", d)
	}
	if d := got[4]; d[4].Seq != 11 || d[5].Code != sluice.SoldOut {
		t.Errorf("%+v, want the last unit at 11, then sold out", d)
	}
	reading, records, entries := fl.state(t)
	if reading.Seq != 11 || reading.Backlog != 3 {
		t.Errorf("%+v, want seq 11 in 3 entries", reading)
	}
	var rows []string
	for _, e := range entries {
		rows = append(rows, fmt.Sprintf("%d+%d v%d", e.FirstSeq, len(e.Claims), e.Terms))
	}
	if d := cmp.Diff([]string{"1+4 v1", "5+2 v2", "7+5 v2"}, rows); d != "" {
		t.Errorf("entries: -want +got\n%s", d)
	}

	must.Succeed(t, fl.Close())
	again := must.Get(Open(t.Context(), fl.path, Options{Node: "a"}))(t)
	defer again.Close()
	fl.Ledger = again
	reading2, records2, entries2 := fl.state(t)
	for _, d := range []string{cmp.Diff(reading, reading2), cmp.Diff(records, records2), cmp.Diff(entries, entries2)} {
		if d != "" {
			t.Errorf("-before +after the restart\n%s", d)
		}
	}
}

// TestLoadInGroup: a load in the middle of a group ends the old state, and its
// rows go from the file.
func TestLoadInGroup(t *testing.T) {
	fl := openGated(t)
	terms := fl.reading(t).Terms
	var before, fenced, after []sluice.Decision
	errs := fl.together(t,
		func() (err error) { before, err = fl.Claim(context.Background(), "s", someClaims(1, 2)); return err },
		func() error {
			return fl.Load(context.Background(), port.LoadImage{Sale: "s", Epoch: 2, Terms: terms})
		},
		func() (err error) { fenced, err = fl.Claim(context.Background(), "s", someClaims(1, 1)); return err },
		func() error { return fl.Unfence(context.Background(), "s", 2) },
		func() (err error) { after, err = fl.Claim(context.Background(), "s", someClaims(2, 1)); return err },
	)
	must.Succeed(t, errors.Join(errs...))
	if before[1].Seq != 2 || fenced[0].Code != sluice.Unavailable || after[0].Replayed || after[0].Seq != 1 {
		t.Errorf("%+v, %+v, %+v; want two claims, the fence, and the first claim of the new epoch", before, fenced, after)
	}
	reading, records, entries := fl.state(t)
	if reading.Epoch != 2 || reading.Seq != 1 || len(records) != 1 || len(entries) != 1 || entries[0].Epoch != 2 {
		t.Errorf("%+v, %d records, entries %+v", reading, len(records), entries)
	}
	must.Succeed(t, fl.Close())
	f := &file{db: openDB(fl.path, "ro")}
	defer f.close()
	var rows int
	must.Succeed(t, f.db.QueryRow(`SELECT count(*) FROM log WHERE sale = 's'`).Scan(&rows))
	if rows != 3 { // load, fence, claims
		t.Errorf("%d rows of the sale, want 3: the old epoch's are gone", rows)
	}
}

// TestHandedOutWhileLoading: the note that the old journal was handed out must
// not come behind the new load.
func TestHandedOutWhileLoading(t *testing.T) {
	fl := openGated(t)
	terms := fl.reading(t).Terms
	must.Get(fl.Claim(t.Context(), "s", someClaims(1, 2)))(t)
	reached, goOn := fl.hold()
	go fl.Fence(context.Background(), "gate", 1, "x")
	<-reached
	loaded := make(chan error)
	go func() { loaded <- fl.Load(context.Background(), port.LoadImage{Sale: "s", Epoch: 2, Terms: terms}) }()
	fl.queued(t, 1)
	if entries, err := fl.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New, Max: 9}); len(
		entries) != 1 || err != nil {
		t.Errorf("%d entries, %v; want 1", len(entries), err)
	}
	fl.queued(t, 2)
	goOn()
	must.Succeed(t, errors.Join(<-loaded, fl.Close()))
	again := must.Get(Open(t.Context(), fl.path, Options{Node: "a"}))(t)
	defer again.Close()
	fl.Ledger = again
	if r := fl.reading(t); r.Fence != port.FenceLoading || r.Epoch != 2 {
		t.Errorf("%+v, want epoch 2, fenced as loading", r)
	}
}

// TestRowsAreBounded: many calls in one group make rows of a readable size.
func TestRowsAreBounded(t *testing.T) {
	fl := openGated(t)
	terms := fl.reading(t).Terms
	terms.Version, terms.Total = 2, sluice.Unlimited
	must.Succeed(t, fl.Apply(t.Context(), "s", 1, terms))
	var ops []func() error
	for i := range 5 {
		ops = append(ops, func() error {
			_, err := fl.Claim(context.Background(), "s", someClaims(1+i*600, 600))
			return err
		})
	}
	must.Succeed(t, errors.Join(fl.together(t, ops...)...))
	_, records, entries := fl.state(t)
	var sizes []int
	for _, e := range entries {
		sizes = append(sizes, len(e.Claims))
	}
	if d := cmp.Diff([]int{1200, 1200, 600}, sizes); d != "" || len(records) != 3000 {
		t.Errorf("%d records, entries: -want +got\n%s", len(records), d)
	}
}

// TestCallerLeaves: its claim is still decided, and a repeat gets the decision.
func TestCallerLeaves(t *testing.T) {
	fl := openGated(t)
	reached, goOn := fl.hold()
	go fl.Fence(context.Background(), "gate", 1, "x")
	<-reached

	ctx, leave := context.WithCancel(context.Background())
	answered := make(chan error)
	claims := someClaims(1, 2)
	go func() {
		_, err := fl.Claim(ctx, "s", claims)
		answered <- err
	}()
	fl.queued(t, 1)
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("error %v, want outcome unknown", err)
	}
	clear(claims) // the slice is the caller's again
	goOn()
	decisions, err := fl.Claim(t.Context(), "s", someClaims(1, 2))
	if err != nil || !decisions[0].Replayed || !decisions[1].Replayed {
		t.Errorf("%+v, %v; want two repeats", decisions, err)
	}
	if _, err := fl.Claim(ctx, "s", someClaims(5, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if r := fl.reading(t); r.Taken != 2 {
		t.Errorf("taken %d, want 2: nothing is begun for a caller who has left", r.Taken)
	}
}

// written is the sale as the file has it.
func (fl *failing) written(t *testing.T) *sale {
	t.Helper()
	f := &file{db: openDB(fl.path, "ro")}
	defer f.close()
	all, _, err := f.replay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all["s"]
}
