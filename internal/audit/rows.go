package audit

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A Row is an accepted claim or a stored order, in what the checks compare. It
// is small, since a sale may have millions: no strings.
type Row struct {
	order    [16]byte // the unique part of the order id
	key      uint64   // hash of the key; only compared among rows of one buyer
	meta     uint64   // hash of the meta
	Epoch    int64
	Seq      int64
	Quantity int64
	terms    int64
	at       int64  // when it was accepted, in Unix milliseconds
	buyer    uint32 // index into names
	counters uint32 // index into counters
	Live     bool   // holds units
	Paid     bool   // of an order
	Free     bool   // of a paid order: there was nothing to pay
	Unpaid   bool   // ended unpaid
	refused  bool   // of an order: stored without units, because the total did not cover it; paid since, perhaps
}

// sameClaim reports whether two rows record the same accepted claim.
func (r *Row) sameClaim(o *Row) bool {
	return r.buyer == o.buyer && r.key == o.key && r.meta == o.meta && r.Quantity == o.Quantity &&
		r.Epoch == o.Epoch && r.Seq == o.Seq && r.terms == o.terms && r.at == o.at &&
		r.counters == o.counters
}

// names gives buyers numbers, and rows their strings back.
type names struct {
	sale   sluice.SaleID
	seed   maphash.Seed
	index  map[sluice.BuyerID]uint32
	buyers []sluice.BuyerID

	texts    map[sluice.Counters]uint32
	counters []sluice.Counters
}

func newNames(sale sluice.SaleID) names {
	return names{
		sale: sale, seed: maphash.MakeSeed(), index: map[sluice.BuyerID]uint32{},
		texts: map[sluice.Counters]uint32{},
	}
}

// suffix returns the unique part of an order id, false if it is not of this
// sale.
func (n *names) suffix(id sluice.OrderID) (order [16]byte, ok bool) {
	if sale, ok := id.Sale(); !ok || sale != n.sale {
		return order, false
	}
	_, err := hex.Decode(order[:], []byte(id[len(id)-2*len(order):]))
	return order, err == nil
}

// row makes the row of a record. It returns false when the order id is not one
// of this sale; the row then has a number of its own in its place.
func (n *names) row(r *port.Record) (Row, bool) {
	out := Row{
		key: maphash.String(n.seed, string(r.Key)), meta: maphash.String(n.seed, r.Meta),
		Epoch: r.Epoch, Seq: r.Seq, Quantity: r.Quantity, terms: r.Terms, at: r.At.UnixMilli(),
		buyer: n.buyer(r.Buyer), counters: n.of(r.Counters), Live: r.Live, Unpaid: r.Unpaid,
	}
	if order, ok := n.suffix(r.Order); ok {
		out.order = order
		return out, true
	}
	binary.NativeEndian.PutUint64(out.order[:8], maphash.String(n.seed, string(r.Order)))
	return out, false
}

func (n *names) buyer(id sluice.BuyerID) uint32 {
	if i, ok := n.index[id]; ok {
		return i
	}
	// The string may be a piece of a large reply, which it would keep alive.
	id = sluice.BuyerID(strings.Clone(string(id)))
	i := uint32(len(n.buyers))
	n.buyers = append(n.buyers, id)
	n.index[id] = i
	return i
}

// of returns the place of a claim's counters.
func (n *names) of(counters sluice.Counters) uint32 {
	i, ok := n.texts[counters]
	if !ok {
		counters = sluice.Counters(strings.Clone(string(counters))) // as a buyer's id
		i = uint32(len(n.counters))
		n.counters = append(n.counters, counters)
		n.texts[counters] = i
	}
	return i
}

func (n *names) order(r *Row) string {
	return string(n.sale.Order(hex.EncodeToString(r.order[:])))
}

// OrderID and Buyer return what a row is about.
func (b *Book) OrderID(r *Row) sluice.OrderID { return sluice.OrderID(b.names.order(r)) }
func (b *Book) Buyer(r *Row) sluice.BuyerID   { return b.names.buyers[r.buyer] }

func byOrder(a, b Row) int {
	return cmp.Or(slices.Compare(a.order[:], b.order[:]), byPlace(a, b))
}

func byPlace(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
}

// byClaim puts the rows of a claim id together.
func byClaim(a, b Row) int {
	return cmp.Or(cmp.Compare(a.buyer, b.buyer), cmp.Compare(a.key, b.key))
}

func byBuyer(a, b Row) int {
	return cmp.Or(cmp.Compare(a.buyer, b.buyer), byPlace(a, b))
}

// find returns the row with r's order in rows, which are sorted by order, or nil.
func find(rows []Row, r *Row) *Row {
	i, ok := slices.BinarySearchFunc(rows, r, func(a Row, b *Row) int { return slices.Compare(a.order[:], b.order[:]) })
	if !ok {
		return nil
	}
	return &rows[i]
}

// list counts offenders and keeps the names of the first few.
type list struct {
	n     int64
	shown []string
}

const maxShown = 5

func (l *list) add(name func() string) {
	l.n++
	if len(l.shown) < maxShown {
		l.shown = append(l.shown, name())
	}
}

func (l *list) names() string {
	s := strings.Join(l.shown, ", ")
	if l.n > int64(len(l.shown)) {
		s += ", ..."
	}
	return s
}
