package api

import "github.com/sluicehq/sluice"

// EraseBuyer asks to erase a buyer. The id is in the body, not in the path: paths are
// recorded.
type EraseBuyer struct {
	BuyerID sluice.BuyerID `json:"buyer_id"`
}

// Erased counts what one request erased of a buyer, and says what waits.
type Erased struct {
	Orders       int64         `json:"orders"`
	DeadLetters  int64         `json:"dead_letters"`
	AdminActions int64         `json:"admin_actions"`
	Waiting      []ErasureWait `json:"waiting"` // empty: all is erased
}

// ErasureWait is a sale in which something of the buyer is not erased yet.
type ErasureWait struct {
	SaleID sluice.SaleID `json:"sale_id"`
	// Reason is not_archived, on_list (of buyers, of a sale that is not archived) or
	// refund_due (an order whose payment is to be refunded first).
	Reason sluice.ErasureReason `json:"reason"`
}
