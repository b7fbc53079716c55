package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func salePath(id sluice.SaleID) string      { return "/v1/sales/" + url.PathEscape(string(id)) }
func adminSalePath(id sluice.SaleID) string { return "/v1/admin/sales/" + url.PathEscape(string(id)) }

// Sales returns the sales that are or will be open.
func (c *Client) Sales(ctx context.Context) ([]api.Sale, error) {
	var list api.SaleList
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/sales", into: &list})
	return list.Sales, err
}

// Sale returns the public view of a sale.
func (c *Client) Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error) {
	var sale api.Sale
	_, err := c.do(ctx, request{method: http.MethodGet, path: salePath(id), into: &sale})
	return sale, err
}

// Time returns the server's clock.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	var now api.ServerTime
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/time", into: &now})
	return now.ServerTime.Time, err
}

// Health returns nil when the server runs.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/healthz"})
	return err
}

// Ready returns no error when the server can decide claims, and says what it
// is: its node, and the kinds of its ledger and store.
func (c *Client) Ready(ctx context.Context) (api.Ready, error) {
	var ready api.Ready
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/readyz", into: &ready})
	return ready, err
}

// CreateSale makes a sale. Without an id, the server makes one.
func (c *Client) CreateSale(ctx context.Context, sale api.CreateSale) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, "/v1/admin/sales", sale)
}

// AdminSales returns all sales, by opening time.
func (c *Client) AdminSales(ctx context.Context) ([]api.AdminSale, error) {
	var list api.AdminSaleList
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/admin/sales", bearer: c.adminKey, into: &list})
	return list.Sales, err
}

// AdminSale returns a sale as its merchant sees it.
func (c *Client) AdminSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodGet, adminSalePath(id), nil)
}

// PatchSale changes the fields that are set.
func (c *Client) PatchSale(ctx context.Context, id sluice.SaleID, patch api.PatchSale) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPatch, adminSalePath(id), patch)
}

// OpenSale starts a sale now.
func (c *Client) OpenSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(id)+"/open", nil)
}

// PauseSale holds a sale until ResumeSale.
func (c *Client) PauseSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(id)+"/pause", nil)
}

// ResumeSale ends a pause.
func (c *Client) ResumeSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(id)+"/resume", nil)
}

// CloseSale ends a sale now; its orders stay as they are.
func (c *Client) CloseSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(id)+"/close", nil)
}

// RestockSale changes a sale's total by delta units, once per id (1 to 128
// bytes): after a lost reply, send the same again. Delta may be negative; below
// what is taken it is api.CodeBelowTaken.
func (c *Client) RestockSale(ctx context.Context, sale sluice.SaleID, id string, delta int64) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(sale)+"/restock", api.Restock{ID: id, Delta: delta})
}

// RebuildSale has a sale gathered and loaded into the ledger again; until that
// is done its state is unavailable.
func (c *Client) RebuildSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return c.adminSale(ctx, http.MethodPost, adminSalePath(id)+"/rebuild", nil)
}

// Audit recomputes the invariants of a sale. A report that is not OK is no error.
func (c *Client) Audit(ctx context.Context, id sluice.SaleID) (api.AuditReport, error) {
	var report api.AuditReport
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: adminSalePath(id) + "/audit", bearer: c.adminKey,
		into: &report,
	})
	return report, err
}

func (c *Client) adminSale(ctx context.Context, method, path string, body any) (api.AdminSale, error) {
	var sale api.AdminSale
	_, err := c.do(ctx, request{method: method, path: path, bearer: c.adminKey, body: body, into: &sale})
	return sale, err
}
