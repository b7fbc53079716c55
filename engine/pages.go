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
	"github.com/sluicehq/sluice/internal/port"
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
	// PublicURL is where buyers reach the pages, with BasePath: share cards and reminders need whole
	// addresses. Default: they have no picture and no link.
	PublicURL string
	// PictureHosts are hosts, like cdn.shop.example, from which the pages may load pictures that
	// sales name by their https address. Default: none; pictures that were uploaded need none.
	PictureHosts []string
	// ShopName, ShopLogo and ShopURL stand at the top of the pages and in each <sluice-button>, TermsURL
	// and ImprintURL at their bottom. All are addresses, or paths of the shop's own server, but the
	// name. Default: none.
	ShopName, ShopLogo, ShopURL, TermsURL, ImprintURL string
	// Accent is the colour of buttons and prices, #rrggbb. It is made darker or lighter until it can be
	// read. Default: Sluice's own.
	Accent string
}

// newPages makes the buyer's pages of what the board knows.
func (e *Engine) newPages() (*web.Pages, error) {
	o := &e.cfg.Pages
	return web.New(pageSource{e.board, e.store}, web.Options{
		Base: e.cfg.BasePath, Session: e.cfg.Identify != nil,
		LoginURL: o.LoginURL, PayURL: o.PayURL, PublicURL: o.PublicURL, PictureHosts: o.PictureHosts,
		Shop: web.Shop{
			Name: o.ShopName, Logo: o.ShopLogo, Home: o.ShopURL, Terms: o.TermsURL, Imprint: o.ImprintURL, Accent: o.Accent,
		},
		Log: e.cfg.Log,
	})
}

// pageSource finds the sales on the board, which costs memory only, and their pictures in the store.
type pageSource struct {
	board *admission.Board
	store port.SaleStore
}

func (s pageSource) Picture(ctx context.Context, sale sluice.SaleID, picture string, size int) ([]byte, error) {
	return s.store.Picture(ctx, sale, picture, size)
}

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
