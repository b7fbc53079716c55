package pipeline_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
)

// pages counts the readings of new entries, loses the reply of one, and signals
// another.
type pages struct {
	port.Journal
	read    atomic.Int64
	lose    int64 // which; 0: none
	at      int64 // which; 0: none
	reached func()
}

func (p *pages) ReadJournal(ctx context.Context, read port.JournalRead) ([]port.Entry, error) {
	entries, err := p.Journal.ReadJournal(ctx, read)
	if read.Source == port.New && err == nil && len(entries) > 0 {
		switch n := p.read.Add(1); n {
		case p.lose:
			return nil, errDown
		case p.at:
			p.reached()
		}
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

// slowStore holds the first batch back until the pipeline has read on.
type slowStore struct {
	*faults
	first sync.Once
	on    chan struct{}
}

func (s *slowStore) Insert(ctx context.Context, id sluice.SaleID, entries []port.Entry) (stored port.Stored,
	err error,
) {
	s.first.Do(func() {
		select {
		case <-s.on:
		case <-time.After(20 * time.Second):
			err = errors.New("no worker reads on while the store is busy")
		}
	})
	if err != nil {
		return stored, err
	}
	return s.faults.Insert(ctx, id, entries)
}

// While the store is busy with a batch, the next one is read already.
func TestTheNextBatchIsReadWhileTheStoreIsBusy(t *testing.T) {
	r := newRig(t)
	orders := r.accept(60, 1)
	store := &slowStore{faults: r.faults, on: make(chan struct{})}
	journal := &pages{Journal: r.ledger, at: 5, reached: func() { close(store.on) }}
	p := pipeline.New(journal, store, pipeline.Options{MaxClaims: 20, MaxEntries: 5, Backoff: time.Hour})
	p.Wake(sale)
	r.drained(orders)
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// noAcks refuses one acknowledgement.
type noAcks struct {
	port.Journal
	calls  atomic.Int64
	refuse int64
}

func (n *noAcks) Ack(ctx context.Context, id sluice.SaleID, ids []string) error {
	if n.calls.Add(1) == n.refuse {
		return errDown
	}
	return n.Journal.Ack(ctx, id, ids)
}

// An acknowledgement that fails, whether something is read ahead or not, costs a
// redelivery; nothing is stored twice (I5), nothing stays in the journal.
func TestAFailedAcknowledgementIsMadeGood(t *testing.T) {
	for refuse := int64(1); refuse <= 4; refuse++ {
		r := newRig(t)
		orders := r.accept(65, 1)
		again := 0
		p := pipeline.New(&noAcks{Journal: r.ledger, refuse: refuse}, r.faults, pipeline.Options{
			MaxClaims: 20, MaxEntries: 5, Backoff: time.Millisecond,
			Stored: func(_ sluice.SaleID, s port.Stored) { again += s.Redelivered },
		})
		p.Wake(sale)
		r.drained(orders)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want := 20
		if refuse == 4 {
			want = 5 // of the last batch
		}
		if again != want {
			t.Errorf("acknowledgement %d refused: %d claims were stored again, want %d", refuse, again, want)
		}
	}
}

// A restart finds pages of entries that are this server's own. When the first
// acknowledgement fails there, it begins with the first of them again: none stays
// in the journal, and none is stored twice (I5).
func TestARecoveryWhoseFirstAcknowledgementFails(t *testing.T) {
	for refuse := int64(1); refuse <= 5; refuse++ {
		r := newRig(t)
		r.faults.noAck.Store(true)
		orders := r.accept(23, 1)
		p := r.pipeline()
		p.Wake(sale)
		eventually(t, "all to be stored", func() bool { return len(r.stored()) == len(orders) })
		killed, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.Close(killed)
		r.close()
		r.open()

		p = pipeline.New(&noAcks{Journal: r.ledger, refuse: refuse}, r.faults, pipeline.Options{
			MaxClaims: 5, MaxEntries: 5, Backoff: time.Millisecond, // five pages
		})
		p.Wake(sale)
		r.drained(orders)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
