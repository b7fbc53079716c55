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
// claim again and again pushes no other out. Both lists are in the order of places.
type remembered struct {
	first, repeats []memo               // accepted here for the first time; and only again
	again          map[promise]struct{} // those of repeats
	claims         int                  // of both
}

// all are its entries.
func (r *remembered) all(yield func(*memo) bool) {
	if r == nil {
		return
	}
	for _, list := range [][]memo{r.first, r.repeats} {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// promise is an order and the epoch it was accepted in: one that a rebuild has claimed again
// is another promise.
type promise struct {
	order sluice.OrderID
	epoch int64
}

// memo is an entry that this server made of the claims it received as accepted. They are
// packed: whatever collects garbage looks at a few of them, not at each of their texts.
type memo struct {
	sluice.Entry           // without its claims
	lines        string    // these, as a journal has them
	claims       int       // how many they are
	since        time.Time // when they were accepted, or saved last
	saved        int64     // the sale's epoch when they were stored, or set aside, last; 0: never
}

// lastSeq is that of the last claim.
func (e *memo) lastSeq() int64 { return e.FirstSeq + int64(e.claims) - 1 }

// before reports whether its first claim comes before this place.
func (e *memo) before(epoch, seq int64) bool {
	return e.Epoch < epoch || e.Epoch == epoch && e.FirstSeq < seq
}

// order is that of the claim at this place; "" if it is not one of the entry's.
func (e *memo) order(epoch, seq int64) sluice.OrderID {
	if e.Epoch != epoch || seq < e.FirstSeq || seq > e.lastSeq() {
		return ""
	}
	lines := e.lines
	for range seq - e.FirstSeq {
		_, lines, _ = strings.Cut(lines, "\n")
	}
	line, _, _ := strings.Cut(lines, "\n")
	claims, _ := sluice.ParseClaims(line + "\n") // none, if it is damaged
	if len(claims) == 0 {
		return ""
	}
	return claims[0].Order
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
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := cmp.Or(m.sales[sale], &remembered{})
	var next memo
	for _, list := range []*[]memo{&r.first, &r.repeats} { // repeats last: one may be of a claim of this call
		add := func() {
			if next.claims > 0 {
				next.lines = string(m.lines)
				*list = slices.Insert(*list, after(*list, next.Epoch, next.FirstSeq), next) // nearly always at the end
				r.claims += next.claims
			}
			next, m.lines = memo{}, m.lines[:0]
		}
		for i := range decisions {
			d := &decisions[i]
			if d.Code != sluice.Accepted || d.Replayed != (list == &r.repeats) {
				continue
			}
			claim := claims[i]
			claim.Order = d.Order
			if d.Replayed && !r.takes(&sluice.Record{
				Claim: claim, Sale: sale, Epoch: d.Epoch, Seq: d.Seq, Terms: d.Terms, At: d.At,
			}) {
				continue
			}
			if next.claims == 0 || d.Epoch != next.Epoch || d.Seq != next.lastSeq()+1 || d.Terms != next.Terms ||
				!d.At.Equal(next.At) {
				add() // a call that was split has gaps between its steps
				next.Entry = sluice.Entry{Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq}
				next.since = now
			}
			next.claims++
			m.lines = sluice.AppendClaim(m.lines, &claim)
		}
		add()
	}
	if r.bound(m.max); r.claims > 0 {
		m.sales[sale] = r
	}
}

// takes reports whether a repeat is to be remembered, and notes that it is: it may be of a
// call whose reply was lost.
func (r *remembered) takes(record *sluice.Record) bool {
	id := promise{record.Order, record.Epoch}
	if _, known := r.again[id]; known || record.Validate() != nil { // damage of the ledger, which no store takes
		return false
	}
	at := after(r.first, record.Epoch, record.Seq)
	if at > 0 && r.first[at-1].order(record.Epoch, record.Seq) == record.Order {
		return false
	}
	if r.again == nil {
		r.again = map[promise]struct{}{}
	}
	id.order = sluice.OrderID(strings.Clone(string(id.order))) // not all of a reply
	r.again[id] = struct{}{}
	return true
}

// after returns where the entries begin that come after this place.
func after(list []memo, epoch, seq int64) int {
	return sort.Search(len(list), func(i int) bool { return !list[i].before(epoch, seq+1) })
}

// bound forgets the entries of the first places, so that no more than max claims are left.
func (r *remembered) bound(max int) {
	for r.claims > max && len(r.first)+len(r.repeats) > 1 {
		list := &r.first
		if len(r.first) == 0 || len(r.repeats) > 0 && r.repeats[0].before(r.first[0].Epoch, r.first[0].FirstSeq) {
			list = &r.repeats
		}
		r.forgotten(list, 0)
		(*list)[0] = memo{}
		*list = (*list)[1:]
	}
}

func (r *remembered) forgotten(list *[]memo, i int) {
	e := &(*list)[i]
	if r.claims -= e.claims; list == &r.repeats {
		claims, _ := sluice.ParseClaims(e.lines) // valid, or takes had refused them
		for i := range claims {
			delete(r.again, promise{claims[i].Order, e.Epoch})
		}
	}
}

// drop forgets the entries of a sale for which gone is true. The caller holds mu.
func (m *Memory) drop(sale sluice.SaleID, gone func(e *memo) bool) {
	r := m.sales[sale]
	if r == nil {
		return
	}
	for _, list := range []*[]memo{&r.first, &r.repeats} {
		kept := (*list)[:0]
		for i := range *list {
			if e := &(*list)[i]; gone(e) {
				r.forgotten(list, i)
			} else {
				kept = append(kept, *e)
			}
		}
		clear((*list)[len(kept):])
		*list = kept
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

func (m *Memory) which(sale sluice.SaleID, wanted func(*memo) bool) []sluice.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []sluice.Entry
	for e := range m.sales[sale].all {
		if wanted(e) {
			entries = append(entries, e.unpacked())
		}
	}
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
	type name struct { // an entry is known by its claims, each of which is remembered once
		epoch int64
		lines string
	}
	done := make(map[name]bool, len(saved))
	for i := range saved {
		done[name{saved[i].Epoch, pack(&saved[i])}] = true
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(sale, func(e *memo) bool {
		is := done[name{e.Epoch, e.lines}]
		if is {
			e.saved, e.since = epoch, now
		}
		return is && m.keep == 0
	})
}
