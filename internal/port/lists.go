package port

import (
	"context"
	"iter"
	"time"

	"github.com/sluicehq/sluice"
)

// MaxListed is the most buyers that a list can hold. A server keeps eight
// bytes of each in memory.
const MaxListed = 5_000_000

// MaxDeletedBuyers is the most buyers on its lists with which a sale can be deleted: they
// go in one transaction.
const MaxDeletedBuyers = 10_000

// BuyerList is one list of a sale as a whole. A list that was never uploaded
// does not exist, which is the same as one without buyers.
type BuyerList struct {
	Sale       sluice.SaleID
	Kind       sluice.ListKind
	Generation int64 // changes with every upload, and only grows
	Size       int64 // buyers on it
	UpdatedAt  time.Time
}

// ListStore keeps the lists. A list is only ever replaced as a whole.
type ListStore interface {
	// ReplaceList makes these buyers the list: all of them at one moment, when
	// the last one is stored, and until then the old list holds. Buyers that
	// are duplicated count once; none makes an empty list. An error from the
	// sequence is returned as it is, and the old list stays. Other errors:
	// ErrSaleNotFound, ErrListSuperseded, ErrListTooLong.
	ReplaceList(
		ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, buyers iter.Seq2[sluice.BuyerID, error],
	) (BuyerList, error)

	// Lists returns all lists of all sales, by sale and kind. It is cheap:
	// servers ask every second.
	Lists(ctx context.Context) ([]BuyerList, error)

	// Listed returns up to limit buyers of a list after this one, in the order
	// of their bytes. Buyers of a generation that has been replaced may
	// be missing.
	Listed(ctx context.Context, list BuyerList, after sluice.BuyerID, limit int) ([]sluice.BuyerID, error)
}
