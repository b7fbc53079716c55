package settle

import (
	"cmp"
	"hash/maphash"
	"slices"
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

// remembered is what a server remembers of one sale, each order once: a buyer
// who repeats a claim again and again pushes no other promise out.
type remembered struct {
	entries []memo // oldest first
	orders  map[promise]struct{}
}

// memo is an entry that this server made of the claims it received as accepted. They are
// packed: whatever collects garbage looks at a few of them, not at each of their texts.
type memo struct {
	sluice.Entry           // without its claims
	lines        string    // these, as a journal has them
	promises     []promise // one for each claim
	since        time.Time // when they were accepted, or saved last
	saved        int64     // the sale's epoch when they were stored, or set aside, last; 0: never
}

// lastSeq is that of the last claim.
func (e *memo) lastSeq() int64 { return e.FirstSeq + int64(len(e.promises)) - 1 }

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

// promise stands for an order and the epoch it was accepted in: one that a rebuild has
// claimed again is another promise. No two promises share both of two hashes.
type promise [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func promiseOf(order sluice.OrderID, epoch int64) (p promise) {
	for i, seed := range seeds {
		p[i] = maphash.String(seed, string(order)) ^ maphash.Comparable(seed, epoch)
	}
	return p
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
	r := m.sales[sale]
	var next memo
	add := func() {
		if len(next.promises) > 0 {
			next.lines = string(m.lines)
			r.entries = append(r.entries, next)
		}
		next, m.lines = memo{}, m.lines[:0]
	}
	for i := range decisions {
		d := &decisions[i]
		if d.Code != sluice.Accepted { // a repeat may be of a call whose reply was lost
			continue
		}
		claim := claims[i]
		claim.Order = d.Order
		record := sluice.Record{Claim: claim, Sale: sale, Epoch: d.Epoch, Seq: d.Seq, Terms: d.Terms, At: d.At}
		if d.Replayed && record.Validate() != nil {
			continue // damage of the ledger, which no store takes
		}
		if r == nil {
			r = &remembered{orders: map[promise]struct{}{}}
			m.sales[sale] = r
		}
		id := promiseOf(d.Order, d.Epoch)
		if _, known := r.orders[id]; known {
			continue
		}
		r.orders[id] = struct{}{}
		if len(next.promises) == 0 || d.Epoch != next.Epoch || d.Seq != next.lastSeq()+1 {
			add() // a call that was split has gaps between its steps
			next.Entry = sluice.Entry{Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq}
			next.since = now
		}
		next.promises = append(next.promises, id)
		m.lines = sluice.AppendClaim(m.lines, &claim)
	}
	if add(); r != nil {
		r.bound(m.max)
	}
}

// bound forgets the oldest entries, so that no more than max claims are left.
func (r *remembered) bound(max int) {
	for len(r.orders) > max && len(r.entries) > 1 {
		r.forgotten(&r.entries[0])
		r.entries[0] = memo{}
		r.entries = r.entries[1:]
	}
}

func (r *remembered) forgotten(e *memo) {
	for _, id := range e.promises {
		delete(r.orders, id)
	}
}

// drop forgets the entries of a sale for which gone is true. The caller holds mu.
func (m *Memory) drop(sale sluice.SaleID, gone func(e *memo) bool) {
	r := m.sales[sale]
	if r == nil {
		return
	}
	kept := r.entries[:0]
	for i := range r.entries {
		if e := &r.entries[i]; gone(e) {
			r.forgotten(e)
		} else {
			kept = append(kept, *e)
		}
	}
	clear(r.entries[len(kept):])
	if r.entries = kept; len(kept) == 0 {
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

// Until returns what is remembered of a sale up to an epoch, oldest first: also what is
// saved, since the store may have lost that.
func (m *Memory) Until(sale sluice.SaleID, epoch int64) []sluice.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch <= epoch })
}

// After returns what is remembered of epochs after this one, oldest first.
func (m *Memory) After(sale sluice.SaleID, epoch int64) []sluice.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch > epoch })
}

// Unsaved returns what is remembered of epochs before this one, and was not saved in it,
// oldest first: what was saved before may be lost since.
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
	if r := m.sales[sale]; r != nil {
		for i := range r.entries {
			if e := &r.entries[i]; wanted(e) {
				entries = append(entries, e.unpacked())
			}
		}
	}
	return entries
}

// last is the latest epoch of which something is remembered; 0: nothing is.
func (m *Memory) last(sale sluice.SaleID) (epoch int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.sales[sale]; r != nil {
		for i := range r.entries {
			epoch = max(epoch, r.entries[i].Epoch)
		}
	}
	return epoch
}

// Claims is how many claims of a sale are remembered.
func (m *Memory) Claims(sale sluice.SaleID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.sales[sale]; r != nil {
		return len(r.orders)
	}
	return 0
}

// Before reports whether Unsaved has something.
func (m *Memory) Before(sale sluice.SaleID, epoch int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, wanted := m.sales[sale], unsaved(epoch)
	return r != nil && slices.ContainsFunc(r.entries, func(e memo) bool { return wanted(&e) })
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
