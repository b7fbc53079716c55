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
