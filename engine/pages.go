package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/web"
)

// Pages are the settings of the buyer's pages.
type Pages struct {
	// LoginURL is the shop's login, which hands over the buyer's token: in it,
	// {return} becomes the address of the page that wants a buyer. Default: the
	// page asks to sign in without a link.
	LoginURL string
	// PayURL is where the shop takes the money for an order: in it, {order}
	// becomes the order's id. Default: no link.
	PayURL string
}

// newPages makes the buyer's pages of what the board knows.
func (e *Engine) newPages() (*web.Pages, error) {
	return web.New(pageSource{e.board}, web.Options{
		Base: e.cfg.BasePath, Session: e.cfg.Identify != nil,
		LoginURL: e.cfg.Pages.LoginURL, PayURL: e.cfg.Pages.PayURL,
		Log: e.cfg.Log,
	})
}

// pageSource finds the sales on the board, which costs memory only.
type pageSource struct{ board *admission.Board }

func (s pageSource) Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error) {
	view, err := s.board.Public(ctx, id)
	if err != nil {
		return api.Sale{}, err
	}
	view.Watch()
	return httpapi.PublicSale(view), nil
}

func (s pageSource) Snapshot() any { return s.board.Version() }

func (s pageSource) Sales() []api.Sale {
	now := time.Now()
	var sales []api.Sale
	for _, view := range s.board.Views() {
		if view.State(now) != sluice.StateClosed && view.Listed() {
			sales = append(sales, httpapi.PublicSale(view))
		}
	}
	slices.SortFunc(sales, func(a, b api.Sale) int {
		return cmp.Or(a.OpensAt.Compare(b.OpensAt.Time), cmp.Compare(a.ID, b.ID))
	})
	return sales
}
