package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/examples/shop/merchant"
)

// tryout is what a person needs to click through the pages that `demo --keep`
// leaves up: a mock shop with a login and a payment, and a sale of a few units
// that opens soon.
type tryout struct {
	listener net.Listener
	server   *http.Server // nil before serve
	url      string
}

const (
	tryUnits  = 3
	tryWindow = 2 * time.Minute // to pay
	tryOpens  = 30 * time.Second
)

// newTryout takes the shop's port, since the pages must know where it is.
func newTryout() (*tryout, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the mock shop: %w", err)
	}
	return &tryout{listener: l, url: reachable(l.Addr(), false)}, nil
}

// pages link to the shop.
func (t *tryout) pages() engine.Pages {
	return engine.Pages{LoginURL: t.url + "/login?return={return}", PayURL: t.url + "/pay?order={order}"}
}

// serve opens the shop of a running server.
func (t *tryout) serve(s *server) error {
	shop, err := merchant.New(merchant.Options{
		Pages: s.url, BuyerSecret: s.engine.BuyerSecret(),
		AdminKey: s.engine.AdminKey(),
	})
	if err != nil {
		return err
	}
	t.server = &http.Server{Handler: shop, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = t.server.Serve(t.listener) }() // until close
	return nil
}

func (t *tryout) close() {
	if t.server != nil {
		_ = t.server.Close()
	}
	_ = t.listener.Close()
}

// createTrySale makes the sale for the person, beside the crowd's.
func (d *demo) createTrySale(ctx context.Context) (api.AdminSale, error) {
	money := func(amount int64) api.Money { return api.Money{Amount: amount, Currency: "CNY"} }
	return d.client.CreateSale(ctx, api.CreateSale{
		ID: api.Some(sluice.SaleID(fmt.Sprintf("try-%x", time.Now().UnixNano()))), SKU: "DEMO-2",
		Title: "Aurora desk lamp, limited edition",
		Price: api.Some(money(19900)), ListPrice: api.Value(money(29900)),
		Total: api.Value(int64(tryUnits)), MaxPerBuyer: api.Value(int64(1)),
		OpensAt: api.Some(api.At(time.Now().Add(tryOpens))), ClosesAt: api.Null[api.Time](),
		PaymentWindowS: api.Some(int64(tryWindow / time.Second)),
	})
}

// wait leaves server, pages and shop up until the user stops them.
func (d *demo) wait(ctx context.Context, sale sluice.SaleID) error {
	if err := d.tryout.serve(d.server); err != nil {
		return err
	}
	try, err := d.createTrySale(ctx)
	if err != nil {
		return fmt.Errorf("the sale to try: %w", err)
	}
	page := func(id sluice.SaleID) string { return d.link(d.server.url + "/s/" + string(id)) }
	fmt.Fprintf(d.stderr, "\nThe server stays up; Ctrl-C stops it. In a browser:\n"+
		"  buy        %s  %d units, opens in %d s; sign in and pay at the mock shop\n"+
		"  sold out   %s\n"+
		"  all sales  %s\n"+
		"  mock shop  %s\n"+
		"  metrics    %s\n"+
		"  admin key  %s\n",
		page(try.ID), tryUnits, int(tryOpens/time.Second), page(sale), d.link(d.server.url+"/"), d.link(d.tryout.url+"/"),
		d.link(d.server.url+"/metrics"), d.server.engine.AdminKey())
	select {
	case <-ctx.Done():
	case <-d.server.failed:
	}
	// The ledger may be the user's own: nothing is left on sale there.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.ShutdownTimeout)
	defer cancel()
	for _, id := range []sluice.SaleID{try.ID, sale} {
		if _, err := d.client.CloseSale(closing, id); err != nil {
			return fmt.Errorf("close the sale %s: %w", id, err)
		}
	}
	return nil
}
