package api

import "github.com/sluicehq/sluice"

// AdminAction is one request by which an admin changed something, or tried to
// without being allowed to.
type AdminAction struct {
	ID        int64          `json:"id"`
	At        Time           `json:"at"`
	By        string         `json:"by"` // the name of the key; "buyer:..." if it was a buyer's token
	Route     string         `json:"route"`
	Path      string         `json:"path"`
	SaleID    sluice.SaleID  `json:"sale_id,omitempty"`
	OrderID   sluice.OrderID `json:"order_id,omitempty"`
	Status    int            `json:"status"`         // of HTTP
	Code      string         `json:"code,omitempty"` // of the problem; absent if it was done
	RequestID string         `json:"request_id"`
	Address   string         `json:"address"`
	Node      string         `json:"node"`
}

// AdminActionPage is a page of them, the newest first.
type AdminActionPage struct {
	Actions    []AdminAction `json:"actions"`
	NextCursor string        `json:"next_cursor"` // empty after the last page
}

// NewAdminActionPage makes a page.
func NewAdminActionPage(actions []sluice.AdminAction, next string) AdminActionPage {
	page := AdminActionPage{Actions: make([]AdminAction, len(actions)), NextCursor: next}
	for i := range actions {
		a := &actions[i]
		page.Actions[i] = AdminAction{
			ID: a.ID, At: At(a.At), By: a.By, Route: a.Route, Path: a.Path, SaleID: a.Sale, OrderID: a.Order,
			Status: a.Status, Code: a.Code, RequestID: a.Request, Address: a.Address, Node: a.Node,
		}
	}
	return page
}
