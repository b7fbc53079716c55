package api

import "github.com/sluicehq/sluice"

// EraseBuyer asks to erase a buyer. The id is in the body, not in the path: paths are
// recorded.
type EraseBuyer struct {
	BuyerID sluice.BuyerID `json:"buyer_id"`
}
