package crowd

import "testing"

func TestBuyersAreDistinctAndTheSameForASeed(t *testing.T) {
	const n = 200_000
	buyers, keys := map[string]bool{}, map[string]bool{}
	a, again, other := New(7), New(7), New(8)
	for i := range int64(n) {
		buyer, key := a.Attempt(i)
		if err := buyer.Validate(); err != nil || len(buyer) != buyerLen {
			t.Fatalf("buyer %q: %v", buyer, err)
		}
		if err := key.Validate(); err != nil || len(key) != keyLen {
			t.Fatalf("key %q: %v", key, err)
		}
		if b, k := again.Attempt(i); b != buyer || k != key {
			t.Fatal("the same seed gives another crowd")
		}
		buyers[string(buyer)], keys[string(key)] = true, true
	}
	if len(buyers) != n || len(keys) != n {
		t.Errorf("%d buyers and %d keys, want %d of each", len(buyers), len(keys), n)
	}
	if b, _ := other.Attempt(0); buyers[string(b)] {
		t.Error("another seed gives the same crowd")
	}
}
