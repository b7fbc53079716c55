package settle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// later moves the opening by an hour from now.
func later(s *sluice.Sale) error {
	s.OpensAt = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	return nil
}

// refusedState fails the test unless the sale's state did not allow it.
func refusedState(t *testing.T, err error, words string) {
	t.Helper()
	if state, ok := errors.AsType[*sluice.StateError](err); !ok || !strings.Contains(state.Detail, words) {
		t.Errorf("err = %v, want a sluice.StateError with %q", err, words)
	}
}

// The opening of a sale that has opened can be moved while no buyer has bought, and
// the pauses that an operator had set stay what they were.
func TestASaleThatHasOpenedIsPostponed(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	for _, paused := range []bool{false, true} {
		must.Get(r.desk.Open(ctx, id))(t)
		if paused {
			must.Get(r.desk.Pause(ctx, id))(t)
		}
		moved, err := r.desk.Patch(ctx, id, later)
		if err != nil || moved.Paused != paused || !moved.OpensAt.After(time.Now()) {
			t.Fatalf("postponed: %+v, %v; want paused %v", moved.Terms, err, paused)
		}
		if d := r.claim("alice"); d.Code != sluice.NotOpen {
			t.Errorf("a claim on a sale that was postponed is %v", d.Code)
		}
	}
	r.inStep(1)
}

// Of postponements at the same moment one takes the other's pause for an operator's, if
// it does not wait: the sale would open paused.
func TestPostponedTwiceAtOnce(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	for range 10 {
		must.Get(r.desk.Open(t.Context(), id))(t)
		var both sync.WaitGroup
		for range 3 {
			both.Go(func() { _, _ = r.desk.Patch(t.Context(), id, later) })
		}
		both.Wait()
		if r.sale().Paused {
			t.Fatal("the sale is paused, and no operator has paused it")
		}
	}
}

// An operator who pauses a sale that is paused for a moment, to postpone it, has paused
// it: it stays so.
func TestPausedWhileItIsPaused(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	ledger := &between{Ledger: r.ledger, claim: func() {
		if _, err := r.desk.Pause(t.Context(), id); err != nil {
			t.Error(err)
		}
	}}
	_, err := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger)).Patch(t.Context(), id, later)
	refusedState(t, err, "changed at the same moment")
	if !r.sale().Paused {
		t.Error("the operator's pause is over")
	}
	if _, err := r.desk.Patch(t.Context(), id, later); err != nil || !r.sale().Paused {
		t.Errorf("again: %v, paused %v", err, r.sale().Paused)
	}
}

// Nor is a pause taken back over a restock, which may have been one as well. Whoever is refused is told so.
func TestRestockedWhileItIsPaused(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	ledger := &between{Ledger: r.ledger, claim: func() {
		if _, err := r.desk.Restock(t.Context(), id, "more", 1); err != nil {
			t.Error(err)
		}
	}}
	_, err := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger)).Patch(t.Context(), id, later)
	refusedState(t, err, "it stays paused")
	if !r.sale().Paused {
		t.Error("the sale is not paused, and its operator was told that it is")
	}
}

// slowRecords reads records in vain from the second time on.
type slowRecords struct {
	settle.Ledger
	n int
}

func (l *slowRecords) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	if l.n++; l.n > 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Ledger.Records(ctx, sale, yield)
}

// A look for claims that takes too long ends in time, and the sale goes on.
func TestAPauseEndsWithItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	ledger := &slowRecords{Ledger: r.ledger}
	_, err := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger)).Patch(t.Context(), id, later)
	if !errors.Is(err, context.DeadlineExceeded) || r.sale().Paused || r.reading().Terms.Paused {
		t.Errorf("err = %v; paused: %v, in the ledger %v", err, r.sale().Paused, r.reading().Terms.Paused)
	}
}

// What is not allowed changes nothing: the sale sells on.
func TestWhatCannotBePostponed(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	version := r.sale().Version
	_, err := r.desk.Patch(ctx, id, func(s *sluice.Sale) error {
		s.OpensAt = s.OpensAt.Add(time.Minute)
		return nil
	})
	refusedState(t, err, "moved to later")
	_, err = r.desk.Patch(ctx, id, func(s *sluice.Sale) error { s.MaxPerBuyer = 1; return later(s) })
	refusedState(t, err, "max_per_buyer")
	if d := r.claim("alice"); d.Code != sluice.Accepted {
		t.Fatalf("a claim after what was refused is %v", d.Code)
	}
	_, err = r.desk.Patch(ctx, id, later)
	refusedState(t, err, "accepted")
	if sale := r.sale(); sale.Version != version || r.reading().Terms.Version != version {
		t.Errorf("version %d, in the ledger %d; want %d: nothing changed", sale.Version, r.reading().Terms.Version, version)
	}
	// A claim whose order has ended was one as well.
	must.Get(r.ledger.Release(ctx, id, []port.Release{{
		Order: id.Order(strings.Repeat("0a", 16)), Sale: id, Buyer: "alice", Quantity: 1, Epoch: 1,
	}}))(t)
	_, err = r.desk.Patch(ctx, id, later)
	refusedState(t, err, "accepted")
}

// between lets a claim be accepted just before the ledger is paused, so that the
// first look did not see it.
type between struct {
	settle.Ledger
	once  sync.Once
	claim func()
}

func (b *between) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	b.once.Do(b.claim)
	return b.Ledger.Apply(ctx, sale, epoch, terms)
}

// A claim that is accepted in the same moment wins: the opening stays, and the sale
// goes on.
func TestAClaimInTheSameMomentWins(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	opens := r.sale().OpensAt
	ledger := &between{Ledger: r.ledger, claim: func() {
		if d := r.claim("alice"); d.Code != sluice.Accepted {
			t.Errorf("the claim is %v", d.Code)
		}
	}}
	desk := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger))
	_, err := desk.Patch(ctx, id, later)
	refusedState(t, err, "accepted")
	if sale := r.sale(); sale.Paused || !sale.OpensAt.Equal(opens) || r.reading().Terms.Paused {
		t.Errorf("the sale: %+v", sale.Terms)
	}
	r.inStep(1)
}

// A sale that has not opened is deleted on both sides, and its id can be used again.
func TestDelete(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	for round := range 2 {
		if _, err := r.desk.Create(ctx, phone(time.Hour)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := r.desk.Delete(ctx, id); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := r.store.Sale(ctx, id); !errors.Is(err, sluice.ErrSaleNotFound) || r.reading().Loaded {
			t.Errorf("round %d: the store: %v; the ledger: %+v", round, err, r.reading())
		}
		if d := r.claim("alice"); d.Code == sluice.Accepted {
			t.Error("a claim on a sale that was deleted is accepted")
		}
	}
	if err := r.desk.Delete(ctx, id); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// A server that still has the row of a sale that was deleted gives its terms to no other
// sale of that id, nor fences or opens it, however far that one is loaded.
func TestWhatIsLeftOfADeletedSale(t *testing.T) {
	for steps := range 4 {
		r := newRig(t)
		ctx := t.Context()
		must.Get(r.desk.Create(ctx, phone(time.Hour)))(t)
		must.Get(r.desk.Patch(ctx, id, func(s *sluice.Sale) error { s.Total = 1000; return nil }))(t)
		before := r.sale()
		must.Succeed(t, r.desk.Delete(ctx, id))
		gone := r.reading()
		time.Sleep(2 * time.Millisecond) // the times of rows are whole milliseconds
		r.create(time.Hour)
		crashAfter(t, r, steps)
		fenced := before
		fenced.Fence = "lost"
		check := func(readings ...port.Reading) {
			t.Helper()
			terms, fence := r.reading().Terms, r.reading().Fence
			for _, reading := range readings {
				for _, seen := range []sluice.Sale{before, fenced} {
					if _, err := r.loader.Follow(ctx, &seen, &reading); err != nil {
						t.Error(err)
					}
				}
			}
			if now := r.reading(); !now.Terms.Same(&terms) || now.Fence != fence || r.sale().Fence != "" {
				t.Errorf("after %d steps: the ledger has %+v, fence %q; the store the fence %q", steps, now.Terms, now.Fence,
					r.sale().Fence)
			}
		}
		check(gone, r.reading())
		for r.follow(true) {
		}
		check(gone, r.reading())
		if sale, reading := r.sale(), r.reading(); sale.Total != 10 || !reading.Terms.Same(&sale.Terms) {
			t.Errorf("after %d steps: the store has %+v, the ledger %+v", steps, sale.Terms, reading.Terms)
		}
	}
}

// What the store would not delete stays in the ledger as well.
func TestDeletingLongLists(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(time.Hour)))(t)
	must.Get(r.store.ReplaceList(ctx, id, sluice.DenyList, func(yield func(sluice.BuyerID, error) bool) {
		for i := range port.MaxDeletedBuyers + 1 {
			if !yield(sluice.BuyerID(fmt.Sprint("buyer-", i)), nil) {
				return
			}
		}
	}))(t)
	refusedState(t, r.desk.Delete(ctx, id), "lists")
	r.inStep(1)
	if r.sale().Paused {
		t.Error("the sale is left paused")
	}
}

// A sale that has opened is not deleted, nor one of which a claim was accepted before
// it was postponed.
func TestWhatCannotBeDeleted(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	refusedState(t, r.desk.Delete(ctx, id), "not opened")
	r.inStep(1)
	if d := r.claim("alice"); d.Code != sluice.Accepted {
		t.Fatalf("a claim after what was refused is %v", d.Code)
	}
	refusedState(t, r.desk.Delete(ctx, id), "accepted")
}

// A claim that is accepted in the moment of the opening wins, also if the deletion had
// judged that the sale has not opened yet.
func TestTheOpeningBeatsTheDeletion(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(time.Second)))(t)
	ledger := &between{Ledger: r.ledger, claim: func() {
		for deadline := time.Now().Add(30 * time.Second); r.claim("alice").Code != sluice.Accepted; {
			if time.Now().After(deadline) {
				t.Error("the sale has not opened")
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}}
	err := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger)).Delete(ctx, id)
	if state, ok := errors.AsType[*sluice.StateError](err); !ok {
		t.Errorf("err = %v, want a *sluice.StateError", err)
	} else if strings.Contains(state.Detail, "accepted") && (r.sale().Paused || r.reading().Terms.Paused) {
		t.Error("the sale is left paused")
	}
	if d := r.claim("alice"); d.Code != sluice.Accepted || !d.Replayed || r.sale().ID != id {
		t.Errorf("the claim is %v, a repeat: %v, and the sale %+v", d.Code, d.Replayed, r.sale())
	}
}
