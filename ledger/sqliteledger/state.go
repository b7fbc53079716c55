package sqliteledger

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

type salesByID map[sluice.SaleID]*sale

// sale is one sale in memory. Only the writer changes it, ahead of the commit;
// readers see what the last view covers.
type sale struct {
	id    sluice.SaleID
	epoch int64
	seq   int64 // of the last accepted claim of this epoch
	taken int64 // units of live orders
	// counted is how many live units each counter has.
	counted map[string]int64
	terms   sluice.Terms
	// cooldown is the refusal that goes on until cooldownUntil although the terms have
	// lifted it (sluice.RefusalLease).
	cooldown      sluice.Code
	cooldownUntil time.Time
	fence         string // why claims are Unavailable; empty when they are not
	damage        string // what is wrong with the sale's rows, found when they were read
	expect        int64  // loaded records that are still to come, while the rows are read

	records records
	ended   bits    // records whose units have returned
	unpaid  bits    // those of them that ended unpaid
	open    openRow // the row that accepted claims of this group go to
	journal journal

	mu       sync.RWMutex     // guards buyers, accounts and their keys against Find
	buyers   map[uint64]int32 // by the buyer's hash: place in accounts of the latest one that has it
	accounts [][]account      // in chunks: growing copies none

	view atomic.Pointer[view]
}

// view is what readers see of a sale: the committed part. It is immutable, and
// so are the first count records.
type view struct {
	reading port.Reading // without Now; CooldownUntil is in force until it is reached
	records records      // of which count are committed
	ended   bits
	unpaid  bits
	count   int
}

func newSale(id sluice.SaleID, epoch int64, terms sluice.Terms, taken int64) *sale {
	return &sale{
		id: id, epoch: epoch, terms: terms, taken: taken, fence: port.FenceLoading,
		counted: map[string]int64{}, buyers: map[uint64]int32{},
	}
}

// publish makes what the writer has decided visible to readers.
func (s *sale) publish() {
	backlog, oldest := s.journal.backlog()
	s.view.Store(&view{
		reading: port.Reading{
			Sale: s.id, Loaded: true, Epoch: s.epoch, Seq: s.seq, Taken: s.taken, Terms: s.terms,
			Fence: s.fence, CooldownUntil: s.cooldownUntil, Backlog: backlog, Oldest: oldest,
		},
		records: s.records,
		ended:   s.ended,
		unpaid:  s.unpaid,
		count:   s.records.n,
	})
}

// batch is what the claims of one row have in common.
type batch struct {
	epoch int64
	terms int64
	at    time.Time
}

// record is an accepted claim. Its strings are parts of one line, the one that
// stands in the log, so that a claim costs two objects and not five.
type record struct {
	line     string // port.AppendClaim, without the line feed
	buyerLen uint8
	keyLen   uint8
	live     bool  // when it was remembered; since then see sale.ended
	unpaid   bool  // likewise; see sale.unpaid
	prev     int32 // the buyer's claim before this one, -1 for none
	seq      int64
	quantity int64
	batch    *batch
}

func (r *record) buyer() sluice.BuyerID { return sluice.BuyerID(r.line[:r.buyerLen]) }

func (r *record) key() sluice.Key {
	start := int(r.buyerLen) + 1
	return sluice.Key(r.line[start : start+int(r.keyLen)])
}

func (r *record) order() sluice.OrderID {
	order, _, _ := strings.Cut(r.line[int(r.buyerLen)+1+int(r.keyLen)+1:], "\t")
	return sluice.OrderID(order)
}

func (r *record) meta() string { return r.line[strings.LastIndexByte(r.line, '\t')+1:] }

// counters are beside the quantity (port.AppendClaim), the last field but one.
func (r *record) counters() sluice.Counters {
	before := r.line[:strings.LastIndexByte(r.line, '\t')]
	_, counters, _ := strings.Cut(before[strings.LastIndexByte(before, '\t')+1:], " ")
	return sluice.Counters(counters)
}

func (r *record) claim() sluice.Claim {
	return sluice.Claim{
		Buyer: r.buyer(), Key: r.key(), Quantity: r.quantity, Order: r.order(), Meta: r.meta(), Counters: r.counters(),
	}
}

// count adds the units of a claim to its counters.
func (s *sale) count(counters sluice.Counters, units int64) {
	for _, c := range counters.List() {
		if s.counted[c.Name] += units; s.counted[c.Name] == 0 {
			delete(s.counted, c.Name)
		}
	}
}

// record returns the record of a sale as the port has it, but for what has ended
// since.
func (r *record) record(sale sluice.SaleID) port.Record {
	return port.Record{
		Claim: r.claim(), Sale: sale, Epoch: r.batch.epoch, Seq: r.seq, Terms: r.batch.terms, At: r.batch.at, Live: r.live,
		Unpaid: r.unpaid,
	}
}

// record returns the i-th record as the port has it.
func (v *view) record(i int) port.Record {
	r := v.records.at(i).record(v.reading.Sale)
	r.Live, r.Unpaid = r.Live && !v.ended.has(i), r.Unpaid || v.unpaid.has(i)
	return r
}

// records is an append-only list in chunks: growing copies no records, so a
// copy of the header stays valid for what it covered.
type records struct {
	chunks [][]record
	n      int
}

const chunkSize = 1024

func (rs *records) at(i int) *record { return &rs.chunks[i/chunkSize][i%chunkSize] }

func (rs *records) add(r record) int32 {
	if rs.n%chunkSize == 0 {
		rs.chunks = append(rs.chunks, make([]record, chunkSize))
	}
	rs.n++
	*rs.at(rs.n - 1) = r
	return int32(rs.n - 1)
}

// bits is a set of places in records that is never changed: with returns
// another one. So a view keeps what it had.
type bits []*[chunkSize / 64]uint64

func (b bits) has(i int) bool {
	chunk := i / chunkSize
	return chunk < len(b) && b[chunk] != nil && b[chunk][i%chunkSize/64]&(1<<(i%64)) != 0
}

// with returns the set with these places too.
func (b bits) with(places []int32) bits {
	b = slices.Clone(b)
	copied := map[int]bool{}
	for _, i := range places {
		chunk := int(i) / chunkSize
		for len(b) <= chunk {
			b = append(b, nil)
		}
		if !copied[chunk] {
			var own [chunkSize / 64]uint64
			if b[chunk] != nil {
				own = *b[chunk]
			}
			b[chunk], copied[chunk] = &own, true
		}
		b[chunk][i%chunkSize/64] |= 1 << (i % 64)
	}
	return b
}

// account is what a buyer has of a sale.
type account struct {
	units  int64 // of live orders (I3)
	orders int32 // accepted claims, ended ones too
	unpaid int32 // of them, those that ended unpaid
	last   int32 // the latest claim, the head of the chain of record.prev
	same   int32 // the account before this one whose buyer has the same hash, -1 for none
	// keys finds a claim among many; nil while the chain is short.
	keys map[sluice.Key]int32
}

// shortChain is how many claims of a buyer are looked through one by one.
const shortChain = 8

// account returns the buyer's account, or nil if the buyer has no accepted
// claim.
func (s *sale) account(buyer sluice.BuyerID) *account {
	i, ok := s.buyers[hash(buyer)]
	for ok && i >= 0 {
		a := &s.accounts[i/chunkSize][i%chunkSize]
		if s.records.at(int(a.last)).buyer() == buyer {
			return a
		}
		i = a.same
	}
	return nil
}

// newAccount adds an account, which has no claim yet.
func (s *sale) newAccount(buyer sluice.BuyerID) *account {
	last := len(s.accounts) - 1
	if last < 0 || len(s.accounts[last]) == chunkSize {
		last++
		s.accounts = append(s.accounts, make([]account, 0, min(last, 1)*chunkSize)) // the first one grows
	}
	h := hash(buyer)
	same, known := s.buyers[h]
	if !known {
		same = -1
	}
	s.buyers[h] = int32(last*chunkSize + len(s.accounts[last]))
	s.accounts[last] = append(s.accounts[last], account{last: -1, same: same})
	return &s.accounts[last][len(s.accounts[last])-1]
}

// hash stands for a buyer: a map of numbers costs half of one of texts when a sale has
// millions of buyers, since nothing in it must be followed. Tests make equal ones.
var hash = func(buyer sluice.BuyerID) uint64 { return maphash.String(seed, string(buyer)) }

var seed = maphash.MakeSeed()

// find returns the place of the account's claim with this key, or -1.
func (s *sale) find(a *account, key sluice.Key) int32 {
	if a == nil {
		return -1
	}
	if a.keys != nil {
		if i, ok := a.keys[key]; ok {
			return i
		}
		return -1
	}
	for i := a.last; i >= 0; i = s.records.at(int(i)).prev {
		if s.records.at(int(i)).key() == key {
			return i
		}
	}
	return -1
}

// remember adds an accepted claim to the records and to its buyer's account,
// which is nil if the buyer has none yet.
// It does not count its units as taken: see accept and the load row.
func (s *sale) remember(a *account, c *sluice.Claim, line string, seq int64, b *batch, live, unpaid bool) {
	r := record{
		line: line, buyerLen: uint8(len(c.Buyer)), keyLen: uint8(len(c.Key)), live: live, unpaid: unpaid,
		prev: -1, seq: seq, quantity: c.Quantity, batch: b,
	}
	if a == nil {
		a = s.newAccount(c.Buyer)
	}
	r.prev = a.last
	a.last = s.records.add(r)
	a.orders++
	if live {
		a.units += c.Quantity
		s.count(c.Counters, c.Quantity)
	}
	if unpaid {
		a.unpaid++
	}
	switch {
	case a.keys != nil:
		a.keys[r.key()] = a.last
	case a.orders > shortChain:
		a.keys = make(map[sluice.Key]int32, 2*shortChain)
		for i := a.last; i >= 0; i = s.records.at(int(i)).prev {
			a.keys[s.records.at(int(i)).key()] = i
		}
	}
}

// live reports whether the units of the i-th record are still held.
func (s *sale) live(i int32) bool { return s.records.at(int(i)).live && !s.ended.has(int(i)) }

// liveOrders returns the account's live orders, in the order of acceptance.
func (s *sale) liveOrders(a *account) []sluice.OrderID {
	if a == nil {
		return nil
	}
	var orders []sluice.OrderID
	for i := a.last; i >= 0; i = s.records.at(int(i)).prev {
		if s.live(i) {
			orders = append(orders, s.records.at(int(i)).order())
		}
	}
	slices.Reverse(orders)
	return orders
}
