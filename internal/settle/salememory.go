package settle

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// saleMemory holds what a server remembers of one sale, each promise once: a buyer who repeats a
// claim again and again pushes no other out.
type saleMemory struct {
	// inOrder are entries of what was accepted for the first time, in the order of their
	// places; no two have a place in common. A promise is found there by its place.
	inOrder []*memo
	// apart are all others, in the order in which they came: repeats of what is not in order,
	// places that were given twice, and calls that others overtook by far.
	apart   []*memo
	apartOf map[promise]*memo // the entry apart that has a promise
	claims  int               // of both
	made    int               // entries so far
}

// promise is an order and the epoch it was accepted in: one that a rebuild has claimed again
// is another promise.
type promise struct {
	order sluice.OrderID
	epoch int64
}

// all yields the entries.
func (r *saleMemory) all(yield func(*memo) bool) {
	if r == nil {
		return
	}
	for _, list := range [][]*memo{r.inOrder, r.apart} {
		for _, e := range list {
			if !yield(e) {
				return
			}
		}
	}
}

const (
	// memoClaims bounds the search for a claim in an entry, and what one repeat renews.
	memoClaims = 128
	// overtaken bounds what an entry that comes late moves: one that comes before more entries
	// is not put in order.
	overtaken = 64
)

// memoOf returns the entry that has an accepted claim; nil: it is not remembered. A claim that is
// accepted for the first time may be there if its repeat came before.
func (r *saleMemory) memoOf(d *sluice.Decision) *memo {
	if len(r.apartOf) > 0 {
		if e := r.apartOf[promise{d.Order, d.Epoch}]; e != nil {
			return e
		}
	}
	if !d.Replayed {
		return nil
	}
	if at := r.after(d.Epoch, d.Seq); at > 0 {
		if e := r.inOrder[at-1]; !e.endsBefore(d.Epoch, d.Seq) && e.order(d.Seq) == d.Order {
			return e
		}
	}
	return nil
}

// after returns where the entries in order begin that come after this place.
func (r *saleMemory) after(epoch, seq int64) int {
	return sort.Search(len(r.inOrder), func(i int) bool { return r.inOrder[i].beginsAfter(epoch, seq) })
}

// note keeps which entry apart a promise is in.
func (r *saleMemory) note(e *memo, order sluice.OrderID) {
	if r.apartOf == nil {
		r.apartOf = map[promise]*memo{}
	}
	r.apartOf[promise{sluice.OrderID(strings.Clone(string(order))), e.Epoch}] = e // a clone does not keep the whole reply
}

// add takes an entry in. A ledger that has lost data gives places again: they are apart.
func (r *saleMemory) add(e *memo) {
	r.claims += e.claims
	r.made++
	e.number = r.made
	if !e.apart {
		at := r.after(e.Epoch, e.FirstSeq)
		late := len(r.inOrder)-at > overtaken
		taken := at > 0 && !r.inOrder[at-1].endsBefore(e.Epoch, e.FirstSeq) ||
			at < len(r.inOrder) && !r.inOrder[at].beginsAfter(e.Epoch, e.lastSeq())
		if e.apart = late || taken; !e.apart {
			r.inOrder = slices.Insert(r.inOrder, at, e)
			return
		}
		for _, order := range e.orders() {
			r.note(e, order)
		}
	}
	r.apart = append(r.apart, e)
}

// bound forgets the oldest entries, so that no more than max claims are left.
func (r *saleMemory) bound(max int) {
	for r.claims > max && len(r.inOrder)+len(r.apart) > 1 {
		list := &r.inOrder
		if len(r.inOrder) == 0 || len(r.apart) > 0 && r.apart[0].number < r.inOrder[0].number {
			list = &r.apart
		}
		r.forgotten((*list)[0])
		(*list)[0] = nil
		*list = (*list)[1:]
	}
}

func (r *saleMemory) forgotten(e *memo) {
	if r.claims -= e.claims; e.apart {
		for _, order := range e.orders() {
			delete(r.apartOf, promise{order, e.Epoch})
		}
	}
}

// memo is an entry that this server made of at most memoClaims claims that it received as
// accepted. They are packed: whatever collects garbage looks at entries, not at texts.
type memo struct {
	port.Entry           // without its claims
	lines      string    // these, as a journal has them
	claims     int       // how many they are
	apart      bool      // it is one of saleMemory.apart
	number     int       // of the entry, among all of its sale
	since      time.Time // when one was accepted or repeated, or they were saved, last
	saved      int64     // the sale's epoch when they were stored, or set aside, last; 0: never
}

// lastSeq returns the sequence number of the last claim.
func (e *memo) lastSeq() int64 { return e.FirstSeq + int64(e.claims) - 1 }

// beginsAfter reports whether its first claim comes after this place.
func (e *memo) beginsAfter(epoch, seq int64) bool {
	return e.Epoch > epoch || e.Epoch == epoch && e.FirstSeq > seq
}

// endsBefore reports whether its last claim comes before this place.
func (e *memo) endsBefore(epoch, seq int64) bool {
	return e.Epoch < epoch || e.Epoch == epoch && e.lastSeq() < seq
}

// order returns the order of the entry's claim with this sequence number.
func (e *memo) order(seq int64) sluice.OrderID {
	lines := e.lines
	for range seq - e.FirstSeq {
		_, lines, _ = strings.Cut(lines, "\n")
	}
	line, _, _ := strings.Cut(lines, "\n")
	return orderIn(line)
}

// orders returns the orders of all claims of the entry.
func (e *memo) orders() (all []sluice.OrderID) {
	for line := range strings.Lines(e.lines) {
		all = append(all, orderIn(line))
	}
	return all
}

// orderIn is the order of a claim's line (port.AppendClaim); of a damaged one, any text.
func orderIn(line string) sluice.OrderID {
	fields := strings.SplitN(line, "\t", 4)
	return sluice.OrderID(fields[min(2, len(fields)-1)])
}

// unpacked is the entry with its claims.
func (e *memo) unpacked() port.Entry {
	entry := e.Entry
	if entry.Claims, entry.Damage = port.ParseClaims(e.lines); entry.Damage != nil {
		entry.Raw = e.lines // no server accepts such a claim; what is damaged becomes a dead letter
	}
	return entry
}

// pack is the inverse of unpacked's lines.
func pack(e *port.Entry) string {
	if e.Damage != nil {
		return e.Raw
	}
	var lines []byte
	for i := range e.Claims {
		lines = port.AppendClaim(lines, &e.Claims[i])
	}
	return string(lines)
}
