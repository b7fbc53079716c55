package settle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// Claims of a lost epoch are claimed again under their own ids. What the buyer
// was promised counts: an order of another id under the same key is no
// replacement, so the promised one is listed as lost.
func TestClaimsOfALostEpoch(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 3
	must.Get(r.desk.Create(ctx, sale))(t)
	claim := func(buyer string, order int) sluice.Claim {
		return sluice.Claim{
			Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1,
			Order: id.Order(fmt.Sprintf("%032x", order)),
		}
	}
	accept := func(c sluice.Claim) {
		t.Helper()
		decisions, err := r.ledger.Claim(ctx, id, []sluice.Claim{c})
		if err != nil || decisions[0].Code != sluice.Accepted || decisions[0].Order != c.Order {
			t.Fatalf("%s: %v, %v", c.Buyer, decisions, err)
		}
	}
	accept(claim("stored", 1))
	r.drain()
	r.loseLedger()
	r.follow(false)
	fenced := r.sale()
	must.Succeed(t, r.store.Heartbeat(ctx, port.Server{Node: "a"}))
	if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	r.inStep(2)
	accept(claim("again", 20)) // has lost patience: the same key, and so another order
	r.drain()

	// A server that was silent comes back with what it received before.
	aside := port.Entry{
		ID: "late", Sale: id, Epoch: 1, Node: "b", Terms: 1, At: time.Now().UTC().Truncate(time.Millisecond), FirstSeq: 2,
		Claims: []sluice.Claim{claim("stored", 1), claim("again", 2), claim("patient", 3), claim("beyond", 4)},
	}
	must.Succeed(t, r.store.SetAside(ctx, aside.DeadLetter(port.ErrStaleEpoch)))
	letters, err := r.store.DeadLetters(ctx, id)
	if err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	memory := settle.NewMemory(0)
	replay := func() (waits bool) {
		t.Helper()
		current := r.sale()
		again := must.Get(settle.NewReplayer(r.store, r.ledger, r.loader,
			func(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
				memory.Decided(sale, "a", claims, decisions)
			}).Pending(ctx, &current))(t)
		return !again.IsZero()
	}
	order := func(n int) sluice.OrderID { return claim("", n).Order }
	remembers := func(epoch int64) bool {
		return slices.ContainsFunc(memory.Until(id, epoch), func(e port.Entry) bool {
			return e.Epoch == epoch && slices.ContainsFunc(e.Claims, func(c sluice.Claim) bool { return c.Order == order(3) })
		})
	}
	for range 2 { // until the store has the order, the letter stays
		if !replay() || !remembers(2) {
			t.Error("a claim that is accepted again, and not stored, is forgotten")
		}
	}
	// The ledger forgets it once more. Neither memory nor letter does.
	r.loseLedger()
	r.follow(false)
	fenced = r.sale()
	if done, err := r.rebuilder("b", settle.NewMemory(0)).Step(ctx, &fenced); done || err != nil { // waits for a
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	r.inStep(3)
	if _, err := r.store.Order(ctx, order(3)); err != nil {
		t.Errorf("a claim that the ledger has forgotten twice is not stored: %v", err)
	}
	for range 2 { // the second time finds it done
		if replay() {
			t.Error("it waits for what the store has")
		}
	}

	for _, want := range []struct {
		order  int
		stored bool
	}{{1, true}, {2, false}, {3, true}, {4, false}, {20, true}} {
		_, err := r.store.Order(ctx, order(want.order))
		if stored := err == nil; stored != want.stored {
			t.Errorf("order %d: stored %v (%v), want %v", want.order, stored, err, want.stored)
		}
	}
	if letters, err = r.store.DeadLetters(ctx, id); err != nil || len(letters) != 1 {
		t.Fatalf("%d dead letters, %v; want one that lists what is lost", len(letters), err)
	}
	lost := must.Get(port.ParseClaims(letters[0].Claims))(t)
	var ids []sluice.OrderID
	for i := range lost {
		ids = append(ids, lost[i].Order)
	}
	if !slices.Equal(ids, []sluice.OrderID{order(2), order(4)}) {
		t.Errorf("listed as lost: %v; want the orders 2 (replaced) and 4 (no units)", ids)
	}
	if r.reading().Taken != 3 {
		t.Errorf("taken %d, want 3", r.reading().Taken)
	}

	// A person who replays what is listed finds the order that took the place; a
	// letter of which no other claim is left is resolved.
	replayer := settle.NewReplayer(r.store, r.ledger, r.loader, func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {})
	byHand := func(letter int64, saved, lost []sluice.OrderID) {
		t.Helper()
		got, err := replayer.Replay(ctx, letter)
		if err != nil || !slices.Equal(got.Saved, saved) || !slices.Equal(got.Lost, lost) {
			t.Errorf("replayed: %+v, %v; want %v saved and %v lost", got, err, saved, lost)
		}
	}
	byHand(letters[0].ID, []sluice.OrderID{order(20)}, []sluice.OrderID{order(4)})
	aside.ID, aside.Claims = "later", aside.Claims[1:2]
	must.Succeed(t, r.store.SetAside(ctx, aside.DeadLetter(port.ErrStaleEpoch)))
	replay()
	if letters, err = r.store.DeadLetters(ctx, id); err != nil || len(letters) != 2 ||
		letters[1].Reason != "promise lost: the buyer has another order for the key" {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	byHand(letters[1].ID, []sluice.OrderID{order(20)}, nil)
	if left, err := r.store.DeadLetters(ctx, id); err != nil || len(left) != 1 || left[0].ID != letters[0].ID {
		t.Errorf("dead letters %+v, %v; want the first", left, err)
	}
}

// letters are the store and the ledger of a sale whose dead letters cannot be dealt
// with: claims of "waits" are accepted again and never stored, those of "fails" are not
// decided.
type letters struct {
	port.Store
	port.Decider
	all   []port.DeadLetter
	sale  sluice.Sale
	tried map[sluice.BuyerID]int
}

func (l *letters) DeadLetters(context.Context, sluice.SaleID) ([]port.DeadLetter, error) {
	return l.all, nil
}

func (l *letters) DeadLetter(_ context.Context, id int64) (port.DeadLetter, error) {
	return l.all[id], nil
}

func (l *letters) Sale(context.Context, sluice.SaleID) (sluice.Sale, error) { return l.sale, nil }

func (l *letters) Claim(context.Context, sluice.ClaimID) (sluice.Order, error) {
	return sluice.Order{}, sluice.ErrOrderNotFound
}

// decider is the ledger's half; both have a method Claim.
type decider struct {
	port.Decider
	*letters
}

func (d decider) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	d.tried[claims[0].Buyer]++
	if claims[0].Buyer == "fails" {
		return nil, errors.New("connection refused")
	}
	return []sluice.Decision{{Code: sluice.Accepted, Order: claims[0].Order, Epoch: d.sale.Epoch, Seq: 1}}, nil
}

// What cannot be replayed is tried less and less often, holds up nothing that comes
// after it, and is tried at once under another epoch.
func TestLettersThatRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &letters{sale: sluice.Sale{ID: id, Epoch: 2}, tried: map[sluice.BuyerID]int{}}
		add := func(buyer sluice.BuyerID) {
			e := port.Entry{
				ID: string(buyer), Sale: id, Epoch: 1, Terms: 1, At: time.Now(),
				Claims: []sluice.Claim{{
					Buyer: buyer, Key: "attempt-1", Quantity: 1,
					Order: id.Order(strings.Repeat("0a", 16)),
				}},
			}
			letter := e.DeadLetter(port.ErrStaleEpoch)
			letter.ID = int64(len(l.all))
			l.all = append(l.all, letter)
		}
		r := settle.NewReplayer(l, decider{letters: l}, nil, func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {})
		want := func(fails, waits, late int) {
			t.Helper()
			if l.tried["fails"] != fails || l.tried["waits"] != waits || l.tried["late"] != late {
				t.Errorf("after %v: tried %v, want %d, %d, %d", time.Now(), l.tried, fails, waits, late)
			}
		}
		replay := func() {
			t.Helper()
			again, err := r.Pending(t.Context(), &l.sale)
			if wait := time.Until(again); wait <= 0 || wait > time.Minute {
				t.Fatalf("again in %v, %v", wait, err)
			}
		}
		add("fails")
		add("waits")
		replay()
		want(1, 1, 0)
		replay()
		want(1, 1, 0)
		for range 5 * 600 { // ten minutes
			time.Sleep(200 * time.Millisecond)
			replay()
		}
		if l.tried["fails"] < 100 || l.tried["fails"] > 130 || l.tried["waits"] < 15 || l.tried["waits"] > 20 {
			t.Errorf("tried in ten minutes: %v", l.tried)
		}
		clear(l.tried)
		add("late")
		replay()
		if l.tried["late"] != 1 || l.tried["waits"] != 0 {
			t.Errorf("a new letter beside those that rest: %v", l.tried)
		}
		clear(l.tried)
		l.sale.Epoch++
		replay()
		want(1, 1, 1)
	})
}

// A letter that cannot be read is not to be replayed again and again: the answer says so.
func TestADamagedLetterSaysSo(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	entry := port.Entry{ID: "1-1", Sale: id, Damage: errors.New("journal format"), Raw: "x=y\n"}
	must.Succeed(t, r.store.SetAside(t.Context(), entry.DeadLetter(entry.Damage)))
	letters, err := r.store.DeadLetters(t.Context(), id)
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	_, err = settle.NewReplayer(r.store, r.ledger, r.loader, nil).Replay(t.Context(), letters[0].ID)
	var state *sluice.StateError
	if !errors.As(err, &state) || !strings.Contains(state.Detail, "damaged") {
		t.Errorf("replay: %v", err)
	}
}
