package pipeline_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/pipeline"
)

// pages counts the readings of new entries, and loses the reply of one.
type pages struct {
	sluice.Journal
	read atomic.Int64
	lose int64 // which; 0: none
}

func (p *pages) ReadJournal(ctx context.Context, read sluice.JournalRead) ([]sluice.Entry, error) {
	entries, err := p.Journal.ReadJournal(ctx, read)
	if read.Source == sluice.New && err == nil && len(entries) > 0 && p.read.Add(1) == p.lose {
		return nil, errDown
	}
	return entries, err
}

// Entries of one claim, read in small pages, fill transactions all the same.
func TestSmallEntriesShareATransaction(t *testing.T) {
	r := newRig(t)
	orders := r.accept(60, 1)
	p := pipeline.New(r.faults, r.faults, pipeline.Options{MaxClaims: 20, MaxEntries: 5})
	p.Wake(sale)
	r.drained(orders)
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.faults.inserts.Load(); n != 3 {
		t.Errorf("%d transactions for 60 claims in pages of 5, want 3 of 20", n)
	}
}

// A page whose reply gets lost while a transaction is gathered is read again,
// as this server's own, without waiting for anything.
func TestAPageThatGetsLostIsReadAgain(t *testing.T) {
	for lose := int64(1); lose <= 4; lose++ {
		r := newRig(t)
		orders := r.accept(16, 1)
		journal := &pages{Journal: r.ledger, lose: lose}
		p := pipeline.New(journal, r.faults, pipeline.Options{MaxClaims: 20, MaxEntries: 5})
		p.Wake(sale)
		r.drained(orders)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := journal.read.Load(); n != 4 {
			t.Errorf("page %d lost: %d pages of new entries were handed out, want 4", lose, n)
		}
	}
}
