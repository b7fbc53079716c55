package sluice

import "time"

// Status is where an order is in its life:
//
//	queued (in the journal) -> pending -> paid -> refunded
//	                        |          -> cancelled | expired
//	                        -> rejected
type Status string

// The statuses of an order. RefundDue is a payment that came too late: it
// holds no units, and is listed until the merchant has given the money back.
const (
	Queued    Status = "queued"
	Pending   Status = "pending"
	Paid      Status = "paid"
	Rejected  Status = "rejected"
	Cancelled Status = "cancelled"
	Expired   Status = "expired"
	Refunded  Status = "refunded"
	RefundDue Status = "refund_due"
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{Queued, Pending, Paid, Rejected, Cancelled, Expired, Refunded, RefundDue}
}

// Live reports whether an order with this status holds units.
func (s Status) Live() bool { return s == Queued || s == Pending || s == Paid }

// NotCovered is the reason of an order that the store rejected because its
// units would have exceeded the total (I1 for the second time). It is reserved:
// Change rejects no order with it.
const NotCovered = "not_covered"

// Order is a hold as the store knows it.
type Order struct {
	ID       OrderID
	Sale     SaleID
	Buyer    BuyerID
	Key      Key
	Quantity int64
	Meta     string
	Price    Money // of one unit, when the order was stored

	Status Status
	Reason string // why it was rejected; else empty

	Epoch int64 // with Seq: its claim's place in the ledger
	Seq   int64
	Terms int64 // version of the terms its claim was decided under

	AcceptedAt time.Time // by the ledger's clock
	StoredAt   time.Time // by the store's clock; zero while queued
	ExpiresAt  time.Time // what the buyer is told to pay by; zero while queued
	KeepUntil  time.Time // ExpiresAt plus the sale's grace: a payment before it is in time
	UpdatedAt  time.Time // of the last change of status

	PaymentID string // of a payment that was recorded, in time or too late

	// Unpaid: it ended because its buyer did not pay, by expiry or by the
	// buyer's own cancel, and counts against Terms.MaxUnpaid. A payment that
	// comes later does not change it. Endings that a version without this count
	// wrote have it false.
	Unpaid bool
}

// Record returns the claim that the order came from.
func (o *Order) Record() Record {
	return Record{
		Claim: Claim{Buyer: o.Buyer, Key: o.Key, Quantity: o.Quantity, Order: o.ID, Meta: o.Meta},
		Sale:  o.Sale, Epoch: o.Epoch, Seq: o.Seq, Terms: o.Terms, At: o.AcceptedAt, Live: o.Status.Live(),
		Unpaid: o.Unpaid,
	}
}

// AsOrder returns the order that the record will become, as it is while queued.
func (r *Record) AsOrder(price Money) Order {
	return Order{
		ID: r.Claim.Order, Sale: r.Sale, Buyer: r.Buyer, Key: r.Key, Quantity: r.Quantity, Meta: r.Meta, Price: price,
		Status: Queued, Epoch: r.Epoch, Seq: r.Seq, Terms: r.Terms, AcceptedAt: r.At,
	}
}
