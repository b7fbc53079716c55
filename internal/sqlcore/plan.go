package sqlcore

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Placed is a claim with its place in the ledger, on its way into the store.
type Placed struct {
	port.Record
	Entry string // id of the journal entry
	Node  string // the server that asked the ledger
}

// Batch is the claims of the entries of one Insert, in order.
type Batch struct {
	Sale   sluice.SaleID
	Claims []Placed
	Units  int64 // of all claims
	Epoch  int64 // the lowest one of the claims
}

// newBatch puts entries into one batch. It refuses what no ledger writes, so
// that the database need not.
func newBatch(sale sluice.SaleID, entries []port.Entry) (*Batch, error) {
	n := 0
	for i := range entries {
		n += len(entries[i].Claims)
	}
	b := &Batch{Sale: sale, Claims: make([]Placed, 0, n)}
	for i := range entries {
		e := &entries[i]
		if err := checkEntry(sale, e); err != nil {
			return nil, fmt.Errorf("entry %s: %w", e.ID, err)
		}
		if i == 0 || e.Epoch < b.Epoch {
			b.Epoch = e.Epoch
		}
		node, at := cleanText(e.Node), WholeMillis(e.At)
		for j := range e.Claims {
			p := Placed{Record: e.Record(j), Entry: e.ID, Node: node}
			p.At = at
			b.Claims = append(b.Claims, p)
			b.Units += p.Quantity
		}
	}
	return b, nil
}

func checkEntry(sale sluice.SaleID, e *port.Entry) error {
	switch {
	case e.Damage != nil:
		return fmt.Errorf("damaged: %w", e.Damage)
	case e.Sale != sale:
		return fmt.Errorf("it is of sale %s", e.Sale)
	}
	return e.Validate()
}

// NewOrder is an order about to be stored.
type NewOrder struct {
	sluice.Order
	Node string
}

// order returns what a claim of the batch becomes when it is stored at now.
func (p *Placed) order(sale *sluice.Sale, now time.Time) NewOrder {
	o := NewOrder{Order: p.AsOrder(sale.Price), Node: p.Node}
	o.Status, o.StoredAt, o.UpdatedAt = sluice.Pending, now, now
	if sale.Free {
		o.Status = sluice.Paid
	}
	o.ExpiresAt = now.Add(sale.PaymentWindow)
	o.KeepUntil = o.ExpiresAt.Add(sale.PaymentGrace)
	return o
}

// plan is what to do with a batch, given what is stored already.
type plan struct {
	orders      []NewOrder // to insert
	units       int64      // of the pending ones
	redelivered int
	rejected    []sluice.OrderID
}

// planBatch classifies each claim of the batch: new; new and not covered by
// the cap (I1); stored before (I5); new but of an epoch that has passed, which
// is port.ErrStaleEpoch, for the ledger of today has not counted its units
// (I2); or a *port.ConflictError.
//
// A redelivery is the same order, claim and place. The time is not compared: a
// ledger that lost a claim and was asked again with the same one has given the
// same promise.
func planBatch(b *Batch, sale *sluice.Sale, stored []sluice.Order, now time.Time) (*plan, error) {
	known := newIndex(stored, len(b.Claims))
	p := &plan{orders: make([]NewOrder, 0, len(b.Claims))}
	for i := range b.Claims {
		c := &b.Claims[i]
		before, err := known.find(c)
		if err != nil {
			return nil, err
		}
		if before != nil {
			p.redelivered++
			continue
		}
		if c.Epoch < sale.Epoch {
			return nil, fmt.Errorf("entry %s, order %s of epoch %d, while the sale is in epoch %d: %w",
				c.Entry, c.Order, c.Epoch, sale.Epoch, port.ErrStaleEpoch)
		}
		o := c.order(sale, now)
		if sale.Cap != sluice.Unlimited && o.Quantity > sale.Cap-sale.Taken-p.units {
			o.Status, o.Reason = sluice.Rejected, sluice.NotCovered
			p.rejected = append(p.rejected, o.ID)
		} else {
			p.units += o.Quantity
		}
		p.orders = append(p.orders, o)
		known.add(&p.orders[len(p.orders)-1].Order)
	}
	return p, nil
}

// index finds orders by each of the three things that must be unique.
type index struct {
	orders map[sluice.OrderID]*sluice.Order
	claims map[claimOf]*sluice.Order
	places map[place]*sluice.Order
}

type claimOf struct {
	buyer sluice.BuyerID
	key   sluice.Key
}

type place struct{ epoch, seq int64 }

func newIndex(stored []sluice.Order, more int) *index {
	n := len(stored) + more
	x := &index{
		make(map[sluice.OrderID]*sluice.Order, n), make(map[claimOf]*sluice.Order, n), make(map[place]*sluice.Order, n),
	}
	for i := range stored {
		x.add(&stored[i])
	}
	return x
}

func (x *index) add(o *sluice.Order) {
	x.orders[o.ID] = o
	x.claims[claimOf{o.Buyer, o.Key}] = o
	x.places[place{o.Epoch, o.Seq}] = o
}

// find returns the order that the claim became, nil if the claim is new, or a
// conflict.
func (x *index) find(c *Placed) (*sluice.Order, error) {
	byOrder, byClaim, byPlace := x.orders[c.Order], x.claims[claimOf{c.Buyer, c.Key}], x.places[place{c.Epoch, c.Seq}]
	if byOrder == nil && byClaim == nil && byPlace == nil {
		return nil, nil
	}
	conflict := &port.ConflictError{Entry: c.Entry, Order: c.Order}
	switch {
	case byOrder != nil && (byOrder != byClaim || byOrder != byPlace):
		conflict.Detail = "the store has this order of " + describe(byOrder)
	case byClaim != nil && byClaim != byOrder:
		conflict.Detail = "the store has another order of the same buyer and key: " + describe(byClaim)
	case byPlace != nil && byPlace != byOrder:
		conflict.Detail = "the store has another order at the same place: " + describe(byPlace)
	case byOrder.Quantity != c.Quantity || byOrder.Meta != c.Meta:
		conflict.Detail = fmt.Sprintf("the store has this order with other content: "+
			"quantity %d instead of %d, meta of %d bytes instead of %d", byOrder.Quantity, c.Quantity, len(byOrder.Meta),
			len(c.Meta))
	default:
		return byOrder, nil
	}
	conflict.Detail += fmt.Sprintf("; the entry says key %s, epoch %d, sequence %d", c.Key, c.Epoch, c.Seq)
	return nil, conflict
}

func describe(o *sluice.Order) string {
	return fmt.Sprintf("%s, key %s, epoch %d, sequence %d", o.ID, o.Key, o.Epoch, o.Seq)
}
