package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Load creates the sale "phones", which has no total, and loads it, so that it
// can take batches.
func Load(t testing.TB, s port.Store) {
	t.Helper()
	create(t, s, aSale("phones", sluice.Unlimited))
}

// batchSize is how many claims a Batch has.
const batchSize = 500

// Batch returns the n-th entry, from 1, of the sale "phones": one unit each for
// new buyers, whose ids and keys are scattered as real ones are.
func Batch(n int) port.Entry {
	e := port.Entry{
		ID: fmt.Sprint(n), Sale: "phones", Epoch: 1, Node: "node-1", Terms: 1, At: time.Now(),
		FirstSeq: int64((n-1)*batchSize + 1), Claims: make([]sluice.Claim, batchSize),
	}
	for i := range e.Claims {
		at := e.FirstSeq + int64(i)
		e.Claims[i] = sluice.Claim{
			Buyer:    sluice.BuyerID(fmt.Sprintf("buyer-%x", at*0x9e3779b97f4a7c1%0xffffffff)),
			Key:      sluice.Key(fmt.Sprintf("key-%08x", at*2654435761%0xffffffff)),
			Quantity: 1, Order: sluice.SaleID("phones").Order(fmt.Sprintf("%032x", at)), Meta: `{"channel":"app"}`,
		}
	}
	return e
}

// InsertBatch stores an entry of new claims.
func InsertBatch(t testing.TB, s port.Store, e port.Entry) {
	t.Helper()
	got, err := s.Insert(t.Context(), e.Sale, []port.Entry{e})
	if err != nil || got.Inserted != len(e.Claims) {
		t.Fatalf("%d of %d claims inserted, %v", got.Inserted, len(e.Claims), err)
	}
}

// Batches counts the stored batches. It checks that they are whole, once each,
// and that the counter agrees.
func Batches(t testing.TB, s port.Store) int {
	t.Helper()
	var seqs []int64
	must.Succeed(t, s.Snapshot(t.Context(), "phones", func(snap port.Snapshot) error {
		err := snap.Orders(func(o sluice.Order) bool { seqs = append(seqs, o.Seq); return true })
		if snap.Sale().Taken != int64(len(seqs)) {
			t.Errorf("taken %d, %d orders (I2)", snap.Sale().Taken, len(seqs))
		}
		return err
	}))
	slices.Sort(seqs)
	for i, seq := range seqs {
		if seq != int64(i+1) {
			t.Fatalf("sequence %d is at place %d (I5)", seq, i+1)
		}
	}
	if len(seqs)%batchSize != 0 {
		t.Errorf("%d orders are no whole batches", len(seqs))
	}
	return len(seqs) / batchSize
}
