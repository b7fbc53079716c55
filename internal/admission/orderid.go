package admission

import (
	"encoding/hex"

	"github.com/google/uuid"

	"github.com/sluicehq/sluice"
)

func init() { uuid.EnableRandPool() } // a thousand ids for one read of the system's randomness

// NewOrderID makes a new order id of a sale. It is a UUIDv7 (RFC 9562), so ids
// of one sale sort by the time they were made, without any server having to
// lease a number.
func NewOrderID(sale sluice.SaleID) sluice.OrderID {
	id := uuid.Must(uuid.NewV7())
	var digits [32]byte
	hex.Encode(digits[:], id[:])
	return sluice.MakeOrderID(sale, string(digits[:]))
}

// NewSaleID makes an id for a sale whose merchant gave none.
func NewSaleID() sluice.SaleID {
	id := uuid.New()
	return sluice.SaleID("sale-" + hex.EncodeToString(id[:6]))
}
