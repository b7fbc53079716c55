package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
)

// Kept is what Options.Keep leaves up for a person to click through: the
// server, a mock shop with a login and a payment, and beside the sale of the
// crowd one of a few units that opens soon.
type Kept struct {
	URL, ShopURL, AdminKey string

	Sold  sluice.SaleID // the crowd's
	Try   sluice.SaleID
	Units int64 // of Try
	Opens time.Duration
}

const (
	tryUnits  = 3
	tryWindow = 2 * time.Minute // to pay
	tryOpens  = 30 * time.Second
)

// createTrySale makes the sale for the person, beside the crowd's.
func (d *run) createTrySale(ctx context.Context) (api.AdminSale, error) {
	money := func(amount int64) sluice.Money { return sluice.Money{Amount: amount, Currency: "CNY"} }
	return d.client.CreateSale(ctx, api.CreateSale{
		ID: api.Some(sluice.SaleID(fmt.Sprintf("try-%x", time.Now().UnixNano()))), SKU: "DEMO-2",
		Title: "Aurora desk lamp, limited edition",
		Price: api.Some(money(19900)), ListPrice: api.Value(money(29900)),
		Total: api.Value(int64(tryUnits)), MaxPerBuyer: api.Value(int64(1)),
		OpensAt: api.Some(api.At(time.Now().Add(tryOpens))), ClosesAt: api.Null[api.Time](),
		PaymentWindowS: api.Some(int64(tryWindow / time.Second)),
	})
}

// wait leaves server, pages and shop up until the context ends.
func (d *run) wait(ctx context.Context, sold sluice.SaleID) error {
	handler, err := NewShop(ShopOptions{
		Pages: d.server.url, BuyerSecret: d.engine.BuyerSecret(), AdminKey: d.engine.AdminKey(),
	})
	if err != nil {
		return err
	}
	d.shop.serve(&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second})
	try, err := d.createTrySale(ctx)
	if err != nil {
		return fmt.Errorf("the sale to try: %w", err)
	}
	d.Screen.Kept(&Kept{
		URL: d.server.url, ShopURL: d.shop.url, AdminKey: d.engine.AdminKey(),
		Sold: sold, Try: try.ID, Units: tryUnits, Opens: tryOpens,
	})
	select {
	case <-ctx.Done():
	case <-d.server.failed:
	}
	// The ledger may be the user's own: nothing is left on sale there.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.ShutdownTimeout)
	defer cancel()
	for _, id := range []sluice.SaleID{try.ID, sold} {
		if _, err := d.client.CloseSale(closing, id); err != nil {
			return fmt.Errorf("close the sale %s: %w", id, err)
		}
	}
	return nil
}
