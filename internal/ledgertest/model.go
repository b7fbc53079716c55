package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// model is the reference that judges random runs: what a ledger should answer,
// in the most naive way. It recounts everything for every claim, and shares
// no code with any ledger. It knows nothing of journals, disks and servers.
type model struct {
	sales map[sluice.SaleID]*modelSale
}

type modelSale struct {
	epoch         int64
	terms         sluice.Terms
	fence         string
	cooldown      sluice.Code
	cooldownUntil time.Time
	records       []port.Record
}

func newModel() *model { return &model{sales: map[sluice.SaleID]*modelSale{}} }

func (s *modelSale) taken() (units int64) {
	for _, r := range s.records {
		if r.Live {
			units += r.Quantity
		}
	}
	return units
}

func (s *modelSale) seq() (last int64) {
	for _, r := range s.records {
		if r.Epoch == s.epoch {
			last++
		}
	}
	return last
}

// cooling: a cooldown that ends later than one that begins now is over, since the
// clock has been set back.
func (s *modelSale) cooling(now time.Time) bool {
	left := s.cooldownUntil.Sub(now)
	return left > 0 && left <= sluice.RefusalLease
}

// refusals returns every code that speaks against a new claim.
func (s *modelSale) refusals(now time.Time, c sluice.Claim) (codes []sluice.Code) {
	if now.Before(s.terms.OpensAt) {
		codes = append(codes, sluice.NotOpen)
	}
	if !s.terms.ClosesAt.IsZero() && !now.Before(s.terms.ClosesAt) {
		codes = append(codes, sluice.Closed)
	}
	if s.terms.Paused {
		codes = append(codes, sluice.Paused)
	}
	if s.cooling(now) {
		codes = append(codes, s.cooldown)
	}
	var units, orders, unpaid int64
	for _, r := range s.records {
		if r.Buyer == c.Buyer {
			orders++
			if r.Unpaid {
				unpaid++
			}
			if r.Live {
				units += r.Quantity
			}
		}
	}
	if s.terms.MaxPerBuyer != unlimited && units+c.Quantity > s.terms.MaxPerBuyer {
		codes = append(codes, sluice.BuyerLimit)
	}
	if s.terms.MaxOrders != unlimited && orders+1 > s.terms.MaxOrders {
		codes = append(codes, sluice.BuyerLimit)
	}
	if s.terms.MaxUnpaid > 0 && unpaid+1 > s.terms.MaxUnpaid {
		codes = append(codes, sluice.BuyerLimit)
	}
	if s.full(c) != "" {
		codes = append(codes, sluice.BuyerLimit)
	}
	if s.terms.Total != unlimited {
		switch left := s.terms.Total - s.taken(); {
		case left <= 0:
			codes = append(codes, sluice.SoldOut)
		case left < c.Quantity:
			codes = append(codes, sluice.Insufficient)
		}
	}
	return codes
}

// full returns the first counter of a claim that has no room for it.
func (s *modelSale) full(c sluice.Claim) string {
	for _, counter := range c.Counters.List() {
		units := c.Quantity
		for _, r := range s.records {
			if r.Live && strings.Contains(" "+string(r.Counters), " "+counter.Name+"=") {
				units += r.Quantity
			}
		}
		if units > counter.Max {
			return counter.Name
		}
	}
	return ""
}

// claim decides one claim.
func (m *model) claim(now time.Time, id sluice.SaleID, c sluice.Claim) sluice.Decision {
	s := m.sales[id]
	if s == nil || s.fence != "" {
		return sluice.Decision{Code: sluice.Unavailable}
	}
	for _, r := range s.records {
		if r.Buyer == c.Buyer && r.Key == c.Key {
			if r.Quantity != c.Quantity || r.Meta != c.Meta {
				return sluice.Decision{Code: sluice.KeyReused}
			}
			return answerOf(r, true)
		}
	}
	if codes := s.refusals(now, c); len(codes) > 0 {
		d := sluice.Decision{Code: slices.Min(codes)} // codes are numbered by precedence
		switch d.Code {
		case sluice.NotOpen:
			d.OpensAt = s.terms.OpensAt
		case sluice.BuyerLimit:
			alone := c
			if alone.Counters = ""; !slices.Contains(s.refusals(now, alone), sluice.BuyerLimit) {
				d.Counter = s.full(c)
			}
			for _, r := range s.records {
				if r.Buyer == c.Buyer && r.Live {
					d.Orders = append(d.Orders, r.Order)
				}
			}
		}
		return d
	}
	r := port.Record{Claim: c, Sale: id, Epoch: s.epoch, Seq: s.seq() + 1, Terms: s.terms.Version, At: now, Live: true}
	s.records = append(s.records, r)
	return answerOf(r, false)
}

// answerOf is what an accepted claim is answered with.
func answerOf(r port.Record, replayed bool) sluice.Decision {
	counters := sluice.Counters("")
	if replayed {
		counters = r.Counters
	}
	return sluice.Decision{
		Code: sluice.Accepted, Order: r.Order, Quantity: r.Quantity, Seq: r.Seq, At: r.At,
		Epoch: r.Epoch, Terms: r.Terms, Replayed: replayed, Counters: counters,
	}
}

// apply changes the terms, and returns the error the ledger has to return.
func (m *model) apply(now time.Time, id sluice.SaleID, epoch int64, terms sluice.Terms) error {
	s := m.sales[id]
	switch {
	case s == nil:
		return port.ErrNotLoaded
	case epoch != s.epoch:
		return port.ErrStaleEpoch
	case terms.Version <= s.terms.Version:
		return nil
	case s.fence != "" && terms.Total != unlimited && (s.terms.Total == unlimited || terms.Total < s.terms.Total):
		return port.ErrStaleEpoch
	case terms.Total != unlimited && terms.Total < s.taken():
		return sluice.ErrBelowTaken
	}
	old := s.terms
	s.terms = terms
	was, is := old.Refusal(now), terms.Refusal(now)
	soldOut := old.Total != unlimited && old.Total-s.taken() <= 0
	left := terms.Total == unlimited || terms.Total-s.taken() > 0
	if was != 0 && is == 0 {
		s.cooldown, s.cooldownUntil = was, now.Add(sluice.RefusalLease)
	}
	if was == 0 && is == 0 && soldOut && left {
		s.cooldown, s.cooldownUntil = sluice.SoldOut, now.Add(sluice.RefusalLease)
	}
	soon := terms.OpensAt.Sub(now) < sluice.RefusalLease && (was != sluice.NotOpen || old.OpensAt.After(terms.OpensAt))
	if is == sluice.NotOpen && soon && (was != 0 || soldOut) {
		s.cooldown, s.cooldownUntil = sluice.NotOpen, now.Add(sluice.RefusalLease)
	}
	return nil
}

// load replaces a sale.
func (m *model) load(image port.LoadImage) error {
	if s := m.sales[image.Sale]; s != nil && image.Epoch <= s.epoch {
		return port.ErrStaleEpoch
	}
	m.sales[image.Sale] = &modelSale{
		epoch: image.Epoch, terms: image.Terms, fence: port.FenceLoading, records: slices.Clone(image.Records),
	}
	return nil
}

// release ends the claims of these orders.
func (m *model) release(now time.Time, id sluice.SaleID, releases []port.Release) (answer port.Released,
	err error,
) {
	s := m.sales[id]
	if s == nil {
		return answer, port.ErrNotLoaded
	}
	for _, r := range releases {
		if s.fence != "" || r.Epoch > s.epoch {
			return port.Released{}, port.ErrStaleEpoch
		}
	}
	wasSoldOut := s.terms.Total != unlimited && s.terms.Total-s.taken() <= 0
	for _, r := range releases {
		if r.Epoch < s.epoch {
			answer.Before++
			continue
		}
		i := slices.IndexFunc(s.records, func(have port.Record) bool {
			return have.Order == r.Order && have.Buyer == r.Buyer && have.Key == r.Key
		})
		switch {
		case i < 0:
			answer.Unknown = append(answer.Unknown, r.Order)
		case s.records[i].Live:
			s.records[i].Live, s.records[i].Unpaid = false, r.Unpaid
			answer.Applied++
		default:
			answer.Before++
		}
	}
	if wasSoldOut && s.terms.Total-s.taken() > 0 && s.terms.Refusal(now) == 0 {
		s.cooldown, s.cooldownUntil = sluice.SoldOut, now.Add(sluice.RefusalLease)
	}
	return answer, nil
}

// setFence fences a sale, or lifts the fence if the reason is empty.
func (m *model) setFence(id sluice.SaleID, epoch int64, reason string) error {
	s := m.sales[id]
	switch {
	case s == nil:
		return port.ErrNotLoaded
	case epoch != s.epoch:
		return port.ErrStaleEpoch
	case s.fence == "" || reason == "":
		s.fence = reason
	}
	return nil
}

// reading is what Read should say; Backlog and Oldest are not known here.
func (m *model) reading(now time.Time, id sluice.SaleID) port.Reading {
	s := m.sales[id]
	if s == nil {
		return port.Reading{Sale: id, Now: now}
	}
	r := port.Reading{
		Sale: id, Loaded: true, Epoch: s.epoch, Seq: s.seq(), Taken: s.taken(), Terms: s.terms, Fence: s.fence, Now: now,
	}
	if s.cooling(now) {
		r.CooldownUntil = s.cooldownUntil
	}
	return r
}

// checkInvariants judges what a ledger says of one sale at rest, without any
// model: records are all that Records gave, journal all that PeekJournal gave,
// gone the sequences of this epoch whose entries were acknowledged, versions
// every version of the terms. It returns what is wrong.
func checkInvariants(r port.Reading, records []port.Record, journal []port.Entry,
	gone map[int64]bool, versions map[int64]sluice.Terms,
) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var live int64
	seen := map[int64]port.Record{}
	orders, claims := map[sluice.OrderID]bool{}, map[sluice.ClaimID]bool{}
	for _, rec := range records {
		if id := (sluice.ClaimID{Sale: rec.Sale, Buyer: rec.Buyer, Key: rec.Key}); claims[id] {
			complain("I5: claim %v is on record twice", id)
		} else {
			claims[id] = true
		}
		if orders[rec.Order] {
			complain("I5: order %s is on record twice", rec.Order)
		}
		orders[rec.Order] = true
		if rec.Live {
			live += rec.Quantity
		}
		if rec.Epoch == r.Epoch {
			if other, twice := seen[rec.Seq]; twice {
				complain("seq %d is both %s and %s", rec.Seq, other.Order, rec.Order)
			}
			seen[rec.Seq] = rec
		}
	}
	if r.Terms.Total != unlimited && r.Taken > r.Terms.Total {
		complain("I1: taken %d of a total of %d", r.Taken, r.Terms.Total)
	}
	if live != r.Taken {
		complain("I2: taken %d, but the live records hold %d", r.Taken, live)
	}
	for seq := int64(1); seq <= r.Seq; seq++ {
		if _, ok := seen[seq]; !ok {
			complain("seq %d of 1 to %d has no record", seq, r.Seq)
		}
	}
	if int64(len(seen)) != r.Seq {
		complain("%d records of epoch %d, but its last seq is %d", len(seen), r.Epoch, r.Seq)
	}
	wrong = append(wrong, checkTerms(r.Epoch, records, versions)...)
	return append(wrong, checkJournal(r, seen, journal, gone)...)
}

// checkTerms judges each record of the epoch by the terms it was decided under
// (I1, I3, I8). Units that have returned are left out, so what it finds is
// wrong, but it may find too little.
func checkTerms(epoch int64, records []port.Record, versions map[int64]sluice.Terms) (wrong []string) {
	ordered := slices.Clone(records)
	slices.SortFunc(ordered, func(a, b port.Record) int {
		if a.Epoch != b.Epoch {
			return int(a.Epoch - b.Epoch)
		}
		return int(a.Seq - b.Seq)
	})
	var taken int64
	units, count, counted := map[sluice.BuyerID]int64{}, map[sluice.BuyerID]int64{}, map[string]int64{}
	for _, rec := range ordered {
		if rec.Live {
			taken += rec.Quantity
			units[rec.Buyer] += rec.Quantity
			for _, c := range rec.Counters.List() {
				if counted[c.Name] += rec.Quantity; counted[c.Name] > c.Max {
					wrong = append(wrong, fmt.Sprintf("order %s is unit %d of %d of %s", rec.Order, counted[c.Name], c.Max, c.Name))
				}
			}
		}
		count[rec.Buyer]++
		if rec.Epoch != epoch {
			continue
		}
		t, known := versions[rec.Terms]
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("order %s under unknown terms %d", rec.Order, rec.Terms))
		case t.Refusal(rec.At) != 0:
			wrong = append(wrong, fmt.Sprintf("I8: order %s accepted at %v: %s", rec.Order, rec.At, t.Refusal(rec.At)))
		case t.Total != unlimited && taken > t.Total:
			wrong = append(wrong, fmt.Sprintf("I1: order %s took unit %d of %d", rec.Order, taken, t.Total))
		case t.MaxPerBuyer != unlimited && units[rec.Buyer] > t.MaxPerBuyer:
			wrong = append(wrong, fmt.Sprintf("I3: order %s is the buyer's unit %d of %d", rec.Order, units[rec.Buyer],
				t.MaxPerBuyer))
		case t.MaxOrders != unlimited && count[rec.Buyer] > t.MaxOrders:
			wrong = append(wrong, fmt.Sprintf("order %s is the buyer's claim %d of %d", rec.Order, count[rec.Buyer],
				t.MaxOrders))
		}
	}
	return wrong
}

// allStored, among the sequences that were acknowledged, stands for every one: the ledger
// has no journal.
const allStored = 0

// checkJournal: every accepted claim is in exactly one entry until that is
// acknowledged, oldest first (I5).
func checkJournal(r port.Reading, seen map[int64]port.Record, journal []port.Entry,
	gone map[int64]bool,
) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if r.Backlog != int64(len(journal)) {
		complain("backlog %d, but %d entries in the journal", r.Backlog, len(journal))
	}
	oldest := int64(0)
	if len(journal) > 0 {
		oldest = journal[0].FirstSeq
	}
	if r.Oldest != oldest {
		complain("oldest %d, but the journal begins with %d", r.Oldest, oldest)
	}
	last, waiting, names := int64(0), map[int64]bool{}, map[string]bool{}
	for _, e := range journal {
		if e.Damage != nil || len(e.Claims) == 0 {
			complain("entry %s: damage %v, %d claims", e.ID, e.Damage, len(e.Claims))
			continue
		}
		if names[e.ID] {
			complain("two entries %s", e.ID)
		}
		names[e.ID] = true
		for i := range e.Claims {
			got := e.Record(i)
			if got.Seq <= last {
				complain("entry %s: seq %d after %d", e.ID, got.Seq, last)
			}
			last = got.Seq
			waiting[got.Seq] = true
			got.Live, got.Unpaid = seen[got.Seq].Live, seen[got.Seq].Unpaid // an order may end before its entry is acknowledged
			if d := diff(seen[got.Seq], got); d != "" {
				complain("I5: entry %s, seq %d: -record +journal\n%s", e.ID, got.Seq, d)
			}
			if gone[got.Seq] {
				complain("seq %d is in the journal although it was acknowledged", got.Seq)
			}
		}
	}
	for seq := int64(1); seq <= r.Seq; seq++ {
		if !waiting[seq] && !gone[seq] && !gone[allStored] {
			complain("I5: seq %d is not in the journal, and was not acknowledged", seq)
		}
	}
	return wrong
}
