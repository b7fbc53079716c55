package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluicehq/sluice"
)

// Snapshot is a ledger's file as it was at one moment, read while a server may
// own it and go on writing. It is the audit's way in: there is nothing on it
// that writes. All its answers are of the same moment, so what Read, Records
// and PeekJournal say of a sale adds up.
type Snapshot struct {
	path  string
	sales salesByID
	at    time.Time
}

var _ sluice.Reader = (*Snapshot)(nil)

// OpenReadOnly reads the ledger in the file at path. It needs no lock, and
// changes nothing in the file. The error wraps os.ErrNotExist if there is no
// file; a file that is not a ledger, or has another format, is an error that
// says so.
func OpenReadOnly(ctx context.Context, path string) (*Snapshot, error) {
	s, err := readSnapshot(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("sqliteledger: open %s read-only: %w", path, err)
	}
	return s, nil
}

func readSnapshot(ctx context.Context, path string) (_ *Snapshot, err error) {
	info, err := os.Stat(path) // SQLite would only say that it cannot open it
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f := &file{db: openDB(path, "ro", "busy_timeout(10000)", "query_only(1)")}
	defer f.close()
	if err := checkFormat(ctx, f.db); err != nil {
		return nil, err
	}
	s := &Snapshot{path: path, at: time.Now().UTC().Truncate(time.Millisecond)}
	s.sales, _, err = f.replay(ctx)
	return s, err
}

// Refresh reads the file again: from then on the answers are of that moment.
// What reads a store after a snapshot needs it, to tell orders that came later
// from orders that the ledger never promised.
func (s *Snapshot) Refresh(ctx context.Context) error {
	fresh, err := readSnapshot(ctx, s.path)
	if err != nil {
		return fmt.Errorf("sqliteledger: read %s again: %w", s.path, err)
	}
	*s = *fresh
	return nil
}

// Close implements io.Closer. The file was given back when it had been read.
func (s *Snapshot) Close() error { return nil }

// Read implements sluice.Reader. Now is when the snapshot was taken.
func (s *Snapshot) Read(_ context.Context, ids []sluice.SaleID) ([]sluice.Reading, error) {
	return s.sales.read(ids, s.at), nil
}

// Records implements sluice.Reader.
func (s *Snapshot) Records(ctx context.Context, id sluice.SaleID, yield func(sluice.Record) bool) error {
	return s.on(id, "records", func(held *sale) error {
		return held.each(ctx, func(v *view, i int) bool { return yield(v.record(i)) })
	})
}

// Holders implements sluice.Reader.
func (s *Snapshot) Holders(ctx context.Context, id sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	return s.on(id, "holders", func(held *sale) error {
		return held.each(ctx, func(v *view, i int) bool { return yield(v.records.at(i).buyer()) })
	})
}

// Find implements sluice.Reader.
func (s *Snapshot) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
	id, ok := order.Sale()
	if !ok {
		return sluice.Record{}, fmt.Errorf("sqliteledger: find order=%s: %w", order, sluice.ErrOrderNotFound)
	}
	var found sluice.Record
	err := s.on(id, "find", func(held *sale) (err error) {
		found, err = held.order(ctx, order, buyer)
		return err
	})
	return found, err
}

// PeekJournal is as sluice.Journal has it.
func (s *Snapshot) PeekJournal(ctx context.Context, id sluice.SaleID, yield func(sluice.Entry) bool) error {
	return s.on(id, "peek journal", func(held *sale) error { return held.peek(ctx, yield) })
}

// on calls read with a sale of the snapshot.
func (s *Snapshot) on(id sluice.SaleID, what string, read func(*sale) error) error {
	err := error(sluice.ErrNotLoaded)
	if held := s.sales[id]; held != nil {
		err = read(held)
	}
	if err != nil {
		return fmt.Errorf("sqliteledger: %s sale=%s: %w", what, id, err)
	}
	return nil
}
