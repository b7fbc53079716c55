package sqliteledger

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// look returns a sale that the ledger holds.
func (l *Ledger) look(ctx context.Context, id sluice.SaleID) (*sale, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	s := l.sale(id)
	if s == nil {
		return nil, sluice.ErrNotLoaded
	}
	return s, nil
}

func (l *Ledger) usable(ctx context.Context) error {
	if l.queue.closed.Load() {
		return sluice.ErrClosed
	}
	return ctx.Err()
}

// Read implements sluice.Reader. It takes no lock.
func (l *Ledger) Read(ctx context.Context, ids []sluice.SaleID) ([]sluice.Reading, error) {
	if err := l.usable(ctx); err != nil {
		return nil, fmt.Errorf("sqliteledger: read: %w", err)
	}
	return (*l.sales.Load()).read(ids, l.clock()), nil
}

func (all salesByID) read(ids []sluice.SaleID, now time.Time) []sluice.Reading {
	readings := make([]sluice.Reading, len(ids))
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

// Records implements sluice.Reader.
func (l *Ledger) Records(ctx context.Context, id sluice.SaleID, yield func(sluice.Record) bool) error {
	s, err := l.look(ctx, id)
	if err == nil {
		err = s.each(ctx, func(v *view, i int) bool { return yield(v.record(i)) })
	}
	if err != nil {
		return fmt.Errorf("sqliteledger: records sale=%s: %w", id, err)
	}
	return nil
}

// Holders implements sluice.Reader.
func (l *Ledger) Holders(ctx context.Context, id sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	s, err := l.look(ctx, id)
	if err == nil {
		err = s.each(ctx, func(v *view, i int) bool { return yield(v.records.at(i).buyer()) })
	}
	if err != nil {
		return fmt.Errorf("sqliteledger: holders sale=%s: %w", id, err)
	}
	return nil
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

// Find implements sluice.Reader. Without a buyer it looks through the sale's
// records one by one.
func (l *Ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
	r, err := l.find(ctx, order, buyer)
	if err != nil {
		return sluice.Record{}, fmt.Errorf("sqliteledger: find order=%s: %w", order, err)
	}
	return r, nil
}

func (l *Ledger) find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
	id, ok := order.Sale()
	if !ok {
		return sluice.Record{}, sluice.ErrOrderNotFound
	}
	s, err := l.look(ctx, id)
	if err != nil {
		return sluice.Record{}, err
	}
	return s.order(ctx, order, buyer)
}

// order returns the committed claim with this order id.
func (s *sale) order(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
	if buyer != "" {
		return s.orderOf(order, buyer)
	}
	var found sluice.Record
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

func (s *sale) orderOf(order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
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
	return sluice.Record{}, v.missing()
}
