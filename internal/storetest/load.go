package storetest

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func testLoad(t *testing.T, db Database) {
	s := db.Open(t)
	sale := must.Get(s.CreateSale(t.Context(), aSale("phones", 10)))(t)
	wantEpochs := func(epoch, loaded int64, fence string) {
		t.Helper()
		if got := read(t, s, "phones"); got.Epoch != epoch || got.LoadedEpoch != loaded || got.Fence != fence {
			t.Errorf("epoch %d, loaded %d, fence %q; want %d, %d, %q", got.Epoch, got.LoadedEpoch, got.Fence, epoch, loaded,
				fence)
		}
	}
	begin := func(epoch int64) {
		t.Helper()
		image := must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
		want := port.LoadImage{Sale: "phones", Epoch: epoch, Terms: sale.Terms}
		if diff := cmp.Diff(want, image, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("image (-want +got):\n%s", diff)
		}
	}
	wantError(t, s.ConfirmLoad(t.Context(), "phones", 0), port.ErrStaleEpoch)
	begin(1)
	wantEpochs(1, 0, "")
	begin(2) // a load that was not confirmed starts over
	wantError(t, s.ConfirmLoad(t.Context(), "phones", 1), port.ErrStaleEpoch)
	wantError(t, s.ConfirmLoad(t.Context(), "phones", 3), port.ErrStaleEpoch)
	wantEpochs(2, 0, "")
	must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", 2))
	wantEpochs(2, 2, "")

	_, err := s.BeginLoad(t.Context(), "phones", 0) // live
	wantError(t, err, port.ErrSaleLive)
	wantEpochs(2, 2, "")
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 2, "lost: x"))
	if err := s.ConfirmLoad(t.Context(), "phones", 2); err != nil { // a reply that was lost, say
		t.Fatal(err)
	}
	wantEpochs(2, 2, "lost: x")
	begin(3)
	wantEpochs(3, 2, "lost: x")
	must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", 3))
	wantEpochs(3, 3, "")
	if version := read(t, s, "phones").Version; version != 1 {
		t.Errorf("version %d after loads, want 1", version)
	}

	must.Succeed(t, s.FenceSale(t.Context(), "phones", 3, "lost: x"))
	image, err := s.BeginLoad(t.Context(), "phones", 41) // the ledger has seen 41
	if err != nil || image.Epoch != 42 {
		t.Errorf("epoch %d, %v; want 42", image.Epoch, err)
	}
	for _, passed := range []int64{port.MaxEpoch, math.MaxInt64} {
		var state *sluice.StateError
		if _, err := s.BeginLoad(t.Context(), "phones", passed); !errors.As(err, &state) {
			t.Errorf("after epoch %d: %v, want a sluice.StateError", passed, err)
		}
	}
	wantEpochs(42, 3, "lost: x")

	_, err = s.BeginLoad(t.Context(), "unknown", 0)
	wantError(t, err, sluice.ErrSaleNotFound)
	wantError(t, s.ConfirmLoad(t.Context(), "unknown", 1), sluice.ErrSaleNotFound)
}

// The image holds every stored order's claim (I4), and counts the live ones.
func testLoadRecords(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 2200)) // more than any page
	src := source{sale: "phones", epoch: 1}
	first, second := src.entry(2100), src.entry(400)
	second.Terms = 2
	must.Get(s.Insert(t.Context(), "phones", []port.Entry{first, second}))(t)
	image := must.Get(s.BeginLoad(t.Context(), "phones", 0))(t) // it is fenced by what was not covered
	var want []port.Record
	for _, entry := range []port.Entry{first, second} {
		for i := range entry.Claims {
			record := entry.Record(i)
			record.Live = len(want) < 2200
			want = append(want, record)
		}
	}
	if diff := differ(want, image.Records); diff != "" {
		t.Errorf("records (-want +got):\n%.2000s", diff)
	}
	if image.Taken != 2200 || image.Epoch != 2 {
		t.Errorf("taken %d, epoch %d, want 2200, 2", image.Taken, image.Epoch)
	}
}

// Terms that a store does not know, since it is an older copy, keep their numbers: those of stored
// claims and of claims that are set aside. What was written by hand has none to keep.
func testLoadPassesTerms(t *testing.T, db Database) {
	s := db.Open(t)
	sale := aSale("phones", 10)
	sale.Paused = true
	create(t, s, sale)
	src := source{sale: "phones", epoch: 1}
	stored, aside, mad := src.entry(2), src.entry(1), src.entry(1)
	stored.Terms, aside.Terms, mad.Terms = 3, 5, math.MaxInt64
	must.Get(s.Insert(t.Context(), "phones", []port.Entry{stored}))(t)
	for _, e := range []port.Entry{aside, mad} {
		must.Succeed(t, s.SetAside(t.Context(), e.DeadLetter(port.ErrUnstorable)))
	}
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 1, "lost: x"))
	for range 2 { // a load that is repeated finds them known
		image := must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
		if now := read(t, s, "phones"); image.Terms.Version != 6 || !image.Terms.Paused || now.Terms != image.Terms {
			t.Errorf("loaded %+v, stored %+v; want version 6, paused", image.Terms, now.Terms)
		}
	}
	versions := map[int64]bool{}
	must.Succeed(t, s.Snapshot(t.Context(), "phones", func(snap port.Snapshot) error {
		for _, v := range snap.TermsVersions() {
			versions[v.Version] = true
			if code := v.Refusal(stored.At); v.Version != 1 && v.Version != 6 && code != 0 {
				t.Errorf("version %d refuses what was accepted under it: %s", v.Version, code)
			}
		}
		return nil
	}))
	if want := map[int64]bool{1: true, 3: true, 5: true, 6: true}; !maps.Equal(versions, want) {
		t.Errorf("versions %v, want %v", versions, want)
	}
}

func testLastSeq(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 3))
	create(t, s, aSale("tablets", 3))
	src := source{sale: "phones", epoch: 1}
	first, second := src.entry(2), src.entry(3)
	must.Get(s.Insert(t.Context(), "phones", []port.Entry{second, first}))(t)
	for _, test := range []struct {
		sale  sluice.SaleID
		epoch int64
		want  int64
	}{{"phones", 1, 5}, {"phones", 2, 0}, {"tablets", 1, 0}, {"unknown", 1, 0}} {
		if got, err := s.LastSeq(t.Context(), test.sale, test.epoch); err != nil || got != test.want {
			t.Errorf("last sequence of %s epoch %d: %d, %v, want %d", test.sale, test.epoch, got, err, test.want)
		}
	}
}

func aLetter(sale sluice.SaleID, epoch int64, entry string) port.DeadLetter {
	return port.DeadLetter{
		Sale: sale, EntryID: entry, Reason: "it fails", Claims: "ann\tkey-00000001\tx\t1\t{}\n", Epoch: epoch, FirstSeq: 3,
		Terms: 2,
		Node:  "node-1", At: acceptedAt,
	}
}

func testDeadLetters(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 3))
	letters := []port.DeadLetter{
		aLetter("phones", 1, "b"), aLetter("phones", 1, "a"), aLetter("phones", 2, "a"), aLetter("unknown", 1, "a"),
	}
	for _, letter := range letters {
		must.Succeed(t, s.SetAside(t.Context(), letter))
	}
	again := letters[0]
	again.Reason, again.Claims = "another", "another"
	must.Succeed(t, s.SetAside(t.Context(), again))
	given := cmpopts.IgnoreFields(port.DeadLetter{}, "ID", "CreatedAt")
	for sale, want := range map[sluice.SaleID][]port.DeadLetter{
		"": letters, "phones": letters[:3], "unknown": letters[3:], "none": nil,
	} {
		var got []port.DeadLetter
		for last := int64(0); ; last = got[len(got)-1].ID {
			page, err := s.DeadLettersAfter(t.Context(), sale, last, 2)
			if err != nil || len(page) > 2 {
				t.Fatal(page, err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		if whole, err := s.DeadLetters(t.Context(), sale); err != nil || sale != "" && !cmp.Equal(whole, got) {
			t.Errorf("%v: %v, page by page %v", err, whole, got)
		}
		if diff := cmp.Diff(want, got, given); diff != "" {
			t.Errorf("dead letters of %q (-want +got):\n%s", sale, diff)
		}
		for i, letter := range got {
			if letter.ID == 0 || letter.CreatedAt.IsZero() || i > 0 && letter.ID <= got[i-1].ID {
				t.Errorf("dead letter %d: id %d, created at %v", i, letter.ID, letter.CreatedAt)
			}
		}
	}
	if diff := cmp.Diff(letters[:3], look(t, s, "phones").Letters, given); diff != "" {
		t.Errorf("in the snapshot (-want +got):\n%s", diff)
	}
}

// An entry is set aside because it is damaged: nothing of it is a reason to
// lose it.
func testDamagedDeadLetters(t *testing.T, db Database) {
	s := db.Open(t)
	damaged := port.DeadLetter{
		Sale: "phones", EntryID: "1-1", Reason: "torn: \xff\x00", Claims: "\x00\xff\xfe'\"\\\n",
		Node: "\x00",
	}
	must.Succeed(t, s.SetAside(t.Context(), damaged))
	must.Succeed(t, s.SetAside(t.Context(), port.DeadLetter{Sale: "phones", EntryID: "1-2"}))
	got, err := s.DeadLetters(t.Context(), "phones")
	if err != nil || len(got) != 2 {
		t.Fatalf("%d dead letters, %v", len(got), err)
	}
	if l := got[0]; l.Claims != damaged.Claims || l.Reason != "torn: \uFFFD\uFFFD" || !l.At.IsZero() {
		t.Errorf("kept as %+v", l)
	}
	if got[1].Claims != "" {
		t.Errorf("kept as %+v", got[1])
	}
}

func testSnapshot(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 100_000))
	create(t, s, aSale("tablets", 100))
	src, other := source{sale: "phones", epoch: 1}, source{sale: "tablets", epoch: 1}
	for range 5 { // more than any page
		src.store(t, s, 500)
		other.store(t, s, 1)
	}
	var all []sluice.Order
	err := s.Snapshot(t.Context(), "phones", func(snap port.Snapshot) error {
		src.store(t, s, 10) // is later than the snapshot
		n := 0
		if err := snap.Orders(func(sluice.Order) bool { n++; return n < 3 }); err != nil || n != 3 {
			t.Errorf("stopped after %d orders, %v, want 3", n, err)
		}
		err := snap.Orders(func(o sluice.Order) bool {
			if len(all) == 0 { // the snapshot may be used meanwhile
				if _, err := snap.DeadLetters(); err != nil {
					t.Error(err)
				}
			}
			all = append(all, o)
			return true
		})
		if snap.Sale().Taken != 2500 {
			t.Errorf("taken %d, want 2500", snap.Sale().Taken)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2500 {
		t.Fatalf("%d orders, want 2500", len(all))
	}
	for i, o := range all {
		if o.Seq != int64(i+1) || o.Sale != "phones" {
			t.Fatalf("order %d is %s, sequence %d", i, o.ID, o.Seq)
		}
	}
	mine := errors.New("mine")
	if err := s.Snapshot(t.Context(), "phones", func(port.Snapshot) error { return mine }); err != mine {
		t.Errorf("error %v, want the one of read as it is", err)
	}
	err = s.Snapshot(t.Context(), "unknown", func(port.Snapshot) error {
		t.Error("called for an unknown sale")
		return nil
	})
	wantError(t, err, sluice.ErrSaleNotFound)
}

func testReadOnly(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	src.store(t, s, 2)
	r := db.OpenReadOnly(t)
	src.store(t, s, 2) // the server goes on
	c := look(t, s, "phones")
	if diff := cmp.Diff(c, look(t, r, "phones")); diff != "" {
		t.Errorf("what it sees (-server +reader):\n%s", diff)
	}
	if _, err := r.Sales(t.Context()); err != nil {
		t.Error(err)
	}
	if page, _, err := r.Orders(t.Context(), sluice.OrderFilter{Limit: 10}); err != nil || len(page) != 4 {
		t.Errorf("%d orders, %v", len(page), err)
	}
	unchanged(t, s, "phones", func() {
		_, created := r.CreateSale(t.Context(), aSale("new", 1))
		_, changed := r.ChangeSale(t.Context(), "phones", func(*sluice.Sale) error { return nil })
		_, inserted := r.Insert(t.Context(), "phones", []port.Entry{src.entry(1)})
		_, begun := r.BeginLoad(t.Context(), "phones", 0)
		_, ended := r.Change(t.Context(), want(c.Orders[0].ID, sluice.Cancel))
		_, expired := expireDue(t.Context(), r, 1)
		_, given := r.GiveReleases(t.Context(), 1, nil)
		_, restocked := r.Restock(t.Context(), "phones", "a", 1)
		_, undone := r.UndoLowering(t.Context(), "phones", 1)
		_, archived := r.Archive(t.Context(), "phones")
		_, leased := r.Lease(t.Context(), "x", "a", 0, time.Hour)
		for i, err := range []error{
			restocked, undone, archived, leased, r.ConfirmTotal(t.Context(), "phones", 1),
			r.Heartbeat(t.Context(), port.Server{Node: "a"}), r.Unlease(t.Context(), "x", "a"),
			r.MarkGathered(t.Context(), "phones", 1, "a", ""),
			r.ResolveDeadLetter(t.Context(), 1, "x"),
			ended, expired, given, created, changed, inserted, begun, r.ConfirmLoad(t.Context(), "phones", 1),
			r.FenceSale(t.Context(), "phones", 1, "x"), r.SetAside(t.Context(), aLetter("phones", 1, "x")),
		} {
			if err == nil {
				t.Errorf("change %d: no error", i)
			}
		}
	})
	_, err := s.Sale(t.Context(), "new")
	wantError(t, err, sluice.ErrSaleNotFound)
}

func testClosed(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	src := source{sale: "phones", epoch: 1}
	_, err := s.Insert(t.Context(), "phones", []port.Entry{src.entry(1)})
	wantError(t, err, sluice.ErrClosed)
	_, err = s.Sale(t.Context(), "phones")
	wantError(t, err, sluice.ErrClosed)
	_, err = s.CreateSale(t.Context(), aSale("new", 1))
	wantError(t, err, sluice.ErrClosed)
	wantError(t, s.Ping(t.Context()), sluice.ErrClosed)
	_, err = expireDue(t.Context(), s, 1)
	wantError(t, err, sluice.ErrClosed)
	_, err = s.GiveReleases(t.Context(), 1, nil)
	wantError(t, err, sluice.ErrClosed)
	_, err = s.PendingReleases(t.Context(), "phones")
	wantError(t, err, sluice.ErrClosed)
	_, err = s.Restock(t.Context(), "phones", "a", 1)
	wantError(t, err, sluice.ErrClosed)
	_, err = s.Lease(t.Context(), "x", "a", 0, time.Hour)
	wantError(t, err, sluice.ErrClosed)
	_, err = s.LiveServers(t.Context(), time.Hour)
	wantError(t, err, sluice.ErrClosed)
	_, err = s.DeadLetter(t.Context(), 1)
	wantError(t, err, sluice.ErrClosed)

	again := db.Open(t) // what is stored is there
	if got := read(t, again, "phones"); got.Epoch != 1 || time.Since(got.CreatedAt) > time.Hour {
		t.Errorf("reopened: %+v", got)
	}
}
