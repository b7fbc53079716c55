package port

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// AdminAction is one request by which an admin changed something, or tried to
// without being allowed to, as it is kept for ever.
type AdminAction struct {
	ID int64     // given by the store; grows
	At time.Time // by the store's clock

	By      string        // the name of the key; "buyer:" and the buyer's id if it was a buyer's token
	Route   string        // the pattern of the route: "POST /v1/admin/sales/{sale}/pause"
	Path    string        // as it was asked for
	Sale    sluice.SaleID // if it was about one
	Order   sluice.OrderID
	Status  int    // of HTTP; 403: it was refused
	Code    string // of the problem; empty if it was done
	Request string // the request's id
	Address string // where it came from
	Node    string // the server that answered
}

// AdminStore keeps what admins did.
type AdminStore interface {
	// RecordAdminAction adds one; ID and At are the store's to give. Texts are
	// cut to 255 bytes and made valid UTF-8, so that no request is too strange
	// to be recorded.
	RecordAdminAction(ctx context.Context, action AdminAction) error
	// AdminActions returns a page of up to limit (1 to MaxPage) actions, the newest
	// first, and the cursor of the next page, empty after the last. The cursor is
	// that of the page before, empty for the first. ErrBadCursor.
	AdminActions(ctx context.Context, limit int, cursor string) (page []AdminAction, next string, err error)
}

// Stretch is what one server has counted of the claims on a sale, second by second, without a gap.
type Stretch struct {
	Sale    sluice.SaleID
	Node    string
	From    time.Time // its first second, a whole one, by the server's clock
	Ended   bool      // the server has said all: what follows is no gap
	Figures []byte    // as package curve writes them
}

// CurveStore keeps what happened to sales.
type CurveStore interface {
	// KeepStretches keeps some, at most 64 kB of Figures in each; one with the same sale, server and
	// From is replaced. Those of sales that are archived, or that there are not, are dropped.
	KeepStretches(ctx context.Context, stretches []Stretch) error
	// Stretches returns those of a sale that begin at a time or later, by their beginnings: the newest
	// MaxStretches.
	Stretches(ctx context.Context, sale sluice.SaleID, from time.Time) ([]Stretch, error)
}

// MaxStretches bounds what is read at once: those of some servers and a day.
const MaxStretches = 20_000
