package sqliteledger

import (
	"context"
	"errors"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func releasesOf(epoch int64, claims ...sluice.Claim) []port.Release {
	var releases []port.Release
	for _, c := range claims {
		releases = append(releases, port.Release{
			Order: c.Order, Sale: "s", Buyer: c.Buyer, Key: c.Key,
			Quantity: c.Quantity, Epoch: epoch,
		})
	}
	return releases
}

// TestReleaseIsSeenWithItsCommit: until then readers find the orders live.
func TestReleaseIsSeenWithItsCommit(t *testing.T) {
	fl := openFailing(t)
	claims := someClaims(1, 4)
	must.Get(fl.Claim(t.Context(), "s", claims))(t)
	must.Get(fl.Release(t.Context(), "s", releasesOf(1, claims[0])))(t)
	live := func() (n int) {
		err := fl.Records(t.Context(), "s", func(r port.Record) bool {
			if r.Live {
				n++
			}
			return true
		})
		found, findErr := fl.Find(t.Context(), claims[1].Order, claims[1].Buyer)
		if err := errors.Join(err, findErr); err != nil {
			t.Error(err)
		}
		if found.Live != (n == 3) {
			t.Errorf("Find says live %t, Records have %d live", found.Live, n)
		}
		if r := fl.reading(t); r.Taken != int64(n) {
			t.Errorf("taken %d, with %d live", r.Taken, n)
		}
		return n
	}
	reached, goOn := fl.hold()
	done := make(chan error)
	go func() {
		_, err := fl.Release(context.Background(), "s", releasesOf(1, claims[1:3]...))
		done <- err
	}()
	<-reached
	if n := live(); n != 3 {
		t.Errorf("%d live before the commit, want 3", n)
	}
	goOn()
	must.Succeed(t, <-done)
	if n := live(); n != 1 {
		t.Errorf("%d live after it, want 1", n)
	}
}

// TestReleaseInGroup: claims after a release stand after it in the log, so
// that a restart finds the sale in cooldown only if it is.
func TestReleaseInGroup(t *testing.T) {
	fl := openGated(t)
	must.Get(fl.Claim(t.Context(), "s", someClaims(1, 3)))(t)
	errs := fl.together(t,
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(4, 5)); return err },
		func() error { // two units are left: no cooldown
			_, err := fl.Release(context.Background(), "s", releasesOf(1, someClaims(1, 3)...))
			return err
		},
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(9, 5)); return err },
		func() error { // what was accepted in this group may end in it
			_, err := fl.Release(context.Background(), "s", releasesOf(1, someClaims(4, 1)...))
			return err
		},
	)
	must.Succeed(t, errors.Join(errs...))
	before, records, entries := fl.state(t)
	if before.Taken != 9 || before.Seq != 13 || len(entries) != 3 {
		t.Errorf("%+v, %d entries; want 9 taken, seq 13, 3 entries", before, len(entries))
	}
	if fl.written(t).cooldown == 0 { // a reading forgets it once it is over
		t.Error("no rest after the last release")
	}
	must.Succeed(t, fl.Close())
	again := must.Get(Open(t.Context(), fl.path, Options{Node: "a"}))(t)
	defer again.Close()
	fl.Ledger = again
	after, records2, _ := fl.state(t)
	if after.Taken != 9 || after.Seq != 13 || after.Fence != "" || len(records) != len(records2) {
		t.Errorf("after a restart %+v, before it %+v", after, before)
	}
	for i := range records {
		if records[i] != records2[i] {
			t.Errorf("record %d: %+v, before it %+v", i, records2[i], records[i])
		}
	}
}

// TestNoRestInvented: the order of rows decides whether a sale was sold out
// when units returned.
func TestNoRestInvented(t *testing.T) {
	fl := openGated(t)
	must.Get(fl.Claim(t.Context(), "s", someClaims(1, 3)))(t)
	errs := fl.together(t,
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(4, 5)); return err },
		func() error {
			_, err := fl.Release(context.Background(), "s", releasesOf(1, someClaims(1, 3)...))
			return err
		},
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(9, 2)); return err },
	)
	must.Succeed(t, errors.Join(errs...))
	if s := fl.written(t); s.cooldown != 0 || s.taken != 7 {
		t.Errorf("cooldown %v, taken %d after reading the log; want none, 7", s.cooldown, s.taken)
	}
}

// TestIDsAreNotUsedAgain: after the last sale is dropped, and after a restart,
// rows go on where they were; and the rows of drops do not pile up.
func TestIDsAreNotUsedAgain(t *testing.T) {
	fl := openFailing(t)
	terms := fl.reading(t).Terms
	entryID := func() string {
		t.Helper()
		must.Get(fl.Claim(t.Context(), "s", someClaims(1, 1)))(t)
		_, _, entries := fl.state(t)
		if len(entries) != 1 {
			t.Fatalf("%d entries, want 1", len(entries))
		}
		must.Succeed(t, fl.Ack(t.Context(), "s", []string{entries[0].ID}))
		return entries[0].ID
	}
	ids := map[string]bool{entryID(): true}
	for range 3 {
		must.Succeed(t, errors.Join(fl.Drop(t.Context(), "s", 1), fl.Close()))
		again := must.Get(Open(t.Context(), fl.path, Options{Node: "a"}))(t)
		defer again.Close()
		fl.Ledger = again
		must.Succeed(t, errors.Join(
			fl.Load(t.Context(), port.LoadImage{Sale: "s", Epoch: 1, Terms: terms}), fl.Unfence(t.Context(), "s", 1),
		))
		if id := entryID(); ids[id] {
			t.Errorf("entry %s for the second time: a late acknowledgement would take it away", id)
		} else {
			ids[id] = true
		}
	}
	f := &file{db: openDB(fl.path, "ro")}
	defer f.close()
	var drops int
	if err := f.db.QueryRow(`SELECT count(*) FROM log WHERE kind = 'drop'`).Scan(&drops); err != nil || drops != 1 {
		t.Errorf("%d rows of drops, %v; want 1", drops, err)
	}
}

// TestDropInGroup: claims that are on their way to the journal keep their sale.
func TestDropInGroup(t *testing.T) {
	fl := openGated(t)
	terms := fl.reading(t).Terms
	var early, late error
	fl.together(t,
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(1, 1)); return err },
		func() error { early = fl.Drop(context.Background(), "s", 1); return nil },
		func() error {
			return fl.Load(context.Background(), port.LoadImage{Sale: "s", Epoch: 2, Terms: terms})
		},
		func() error { return fl.Unfence(context.Background(), "s", 2) },
		func() error { _, err := fl.Claim(context.Background(), "s", someClaims(1, 1)); return err },
		func() error { late = fl.Drop(context.Background(), "s", 2); return nil },
	)
	if early == nil || late == nil {
		t.Errorf("drops: %v, %v; want errors", early, late)
	}
	if r := fl.reading(t); !r.Loaded || r.Epoch != 2 || r.Seq != 1 {
		t.Errorf("%+v, want epoch 2 with its claim", r)
	}
}
