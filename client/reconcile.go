package client

import (
	"context"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// ReconcileSale compares ledger and store of a sale, and with apply repairs
// what is safe. A report of differences is no error. It is idempotent.
func (c *Client) ReconcileSale(ctx context.Context, sale sluice.SaleID, apply bool) (api.ReconcileReport, error) {
	var report api.ReconcileReport
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: adminSalePath(sale) + "/reconcile", bearer: c.adminKey,
		body: api.Reconcile{Apply: apply}, into: &report,
	})
	return report, err
}
