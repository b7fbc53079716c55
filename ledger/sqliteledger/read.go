package sqliteledger

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// look returns a sale that the ledger holds.
func (l *Ledger) look(ctx context.Context, id sluice.SaleID) (*sale, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	s := l.sale(id)
	if s == nil {
		return nil, port.ErrNotLoaded
	}
	return s, nil
}

func (l *Ledger) usable(ctx context.Context) error {
	if l.queue.closed.Load() {
		return sluice.ErrClosed
	}
	return ctx.Err()
}

// Read implements port.Reader. It takes no lock.
func (l *Ledger) Read(ctx context.Context, ids []sluice.SaleID) (_ []port.Reading, err error) {
	defer wrap(&err, "read")
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	return (*l.sales.Load()).read(ids, l.clock()), nil
}

func (all salesByID) read(ids []sluice.SaleID, now time.Time) []port.Reading {
	readings := make([]port.Reading, len(ids))
	for i, id := range ids {
		if s := all[id]; s != nil {
			readings[i] = s.view.Load().reading
			if !sluice.InCooldown(now, readings[i].CooldownUntil) {
				readings[i].CooldownUntil = time.Time{}
			}
		}
		readings[i].Sale, readings[i].Now = id, now
	}
	return readings
}

// reader reads the sales that a Ledger or a snapshot holds.
type reader struct {
	loaded func(ctx context.Context, id sluice.SaleID) (*sale, error)
}

// Records implements port.Reader.
func (r *reader) Records(ctx context.Context, id sluice.SaleID, yield func(port.Record) bool) (err error) {
	defer wrap(&err, "records sale=%s", id)
	s, err := r.loaded(ctx, id)
	if err != nil {
		return err
	}
	return s.each(ctx, func(v *view, i int) bool { return yield(v.record(i)) })
}

// Holders implements port.Reader.
func (r *reader) Holders(ctx context.Context, id sluice.SaleID, yield func(sluice.BuyerID) bool) (err error) {
	defer wrap(&err, "holders sale=%s", id)
	s, err := r.loaded(ctx, id)
	if err != nil {
		return err
	}
	return s.each(ctx, func(v *view, i int) bool { return yield(v.records.at(i).buyer()) })
}

// each calls yield with the place of every committed record, in the order of
// acceptance, until yield returns false.
func (s *sale) each(ctx context.Context, yield func(v *view, i int) bool) error {
	v := s.view.Load()
	for i := range v.count {
		if i%chunkSize == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !yield(v, i) {
			return nil
		}
	}
	return nil
}

// Find implements port.Reader. Without a buyer it looks through the sale's
// records one by one.
func (r *reader) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (_ port.Record, err error) {
	defer wrap(&err, "find order=%s", order)
	id, ok := order.Sale()
	if !ok {
		return port.Record{}, sluice.ErrOrderNotFound
	}
	s, err := r.loaded(ctx, id)
	if err != nil {
		return port.Record{}, err
	}
	return s.order(ctx, order, buyer)
}

// PeekJournal implements port.Journal.
func (r *reader) PeekJournal(ctx context.Context, id sluice.SaleID, yield func(port.Entry) bool) (err error) {
	defer wrap(&err, "peek journal sale=%s", id)
	s, err := r.loaded(ctx, id)
	if err != nil {
		return err
	}
	for _, d := range s.journal.waiting() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !yield(d.asEntry(id)) {
			return nil
		}
	}
	return nil
}

// order returns the committed claim with this order id.
func (s *sale) order(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (port.Record, error) {
	if buyer != "" {
		return s.orderOf(order, buyer)
	}
	var found port.Record
	err := s.each(ctx, func(v *view, i int) bool {
		if v.records.at(i).order() == order {
			found = v.record(i)
		}
		return found.Order == ""
	})
	if err == nil && found.Order == "" {
		err = s.view.Load().missing()
	}
	return found, err
}

func (s *sale) orderOf(order sluice.OrderID, buyer sluice.BuyerID) (port.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.view.Load()
	if a := s.account(buyer); a != nil {
		for i := a.last; i >= 0; i = s.records.at(int(i)).prev {
			if r := s.records.at(int(i)); int(i) < v.count && r.order() == order {
				return v.record(int(i)), nil
			}
		}
	}
	return port.Record{}, v.missing()
}

// Recall implements port.Reader, from memory.
func (r *reader) Recall(ctx context.Context, claim sluice.ClaimID) (_ port.Record, err error) {
	defer wrap(&err, "recall sale=%s", claim.Sale)
	s, err := r.loaded(ctx, claim.Sale)
	if err != nil {
		return port.Record{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.view.Load()
	if i := s.find(s.account(claim.Buyer), claim.Key); i >= 0 && int(i) < v.count { // otherwise it is not committed yet
		return v.record(int(i)), nil
	}
	return port.Record{}, v.missing()
}

// missing is the error about a claim that the view does not have. That of a
// fenced sale is not final: it may have lost claims that a rebuild brings back.
func (v *view) missing() error {
	if v.reading.Fence != "" {
		return fmt.Errorf("the sale is fenced (%s): %w", v.reading.Fence, port.ErrNotLoaded)
	}
	return sluice.ErrOrderNotFound
}
