package settle_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// rebuilder is a server's, with what it remembers.
func (r *rig) rebuilder(node string, memory *settle.Memory) *settle.Rebuilder {
	idle := func(sluice.SaleID) bool { return true }
	return settle.NewRebuilder(node, r.store, r.ledger, r.loader, memory, idle, slog.New(slog.DiscardHandler))
}

// loseLedger closes the ledger and puts an empty one in its place.
func (r *rig) loseLedger() {
	r.t.Helper()
	must.Succeed(r.t, r.ledger.Close())
	var err error
	if r.ledger, err = sqliteledger.Open(r.t.Context(), filepath.Join(r.t.TempDir(), "ledger.db"),
		sqliteledger.Options{Node: "a"}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.ledger.Close() })
	r.loader = settle.NewLoader(r.store, r.ledger)
	r.desk = settle.NewControl(r.store, r.ledger, r.loader)
}

// The ledger's file is gone: what the store has, and what each live server
// remembers, is saved; the rest is listed.
func TestRebuild(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 4
	must.Get(r.desk.Create(ctx, sale))(t)
	stored := r.accepted("alice", true)
	r.drain()
	claim := func(buyer string) ([]sluice.Claim, []sluice.Decision) {
		claims := []sluice.Claim{{
			Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1,
			Order: id.Order(fmt.Sprintf("%032x", []byte(buyer))),
		}}
		decisions, err := r.ledger.Claim(ctx, id, claims)
		if err != nil || decisions[0].Code != sluice.Accepted {
			t.Fatalf("%s: %v, %v", buyer, decisions, err)
		}
		return claims, decisions
	}
	memoryA, memoryB := settle.NewMemory(0), settle.NewMemory(0)
	claims, decisions := claim("bob")
	memoryA.Decided(id, "a", claims, decisions)
	claims, decisions = claim("carol")
	memoryB.Decided(id, "b", claims, decisions)

	r.loseLedger()
	a, b := r.rebuilder("a", memoryA), r.rebuilder("b", memoryB)
	for _, node := range []string{"a", "b"} {
		must.Succeed(t, r.store.Heartbeat(ctx, port.Server{Node: node}))
	}
	r.follow(false) // fences
	fenced := r.sale()
	if fenced.Fence == "" {
		t.Fatal("the loss is not noticed")
	}
	if done, err := a.Step(ctx, &fenced); done || err != nil {
		t.Fatalf("a rebuilt %v, %v before b has gathered", done, err)
	}
	if done, err := b.Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v after all have gathered", done, err)
	}
	r.inStep(2)
	if _, err := a.Step(ctx, &fenced); err != nil { // what a saw of the sale is old
		t.Fatal(err)
	}
	r.inStep(2)
	if got := r.accepted("alice", true); got != stored {
		t.Errorf("alice's claim now gets %s, want %s (I4)", got, stored)
	}
	for _, buyer := range []string{"bob", "carol"} {
		want := id.Order(fmt.Sprintf("%032x", []byte(buyer)))
		if o, err := r.store.Order(ctx, want); err != nil || o.Status != sluice.Pending {
			t.Errorf("%s's promise: %v, %v; want it stored", buyer, o.Status, err)
		}
	}
	r.accepted("dave", true) // the fourth unit
	r.accepted("eve", false)
}

// A store that was down has no recent heartbeat of any server: those that live get time to send theirs.
func TestARebuildAfterAnOutageOfTheStore(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	must.Succeed(t, r.store.FenceSale(t.Context(), id, 1, "rebuild: the test asks for it"))
	fenced, missed := r.sale(), time.Now()
	a := r.rebuilder("a", settle.NewMemory(0))
	a.Missed(func() time.Time { return missed })
	if done, err := a.Step(t.Context(), &fenced); done || err != nil {
		t.Errorf("rebuilt %v, %v, while the others' heartbeats may be late", done, err)
	}
	missed = missed.Add(-settle.SilentAfter)
	if done, err := a.Step(t.Context(), &fenced); !done || err != nil {
		t.Errorf("rebuilt %v, %v, after they had time for them", done, err)
	}
}

// forgetful has lost the servers' marks, until they mark again.
type forgetful struct {
	settle.RebuildStore
	lost bool
}

func (s *forgetful) Gathered(ctx context.Context, sale sluice.SaleID, epoch int64) ([]string, error) {
	if s.lost {
		return nil, nil
	}
	return s.RebuildStore.Gathered(ctx, sale, epoch)
}

func (s *forgetful) MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node, ledger string) error {
	s.lost = false
	return s.RebuildStore.MarkGathered(ctx, sale, epoch, node, ledger)
}

// A store that was restored after a server had gathered does not know it: the server
// gathers again, and does not wait for itself.
func TestAGatheringThatTheStoreForgot(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	for _, node := range []string{"a", "b"} {
		must.Succeed(t, r.store.Heartbeat(t.Context(), port.Server{Node: node}))
	}
	must.Succeed(t, r.store.FenceSale(t.Context(), id, 1, "rebuild: the test asks for it"))
	fenced, store := r.sale(), &forgetful{RebuildStore: r.store}
	a := settle.NewRebuilder("a", store, r.ledger, r.loader, settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	if ready, err := a.Gather(t.Context(), &fenced); ready || err != nil {
		t.Fatal(ready, err)
	}
	store.lost = true
	must.Get(r.rebuilder("b", settle.NewMemory(0)).Gather(t.Context(), &fenced))(t)
	for range 2 {
		must.Get(a.Gather(t.Context(), &fenced))(t)
	}
	if ready, err := a.Gather(t.Context(), &fenced); !ready || err != nil {
		t.Errorf("ready %v, %v after all have gathered", ready, err)
	}
}

// A row that names a ledger which was left for another one comes from an older copy of the store:
// a person says which ledger decides. A ledger that was emptied has a new name, which some servers
// hear before others: it is left as the one that the row names, and no person is needed.
func TestALedgerThatWasLeftDecidesAgain(t *testing.T) {
	for fence, want := range map[string]struct{ fenced, older bool }{
		"another ledger decides: store":      {true, true},
		"another ledger decides: sqlite:one": {false, false},
		"lost: a gap":                        {true, false},
	} {
		r := newRig(t)
		r.store.UseLedger("sqlite:one")
		r.loader.Names("sqlite:one")
		must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
		must.Succeed(t, r.ledger.Fence(t.Context(), id, 1, fence))
		for range 3 {
			r.follow(false)
		}
		if now := r.sale(); now.Fence != "" != want.fenced || settle.Outdated(&now) != want.older {
			t.Errorf("after %q the row is fenced by %q", fence, now.Fence)
		}
	}
}

// The ledger falls back to a copy without a claim whose answer is on its way to
// a server. The server fences the ledger, waits until no claim of its own is in
// flight, and only then stores what it remembers and says so; the rebuild waits
// for it (I5).
func TestARebuildWaitsForClaimsInFlight(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	created := must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	claims := []sluice.Claim{{
		Buyer: "bob", Key: "attempt-1", Quantity: 1,
		Order: id.Order(fmt.Sprintf("%032x", "bob")),
	}}
	decisions, err := r.ledger.Claim(ctx, id, claims)
	if err != nil || decisions[0].Code != sluice.Accepted {
		t.Fatal(decisions, err)
	}
	r.loseLedger()
	must.Succeed(t, r.ledger.Load(ctx, port.LoadImage{Sale: id, Epoch: 1, Terms: created.Terms}))
	must.Succeed(t, r.ledger.Unfence(ctx, id, 1))
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, port.FenceLost+": test"))
	fenced := r.sale()
	for _, node := range []string{"a", "b"} {
		must.Succeed(t, r.store.Heartbeat(ctx, port.Server{Node: node}))
	}
	memory, landed := settle.NewMemory(0), false
	b := settle.NewRebuilder("b", r.store, r.ledger, r.loader, memory, func(sluice.SaleID) bool {
		if r.reading().Fence == "" {
			t.Error("asked for claims in flight before the ledger is fenced; more may be accepted")
		}
		if landed { // at this moment: what was read of the memory before is old
			memory.Decided(id, "b", claims, decisions)
		}
		return landed
	}, slog.New(slog.DiscardHandler))
	for range 2 {
		for _, server := range []*settle.Rebuilder{b, r.rebuilder("a", settle.NewMemory(0))} {
			if done, err := server.Step(ctx, &fenced); done || err != nil {
				t.Fatalf("rebuilt %v, %v, with a claim of b in flight", done, err)
			}
		}
		if nodes, err := r.store.Gathered(ctx, id, 1); err != nil || !slices.Equal(nodes, []string{"a"}) {
			t.Fatalf("%v have stored what they remember, %v; b cannot have", nodes, err)
		}
	}
	landed = true
	if done, err := b.Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v after the claim has landed", done, err)
	}
	r.inStep(2)
	if o, err := r.store.Order(ctx, claims[0].Order); err != nil || o.Status != sluice.Pending {
		t.Errorf("the promise: %v, %v; want it stored (I5)", o.Status, err)
	}
}

// A dead letter of the epoch that is lost is stored before the rebuild loads the
// sale, which would sell its units again (I1, I5). One that cannot be stored
// stays, and holds up nothing.
func TestARebuildStoresTheDeadLettersOfItsEpoch(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 2
	must.Get(r.desk.Create(ctx, sale))(t)
	r.accepted("alice", true)
	r.drain()
	bob := r.accepted("bob", true)
	entries := r.waiting()
	letter := entries[0].DeadLetter(errors.New("the table was locked"))
	damaged := letter
	damaged.EntryID, damaged.FirstSeq, damaged.Claims = "damaged", 9, "?"
	for _, l := range []port.DeadLetter{damaged, letter} {
		must.Succeed(t, r.store.SetAside(ctx, l))
	}
	r.loseLedger()
	r.follow(false)
	fenced := r.sale()
	if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	r.inStep(2)
	if o, err := r.store.Order(ctx, bob); err != nil || o.Status != sluice.Pending {
		t.Errorf("the promise that was set aside: %v, %v; want it stored", o.Status, err)
	}
	r.accepted("carol", false)
	if letters, err := r.store.DeadLetters(ctx, id); err != nil || len(letters) != 1 || letters[0].EntryID != "damaged" {
		t.Errorf("dead letters %+v, %v; want the damaged one alone", letters, err)
	}
}

// refusing is a store whose database refuses the orders of one buyer.
type refusing struct {
	settle.RebuildStore
	buyer sluice.BuyerID
}

func (s *refusing) Insert(ctx context.Context, id sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	for i := range entries {
		for _, c := range entries[i].Claims {
			if c.Buyer == s.buyer {
				return port.Stored{}, fmt.Errorf("%w: not %s", port.ErrUnstorable, c.Buyer)
			}
		}
	}
	return s.RebuildStore.Insert(ctx, id, entries)
}

// The database refuses an accepted claim. The rebuild waits, since an operator may end
// that, but not for ever: then the claim is listed, and the sale comes back.
func TestOneRefusedClaimDoesNotKeepASaleFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
		var claims []sluice.Claim
		for _, buyer := range []string{"alice", "bob", "carol"} {
			claims = append(claims, sluice.Claim{
				Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1,
				Order: id.Order(fmt.Sprintf("%032x", []byte(buyer))),
			})
		}
		decisions := must.Get(r.ledger.Claim(ctx, id, claims))(t)
		memory := settle.NewMemory(0)
		memory.Decided(id, "a", claims, decisions)
		r.loseLedger()
		r.follow(false) // fences
		fenced := r.sale()
		store := &refusing{r.store, "bob"}
		a := settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), memory,
			func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
		begun := time.Now()
		for time.Since(begun) < 5*time.Second { // the store has taken others of the epoch
			if done, err := a.Step(ctx, &fenced); done || !errors.Is(err, port.ErrUnstorable) {
				t.Fatalf("rebuilt %t, %v after %v", done, err, time.Since(begun))
			}
			time.Sleep(time.Second)
		}
		if done, err := a.Step(ctx, &fenced); !done || err != nil {
			t.Fatalf("rebuilt %t, %v after %v", done, err, time.Since(begun))
		}
		r.inStep(2)
		for i, stored := range []bool{true, false, true} {
			if _, err := r.store.Order(ctx, claims[i].Order); (err == nil) != stored {
				t.Errorf("%s: %v", claims[i].Buyer, err)
			}
		}
		letters, err := r.store.DeadLetters(ctx, id)
		if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Claims, "bob") {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
	})
}

// A claim that no server decides so, as a damaged ledger has it, is none to wait for.
func TestARebuildDoesNotWaitForWhatNoServerWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
		var claims []sluice.Claim
		for _, buyer := range []string{"alice", "bob", "carol"} {
			claims = append(claims, sluice.Claim{
				Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1,
				Order: id.Order(fmt.Sprintf("%032x", []byte(buyer))),
			})
		}
		decisions := must.Get(r.ledger.Claim(ctx, id, claims))(t)
		memory := settle.NewMemory(0)
		decisions[1].Epoch = 0
		memory.Decided(id, "a", claims, decisions)
		r.loseLedger()
		r.follow(false) // fences
		fenced := r.sale()
		if done, err := r.rebuilder("a", memory).Step(ctx, &fenced); !done || err != nil {
			t.Fatalf("rebuilt %t, %v", done, err)
		}
		r.inStep(2)
	})
}

// The database refuses every order: the rebuild waits longer for the operator, and then
// goes on. What was promised is not sold again, however long that lasts.
func TestADatabaseThatRefusesEveryOrderGivesNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		r.oneUnit()
		claims := []sluice.Claim{{
			Buyer: "alice", Key: "attempt-1", Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", []byte("alice"))),
		}}
		decisions := must.Get(r.ledger.Claim(ctx, id, claims))(t)
		memory := settle.NewMemory(0)
		memory.Decided(id, "a", claims, decisions)
		r.loseLedger()
		r.follow(false) // fences
		fenced := r.sale()
		store := &refusing{r.store, "alice"}
		a := settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), memory,
			func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
		for range 6 {
			if done, err := a.Step(ctx, &fenced); done || !errors.Is(err, port.ErrUnstorable) {
				t.Fatalf("rebuilt %t, %v", done, err)
			}
			time.Sleep(10 * time.Second)
		}
		for epoch := range int64(2) { // the second one finds the letter
			if done, err := a.Step(ctx, &fenced); !done || err != nil {
				t.Fatal(done, err)
			}
			r.inStep(2 + epoch)
			r.accepted("bob", false)
			decisions, err := r.ledger.Claim(ctx, id, claims)
			if err != nil || decisions[0].Order != claims[0].Order {
				t.Errorf("alice now gets %+v, %v (I4)", decisions, err)
			}
			memory.Decided(id, "a", claims, decisions)
			must.Succeed(t, r.store.FenceSale(ctx, id, 2+epoch, "by hand"))
			fenced = r.sale()
		}
		store.buyer = ""
		if done, err := a.Step(ctx, &fenced); !done || err != nil {
			t.Fatal(done, err)
		}
		r.inStep(4)
		r.statuses(map[sluice.OrderID]sluice.Status{claims[0].Order: sluice.Pending})
		r.accepted("bob", false)
	})
}

// apart is a ledger that the others do not use any more: no replica confirms a fence.
type apart struct {
	*sqliteledger.Ledger
	err error
}

func (l *apart) Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error {
	return cmp.Or(l.err, l.Ledger.Fence(ctx, sale, epoch, reason))
}

// What such a ledger holds was promised to no buyer for certain. A rebuild stores
// nothing of it, also if the sale is fenced there already (I4, I5).
func TestRebuildTakesNothingThatIsNotConfirmed(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	order := r.accepted("alice", true)
	const why = "lost: by the test"
	must.Succeed(t, errors.Join(r.store.FenceSale(ctx, id, 1, why), r.ledger.Fence(ctx, id, 1, why),
		r.store.Heartbeat(ctx, port.Server{Node: "a"})))
	ledger := &apart{r.ledger, errors.New("0 of 1 replicas have it")}
	rebuilder := settle.NewRebuilder("a", r.store, ledger, r.loader, settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	sale := r.sale()
	if done, err := rebuilder.Step(ctx, &sale); done || !errors.Is(err, ledger.err) {
		t.Errorf("rebuilt %v, %v; want the error of the fence", done, err)
	}
	if o, err := r.store.Order(ctx, order); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("%+v, %v; want no order", o, err)
	}
	ledger.err = nil
	if done, err := rebuilder.Step(ctx, &sale); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	if o, err := r.store.Order(ctx, order); err != nil || o.Status != sluice.Pending {
		t.Errorf("%v, %v; want the order", o.Status, err)
	}
	r.inStep(2)
}

// A server that is cut off together with the old primary has a ledger of an older
// epoch than the store knows, and no replica. It does not stop the sale that the others
// sell; a ledger that really was replaced by an older one is fenced and rebuilt.
func TestALossThatIsNotConfirmedStopsNoSale(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	old := &apart{r.ledger, errors.New("0 of 1 replicas have it")}
	alone := settle.NewLoader(r.store, old)
	now := must.Get(sqliteledger.Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), sqliteledger.Options{Node: "b"}))(t)
	defer now.Close()
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "lost: by the test"))
	must.Succeed(t, settle.NewLoader(r.store, now).Load(ctx, id))
	sale, reading := r.sale(), r.reading()
	if sale.Epoch != 2 || reading.Epoch != 1 {
		t.Fatalf("epochs %d and %d", sale.Epoch, reading.Epoch)
	}
	if _, err := alone.Follow(ctx, &sale, &reading); !errors.Is(err, old.err) || r.sale().Fence != "" {
		t.Errorf("%v, fence %q; want the error, and a sale that goes on", err, r.sale().Fence)
	}
	reading.Epoch, reading.Fence = 2, "lost: by a script" // that runs on the old primary
	if _, err := alone.Follow(ctx, &sale, &reading); !errors.Is(err, old.err) || r.sale().Fence != "" {
		t.Errorf("%v, fence %q; want the error, and a sale that goes on", err, r.sale().Fence)
	}
	old.err = nil
	if changed, err := alone.Follow(ctx, &sale, &reading); !changed || err != nil || r.sale().Fence != reading.Fence {
		t.Errorf("%v, %v, fence %q; want the sale fenced", changed, err, r.sale().Fence)
	}
}

// ok ends the test if what was done has failed.
func (r *rig) ok(_ any, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// placed is an entry of one claim that another ledger, or server, gave a place.
func placed(epoch, seq int64, buyer string) port.Entry {
	return port.Entry{
		ID: buyer, Sale: id, Epoch: epoch, Node: "b", Terms: 1, FirstSeq: seq,
		At: time.Now().UTC().Truncate(time.Millisecond),
		Claims: []sluice.Claim{{
			Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", buyer)),
		}},
	}
}

// A load gives a letter's claims places after those of orders that have its epoch already,
// as they have if an older copy of the store gives it again.
func TestALetterStandsBehindOrdersOfItsEpoch(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.ok(r.desk.Create(ctx, phone(-time.Hour)))
	ann := placed(1, 7, "ann")
	r.ok(r.store.Insert(ctx, id, []port.Entry{placed(2, 1, "bob")}))
	r.ok(nil, r.store.SetAside(ctx, ann.DeadLetter(errors.New("the test says so"))))
	r.ok(nil, r.store.FenceSale(ctx, id, 1, "lost: the test says so"))
	fenced := r.sale()
	r.ok(r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced))
	r.inStep(2)
	if o, err := r.store.Order(ctx, ann.Claims[0].Order); err != nil || o.Epoch != 2 || o.Seq != 2 {
		t.Errorf("the letter's order stands at %d, %d: %v", o.Epoch, o.Seq, err)
	}
}

// A server that looked at the sale before it was rebuilt, and fenced again, rebuilds nothing
// by what it saw.
func TestAnOldLookRebuildsNothing(t *testing.T) {
	r := newRig(t)
	must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	must.Succeed(t, r.store.FenceSale(t.Context(), id, 1, "lost: by the test"))
	server, fenced := r.rebuilder("a", settle.NewMemory(0)), r.sale()
	if done, err := server.Step(t.Context(), &fenced); !done || err != nil {
		t.Fatal(done, err)
	}
	must.Succeed(t, r.store.FenceSale(t.Context(), id, 2, "lost: again"))
	must.Get(server.Step(t.Context(), &fenced))(t)
	if sale := r.sale(); sale.Epoch != 2 || sale.Fence == "" {
		t.Errorf("%+v", sale)
	}
}
