package audit

import "github.com/sluicehq/sluice"

// endings is what the store says of how orders gave their units up.
type endings struct {
	times     map[[16]byte]int64 // by order: how often, by its history
	returning map[[16]byte]bool  // units in the outbox
}

func (b *Book) readEndings(s sluice.Snapshot, history bool) error {
	b.endings = endings{times: map[[16]byte]int64{}, returning: map[[16]byte]bool{}}
	if history {
		err := s.Endings(func(id sluice.OrderID, times int64) bool {
			if order, ok := b.names.suffix(id); ok {
				b.endings.times[order] = times
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	for i := range b.orders { // one that has ended held units before, whatever its reason says
		b.orders[i].refused = b.orders[i].refused && b.endings.times[b.orders[i].order] == 0
	}
	return s.Returning(func(id sluice.OrderID) bool {
		if order, ok := b.names.suffix(id); ok {
			b.endings.returning[order] = true
		}
		return true
	})
}

// Returning reports whether the units of an order are in the outbox.
func (b *Book) Returning(order *Row) bool { return b.endings.returning[order.order] }

// oneEnd is I6: an order that holds no units has given them up once, by its
// history; one that holds units never has, and returns none. (That the ledger
// takes each order's units back once is its own record's doing: what it says is
// held is summed up by I2, which also finds units that came back too early.)
func (b *Book) oneEnd() (c finding) {
	var twice, never, undead, early list
	ended := 0
	for i := range b.orders {
		o := &b.orders[i]
		times := b.endings.times[o.order]
		switch {
		case times > 1:
			twice.add(b.name(o))
		case o.Live && times > 0:
			undead.add(b.name(o))
		case !o.Live && !o.refused && times == 0:
			never.add(b.name(o))
		}
		if o.Live && b.Returning(o) {
			early.add(b.name(o))
		}
		if !o.Live {
			ended++
		}
	}
	c.offence(&twice, "%d orders ended more than once")
	c.offence(&undead, "%d orders hold units that they have given up before")
	c.offence(&never, "%d orders have ended, and their history does not say how")
	c.offence(&early, "%d orders hold units that are on their way back")
	c.fact("store: %d orders ended, units of %d on their way back", ended, len(b.endings.returning))
	return c
}
