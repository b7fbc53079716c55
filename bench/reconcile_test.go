package main

import (
	"testing"

	"github.com/sluicehq/sluice"
)

// A reconciliation round finds nothing in a sale that was filled, and fails when
// it finds something.
func TestReconcileRound(t *testing.T) {
	o := &options{dir: t.TempDir(), orders: 2500, seed: 1}
	err := embedded(t.Context(), o, func(b *bigSale) error { return b.fill(t.Context(), o) })
	if err != nil {
		t.Fatal(err)
	}
	r := &round{options: *o}
	err = embedded(t.Context(), o, func(b *bigSale) error {
		f, err := b.reconcile(t.Context(), r)
		if err != nil || f.perSecond <= 0 || f.also["took_s"] <= 0 {
			t.Fatalf("%+v, %v", f, err)
		}
		claim := sluice.Claim{
			Buyer: "one-more", Key: "attempt-1", Quantity: 1,
			Order: sluice.MakeOrderID(ledgerSale, "ffffffffffffffffffffffffffffffff"),
		}
		if _, err := b.ledger.Claim(t.Context(), ledgerSale, []sluice.Claim{claim}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.reconcile(t.Context(), r); err == nil {
			t.Error("a claim in flight was not noticed")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
