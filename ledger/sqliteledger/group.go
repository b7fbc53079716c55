package sqliteledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// maxRowClaims is how many claims a row takes before the next caller's claims
// go to a new one. The claims of one call are never divided.
const maxRowClaims = 1000

// openRow is the row of the group that a sale's accepted claims go to. Calls
// for the same sale share it: they are decided in one step.
type openRow struct {
	row   int // place in group.rows, from 1; 0 when there is none
	entry *entry
	body  []byte
	batch *batch
}

// claim decides the claims of one call.
func (g *group) claim(id sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
	s := g.sale(id)
	if s == nil || s.fence != "" {
		for i := range decisions {
			decisions[i] = sluice.Decision{Code: sluice.Unavailable}
		}
		return
	}
	if s.open.row != 0 && s.open.entry.count >= maxRowClaims {
		g.closeRow(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.verdict(g.now)
	for i := range claims {
		c, a := &claims[i], s.account(claims[i].Buyer)
		decisions[i] = s.decide(&v, a, c)
		if d := &decisions[i]; d.Code == sluice.Accepted && !d.Replayed {
			g.accept(s, a, c)
		}
	}
}

// accept accepts one claim and writes it into the sale's open row.
func (g *group) accept(s *sale, a *account, c *sluice.Claim) {
	o := &s.open
	if o.row == 0 {
		o.batch = &batch{epoch: s.epoch, terms: s.terms.Version, at: g.now}
		o.entry = &entry{
			id: g.add(s, row{
				kind: kindClaims, epoch: s.epoch, terms: s.terms.Version, at: g.now, seq: s.seq + 1, node: g.w.ledger.node,
			}),
			node: g.w.ledger.node, batch: o.batch, firstSeq: s.seq + 1, first: s.records.n,
		}
		o.row = len(g.rows)
		o.body = o.body[:0]
	}
	start := len(o.body)
	o.body = port.AppendClaim(o.body, c)
	o.entry.count++
	s.accept(a, c, string(o.body[start:len(o.body)-1]), o.batch)
}

// closeRow completes the sale's open row. Whatever else is written for the
// sale comes after it.
func (g *group) closeRow(s *sale) {
	o := &s.open
	if o.row == 0 {
		return
	}
	r := &g.rows[o.row-1]
	r.n, r.body = int64(o.entry.count), string(o.body)
	entry := o.entry
	entry.records = s.records
	g.after = append(g.after, func() { s.journal.add(entry) })
	o.row, o.entry, o.batch = 0, nil, nil
	if cap(o.body) > maxKeptBody {
		o.body = nil
	}
}

// maxKeptBody is how large a buffer, in bytes, a sale keeps for its next row.
const maxKeptBody = 1 << 20

// finish completes every open row of the group.
func (g *group) finish() {
	for s := range g.seen {
		g.closeRow(s)
	}
}

// load replaces what the ledger holds of the sale.
func (g *group) load(image port.LoadImage) error {
	if image.Epoch < 1 || image.Epoch > port.MaxEpoch {
		return fmt.Errorf("epoch %d: want 1 to %d", image.Epoch, int64(port.MaxEpoch))
	}
	if old := g.sale(image.Sale); old != nil && image.Epoch <= old.epoch && old.epoch <= port.MaxEpoch {
		return port.ErrStaleEpoch
	}
	s := newSale(image.Sale, image.Epoch, wholeMillis(image.Terms), image.Taken)
	rows := []row{{
		kind: kindLoad, epoch: s.epoch, terms: s.terms.Version, at: g.now, n: int64(len(image.Records)), body: encodeLoad(s),
	}}
	for some := range slices.Chunk(image.Records, maxRowClaims) {
		body := encodeRecords(some)
		if err := s.addLoaded(body); err != nil {
			return err
		}
		rows = append(rows, row{kind: kindLoaded, epoch: s.epoch, at: g.now, n: int64(len(some)), body: body})
	}
	for _, r := range rows {
		g.add(s, r)
	}
	g.replace(s.id, s)
	return nil
}

// replace makes s the sale of this id from now on, or no sale if it is nil.
func (g *group) replace(id sluice.SaleID, s *sale) {
	if g.made == nil {
		g.made = salesByID{}
	}
	g.made[id] = s
}

// loaded returns the sale if the ledger holds it under this epoch.
func (g *group) loaded(id sluice.SaleID, epoch int64) (*sale, error) {
	switch s := g.sale(id); {
	case s == nil:
		return nil, port.ErrNotLoaded
	case s.epoch != epoch:
		return nil, port.ErrStaleEpoch
	default:
		return s, nil
	}
}

// apply changes the terms of a sale.
func (g *group) apply(id sluice.SaleID, epoch int64, terms sluice.Terms) error {
	s, err := g.loaded(id, epoch)
	if err != nil {
		return err
	}
	if terms.Version <= s.terms.Version {
		return nil
	}
	if s.fence != "" && s.terms.Lowers(terms.Total) {
		return port.ErrStaleEpoch
	}
	if terms.Total != sluice.Unlimited && terms.Total < s.taken {
		return sluice.ErrBelowTaken // I1
	}
	g.closeRow(s)
	terms = wholeMillis(terms)
	g.add(s, row{kind: kindTerms, epoch: epoch, terms: terms.Version, at: g.now, body: encodeTerms(terms)})
	s.changeTerms(terms, g.now)
	return nil
}

// fence fences a sale, or lifts its fence if the reason is empty.
func (g *group) fence(id sluice.SaleID, epoch int64, reason string) error {
	s, err := g.loaded(id, epoch)
	if err != nil {
		return err
	}
	if (s.fence == "") == (reason == "") {
		return nil // the first reason stands
	}
	g.closeRow(s)
	g.add(s, row{kind: kindFence, epoch: epoch, at: g.now, body: reason})
	s.fence = reason
	return nil
}

// wholeMillis returns the terms with times as the log keeps them.
func wholeMillis(t sluice.Terms) sluice.Terms {
	t.OpensAt = t.OpensAt.UTC().Truncate(time.Millisecond)
	t.ClosesAt = t.ClosesAt.UTC().Truncate(time.Millisecond)
	return t
}
