package demo

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
)

// Kept is what Options.Keep leaves up for a person to click through: the server, a mock shop with a
// login and a payment, and beside the sale of the crowd three others.
type Kept struct {
	URL, ShopURL, AdminKey string
	SignIn                 string // address that signs in as alice
	Pages                  []KeptPage
}

// KeptPage is a page worth a look.
type KeptPage struct{ Name, URL, Note string }

const (
	tryUnits  = 3
	tryWindow = 2 * time.Minute // to pay
	tryOpens  = 30 * time.Second
)

// pictures are drawn for the demo: NAME.svg is the drawing.
//
//go:embed pictures/*.jpg
var pictures embed.FS

// exhibit is a sale in the window of the demo's shop.
type exhibit struct {
	name, picture string
	sale          api.CreateSale
	shown         api.PatchShowcase
	note          string
}

// window is the sale that opens in a moment, one that is open, and one to come.
func window(now time.Time) []exhibit {
	evening := time.Date(now.Year(), now.Month(), now.Day()+1, 20, 0, 0, 0, now.Location())
	minute := now.Truncate(time.Minute) // as shops say times
	return []exhibit{
		{"opens soon", "lamp", api.CreateSale{
			SKU: "DEMO-2", Title: "Polar light lamp", Price: api.Some(money(19900)), ListPrice: api.Value(money(29900)),
			Total: api.Value(int64(tryUnits)), OpensAt: api.Some(api.At(now.Add(tryOpens))),
			PaymentWindowS: api.Some(int64(tryWindow / time.Second)),
		}, api.PatchShowcase{
			Badge: api.Some("1 / 300"), Titles: api.Some(sluice.Texts{ZH: "极光台灯"}),
			Descriptions: api.Some(sluice.Texts{
				EN: "A lamp for the long nights: a shade of hand-made paper on brass.\n\n" +
					"- 600 lumen, warm white\n- dims to a glimmer\n- numbered, with a certificate",
				ZH: "为长夜准备的台灯：手工纸灯罩，黄铜灯身。\n\n- 600 流明，暖白光\n- 可调至微光\n- 独立编号，附证书",
			}),
		}, fmt.Sprintf("%d units, in %d s", tryUnits, int(tryOpens/time.Second))},
		{"open", "teapot", api.CreateSale{
			SKU: "DEMO-3", Title: "Red clay teapot", Price: api.Some(money(56000)), ListPrice: api.Value(money(68000)),
			Total: api.Value(int64(200)), OpensAt: api.Some(api.At(minute.Add(-time.Minute))),
			ClosesAt: api.Value(api.At(minute.Add(45 * time.Minute))),
		}, api.PatchShowcase{
			Titles: api.Some(sluice.Texts{ZH: "红泥茶壶"}),
			Descriptions: api.Some(sluice.Texts{
				EN: "Thrown on the wheel, fired for thirty hours. Holds tea for two.",
				ZH: "手拉坯，窑烧三十小时，两人份。",
			}),
		}, "200 units, closes in 45 minutes"},
		{"tomorrow", "sneaker", api.CreateSale{
			SKU: "DEMO-4", Title: "Dawn runners", Price: api.Some(money(89900)), Total: api.Value(int64(500)),
			OpensAt: api.Some(api.At(evening)),
		}, api.PatchShowcase{Titles: api.Some(sluice.Texts{ZH: "破晓跑鞋"}), Badge: api.Some("New · 新品")}, "at 20:00"},
	}
}

func money(amount int64) sluice.Money { return sluice.Money{Amount: amount, Currency: "CNY"} }

// dress gives a sale its picture and its texts.
func (d *run) dress(ctx context.Context, id sluice.SaleID, drawn string, shown api.PatchShowcase) error {
	if _, err := d.client.PatchSale(ctx, id, api.PatchSale{PatchShowcase: shown}); err != nil {
		return err
	}
	jpeg, err := pictures.ReadFile("pictures/" + drawn + ".jpg")
	if err != nil {
		return err
	}
	_, err = d.client.AddPicture(ctx, id, bytes.NewReader(jpeg))
	return err
}

// wait leaves server, pages and shop up until the context ends, and sends another crowd as often
// as it is asked to.
func (d *run) wait(ctx context.Context, sold sluice.SaleID) error {
	again := make(chan struct{}, 1)
	handler, err := NewShop(ShopOptions{
		Pages: d.server.url, BuyerSecret: d.engine.BuyerSecret(), AdminKey: d.engine.AdminKey(),
		Crowd: func() {
			select {
			case again <- struct{}{}:
			default: // one is on its way
			}
		},
	})
	if err != nil {
		return err
	}
	d.shop.serve(&http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second})
	kept := &Kept{URL: d.server.url, ShopURL: d.shop.url, AdminKey: d.engine.AdminKey(), SignIn: d.shop.url + "/as/alice"}
	all, err := d.fillWindow(ctx, kept, sold)
	if err == nil {
		d.Screen.Kept(kept)
		err = d.sendCrowds(ctx, sold, again)
	}
	// The ledger may be the user's own: nothing is left on sale there.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.ShutdownTimeout)
	defer cancel()
	for _, id := range all {
		if _, failed := d.client.CloseSale(closing, id); failed != nil {
			err = errors.Join(err, fmt.Errorf("close the sale %s: %w", id, failed))
		}
	}
	return err
}

// sendCrowds sends a crowd for each value, until the context ends, or the server, or a crowd fails.
func (d *run) sendCrowds(ctx context.Context, sold sluice.SaleID, again <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.server.failed:
			return nil
		case <-again:
		case <-d.Screen.Again:
		}
		if err := d.sendAgain(ctx, sold); err != nil && ctx.Err() == nil {
			return fmt.Errorf("another crowd: %w", err)
		}
	}
}

// fillWindow makes the other sales, and returns all that are on sale.
func (d *run) fillWindow(ctx context.Context, kept *Kept, sold sluice.SaleID) ([]sluice.SaleID, error) {
	now, all := time.Now(), []sluice.SaleID{sold}
	page := func(name string, id sluice.SaleID, note string) {
		kept.Pages = append(kept.Pages, KeptPage{name, d.server.url + "/s/" + string(id), note})
	}
	for _, e := range window(now) {
		e.sale.ID = api.Some(sluice.SaleID(fmt.Sprintf("%s-%x", e.picture, now.UnixNano())))
		e.sale.MaxPerBuyer = api.Value(int64(1))
		sale, err := d.client.CreateSale(ctx, e.sale)
		if err == nil {
			all = append(all, sale.ID)
			err = d.dress(ctx, sale.ID, e.picture, e.shown)
		}
		if err != nil {
			return all, fmt.Errorf("the shop's window: %w", err)
		}
		page(e.name, sale.ID, e.note)
	}
	page("sold out", sold, "by the crowd")
	return all, d.dress(ctx, sold, "headphones", api.PatchShowcase{Titles: api.Some(sluice.Texts{ZH: "海风耳机"})})
}

// sendAgain puts as many units on sale as there were, and has the crowd rush them.
func (d *run) sendAgain(ctx context.Context, sold sluice.SaleID) error {
	restock := fmt.Sprintf("again-%x", time.Now().UnixNano())
	if _, err := d.client.RestockSale(ctx, sold, restock, cmp.Or(d.Stock, 1)); err != nil {
		return err
	}
	crowd := d.Crowd
	crowd.Seed = uint64(time.Now().UnixNano())
	crowd.Accepted, crowd.Remember = nil, false
	_, _, err := d.Screen.Rush(ctx, crowd)
	return err
}
