package settle

import (
	"sync"

	"github.com/sluicehq/sluice"
)

// Memory is what this server remembers of the claims it has had accepted until
// it knows that they are stored. When a ledger loses data, this is what saves
// the promises that were younger than the loss (I5).
type Memory struct {
	max int

	mu    sync.Mutex
	sales map[sluice.SaleID][]sluice.Entry
	count map[sluice.SaleID]int
}

// DefaultMemory is how many claims a server remembers per sale, unless told
// otherwise: about 50 MB when the store is down for long.
const DefaultMemory = 200_000

// NewMemory returns an empty memory for max claims per sale; the oldest are
// forgotten first.
func NewMemory(max int) *Memory {
	if max <= 0 {
		max = DefaultMemory
	}
	return &Memory{max: max, sales: map[sluice.SaleID][]sluice.Entry{}, count: map[sluice.SaleID]int{}}
}

// Decided remembers the claims of one ledger call that were accepted, by it or
// before, as entries of claims that follow each other.
func (m *Memory) Decided(sale sluice.SaleID, node string, claims []sluice.Claim, decisions []sluice.Decision) {
	var entry sluice.Entry
	for i := range decisions {
		d := &decisions[i]
		if d.Code != sluice.Accepted { // a repeat may be of a call whose reply was lost
			continue
		}
		if entry.Claims == nil {
			entry = sluice.Entry{Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq}
		}
		if d.Epoch != entry.Epoch || d.Seq != entry.FirstSeq+int64(len(entry.Claims)) {
			m.keep(entry) // a call that was split has gaps between its steps
			entry = sluice.Entry{Sale: sale, Epoch: d.Epoch, Node: node, Terms: d.Terms, At: d.At, FirstSeq: d.Seq}
		}
		claim := claims[i]
		claim.Order = d.Order
		entry.Claims = append(entry.Claims, claim)
	}
	if entry.Claims != nil {
		m.keep(entry)
	}
}

func (m *Memory) keep(entry sluice.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append(m.sales[entry.Sale], entry)
	n := m.count[entry.Sale] + len(entry.Claims)
	for n > m.max && len(all) > 1 {
		n -= len(all[0].Claims)
		all[0] = sluice.Entry{}
		all = all[1:]
	}
	m.sales[entry.Sale], m.count[entry.Sale] = all, n
}

// Read forgets what a reading proves to be stored: when the journal is empty,
// everything up to its sequence is.
func (m *Memory) Read(r *sluice.Reading) {
	if !r.Loaded || r.Backlog > 0 || r.Fence != "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.sales[r.Sale]
	if len(all) == 0 {
		return
	}
	kept, n := all[:0], 0
	for _, e := range all {
		last := e.FirstSeq + int64(len(e.Claims)) - 1
		if e.Epoch == r.Epoch && last <= r.Seq {
			continue
		}
		kept = append(kept, e)
		n += len(e.Claims)
	}
	clear(all[len(kept):])
	if len(kept) == 0 {
		delete(m.sales, r.Sale)
		delete(m.count, r.Sale)
		return
	}
	m.sales[r.Sale], m.count[r.Sale] = kept, n
}

// Until returns what is remembered of a sale up to an epoch, oldest first.
func (m *Memory) Until(sale sluice.SaleID, epoch int64) []sluice.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	var entries []sluice.Entry
	for _, e := range m.sales[sale] {
		if e.Epoch <= epoch {
			entries = append(entries, e)
		}
	}
	return entries
}

// Forget drops what is remembered of a sale's epochs before this one.
func (m *Memory) Forget(sale sluice.SaleID, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.sales[sale]
	kept, n := all[:0], 0
	for _, e := range all {
		if e.Epoch >= before {
			kept = append(kept, e)
			n += len(e.Claims)
		}
	}
	clear(all[len(kept):])
	m.sales[sale], m.count[sale] = kept, n
}
