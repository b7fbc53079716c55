package ledgertest

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// record makes a stored claim of an older epoch, as a load image carries it.
func (e *env) record(buyer sluice.BuyerID, key sluice.Key, quantity, seq int64, live bool) port.Record {
	return port.Record{
		Claim: e.claim(buyer, key, quantity), Sale: sale, Epoch: 1, Seq: seq, Terms: 1,
		At: start.Add(-time.Minute).Add(time.Duration(seq) * time.Millisecond), Live: live,
	}
}

// loadCases: the one way to bring a sale in.
var loadCases = []testCase{
	{"it leaves the sale fenced until Unfence", one, func(e *env) {
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 1, Terms: total(3)})
		if r := e.read(sale); r.Fence != port.FenceLoading || r.Epoch != 1 || r.Seq != 0 || r.Taken != 0 || r.Backlog != 0 {
			e.Errorf("%+v, want epoch 1, empty, fenced as loading", r)
		}
		e.same("terms", e.read(sale).Terms, total(3))
		e.wantCode(e.claim("ann", "k", 1), sluice.Unavailable)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"only a higher epoch is accepted", one, func(e *env) {
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 3, Terms: total(3)})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 3))
		e.accepted(e.claim("ann", "k", 2))
		for _, epoch := range []int64{1, 2, 3} {
			err := e.ledger.Load(e.ctx, port.LoadImage{Sale: sale, Epoch: epoch, Terms: total(9)})
			e.wantErr("Load", err, port.ErrStaleEpoch)
		}
		e.wantTaken(2, 1) // a live sale is never refilled
		e.wantCode(e.claim("bob", "k", 2), sluice.Insufficient)
	}},
	{"claims of its own epoch begin the sequence, and are in no journal", one, func(e *env) {
		promised := e.record("ann", "k", 1, 1, true)
		image := port.LoadImage{Sale: sale, Epoch: 2, Terms: total(1203), Taken: 1, Records: []port.Record{promised}}
		for i := range int64(1200) { // in several calls
			r := e.record(sluice.BuyerID(fmt.Sprint("buyer-", i)), "k", 1, i+1, true)
			r.Epoch = 2
			image.Records, image.Taken = append(image.Records, r), image.Taken+1
		}
		e.loadImage(image)
		for range 2 {
			if r := e.read(sale); r.Fence != port.FenceLoading || r.Backlog != 0 {
				e.Errorf("%+v, want no entry, and the sale fenced as loading", r)
			}
			e.wantTaken(1201, 1200)
			e.restart()
		}
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		for _, r := range []port.Record{image.Records[0], image.Records[1], image.Records[1200]} {
			e.same("repeat", e.one(r.Claim), answerOf(r, true))
		}
		e.same("seq", e.accepted(e.claim("bob", "k", 1)).Seq, int64(1201))
		for _, entry := range e.wantEntries(1) {
			e.same("the entry of bob", entry.FirstSeq, int64(1201))
		}
		e.accepted(e.claim("cid", "k", 1))
		e.wantCode(e.claim("dan", "k", 1), sluice.SoldOut)
	}},
	{"records are answered, counted and kept", one, func(e *env) {
		live, ended := e.record("ann", "k1", 2, 1, true), e.record("ann", "k2", 3, 2, false)
		live.Meta = `{"a":1}`
		other := e.record("bob", "k1", 1, 3, true)
		image := port.LoadImage{
			Sale: sale, Epoch: 5, Taken: 3, Records: []port.Record{live, ended, other},
			Terms: with(func(t *sluice.Terms) { t.Version, t.Total, t.MaxPerBuyer, t.MaxOrders = 4, 6, 3, 3 }),
		}
		e.loadImage(image)
		e.wantCode(live.Claim, sluice.Unavailable)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 5))
		e.wantTaken(3, 0) // the sequence starts at 0 again

		for _, r := range image.Records { // ended ones too (I4)
			e.same("repeat", e.one(r.Claim), answerOf(r, true))
		}
		changed := live.Claim
		changed.Meta = ""
		e.wantCode(changed, sluice.KeyReused)

		d := e.wantCode(e.claim("ann", "k3", 2), sluice.BuyerLimit) // 2 live units + 2 > 3
		e.same("orders", d.Orders, []sluice.OrderID{live.Order})
		d = e.accepted(e.claim("ann", "k4", 1))
		if d.Seq != 1 {
			e.Errorf("seq %d, want 1: the sequence restarts with the epoch", d.Seq)
		}
		e.change(sale, func(t *sluice.Terms) { t.MaxPerBuyer = 9 })
		e.wantCode(e.claim("ann", "k5", 1), sluice.BuyerLimit) // 3 accepted claims, one of them ended
		e.wantCode(e.claim("cid", "k", 3), sluice.Insufficient)
		e.accepted(e.claim("cid", "k", 2))
		e.wantCode(e.claim("dan", "k", 1), sluice.SoldOut)

		records := e.records(sale)
		for _, want := range image.Records {
			e.same("record", records[want.Order], want)
		}
		if len(records) != 5 {
			e.Errorf("%d records, want 5", len(records))
		}
		e.wantEntries(2) // loaded claims are stored already
	}},
	{"it replaces what was there", one, func(e *env) {
		e.load(sale, total(2))
		gone := e.claim("ann", "k", 2)
		e.accepted(gone)
		e.ackAll()
		kept := e.record("bob", "k", 1, 1, true)
		e.loadImage(port.LoadImage{
			Sale: sale, Epoch: 2, Terms: with(func(t *sluice.Terms) { t.Version, t.Total = 2, 2 }),
			Taken: 1, Records: []port.Record{kept},
		})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		e.wantTaken(1, 0)
		e.accepted(e.claim("ann", "k", 1)) // the ledger no longer knows the old claim
		e.wantCode(e.claim("bob", "k2", 1), sluice.SoldOut)
		if n := len(e.records(sale)); n != 2 {
			e.Errorf("%d records, want 2", n)
		}
	}},
	{"loads of other sales stay apart", one, func(e *env) {
		e.load("a", total(1))
		e.load("b", total(2))
		e.same("a", e.read("a").Terms.Total, int64(1))
		e.same("b", e.read("b").Terms.Total, int64(2))
	}},
	{"a large image", one, func(e *env) {
		const n = 5000
		image := port.LoadImage{Sale: sale, Epoch: 2, Terms: total(n), Taken: n / 2}
		for i := range int64(n) {
			r := e.record(sluice.BuyerID(fmt.Sprint("buyer-", i)), "k", 1, i+1, i%2 == 0)
			image.Records = append(image.Records, r)
		}
		e.loadImage(image)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		e.wantTaken(n/2, 0)
		records := e.records(sale)
		if len(records) != n {
			e.Fatalf("%d records, want %d", len(records), n)
		}
		for _, i := range []int{0, 1, 999, 1000, n - 1} {
			want := image.Records[i]
			e.same("record", records[want.Order], want)
			if d := e.one(want.Claim); !d.Replayed || d.Order != want.Order {
				e.Errorf("repeat of record %d: %+v", i, d)
			}
		}
	}},
	{"of concurrent loads of one epoch exactly one wins, and of many epochs the highest", one, func(e *env) {
		errs := make(chan error)
		for range 4 {
			go func() { errs <- e.ledger.Load(e.ctx, port.LoadImage{Sale: sale, Epoch: 1, Terms: total(1)}) }()
		}
		won := 0
		for range 4 {
			if err := <-errs; err == nil {
				won++
			} else {
				e.wantErr("Load", err, port.ErrStaleEpoch)
			}
		}
		if won != 1 {
			e.Errorf("%d of 4 loads of epoch 1 were accepted, want 1", won)
		}
		for epoch := range int64(6) {
			go func() {
				errs <- e.ledger.Load(e.ctx, port.LoadImage{Sale: sale, Epoch: epoch + 2, Terms: total(epoch)})
			}()
		}
		for range 6 {
			if err := <-errs; err != nil {
				e.wantErr("Load", err, port.ErrStaleEpoch)
			}
		}
		if r := e.read(sale); r.Epoch != 7 || r.Terms.Total != 5 || r.Fence != port.FenceLoading {
			e.Errorf("%+v, want epoch 7 with its terms, fenced", r)
		}
	}},
}

// fenceCases: Fence and Unfence.
var fenceCases = []testCase{
	{"the first reason stands, and Unfence lifts any", one, func(e *env) {
		e.load(sale, total(5))
		for _, reason := range []string{"one", "two", "one"} {
			e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, reason))
			if r := e.read(sale); r.Fence != "one" {
				e.Errorf("fence %q, want one", r.Fence)
			}
		}
		e.wantCodes(e.claims(e.claim("ann", "k", 1), e.claim("bob", "k", 1)), sluice.Unavailable, sluice.Unavailable)
		for range 2 {
			e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		}
		if r := e.read(sale); r.Fence != "" {
			e.Errorf("fence %q, want none", r.Fence)
		}
		e.accepted(e.claim("ann", "k", 1))
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "three"))
		if r := e.read(sale); r.Fence != "three" {
			e.Errorf("fence %q, want three", r.Fence)
		}
	}},
	{"another epoch is stale, a missing sale is not loaded", one, func(e *env) {
		e.wantErr("Fence", e.ledger.Fence(e.ctx, sale, 1, "x"), port.ErrNotLoaded)
		e.wantErr("Unfence", e.ledger.Unfence(e.ctx, sale, 1), port.ErrNotLoaded)
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 2, Terms: total(1)})
		for _, epoch := range []int64{1, 3} {
			e.wantErr("Fence", e.ledger.Fence(e.ctx, sale, epoch, "x"), port.ErrStaleEpoch)
			e.wantErr("Unfence", e.ledger.Unfence(e.ctx, sale, epoch), port.ErrStaleEpoch)
		}
		if r := e.read(sale); r.Fence != port.FenceLoading {
			e.Errorf("fence %q, want loading", r.Fence)
		}
	}},
	{"a fenced sale still hands out its journal and its records", one, func(e *env) {
		e.load(sale, total(5))
		d := e.accepted(e.claim("ann", "k", 1))
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "x"))
		e.wantEntries(1)
		if _, err := e.ledger.Find(e.ctx, d.Order, "ann"); err != nil {
			e.Errorf("Find: %v", err)
		}
		e.ackAll()
	}},
	{"a fence survives a restart", one, func(e *env) {
		e.load(sale, total(5))
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "the reason; with 字符"))
		e.restart()
		if r := e.read(sale); r.Fence != "the reason; with 字符" {
			e.Errorf("fence %q", r.Fence)
		}
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.restart()
		if r := e.read(sale); r.Fence != "" {
			e.Errorf("fence %q, want none", r.Fence)
		}
	}},
}

// ackAll takes everything out of the journal.
func (e *env) ackAll() {
	e.Helper()
	for _, source := range []port.Source{port.Own, port.New} {
		for {
			entries := e.journal(source, "", 100)
			if len(entries) == 0 {
				break
			}
			e.must("Ack", e.ledger.Ack(e.ctx, sale, ids(entries)))
		}
	}
}

func ids(entries []port.Entry) []string {
	all := make([]string, len(entries))
	for i := range entries {
		all[i] = entries[i].ID
	}
	return all
}
