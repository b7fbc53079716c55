package client

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func salePath(id sluice.SaleID) string      { return "/v1/sales/" + url.PathEscape(string(id)) }
func adminSalePath(id sluice.SaleID) string { return "/v1/admin/sales/" + url.PathEscape(string(id)) }

func listPath(sale sluice.SaleID, kind sluice.ListKind) string {
	return adminSalePath(sale) + "/lists/" + url.PathEscape(string(kind))
}

// Sales returns the sales that are or will be open.
func (c *Client) Sales(ctx context.Context) ([]api.Sale, error) {
	list, err := public[api.SaleList](ctx, c, "/v1/sales")
	return list.Sales, err
}

// Sale returns the public view of a sale.
func (c *Client) Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error) {
	return public[api.Sale](ctx, c, salePath(id))
}

// Time returns the server's clock.
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	now, err := public[api.ServerTime](ctx, c, "/v1/time")
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
	return public[api.Ready](ctx, c, "/readyz")
}

// CreateSale makes a sale. Without an id, the server makes one.
func (c *Client) CreateSale(ctx context.Context, sale api.CreateSale) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, "/v1/admin/sales", sale)
}

// AdminSales returns all sales, by opening time.
func (c *Client) AdminSales(ctx context.Context) ([]api.AdminSale, error) {
	sales, err := collect(func(cursor string) ([]api.AdminSale, string, error) {
		page, err := get[api.AdminSaleList](ctx, c, "/v1/admin/sales"+query("cursor", cursor))
		return page.Sales, page.NextCursor, err
	})
	slices.SortStableFunc(sales, func(a, b api.AdminSale) int { return a.OpensAt.Compare(b.OpensAt.Time) })
	return sales, err
}

// AdminSale returns a sale as its merchant sees it.
func (c *Client) AdminSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return get[api.AdminSale](ctx, c, adminSalePath(id))
}

// PatchSale changes the fields that are set.
func (c *Client) PatchSale(ctx context.Context, id sluice.SaleID, patch api.PatchSale) (api.AdminSale, error) {
	return call[api.AdminSale](ctx, c, c.adminKey, http.MethodPatch, adminSalePath(id), patch)
}

// AddPicture uploads a JPEG, PNG or WebP of at most 10 MiB, which the sale shows after the pictures
// that it has. The server makes two sizes of it and keeps nothing else.
func (c *Client) AddPicture(ctx context.Context, id sluice.SaleID, picture io.Reader) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(id)+"/pictures", picture)
}

// OpenSale starts a sale now.
func (c *Client) OpenSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(id)+"/open", nil)
}

// PauseSale holds a sale until ResumeSale.
func (c *Client) PauseSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(id)+"/pause", nil)
}

// ResumeSale ends a pause.
func (c *Client) ResumeSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(id)+"/resume", nil)
}

// CloseSale ends a sale now; its orders stay as they are.
func (c *Client) CloseSale(ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(id)+"/close", nil)
}

// DeleteSale deletes a sale that has not opened and that no buyer has bought from.
func (c *Client) DeleteSale(ctx context.Context, id sluice.SaleID) (api.SaleDeleted, error) {
	return call[api.SaleDeleted](ctx, c, c.adminKey, http.MethodDelete, adminSalePath(id), nil)
}

// RestockSale changes a sale's total by delta units, once per id (1 to 128
// bytes): after a lost reply, send the same again. Delta may be negative; below
// what is taken it is api.CodeBelowTaken.
func (c *Client) RestockSale(ctx context.Context, sale sluice.SaleID, id string, delta int64) (api.AdminSale, error) {
	return post[api.AdminSale](ctx, c, adminSalePath(sale)+"/restock", api.Restock{ID: id, Delta: delta})
}

// RecoverSale says what the ledger of a sale has and its store, which was restored from an
// older copy, lacks; with apply it stores that, and the sale goes on. It takes as long as it takes, until
// ctx ends; what was begun with apply is finished. It can be repeated.
func (c *Client) RecoverSale(ctx context.Context, id sluice.SaleID, apply bool) (sluice.Recovery, error) {
	return post[sluice.Recovery](ctx, c, adminSalePath(id)+"/recover", patient{api.Recover{Apply: apply}})
}

// ReconcileSale compares ledger and store of a sale, and with apply repairs
// what is safe. A report of differences is no error. It is idempotent.
func (c *Client) ReconcileSale(ctx context.Context, sale sluice.SaleID, apply bool) (api.ReconcileReport, error) {
	return post[api.ReconcileReport](ctx, c, adminSalePath(sale)+"/reconcile", api.Reconcile{Apply: apply})
}

// Audit recomputes the invariants of a sale. A report that is not OK is no error.
func (c *Client) Audit(ctx context.Context, id sluice.SaleID) (sluice.AuditReport, error) {
	return get[sluice.AuditReport](ctx, c, adminSalePath(id)+"/audit")
}

// Curve returns what happened to a sale, second by second, within some time; what is zero is open.
func (c *Client) Curve(ctx context.Context, id sluice.SaleID, from, until time.Time) (api.Curve, error) {
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	path := adminSalePath(id) + "/curve" + query("from", text(from), "until", text(until))
	return get[api.Curve](ctx, c, path)
}

// CheckSale asks one server whether a sale is ready to be sold.
func (c *Client) CheckSale(ctx context.Context, sale sluice.SaleID) (api.SaleCheck, error) {
	return get[api.SaleCheck](ctx, c, adminSalePath(sale)+"/check")
}

// ReplaceBuyers makes the buyers that body holds, an id a line, the sale's
// list; none makes an empty one. It takes as long as it takes, until ctx ends.
func (c *Client) ReplaceBuyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind,
	body io.Reader,
) (api.BuyerList, error) {
	body = cmp.Or[io.Reader](body, http.NoBody)
	return call[api.BuyerList](ctx, c, c.adminKey, http.MethodPut, listPath(sale, kind), body)
}

// ClearBuyers empties a list.
func (c *Client) ClearBuyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind) (api.BuyerList, error) {
	return call[api.BuyerList](ctx, c, c.adminKey, http.MethodDelete, listPath(sale, kind), nil)
}

// Buyers returns a page of a list, in the order of their bytes. The cursor is
// that of the page before, empty for the first; limit is 1 to sluice.MaxPage.
func (c *Client) Buyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, limit int,
	cursor string,
) (api.BuyerPage, error) {
	return get[api.BuyerPage](ctx, c, listPath(sale, kind)+query("limit", strconv.Itoa(limit), "cursor", cursor))
}

// EraseBuyer erases a buyer from archived sales, and says what waits. Repeat it while
// something does, and after an error.
func (c *Client) EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (sluice.Erased, error) {
	return post[sluice.Erased](ctx, c, "/v1/admin/buyers/erase", api.EraseBuyer{BuyerID: buyer})
}

// Status returns what is wrong now, as the server that answers sees it, and which servers there are. With a sale it
// leaves out what only concerns others.
func (c *Client) Status(ctx context.Context, sale sluice.SaleID) (api.Status, error) {
	return get[api.Status](ctx, c, "/v1/admin/status"+query("sale", string(sale)))
}

// AdminActions returns a page of what admins changed, or tried to, the newest
// first. Limit 0: the server chooses a page's size. The cursor is the previous
// page's, empty for the first.
func (c *Client) AdminActions(ctx context.Context, limit int, cursor string) (api.AdminActionPage, error) {
	path := "/v1/admin/actions" + query("limit", positive(limit), "cursor", cursor)
	return get[api.AdminActionPage](ctx, c, path)
}
