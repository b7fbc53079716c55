package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
)

// Sale returns a sale with its state and units, as ledger and store have them now; if the ledger
// does not answer, with those of AsOf. Errors: sluice.ErrSaleNotFound; others say that the store
// does not answer.
func (e *Engine) Sale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	view, err := e.board.Reload(ctx, id)
	if err != nil {
		return api.AdminSale{}, err
	}
	return e.server.AdminSale(view), nil
}

// Sales yields all sales, closed and archived ones too, by id, with the state and units that this
// engine has read: at AsOf, some seconds ago where nobody buys. An error is the last that it yields,
// with a zero sale.
func (e *Engine) Sales(ctx context.Context) iter.Seq2[api.AdminSale, error] {
	return func(yield func(api.AdminSale, error) bool) {
		for filter := (port.SaleFilter{Limit: sluice.MaxPage}); ; {
			sales, err := e.server.Sales(ctx, filter)
			if err != nil {
				yield(api.AdminSale{}, err)
				return
			}
			for _, sale := range sales {
				if !yield(sale, nil) {
					return
				}
				filter.After = sale.ID
			}
			if len(sales) < filter.Limit {
				return
			}
		}
	}
}

// Follow yields a sale as it is, and whenever its state, its units or what its merchant has said
// of it change, until the context ends; states between two that a slow loop takes are left out.
//
// An error is yielded with a zero sale; the loop may go on, unless it is sluice.ErrSaleNotFound,
// also of a sale that is deleted later, or sluice.ErrClosed.
func (e *Engine) Follow(ctx context.Context, id sluice.SaleID) iter.Seq2[api.AdminSale, error] {
	type looks struct {
		sale    sluice.Sale
		reading port.Reading
		state   sluice.State
	}
	return func(yield func(api.AdminSale, error) bool) {
		var last *looks
		for ctx.Err() == nil {
			if e.ended.Load() {
				yield(api.AdminSale{}, sluice.ErrClosed)
				return
			}
			view, err := e.board.Lookup(ctx, id)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !yield(api.AdminSale{}, err) || errors.Is(err, sluice.ErrSaleNotFound) {
					return
				}
			default:
				view.Watch()
				sale := e.server.AdminSale(view)
				now := looks{view.Sale, view.Reading, sale.State}
				now.reading.Now = time.Time{}
				if last != nil && *last == now {
					break
				}
				if last = &now; !yield(sale, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(cmp.Or(e.cfg.RefreshInterval, listening)):
			}
		}
	}
}

// withDefaults is a new sale with what a request to the API or a command need not say either: an
// id, the SKU, which is the title, and the opening, which is now.
func (c control) withDefaults(sale sluice.Sale) sluice.Sale {
	if sale.ID == "" {
		sale.ID = admission.NewSaleID()
	}
	sale.SKU = cmp.Or(sale.SKU, sale.Title)
	if sale.OpensAt.IsZero() {
		sale.OpensAt = c.engine.ledgerTime().UTC().Truncate(time.Millisecond)
	}
	return sale
}
