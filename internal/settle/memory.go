package settle

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Memory is what this server remembers of the claims it has answered as
// accepted, for the first time or again, until it knows that they are stored, or
// longer (Keep).
// When a ledger loses data, this is what saves the promises that were younger
// than the loss (I4, I5).
type Memory struct {
	max  int
	keep time.Duration // how long at least

	mu    sync.Mutex
	sales map[sluice.SaleID]*saleMemory
	terms map[sluice.SaleID]told
	lines []byte // of a call: used again for the next
	order []int  // likewise
}

// told are the latest terms of a sale that this server has heard of.
type told struct {
	created time.Time // when the sale was: its id may have been another's before
	terms   sluice.Terms
}

// DefaultMemory is how many claims a server remembers per sale, unless set
// otherwise: about 40 MB when the store is down for long.
const DefaultMemory = 200_000

// NewMemory returns an empty memory for most claims per sale; the oldest are forgotten first.
func NewMemory(most int) *Memory {
	return &Memory{
		max: cmp.Or(max(most, 0), DefaultMemory), sales: map[sluice.SaleID]*saleMemory{}, terms: map[sluice.SaleID]told{},
	}
}

// Keep has claims remembered for so long although they are stored, for a store that may lose
// them together with its ledger, since it is the ledger. Terms are remembered then too. It
// comes before all else.
func (m *Memory) Keep(d time.Duration) { m.keep = d }

// Told remembers the terms that a sale has in the store, which may forget them (Keep). A total
// that was lowered is remembered once the ledger has decided that it can be.
func (m *Memory) Told(sale *sluice.Sale) {
	if m.keep == 0 || sale.Cap != sale.Total {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.terms[sale.ID]; sale.Version > t.terms.Version || !t.created.Equal(sale.CreatedAt) {
		m.terms[sale.ID] = told{sale.CreatedAt, sale.Terms}
	}
}

// Over forgets the terms of a sale that is archived or deleted.
func (m *Memory) Over(sale sluice.SaleID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.terms, sale)
}

// termsBeyond returns later terms of a sale than this row has, if this server was told of them.
func (m *Memory) termsBeyond(sale *sluice.Sale) (terms sluice.Terms, are bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.terms[sale.ID]
	return t.terms, t.created.Equal(sale.CreatedAt) && t.terms.Version > sale.Version
}

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
	// What was accepted now in the order of its places, which need not be the claims'; repeats last: one may
	// be of a claim of this call.
	for _, repeats := range []bool{false, true} {
		m.order = m.order[:0]
		for i := range decisions {
			if decisions[i].Code == sluice.Accepted && decisions[i].Replayed == repeats {
				m.order = append(m.order, i)
			}
		}
		if !repeats {
			slices.SortFunc(m.order, func(a, b int) int {
				return cmp.Or(cmp.Compare(decisions[a].Epoch, decisions[b].Epoch), cmp.Compare(decisions[a].Seq, decisions[b].Seq))
			})
		}
		for _, i := range m.order {
			d := &decisions[i]
			if r == nil {
				r = &saleMemory{}
			}
			if known := r.memoOf(d); known != nil {
				known.since = now
				continue
			}
			claim := claims[i]
			if claim.Order = d.Order; d.Replayed {
				claim.Counters = d.Counters
			}
			if repeats { // it may be of a call whose reply was lost
				record := port.Record{Claim: claim, Sale: sale, Epoch: d.Epoch, Seq: d.Seq, Terms: d.Terms, At: d.At}
				if record.Validate() != nil {
					continue // damage of the ledger, which no store takes
				}
			}
			if next == nil || next.claims == memoClaims || d.Epoch != next.Epoch || d.Seq != next.lastSeq()+1 ||
				d.Terms != next.Terms || !d.At.Equal(next.At) { // a call that was split has gaps between its steps
				add()
				next = &memo{since: now, apart: repeats, Entry: port.Entry{
					Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq,
				}}
			}
			if repeats {
				r.note(next, d.Order)
			}
			next.claims++
			m.lines = port.AppendClaim(m.lines, &claim)
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
func (m *Memory) Read(r *port.Reading, asked time.Time) {
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
func (m *Memory) Until(sale sluice.SaleID, epoch int64) []port.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch <= epoch })
}

// After returns what is remembered of epochs after this one, by place.
func (m *Memory) After(sale sluice.SaleID, epoch int64) []port.Entry {
	return m.which(sale, func(e *memo) bool { return e.Epoch > epoch })
}

// Unsaved returns what is remembered of epochs before this one, and was not saved in it,
// by place: what was saved before may be lost since.
func (m *Memory) Unsaved(sale sluice.SaleID, epoch int64) []port.Entry {
	return m.which(sale, unsaved(epoch))
}

func unsaved(epoch int64) func(*memo) bool {
	return func(e *memo) bool { return e.Epoch < epoch && e.saved != epoch }
}

func (m *Memory) which(sale sluice.SaleID, wanted func(*memo) bool) (entries []port.Entry) {
	m.mu.Lock()
	for e := range m.sales[sale].all {
		if wanted(e) {
			entries = append(entries, e.unpacked())
		}
	}
	m.mu.Unlock()
	slices.SortStableFunc(entries, func(a, b port.Entry) int {
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
func (m *Memory) Saved(sale sluice.SaleID, epoch int64, saved []port.Entry) {
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
