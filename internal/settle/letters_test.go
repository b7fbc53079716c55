package settle_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// strangers ask for every unit the moment a sale opens, and as soon as a load begins.
type strangers struct {
	*sqliteledger.Ledger
	asks func()
}

func (l strangers) Load(ctx context.Context, image port.LoadImage) error {
	err := l.Ledger.Load(ctx, image)
	l.asks()
	return err
}

func (l strangers) Unfence(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	err := l.Ledger.Unfence(ctx, sale, epoch)
	l.asks()
	return err
}

// breaks refuses the orders of some buyers, and confirms no load while it is down.
type breaks struct {
	*sqlitestore.Store
	down *bool
}

func (s breaks) ConfirmLoad(ctx context.Context, sale sluice.SaleID, epoch int64) error {
	if *s.down {
		return context.DeadlineExceeded
	}
	return s.Store.ConfirmLoad(ctx, sale, epoch)
}

func (s breaks) Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error) {
	for _, e := range entries {
		if slices.ContainsFunc(e.Claims, func(c sluice.Claim) bool { return c.Buyer[0] == 'q' }) {
			return port.Stored{}, port.ErrUnstorable
		}
	}
	return s.Store.Insert(ctx, sale, entries)
}

// Promises that wait as dead letters keep their units through a rebuild, whatever its
// reason, also if the server dies in the middle, and whether the sale is open or paused.
func TestDeadLettersKeepTheirUnitsInARebuild(t *testing.T) {
	for _, c := range []struct {
		name                 string
		lost, broken, paused bool
	}{
		{name: "by hand"},
		{name: "the ledger is lost", lost: true},
		{name: "twice", broken: true},
		{name: "paused", paused: true},
	} {
		t.Run(c.name, func(t *testing.T) { lettersThroughARebuild(t, c.lost, c.broken, c.paused) })
	}
}

func lettersThroughARebuild(t *testing.T, lost, broken, paused bool) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 4
	must.Get(r.desk.Create(ctx, sale))(t)
	claim := func(buyer string, order int) sluice.Claim {
		return sluice.Claim{
			Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", order)),
		}
	}
	codes := func(want sluice.Code, claims ...sluice.Claim) []sluice.Decision {
		t.Helper()
		decisions, err := r.ledger.Claim(ctx, id, claims)
		if err != nil || slices.ContainsFunc(decisions, func(d sluice.Decision) bool { return d.Code != want }) {
			t.Errorf("%v, %v; want %v", decisions, err, want)
		}
		return decisions
	}
	codes(sluice.Accepted, claim("stored", 1))
	r.drain()
	// The database refuses these: the pipeline sets them aside.
	promised := []sluice.Claim{claim("q1", 2), claim("q2", 3), claim("q3", 4)}
	memory := settle.NewMemory(0)
	for i := range promised {
		memory.Decided(id, "a", promised[i:i+1], codes(sluice.Accepted, promised[i]))
	}
	for _, e := range slices.Backward(r.waiting()) {
		must.Succeed(t, r.store.SetAside(ctx, e.DeadLetter(port.ErrUnstorable)))
		must.Succeed(t, r.ledger.Ack(ctx, id, []string{e.ID}))
	}
	if paused {
		must.Get(r.desk.Pause(ctx, id))(t)
	}
	if lost {
		r.loseLedger()
	}
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "by hand"))

	strange := 0
	asks := func() {
		strange++
		decisions, err := r.ledger.Claim(ctx, id, []sluice.Claim{claim(fmt.Sprint("stranger-", strange), 100+strange)})
		if err != nil || decisions[0].Code == sluice.Accepted {
			t.Errorf("a stranger gets %v, %v", decisions, err)
		}
	}
	ledger, down := strangers{r.ledger, asks}, broken
	store := breaks{r.store, &down}
	rebuilder := func() *settle.Rebuilder {
		return settle.NewRebuilder("a", store, ledger, settle.NewLoader(store, ledger), memory,
			func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	}
	fenced := r.sale()
	done, err := rebuilder().Step(ctx, &fenced)
	if broken {
		if done || err == nil {
			t.Fatalf("rebuilt %v, %v", done, err)
		}
		down = false
		fenced = r.sale()
		done, err = rebuilder().Adopt(ctx, &fenced)
	}
	if !done || err != nil || strange < 2 {
		t.Fatalf("rebuilt %v, %v; %d strangers", done, err, strange)
	}
	epoch := int64(2)
	if broken {
		epoch = 3
	}
	r.inStep(epoch)
	for range 2 { // the second rebuild finds the letters, and what the server remembers of them
		decisions := codes(sluice.Accepted, promised...)
		for i, d := range decisions {
			if !d.Replayed || d.Order != promised[i].Order || d.Terms != 1 {
				t.Errorf("%s now gets %+v (I4)", promised[i].Buyer, d)
			}
		}
		memory.Decided(id, "a", promised, decisions)
		late := port.Entry{ // a server still had it, and sets it aside now
			ID: "late", Sale: id, Epoch: epoch - 1, Node: "b", Terms: 1, At: decisions[1].At, FirstSeq: 90,
			Claims: promised[1:2],
		}
		must.Succeed(t, r.store.SetAside(ctx, late.DeadLetter(port.ErrStaleEpoch)))
		now := r.sale()
		replayer := settle.NewReplayer(r.store, r.ledger, r.loader, nil)
		if again, err := replayer.Pending(ctx, &now); err != nil || !again.IsZero() {
			t.Errorf("again at %v, %v; want that none is left for Pending", again, err)
		}
		if letters, err := r.store.DeadLetters(ctx, id); err != nil || len(letters) != 3 {
			t.Errorf("dead letters %+v, %v; want the three", letters, err)
		}
		must.Succeed(t, r.store.FenceSale(ctx, id, epoch, "by hand"))
		fenced = r.sale()
		if done, err := rebuilder().Step(ctx, &fenced); !done || err != nil {
			t.Fatalf("rebuilt %v, %v", done, err)
		}
		epoch++
		r.inStep(epoch)
	}
	r.replayAll() // the database takes them now
	r.drain()
	for i := range promised {
		if o, err := r.store.Order(ctx, promised[i].Order); err != nil || o.Status != sluice.Pending {
			t.Errorf("%s: %v, %v", promised[i].Buyer, o.Status, err)
		}
	}
	if got := r.reading(); got.Taken != 4 || got.Seq != 3 || got.Backlog != 0 {
		t.Errorf("%+v, want 4 units taken, 3 of them in this epoch", got)
	}
	if fenced := r.verify(); fenced {
		t.Error("the orders that were replayed are taken for a loss")
	}
}

// replayAll replays every letter, and fails the test unless none is left.
func (r *rig) replayAll() {
	r.t.Helper()
	ctx := r.t.Context()
	letters, err := r.store.DeadLetters(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	replayer := settle.NewReplayer(r.store, r.ledger, r.loader, func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {})
	for i := range letters {
		if _, err := replayer.Replay(ctx, letters[i].ID); err != nil {
			r.t.Error(err)
		}
	}
	if letters, err = r.store.DeadLetters(ctx, id); err != nil || len(letters) > 0 {
		r.t.Errorf("dead letters %+v, %v; want none", letters, err)
	}
}

// A store is older than its ledger, and has letters of orders that were stored later.
// An order that has ended stays ended, and one that lives keeps its unit before any
// letter that the ledger does not know.
func TestDeadLettersOfAnOlderStore(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 2
	must.Get(r.desk.Create(ctx, sale))(t)
	r.accepted("qa", true)
	r.accepted("qb", true)
	old := r.waiting()
	r.drain()
	ended, live := old[0].Claims[0].Order, old[1].Claims[0].Order
	r.cancel(ended)
	r.give()
	stranger := r.accepted("carol", true)
	r.drain()
	unknown := old[0] // of a ledger that is gone; accepted before all others
	unknown.ID, unknown.At = "x", unknown.At.Add(-time.Minute)
	unknown.Claims = []sluice.Claim{
		{Buyer: "qx", Key: "attempt-9", Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", 99))},
	}

	terms := r.sale() // the copy
	terms.Epoch, terms.LoadedEpoch = 0, 0
	r.olderStore(terms, nil)
	for _, e := range append(old, unknown) {
		must.Succeed(t, r.store.SetAside(ctx, e.DeadLetter(port.ErrUnstorable)))
	}
	if !r.verify() {
		t.Fatal("the older store is not noticed")
	}
	store := breaks{r.store, new(bool)}
	r.recover(settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler)))
	r.inStep(2)
	letters, err := r.store.DeadLetters(ctx, id)
	if err != nil || len(letters) != 2 || letters[1].EntryID != "x/lost" || letters[0].Epoch != 2 {
		t.Errorf("dead letters %+v, %v; want the live one in the new epoch, and the unknown one lost", letters, err)
	}
	for _, order := range []sluice.OrderID{live, stranger} {
		if record, err := r.ledger.Find(ctx, order, ""); err != nil || !record.Live {
			t.Errorf("%s: %+v, %v; want it live", order, record, err)
		}
	}
	if record, err := r.ledger.Find(ctx, ended, ""); err == nil && record.Live {
		t.Error("an order that had ended lives again")
	}
	if got := r.reading(); got.Taken != 2 {
		t.Errorf("%+v, want 2 units taken", got)
	}
}

// A letter is judged by what was when it was accepted: an order of its buyer that has
// ended unpaid since is no reason to give its unit to another.
func TestUnpaidEndingsTakeNoLetter(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total, sale.MaxUnpaid, sale.MaxPerBuyer, sale.MaxOrders = 2, 1, 2, 4
	must.Get(r.desk.Create(ctx, sale))(t)
	order := r.accepted("alice", true)
	r.drain()
	second := sluice.Claim{Buyer: "alice", Key: "attempt-2", Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", 2))}
	if d, err := r.ledger.Claim(ctx, id, []sluice.Claim{second}); err != nil || d[0].Code != sluice.Accepted {
		t.Fatal(d, err)
	}
	e := r.waiting()[0]
	must.Succeed(t, r.store.SetAside(ctx, e.DeadLetter(port.ErrUnstorable)))
	must.Succeed(t, r.ledger.Ack(ctx, id, []string{e.ID}))
	change := sluice.Change{Order: order, Action: sluice.Cancel, By: "alice", Buyer: "alice"}
	must.Get(r.store.Change(ctx, change))(t)
	r.give()
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "by hand"))
	fenced := r.sale()
	store := &refusing{r.store, "alice"}
	if done, err := settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler)).Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	r.inStep(2)
	if d, err := r.ledger.Claim(ctx, id, []sluice.Claim{second}); err != nil || d[0].Code != sluice.Accepted {
		t.Errorf("%+v, %v; want the promise", d, err)
	}
	r.replayAll()
	r.statuses(map[sluice.OrderID]sluice.Status{second.Order: sluice.Pending})
}

// unread is a ledger that says nothing of its sales: what is left of them is not known.
type unread struct{ *sqliteledger.Ledger }

func (unread) Read(_ context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	return make([]port.Reading, len(sales)), nil
}

// A letter that comes after the rebuild finds the sale closed, paused or postponed: its claims were
// accepted in time, so a rebuild brings them in as far as there are units, once.
func TestLettersOvertakenByTheirSale(t *testing.T) {
	for name, change := range map[string]func(*rig) error{
		"closed": func(r *rig) error { _, err := r.desk.Close(r.t.Context(), id); return err },
		"paused": func(r *rig) error { _, err := r.desk.Pause(r.t.Context(), id); return err },
		"postponed": func(r *rig) error {
			_, err := r.desk.Patch(r.t.Context(), id, func(s *sluice.Sale) error {
				s.OpensAt = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			sale := phone(-time.Hour)
			sale.Total = 1
			must.Get(r.desk.Create(ctx, sale))(t)
			step := func() {
				t.Helper()
				fenced := r.sale()
				if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
					t.Fatalf("rebuilt %v, %v", done, err)
				}
			}
			at := time.Now().UTC().Truncate(time.Millisecond)
			must.Succeed(t, r.store.FenceSale(ctx, id, 1, "by hand"))
			step()
			must.Succeed(t, change(r))
			e := port.Entry{ID: "late", Sale: id, Epoch: 1, Node: "b", Terms: 1, FirstSeq: 1, At: at}
			for i := range 2 {
				e.Claims = append(e.Claims, sluice.Claim{
					Buyer: sluice.BuyerID(fmt.Sprint("late-", i)), Key: "attempt-1", Quantity: 1,
					Order: id.Order(fmt.Sprintf("%032x", i+1)),
				})
			}
			must.Succeed(t, r.store.SetAside(ctx, e.DeadLetter(port.ErrStaleEpoch)))
			replay := func() (waits bool) {
				t.Helper()
				now := r.sale()
				return !must.Get(settle.NewReplayer(r.store, r.ledger, r.loader,
					func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {}).Pending(ctx, &now))(t).IsZero()
			}
			now, unread := r.sale(), settle.NewLoader(r.store, unread{r.ledger})
			if again, err := settle.NewReplayer(r.store, r.ledger, unread,
				func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {}).Pending(ctx, &now); err == nil || again.IsZero() {
				t.Errorf("while the ledger cannot be read: again %v, %v; want it tried again", again, err)
			}
			if !replay() {
				t.Error("the letter waits for no rebuild")
			}
			step()
			r.inStep(3)
			if replay() || r.sale().Fence != "" {
				t.Errorf("what is lost is replayed again: fence %q", r.sale().Fence)
			}
			if o, err := r.store.Order(ctx, e.Claims[0].Order); err != nil || o.Status != sluice.Pending {
				t.Errorf("the promise that there is a unit for: %s, %v", o.Status, err)
			}
			left := must.Get(r.store.DeadLetters(ctx, id))(t)
			if len(left) != 1 || left[0].Reason != "promise lost: sold_out" ||
				!strings.HasPrefix(left[0].Claims, "late-1\t") {
				t.Errorf("dead letters %+v; want the other promise", left)
			}
			report, err := audit.Run(ctx, r.ledger, r.store, id)
			for _, check := range report.Checks {
				if err != nil || check.OK == (check.ID == "I5") { // one is lost
					t.Errorf("audit: %+v, %v", check, err)
				}
			}
		})
	}
}

// What no total covers is listed as lost: the last ones. So is what a buyer, or those whom
// a counter counts, got from two ledgers, beyond the limit.
func TestDeadLettersBeyondTheTotal(t *testing.T) {
	t.Run("total", func(t *testing.T) { lettersBeyond(t, 2, "q%d", "", "promise lost: sold_out") })
	t.Run("limit", func(t *testing.T) { lettersBeyond(t, 9, "q", "", "promise lost: buyer_limit") })
	t.Run("counter", func(t *testing.T) { lettersBeyond(t, 9, "q%d", "home:1=2", "promise lost: buyer_limit") })
}

func lettersBeyond(t *testing.T, total int64, buyer string, counters sluice.Counters, reason string) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total, sale.MaxPerBuyer = total, 2
	must.Get(r.desk.Create(ctx, sale))(t)
	begun := time.Now().UTC().Truncate(time.Millisecond)
	for _, i := range []int{3, 1, 2} { // as two ledgers may have accepted them
		e := port.Entry{
			ID: fmt.Sprint("e", i), Sale: id, Epoch: 1, Node: "b", Terms: 1, FirstSeq: int64(i),
			At: begun, Claims: []sluice.Claim{{
				Buyer: sluice.BuyerID(strings.ReplaceAll(buyer, "%d", fmt.Sprint(i))), Key: sluice.Key(fmt.Sprint("attempt-", i)),
				Quantity: 1, Order: id.Order(fmt.Sprintf("%032x", i)), Counters: counters,
			}},
		}
		must.Succeed(t, r.store.SetAside(ctx, e.DeadLetter(port.ErrUnstorable)))
	}
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "by hand"))
	store := breaks{r.store, new(bool)}
	fenced := r.sale()
	if done, err := settle.NewRebuilder("a", store, r.ledger, settle.NewLoader(store, r.ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler)).Step(ctx, &fenced); !done || err != nil {
		t.Fatalf("rebuilt %v, %v", done, err)
	}
	now := r.sale()
	must.Get(settle.NewReplayer(r.store, r.ledger, r.loader,
		func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {}).Pending(ctx, &now))(t)
	letters := must.Get(r.store.DeadLetters(ctx, id))(t)
	lost := map[int64]bool{}
	for i := range letters {
		lost[letters[i].FirstSeq] = letters[i].Reason == reason
	}
	if len(lost) != 3 || lost[1] || lost[2] || !lost[3] {
		t.Errorf("dead letters %+v, want the third lost", letters)
	}
}
