package settle

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Memory is what this server remembers of the claims it has answered as
// accepted, for the first time or again, until it knows that they are stored, or
// longer (Keep); and of changes of orders (changes.go).
// When a ledger loses data, this is what saves the promises that were younger
// than the loss (I4, I5).
type Memory struct {
	max  int
	keep time.Duration // how long at least

	mu      sync.Mutex
	sales   map[sluice.SaleID]*remembered
	changes []*changed // of all sales, oldest first, each once
	known   map[changeKey]struct{}
	lines   []byte // of a call: used again for the next
}

// remembered is what a server remembers of one sale, each promise once: a buyer who repeats a
// claim again and again pushes no other out.
type remembered struct {
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

// all are its entries.
func (r *remembered) all(yield func(*memo) bool) {
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

// memo is an entry that this server made of at most memoClaims claims that it received as
// accepted. They are packed: whatever collects garbage looks at entries, not at texts.
type memo struct {
	sluice.Entry           // without its claims
	lines        string    // these, as a journal has them
	claims       int       // how many they are
	apart        bool      // it is one of remembered.apart
	number       int       // of the entry, among all of its sale
	since        time.Time // when one was accepted or repeated, or they were saved, last
	saved        int64     // the sale's epoch when they were stored, or set aside, last; 0: never
}

// lastSeq is that of the last claim.
func (e *memo) lastSeq() int64 { return e.FirstSeq + int64(e.claims) - 1 }

// beginsAfter reports whether its first claim comes after this place.
func (e *memo) beginsAfter(epoch, seq int64) bool {
	return e.Epoch > epoch || e.Epoch == epoch && e.FirstSeq > seq
}

// endsBefore reports whether its last claim comes before this place.
func (e *memo) endsBefore(epoch, seq int64) bool {
	return e.Epoch < epoch || e.Epoch == epoch && e.lastSeq() < seq
}

// order is that of its claim with this sequence.
func (e *memo) order(seq int64) sluice.OrderID {
	lines := e.lines
	for range seq - e.FirstSeq {
		_, lines, _ = strings.Cut(lines, "\n")
	}
	line, _, _ := strings.Cut(lines, "\n")
	return orderIn(line)
}

// orders are those of all its claims.
func (e *memo) orders() (all []sluice.OrderID) {
	for line := range strings.Lines(e.lines) {
		all = append(all, orderIn(line))
	}
	return all
}

// orderIn is the order of a claim's line (sluice.AppendClaim).
func orderIn(line string) sluice.OrderID {
	fields := strings.SplitN(line, "\t", 4)
	return sluice.OrderID(fields[min(2, len(fields)-1)])
}

// unpacked is the entry with its claims.
func (e *memo) unpacked() sluice.Entry {
	entry := e.Entry
	if entry.Claims, entry.Damage = sluice.ParseClaims(e.lines); entry.Damage != nil {
		entry.Raw = e.lines // no server accepts such a claim; what is damaged becomes a dead letter
	}
	return entry
}

// pack is the inverse of unpacked's lines.
func pack(e *sluice.Entry) string {
	if e.Damage != nil {
		return e.Raw
	}
	var lines []byte
	for i := range e.Claims {
		lines = sluice.AppendClaim(lines, &e.Claims[i])
	}
	return string(lines)
}

// DefaultMemory is how many claims a server remembers per sale, unless set
// otherwise: about 40 MB when the store is down for long.
const DefaultMemory = 200_000

// NewMemory returns an empty memory for most claims per sale, and as many changes of
// orders in all; the oldest are forgotten first.
func NewMemory(most int) *Memory {
	return &Memory{
		max: cmp.Or(max(most, 0), DefaultMemory), sales: map[sluice.SaleID]*remembered{},
		known: map[changeKey]struct{}{},
	}
}

// Keep has claims remembered for so long although they are stored, for a store that may lose
// them together with its ledger, since it is the ledger. It comes before all else.
func (m *Memory) Keep(d time.Duration) { m.keep = d }

// Decided remembers the claims of one ledger call that were accepted, by it or
// before, as entries of claims that follow each other.
func (m *Memory) Decided(sale sluice.SaleID, node string, claims []sluice.Claim, decisions []sluice.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r := m.sales[sale]
	var next *memo
	add := func() {
		if next != nil {
			next.lines = string(m.lines)
			r.add(next)
		}
		next, m.lines = nil, m.lines[:0]
	}
	for _, repeats := range []bool{false, true} { // repeats last: one may be of a claim of this call
		for i := range decisions {
			d := &decisions[i]
			if d.Code != sluice.Accepted || d.Replayed != repeats {
				continue
			}
			if r == nil {
				r = &remembered{}
			}
			if known := r.memoOf(d); known != nil {
				known.since = now
				continue
			}
			claim := claims[i]
			claim.Order = d.Order
			if repeats { // it may be of a call whose reply was lost
				record := sluice.Record{Claim: claim, Sale: sale, Epoch: d.Epoch, Seq: d.Seq, Terms: d.Terms, At: d.At}
				if record.Validate() != nil {
					continue // damage of the ledger, which no store takes
				}
			}
			if next == nil || next.claims == memoClaims || d.Epoch != next.Epoch || d.Seq != next.lastSeq()+1 ||
				d.Terms != next.Terms || !d.At.Equal(next.At) { // a call that was split has gaps between its steps
				add()
				next = &memo{since: now, apart: repeats, Entry: sluice.Entry{
					Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq,
				}}
			}
			if repeats {
				r.note(next, d.Order)
			}
			next.claims++
			m.lines = sluice.AppendClaim(m.lines, &claim)
		}
		add()
	}
	if r == nil {
		return
	}
	if r.bound(m.max); r.claims > 0 {
		m.sales[sale] = r
	}
}

const (
	// memoClaims bounds the search for a claim in an entry, and what one repeat renews.
	memoClaims = 128
	// overtaken bounds what an entry that comes late moves: one that comes before more entries
	// is not put in order.
	overtaken = 64
)

// memoOf is the entry of what was accepted; nil: it is not remembered. What is accepted for the
// first time may be there if its repeat came before.
func (r *remembered) memoOf(d *sluice.Decision) *memo {
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
func (r *remembered) after(epoch, seq int64) int {
	return sort.Search(len(r.inOrder), func(i int) bool { return r.inOrder[i].beginsAfter(epoch, seq) })
}

// note keeps which entry apart a promise is in.
func (r *remembered) note(e *memo, order sluice.OrderID) {
	if r.apartOf == nil {
		r.apartOf = map[promise]*memo{}
	}
	r.apartOf[promise{sluice.OrderID(strings.Clone(string(order))), e.Epoch}] = e // a clone does not keep the whole reply
}

// add takes an entry in. A ledger that has lost data gives places again: they are apart.
func (r *remembered) add(e *memo) {
	r.claims += e.claims
	r.made++
	e.number = r.made
	if !e.apart {
		at := r.after(e.Epoch, e.FirstSeq)
		e.apart = at < len(r.inOrder)-overtaken || at > 0 && !r.inOrder[at-1].endsBefore(e.Epoch, e.FirstSeq) ||
			at < len(r.inOrder) && !r.inOrder[at].beginsAfter(e.Epoch, e.lastSeq())
		if !e.apart {
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
func (r *remembered) bound(max int) {
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

func (r *remembered) forgotten(e *memo) {
	if r.claims -= e.claims; e.apart {
		for _, order := range e.orders() {
			delete(r.apartOf, promise{order, e.Epoch})
		}
	}
}

// drop forgets the entries of a sale for which gone is true. The caller holds mu.
func (m *Memory) drop(sale sluice.SaleID, gone func(e *memo) bool) {
	r := m.sales[sale]
	if r == nil {
		return
	}
	for _, list := range []*[]*memo{&r.inOrder, &r.apart} {
		*list = slices.DeleteFunc(*list, func(e *memo) bool {
			is := gone(e)
			if is {
				r.forgotten(e)
			}
			return is
		})
	}
	if r.claims == 0 {
		delete(m.sales, sale)
	}
}

// Read forgets what a reading, asked for at this moment, proves to be stored:
// when the journal is empty, everything up to its sequence is. Of claims that
// were answered after the question it proves nothing: another ledger may have
// answered, which has lost them.
func (m *Memory) Read(r *sluice.Reading, asked time.Time) {
	proves := r.Err == nil && r.Loaded && r.Backlog == 0 && r.Fence == ""
	before := asked.Add(-m.keep)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(r.Sale, func(e *memo) bool {
		return e.since.Before(before) && (e.saved > 0 || proves && e.Epoch == r.Epoch && e.lastSeq() <= r.Seq)
	})
}

// Until returns what is remembered of a sale up to an epoch, by place: also what is
// saved, since the store may have lost that.
func (m *Memory) Until(sale sluice.SaleID, epoch int64) []sluice.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch <= epoch })
}

// After returns what is remembered of epochs after this one, by place.
func (m *Memory) After(sale sluice.SaleID, epoch int64) []sluice.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch > epoch })
}

// Unsaved returns what is remembered of epochs before this one, and was not saved in it,
// by place: what was saved before may be lost since.
func (m *Memory) Unsaved(sale sluice.SaleID, epoch int64) []sluice.Entry {
	return m.which(sale, unsaved(epoch))
}

func unsaved(epoch int64) func(*memo) bool {
	return func(e *memo) bool { return e.Epoch < epoch && e.saved != epoch }
}

func (m *Memory) which(sale sluice.SaleID, wanted func(*memo) bool) (entries []sluice.Entry) {
	m.mu.Lock()
	for e := range m.sales[sale].all {
		if wanted(e) {
			entries = append(entries, e.unpacked())
		}
	}
	m.mu.Unlock()
	slices.SortStableFunc(entries, func(a, b sluice.Entry) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.FirstSeq, b.FirstSeq))
	})
	return entries
}

// last is the latest epoch of which something is remembered; 0: nothing is.
func (m *Memory) last(sale sluice.SaleID) (epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := range m.sales[sale].all {
		epoch = max(epoch, e.Epoch)
	}
	return epoch
}

// Claims is how many claims of a sale are remembered.
func (m *Memory) Claims(sale sluice.SaleID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.sales[sale]; r != nil {
		return r.claims
	}
	return 0
}

// Before reports whether Unsaved has something.
func (m *Memory) Before(sale sluice.SaleID, epoch int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := unsaved(epoch)
	for e := range m.sales[sale].all {
		if wanted(e) {
			return true
		}
	}
	return false
}

// Saved says that entries which Until or Unsaved has returned are saved in an epoch of the
// sale, and no other: one that has been remembered since is not. They are forgotten; or
// kept for so long from now on, where the store may still lose them.
func (m *Memory) Saved(sale sluice.SaleID, epoch int64, saved []sluice.Entry) {
	type name struct { // an entry is known by its claims and their place
		epoch, seq int64
		lines      string
	}
	done := make(map[name]bool, len(saved))
	for i := range saved {
		done[name{saved[i].Epoch, saved[i].FirstSeq, pack(&saved[i])}] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.drop(sale, func(e *memo) bool {
		is := done[name{e.Epoch, e.FirstSeq, e.lines}]
		if is {
			e.saved, e.since = epoch, now
		}
		return is && m.keep == 0
	})
}
