package settle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// olderStore puts a store in the place of the rig's that knows the sale as it
// was created and loaded, and these entries.
func (r *rig) olderStore(sale sluice.Sale, entries []port.Entry) {
	r.t.Helper()
	ctx := r.t.Context()
	store, err := sqlitestore.Open(ctx, filepath.Join(r.t.TempDir(), "store.db"), sqlitestore.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { store.Close() })
	_, err = store.CreateSale(ctx, sale)
	if err == nil {
		_, err = store.BeginLoad(ctx, id, 0)
	}
	if err == nil {
		err = store.ConfirmLoad(ctx, id, 1)
	}
	if err == nil {
		_, err = store.Insert(ctx, id, entries)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = store
	r.loader = settle.NewLoader(r.store, r.ledger)
	r.desk = settle.NewControl(r.store, r.ledger, r.loader)
}

// waiting returns what is in the ledger's journal.
func (r *rig) waiting() (entries []port.Entry) {
	r.t.Helper()
	err := r.ledger.PeekJournal(r.t.Context(), id, func(e port.Entry) bool { entries = append(entries, e); return true })
	if err != nil {
		r.t.Fatal(err)
	}
	return entries
}

// verify compares, and reports whether the sale is fenced then.
func (r *rig) verify() bool {
	r.t.Helper()
	sale := r.sale()
	fenced := must.Get(r.rebuilder("a", settle.NewMemory(0)).Verify(r.t.Context(), &sale))(r.t)
	if now := r.sale().Fence != ""; now != fenced {
		r.t.Errorf("told fenced %v, and the row says %v", fenced, now)
	}
	return fenced
}

// A store that was restored from before the ledger's last acknowledgements: what
// it forgot is brought back, orders and endings. An ended order holds no unit that
// has been sold since.
// Nothing is sold again.
func TestAStoreOlderThanItsLedger(t *testing.T) {
	type changes []sluice.Change
	buyers := sluice.Change{Action: sluice.Cancel, Buyer: "alice", By: "buyer"}
	merchants := sluice.Change{Action: sluice.Cancel, By: "test"}
	pay := sluice.Change{Action: sluice.Pay, PaymentID: "p1", By: "test"}
	refund := sluice.Change{Action: sluice.Refund, By: "test"}
	for name, c := range map[string]struct {
		before, after, restored changes // of alice's order: before the copy, after it, and of the copy since
		want                    sluice.Status
		unpaid                  bool
	}{
		"the buyer cancelled":        {after: changes{buyers}, want: sluice.Cancelled, unpaid: true},
		"the merchant cancelled":     {after: changes{merchants}, want: sluice.Cancelled},
		"paid and refunded":          {after: changes{pay, refund}, want: sluice.Cancelled},
		"paid before, then refunded": {before: changes{pay}, after: changes{refund}, want: sluice.RefundDue},
		// Before servers had compared, and fenced the sale.
		"cancelled by the buyer, then paid": {
			after: changes{buyers}, restored: changes{pay}, want: sluice.RefundDue, unpaid: true,
		},
		"cancelled by the merchant, then paid": {
			after: changes{merchants}, restored: changes{pay}, want: sluice.RefundDue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			sale := phone(-time.Hour)
			sale.Total, sale.MaxUnpaid = 2, 2
			must.Get(r.desk.Create(ctx, sale))(t)
			alice, bob := r.accepted("alice", true), r.accepted("bob", true)
			entries := r.waiting()
			r.drain()
			change := func(order sluice.OrderID, all changes) {
				t.Helper()
				for _, change := range all {
					change.Order = order
					must.Get(r.store.Change(ctx, change))(t)
				}
			}
			resell := func(order sluice.OrderID, all changes, buyer string) sluice.OrderID {
				t.Helper()
				change(order, all)
				must.Get(r.store.GiveReleases(ctx, 10, func(id sluice.SaleID, releases []port.Release) error {
					_, err := r.ledger.Release(ctx, id, releases)
					return err
				}))(t)
				for deadline := time.Now().Add(20 * time.Second); !r.reading().CooldownUntil.IsZero(); {
					if time.Sleep(10 * time.Millisecond); time.Now().After(deadline) {
						t.Fatal("the unit does not come back")
					}
				}
				return r.accepted(buyer, true)
			}
			change(alice, c.before)
			carol := resell(alice, c.after, "carol")
			r.drain()
			dave := resell(bob, changes{merchants}, "dave") // in the journal still
			if r.verify() {
				t.Fatalf("fenced, and nothing is wrong: %s", r.sale().Fence)
			}

			r.olderStore(sale, entries)
			change(alice, c.before)
			change(alice, c.restored)
			if !r.verify() || !strings.Contains(r.sale().Fence, "older than its ledger") {
				t.Fatalf("fence %q", r.sale().Fence)
			}
			did := r.recover(r.rebuilder("a", settle.NewMemory(0)))
			if did.Stored.Count != 1 || did.Ended.Count != 2 || did.StoredEnded.Count != 0 {
				t.Errorf("it recovered %+v", did)
			}
			payments := map[string][]sluice.OrderID{"pending": {carol}, "ended": {bob}}
			if c.want == sluice.RefundDue {
				payments["refund_due"] = []sluice.OrderID{alice}
			} else {
				payments["ended"] = append(payments["ended"], alice)
			}
			for _, of := range did.Payments {
				slices.Sort(of.Orders)
				slices.Sort(payments[of.Reason])
				if !slices.Equal(of.Orders, payments[of.Reason]) || of.Count != int64(len(of.Orders)) {
					t.Errorf("%s: %d %v, want %v", of.Reason, of.Count, of.Orders, payments[of.Reason])
				}
			}
			r.inStep(2)
			for order, want := range map[sluice.OrderID]sluice.Status{
				alice: c.want, bob: sluice.Cancelled, carol: sluice.Pending, dave: sluice.Pending,
			} {
				o, err := r.store.Order(ctx, order)
				if err != nil || o.Status != want || o.Unpaid != (order == alice && c.unpaid) {
					t.Errorf("%s: %s %s, unpaid %v, %v; want %s", order, o.Status, o.Reason, o.Unpaid, err, want)
				}
			}
			if s, reading := r.sale(), r.reading(); s.Taken != 2 || reading.Taken != 2 {
				t.Errorf("taken %d and %d of 2", s.Taken, reading.Taken)
			}
			r.accepted("eve", false)
			if r.verify() {
				t.Errorf("fenced again: %s", r.sale().Fence)
			}
			report, err := audit.Run(ctx, r.ledger, r.store, id)
			if err != nil || !report.OK {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}

// rewritten is a ledger with other records than it wrote.
type rewritten struct {
	*sqliteledger.Ledger
	records []port.Record
}

func (w rewritten) Records(_ context.Context, _ sluice.SaleID, yield func(port.Record) bool) error {
	for i := range w.records {
		if !yield(w.records[i]) {
			return nil
		}
	}
	return nil
}

// A ledger whose records say that an order has ended, which no server wrote: no order ends
// unless a person says that the store is the older one of the two.
func TestADamagedLedgerEndsNoOrder(t *testing.T) {
	for name, newer := range map[string]bool{
		"the store lacks nothing": false, "the store lacks a claim, and is of a newer epoch": true,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
			alice := r.accepted("alice", true)
			r.drain()
			if newer {
				r.accepted("bob", true)
				must.Succeed(t, r.ledger.Ack(ctx, id, []string{r.waiting()[0].ID}))
			}
			var ended []port.Record
			err := r.ledger.Records(ctx, id, func(c port.Record) bool {
				c.Live = c.Order != alice
				ended = append(ended, c)
				return true
			})
			if err == nil {
				err = r.store.FenceSale(ctx, id, 1, "lost: by a test")
			}
			if err == nil && newer {
				if _, err = r.store.BeginLoad(ctx, id, 0); err == nil {
					err = r.store.ConfirmLoad(ctx, id, 2)
				}
				if err == nil {
					err = r.store.FenceSale(ctx, id, 2, "lost: by a test")
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			fenced := r.sale()
			idle := func(sluice.SaleID) bool { return true }
			rebuilder := settle.NewRebuilder("a", r.store, rewritten{r.ledger, ended}, r.loader, settle.NewMemory(0), idle,
				slog.New(slog.DiscardHandler))
			must.Get(rebuilder.Step(ctx, &fenced))(t)
			if now := r.sale(); settle.Outdated(&now) == newer {
				t.Errorf("fence %q", now.Fence)
			}
			if o, err := r.store.Order(ctx, alice); err != nil || o.Status != sluice.Pending {
				t.Errorf("alice's order is %s, %v", o.Status, err)
			}
		})
	}
}

// A store may be any number of epochs behind its ledger: one load passes them all.
func TestEpochsThatTheStoreHasForgotten(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	const ahead = 1 << 40
	must.Succeed(t, r.ledger.Load(ctx, port.LoadImage{Sale: id, Epoch: ahead, Terms: r.sale().Terms}))
	r.follow(false)
	r.recover(r.rebuilder("a", settle.NewMemory(0)))
	r.inStep(ahead + 1)
	r.accepted("alice", true)

	// And one that only a server still knows of.
	must.Succeed(t, r.store.FenceSale(ctx, id, ahead+1, "lost: by a test"))
	r.loader = settle.NewLoader(r.store, seen{r.ledger, 2 * ahead})
	fenced := r.sale()
	if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
		t.Fatal(done, err)
	}
	r.inStep(2*ahead + 1)
}

// seen is a ledger that has seen an epoch.
type seen struct {
	*sqliteledger.Ledger
	epoch int64
}

func (s seen) Load(ctx context.Context, image port.LoadImage) error {
	if image.Epoch < s.epoch {
		return &port.EpochError{Seen: s.epoch}
	}
	return s.Ledger.Load(ctx, image)
}

// The terms that the ledger decides by are brought back too: a pause stays one. Nobody can store
// others in their place before that, whether the sale is fenced already or not.
func TestAStoreThatForgotItsTerms(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	must.Get(r.desk.Create(ctx, sale))(t)
	must.Get(r.desk.Restock(ctx, id, "more", 5))(t)
	must.Get(r.desk.Restock(ctx, id, "recall", -8))(t)
	r.accepted("alice", true)
	must.Get(r.desk.Pause(ctx, id))(t)
	r.olderStore(sale, r.waiting())
	r.keepsItsTerms()
	if !r.verify() || !strings.Contains(r.sale().Fence, "version 4 of the terms") {
		t.Fatalf("fence %q", r.sale().Fence)
	}
	r.keepsItsTerms()
	did := r.recover(r.rebuilder("a", settle.NewMemory(0)))
	if !strings.HasPrefix(did.Terms, "version 4 instead of 1: total 7,") || !strings.HasSuffix(did.Terms, "paused true") {
		t.Errorf("it adopted %q", did.Terms)
	}
	r.inStep(2)
	if s := r.sale(); !s.Paused || s.Total != 7 || s.Cap != 7 || s.Version != 4 {
		t.Errorf("cap %d, %+v", s.Cap, s.Terms)
	}
	must.Succeed(t, r.store.Snapshot(ctx, id, func(s port.Snapshot) error {
		for _, v := range s.TermsVersions() {
			if paused := v.Version == 4; v.Paused != paused {
				t.Errorf("version %d: paused %v", v.Version, v.Paused)
			}
		}
		return nil
	}))
}

// The ledger that decided by them is lost, too: what was accepted under them keeps their number.
func TestTermsThatNobodyKnows(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	must.Get(r.desk.Create(ctx, sale))(t)
	must.Get(r.desk.Restock(ctx, id, "more", 5))(t)
	must.Get(r.desk.Restock(ctx, id, "again", 5))(t)
	r.accepted("alice", true)
	r.olderStore(sale, r.waiting())
	if !r.verify() {
		t.Fatal("the older store is not fenced")
	}
	r.loseLedger()
	r.recover(r.rebuilder("a", settle.NewMemory(0)))
	r.inStep(2)
	if s := r.sale(); s.Version != 4 || s.Total != sale.Total || s.Paused {
		t.Errorf("%+v", s.Terms)
	}
	if report, err := audit.Run(ctx, r.ledger, r.store, id); err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// keepsItsTerms asks for new terms in each way, and wants the sale's row as it was.
func (r *rig) keepsItsTerms() {
	r.t.Helper()
	ctx, before := r.t.Context(), r.sale()
	retitle := func(s *sluice.Sale) error { s.Title = "another"; return nil }
	later := func(s *sluice.Sale) error { s.OpensAt = s.OpensAt.Add(48 * time.Hour); return nil }
	for what, change := range map[string]func() (sluice.Sale, error){
		"patch":    func() (sluice.Sale, error) { return r.desk.Patch(ctx, id, retitle) },
		"postpone": func() (sluice.Sale, error) { return r.desk.Patch(ctx, id, later) },
		"open":     func() (sluice.Sale, error) { return r.desk.Open(ctx, id) },
		"pause":    func() (sluice.Sale, error) { return r.desk.Pause(ctx, id) },
		"resume":   func() (sluice.Sale, error) { return r.desk.Resume(ctx, id) },
		"close":    func() (sluice.Sale, error) { return r.desk.Close(ctx, id) },
		"raise":    func() (sluice.Sale, error) { return r.desk.Restock(ctx, id, "other", 1) },
		"lower":    func() (sluice.Sale, error) { return r.desk.Restock(ctx, id, "fewer", -1) },
	} {
		_, err := change()
		state, refused := errors.AsType[*sluice.StateError](err)
		if what == "lower" && errors.Is(err, sluice.ErrTotalUndecided) {
			refused = true // the ledger is fenced, and decides nothing
		} else if refused && !strings.Contains(state.Detail, "sluice recover --sale "+string(id)) {
			r.t.Errorf("%s: %v; want what to do", what, err)
		}
		if now := r.sale(); !refused || now != before {
			r.t.Errorf("%s: %v, %+v; it was %+v", what, err, now, before)
		}
	}
}

// A limit that was lifted before the sale opened, of which the store knows nothing:
// every version since lets pass what was accepted under it.
func TestAStoreThatForgotALiftedLimit(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(time.Hour)
	_, err := r.desk.Create(ctx, sale)
	if err == nil {
		_, err = r.desk.Patch(ctx, id, func(s *sluice.Sale) error {
			s.MaxPerBuyer, s.MaxOrders = sluice.Unlimited, sluice.Unlimited
			return nil
		})
	}
	if err == nil {
		_, err = r.desk.Open(ctx, id)
	}
	if err == nil {
		_, err = r.desk.Pause(ctx, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.olderStore(sale, nil)
	if !r.verify() {
		t.Fatal("the store is older, and it is not noticed")
	}
	r.recover(r.rebuilder("a", settle.NewMemory(0)))
	versions := 0
	err = r.store.Snapshot(ctx, id, func(s port.Snapshot) error {
		for _, v := range s.TermsVersions() {
			versions++
			if v.Version > 1 && (v.MaxPerBuyer != sluice.Unlimited || v.MaxOrders != sluice.Unlimited) {
				t.Errorf("version %d: %d units and %d orders a buyer, want no limit", v.Version, v.MaxPerBuyer, v.MaxOrders)
			}
		}
		return nil
	})
	if err != nil || versions != 4 {
		t.Errorf("%d versions, %v", versions, err)
	}
}

// haunted is a ledger with records of claims that were never decided, as a torn
// transaction leaves them.
type haunted struct {
	*sqliteledger.Ledger
	ghosts []port.Record
}

func (h haunted) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	for i := range h.ghosts {
		if !yield(h.ghosts[i]) {
			return nil
		}
	}
	return h.Ledger.Records(ctx, sale, yield)
}

// A rebuild brings back what was forgotten, and nothing that was never decided.
func TestARebuildKnowsWhatWasNeverDecided(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	r.accepted("alice", true)
	r.drain()
	bob := r.accepted("bob", true)
	if err := r.ledger.Ack(ctx, id, []string{r.waiting()[0].ID}); err != nil { // forgotten by the store
		t.Fatal(err)
	}
	ghost := func(buyer string, seq int64, at time.Duration) port.Record {
		return port.Record{
			Claim: sluice.Claim{
				Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1,
				Order: id.Order(fmt.Sprintf("%032x", []byte(buyer))),
			},
			Sale: id, Epoch: 1, Seq: seq, Terms: 1, At: time.Now().Add(at).UTC().Truncate(time.Millisecond), Live: true,
		}
	}
	ghosts := []port.Record{ // alice's order is stored; of two claims at bob's place the later one is real
		ghost("at alice's place", 1, time.Hour), ghost("at bob's place", 2, -time.Hour), ghost("beyond", 3, 0),
	}
	if !r.verify() {
		t.Fatal("the store is older, and it is not noticed")
	}
	idle := func(sluice.SaleID) bool { return true }
	r.recover(settle.NewRebuilder("a", r.store, haunted{r.ledger, ghosts}, r.loader, settle.NewMemory(0), idle,
		slog.New(slog.DiscardHandler)))
	page, _, err := r.store.Orders(ctx, sluice.OrderFilter{Sale: id, Limit: 10})
	if err != nil || len(page) != 2 || page[1].ID != bob {
		t.Errorf("%d orders, %v: want alice's and bob's", len(page), err)
	}
	letters, err := r.store.DeadLetters(ctx, id)
	if err != nil || len(letters) != 0 {
		t.Errorf("%+v, %v", letters, err)
	}
}

// A store is gone, and its ledger is not: the ids that the ledger has sold under
// are not sold again.
func TestASaleThatOnlyTheLedgerKnows(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	must.Get(r.desk.Create(ctx, sale))(t)
	alice := r.accepted("alice", true)
	if _, err := r.desk.Create(ctx, sale); !errors.Is(err, sluice.ErrSaleExists) {
		t.Errorf("created twice: %v, want ErrSaleExists", err)
	}
	store := must.Get(sqlitestore.Open(ctx, filepath.Join(t.TempDir(), "store.db"), sqlitestore.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	r.store = store
	r.loader = settle.NewLoader(r.store, r.ledger)
	r.desk = settle.NewControl(r.store, r.ledger, r.loader)
	var state *sluice.StateError
	if _, err := r.desk.Create(ctx, sale); !errors.As(err, &state) || !strings.Contains(err.Error(), "never loaded") {
		t.Errorf("created over what the ledger holds: %v, want a sluice.StateError", err)
	}
	if _, err := r.store.Sale(ctx, id); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("the refused sale is stored: %v", err)
	}
	if _, err := r.store.CreateSale(ctx, sale); err != nil { // as if the ledger had not answered then
		t.Fatal(err)
	}
	for range 3 {
		if err := r.loader.Load(ctx, id); !errors.As(err, &state) {
			t.Errorf("loaded over what the ledger holds: %v, want a sluice.StateError", err)
		}
	}
	if got := r.accepted("alice", true); got != alice {
		t.Errorf("alice's claim gets %s, want %s (I4)", got, alice)
	}
}

// What is on its way, or set aside, is no sign of an older store.
func TestVerifyKnowsWhatIsUnderWay(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	r.accepted("alice", true)
	r.accepted("bob", true)
	if r.verify() {
		t.Fatalf("two claims wait in the journal: %s", r.sale().Fence)
	}
	entries := r.waiting()
	must.Succeed(t, r.store.SetAside(ctx, entries[1].DeadLetter(errors.New("a test"))))
	must.Succeed(t, r.ledger.Ack(ctx, id, []string{entries[1].ID}))
	if r.verify() {
		t.Fatalf("one is set aside: %s", r.sale().Fence)
	}
	must.Succeed(t, r.ledger.Ack(ctx, id, []string{entries[0].ID}))
	r.accepted("carol", true)
	must.Succeed(t, r.ledger.Ack(ctx, id, []string{r.waiting()[0].ID}))
	if !r.verify() || !strings.Contains(r.sale().Fence, "sequence 3 was acknowledged, the store ends at 2") {
		t.Fatalf("three are acknowledged, and two nowhere: %q", r.sale().Fence)
	}
}

// losing is a ledger that loses its journal just before it is read.
type losing struct{ settle.RebuildLedger }

func (l losing) PeekJournal(ctx context.Context, sale sluice.SaleID, _ func(port.Entry) bool) error {
	return l.Fence(ctx, sale, 1, port.FenceLost+": the journal has 0 entries, where 2 are on record")
}

// A journal that is lost between two readings acknowledges nothing: the store is not older,
// and no person is needed. It is not to be stored from either.
func TestVerifyMeetsALostJournal(t *testing.T) {
	r := newRig(t)
	sale := must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
	r.accepted("alice", true)
	r.accepted("bob", true)
	b := settle.NewRebuilder("a", r.store, losing{r.ledger}, r.loader, settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
	if fenced, err := b.Verify(t.Context(), &sale); fenced || err == nil {
		t.Errorf("fenced %v, %v; want an error, since the ledger is fenced and the store is not", fenced, err)
	}
	if now := r.sale(); settle.Outdated(&now) {
		t.Errorf("fenced for a person: %s", now.Fence)
	}
}

// give gives back what waits in the store's outbox.
func (r *rig) give() {
	r.t.Helper()
	ctx := r.t.Context()
	must.Get(r.store.GiveReleases(ctx, 10, func(id sluice.SaleID, releases []port.Release) error {
		_, err := r.ledger.Release(ctx, id, releases)
		return err
	}))(r.t)
	for deadline := time.Now().Add(20 * time.Second); !r.reading().CooldownUntil.IsZero(); {
		if time.Sleep(10 * time.Millisecond); time.Now().After(deadline) {
			r.t.Fatal("the unit does not come back")
		}
	}
}

// cancel ends an order, and gives its unit back.
func (r *rig) cancel(order sluice.OrderID) {
	r.t.Helper()
	change := sluice.Change{Action: sluice.Cancel, By: "test", Order: order}
	must.Get(r.store.Change(r.t.Context(), change))(r.t)
	r.give()
}

// oneUnit creates a sale of one unit.
func (r *rig) oneUnit() sluice.Sale {
	r.t.Helper()
	sale := phone(-time.Hour)
	sale.Total = 1
	must.Get(r.desk.Create(r.t.Context(), sale))(r.t)
	return sale
}

// with returns a server's rebuilder with this store.
func (r *rig) with(store settle.RebuildStore) *settle.Rebuilder {
	idle := func(sluice.SaleID) bool { return true }
	return settle.NewRebuilder("a", store, r.ledger, r.loader, settle.NewMemory(0), idle, slog.New(slog.DiscardHandler))
}

// recover recovers a sale, which only a person's wish does, and rebuilds it.
func (r *rig) recover(b *settle.Rebuilder) sluice.Recovery {
	r.t.Helper()
	ctx, fenced := r.t.Context(), r.sale()
	if !settle.Outdated(&fenced) {
		r.t.Fatalf("fence %q: nobody is asked to recover it", fenced.Fence)
	}
	would, err := b.Recover(ctx, id, false)
	if now := r.sale(); err != nil || would.Applied || would.Why != fenced.Fence || now.Fence != fenced.Fence ||
		now.UpdatedAt != fenced.UpdatedAt {
		r.t.Fatalf("%+v, %v; the sale is %+v", would, err, now)
	}
	did, err := b.Recover(ctx, id, true)
	if err != nil || !did.Applied {
		r.t.Fatalf("%+v, %v", did, err)
	}
	would.Applied, would.NoExpiryBefore = true, did.NoExpiryBefore
	if diff := cmp.Diff(would, did); diff != "" {
		r.t.Errorf("it did what it had not said: %s", diff)
	}
	fenced = r.sale()
	if again, err := b.Recover(ctx, id, true); err != nil || again.Applied || again.Why != "" {
		r.t.Errorf("again: %+v, %v", again, err)
	}
	if done, err := b.Step(ctx, &fenced); !done || err != nil {
		r.t.Fatalf("rebuilt %t, %v", done, err)
	}
	return did
}

// statuses compares what the store has of orders.
func (r *rig) statuses(want map[sluice.OrderID]sluice.Status) {
	r.t.Helper()
	for order, want := range want {
		if o, err := r.store.Order(r.t.Context(), order); err != nil || o.Status != want {
			r.t.Errorf("%s: %s %s, %v; want %s", order, o.Status, o.Reason, err, want)
		}
	}
}

// awkward is a store in which something happens after a LastSeq.
type awkward struct {
	settle.RebuildStore
	then func()
}

func (s *awkward) LastSeq(ctx context.Context, id sluice.SaleID, epoch int64) (int64, error) {
	seq, err := s.RebuildStore.LastSeq(ctx, id, epoch)
	if then := s.then; then != nil {
		s.then = nil
		then()
	}
	return seq, err
}

// A sale whose store is older than its ledger comes to another ledger by a person's wish alone, who is told what
// that costs. The payments of what is left can be sent again, as after each recovery.
func TestAnOlderStoreGetsAnotherLedger(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	use := func(ledger string) {
		r.store.UseLedger(ledger)
		r.loader.Names(ledger)
	}
	use("sqlite:one")
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	alice := r.accepted("alice", true)
	r.drain()
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, port.FenceOlder+": a test"))
	use("sqlite:two")
	must.Succeed(t, r.store.Heartbeat(ctx, port.Server{Node: "a"}))
	b := r.with(r.store)
	would, err := b.Recover(ctx, id, false)
	if fenced := r.sale(); err != nil || would.Applied || would.Ledger != "sqlite:one" || fenced.Ledger != would.Ledger ||
		would.Why != settle.OtherDecides+would.Ledger || len(would.Payments) != 3 || would.Payments[1].Count != 1 {
		t.Errorf("%+v, %v; the sale is %+v", would, err, fenced)
	}
	did, err := b.Recover(ctx, id, true)
	if err != nil || did.NoExpiryBefore.IsZero() {
		t.Errorf("%+v, %v", did, err)
	}
	would.Applied, would.NoExpiryBefore = true, did.NoExpiryBefore
	if diff := cmp.Diff(would, did); diff != "" {
		t.Errorf("it did what it had not said: %s", diff)
	}
	taken := r.sale()
	if rebuilt, err := b.Step(ctx, &taken); taken.Ledger != "sqlite:two" || !rebuilt || err != nil {
		t.Errorf("the ledger is %s; rebuilt %t, %v", taken.Ledger, rebuilt, err)
	}
	r.inStep(2)
	r.statuses(map[sluice.OrderID]sluice.Status{alice: sluice.Pending})
}

// Another server rebuilds the sale while this one compares: the new epoch is healthy.
func TestVerifyLeavesARebuiltSaleAlone(t *testing.T) {
	r := newRig(t)
	sale := phone(-time.Hour)
	must.Get(r.desk.Create(t.Context(), sale))(t)
	r.accepted("alice", true)
	entries := r.waiting()
	r.drain()
	r.accepted("bob", true)
	r.drain()
	r.olderStore(sale, entries)
	row := r.sale()
	idle := func(sluice.SaleID) bool { return true }
	store := &awkward{RebuildStore: r.store, then: func() {
		if !r.verify() {
			t.Fatal("the store is older, and it is not noticed")
		}
		r.recover(r.with(r.store))
	}}
	b := settle.NewRebuilder("b", store, r.ledger, r.loader, settle.NewMemory(0), idle, slog.New(slog.DiscardHandler))
	if fenced, err := b.Verify(t.Context(), &row); fenced || err != nil {
		t.Errorf("fenced %t, %v", fenced, err)
	}
	r.inStep(2)
}

// An order is stored, and in the journal still; of its ending the store knows nothing.
func TestAForgottenEndingOfAnOrderInTheJournal(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := r.oneUnit()
	alice := r.accepted("alice", true)
	entries := r.waiting()
	if _, err := r.store.Insert(ctx, id, entries); err != nil { // not acknowledged
		t.Fatal(err)
	}
	r.cancel(alice)
	bob := r.accepted("bob", true)
	later := r.waiting()[1:]
	must.Get(r.store.Insert(ctx, id, later))(t)
	must.Succeed(t, r.ledger.Ack(ctx, id, []string{later[0].ID}))
	r.olderStore(sale, entries)
	if !r.verify() {
		t.Fatal("the store is older, and it is not noticed")
	}
	r.recover(r.with(r.store))
	r.statuses(map[sluice.OrderID]sluice.Status{alice: sluice.Cancelled, bob: sluice.Pending})
}

// A store that lacks nothing but an ending counts a unit that its ledger has for sale,
// or has promised to a buyer whose claim is in the journal.
func TestAStoreThatForgotOnlyEndings(t *testing.T) {
	for name, resold := range map[string]bool{"the unit is for sale": false, "the unit is sold again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			sale := r.oneUnit()
			alice := r.accepted("alice", true)
			entries := r.waiting()
			if _, err := r.store.Insert(ctx, id, entries); err != nil || r.verify() {
				t.Fatalf("stored, and not acknowledged: fence %q, %v", r.sale().Fence, err)
			}
			r.drain()
			if _, err := r.store.Change(ctx, sluice.Change{Action: sluice.Cancel, By: "test", Order: alice}); err != nil ||
				r.verify() {
				t.Fatalf("the unit is on its way back: fence %q, %v", r.sale().Fence, err)
			}
			r.give()
			if r.verify() {
				t.Fatalf("the unit is back: fence %q", r.sale().Fence)
			}
			want := map[sluice.OrderID]sluice.Status{alice: sluice.Cancelled}
			if resold {
				want[r.accepted("eve", true)] = sluice.Pending
			}
			r.olderStore(sale, entries)
			if !r.verify() || !strings.HasPrefix(r.sale().Fence, port.FenceOlder) {
				t.Fatalf("fence %q", r.sale().Fence)
			}
			r.recover(r.with(r.store))
			r.inStep(2)
			if !resold {
				want[r.accepted("eve", true)] = sluice.Pending
				r.drain()
			}
			r.statuses(want)
			if r.verify() {
				t.Errorf("fenced again: %s", r.sale().Fence)
			}
		})
	}
}
