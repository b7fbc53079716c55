package storetest

import (
	"testing"
	"time"
)

// The store's clock goes on, and is the one that stamps what it stores.
func testClock(t *testing.T, db Database) {
	s := db.Open(t)
	before, err := s.Clock(t.Context())
	if err != nil || before.IsZero() || before != before.Truncate(time.Millisecond) || before.Location() != time.UTC {
		t.Fatalf("clock %v, %v", before, err)
	}
	sale := create(t, s, aSale("phones", 1))
	after, err := s.Clock(t.Context())
	if err != nil || after.Before(before) {
		t.Fatalf("clock %v after %v, %v", after, before, err)
	}
	if sale.CreatedAt.Before(before) || sale.CreatedAt.After(after) {
		t.Errorf("stored at %v, want between %v and %v", sale.CreatedAt, before, after)
	}
}
