package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// model is a store as the port describes it: lists, searched from end to end.
// It has no clock; times of the store are compared by their own rules.
type model struct {
	sale   sluice.Sale
	terms  []sluice.Terms
	orders []sluice.Order
	endings
}

// insert is Insert by the book. ok is false for a conflict, and for claims of
// an epoch that has passed.
func (m *model) insert(entries []port.Entry) (got port.Stored, ok bool) {
	taken, orders := m.sale.Taken, slices.Clone(m.orders)
	for _, e := range entries {
	claims:
		for i, c := range e.Claims {
			for _, o := range orders {
				same := 0
				if o.ID == c.Order {
					same++
				}
				if o.Buyer == c.Buyer && o.Key == c.Key {
					same++
				}
				if o.Epoch == e.Epoch && o.Seq == e.FirstSeq+int64(i) {
					same++
				}
				if same == 3 && o.Quantity == c.Quantity && o.Meta == c.Meta {
					got.Redelivered++
					continue claims
				}
				if same > 0 {
					return port.Stored{}, false
				}
			}
			if e.Epoch < m.sale.Epoch {
				return port.Stored{}, false
			}
			o := sluice.Order{
				ID: c.Order, Sale: m.sale.ID, Buyer: c.Buyer, Key: c.Key, Quantity: c.Quantity, Meta: c.Meta, Price: m.sale.Price,
				Counters: c.Counters,
				Status:   sluice.Pending, Epoch: e.Epoch, Seq: e.FirstSeq + int64(i), Terms: e.Terms, AcceptedAt: e.At,
			}
			if m.sale.Cap != sluice.Unlimited && taken+c.Quantity > m.sale.Cap {
				o.Status, o.Reason = sluice.Rejected, sluice.NotCovered
				got.Rejected = append(got.Rejected, o.ID)
			} else {
				taken += c.Quantity
			}
			orders = append(orders, o)
			got.Inserted++
		}
	}
	m.orders, m.sale.Taken = orders, taken
	if len(got.Rejected) > 0 && m.sale.Fence == "" {
		m.sale.Fence = sluice.NotCovered
	}
	return got, true
}

// With -short one seed is enough.
func testRandom(t *testing.T, db Database) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random(t, db, sluice.SaleID(fmt.Sprintf("random-%d", seed)), seed, 300)
		})
	}
}

type randomRun struct {
	t      *testing.T
	db     Database
	s      port.Store
	random *rand.Rand
	model  model
	src    source
	past   []port.Entry // entries that were stored
}

func (r *randomRun) run(id sluice.SaleID, steps int) {
	t := r.t
	r.model.sale = create(t, r.s, aSale(id, int64(r.random.IntN(400))))
	r.model.terms = []sluice.Terms{r.model.sale.Terms}
	r.model.endings = newEndings()
	r.src = source{sale: id, epoch: 1}
	for step := range steps {
		switch n := r.random.IntN(50); {
		case n < 7:
			r.insert(r.fresh())
		case n < 11:
			r.insert(append(r.redelivery(), r.fresh()...))
		case n < 13:
			r.insert(r.redelivery())
		case n < 15:
			r.insert(append(r.fresh(), r.forged()...))
		case n < 18:
			r.changeTerms()
		case n < 19:
			r.fence()
		case n < 21:
			r.load()
		case n < 22:
			r.insert(r.stale())
		case n < 24:
			r.grow()
		case n < 26:
			r.expire()
		case n < 29:
			r.release()
		default:
			r.changeOrder()
		}
		if t.Failed() {
			t.Fatalf("after step %d", step)
		}
		if step%25 == 24 {
			r.compare()
		}
	}
	r.compare()
	r.drain()
}

func (r *randomRun) insert(entries []port.Entry) {
	want, ok := r.model.insert(entries)
	got, err := r.s.Insert(r.t.Context(), r.model.sale.ID, entries)
	if !ok {
		if err == nil {
			r.t.Errorf("a conflict, or a claim of an old epoch, was stored: %+v", got)
		}
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		r.t.Errorf("insert: error %v (-want +got):\n%s", err, diff)
	}
	r.past = append(r.past, entries...)
}

// fresh returns one to three new entries.
func (r *randomRun) fresh() (entries []port.Entry) {
	for range 1 + r.random.IntN(3) {
		quantities := make([]int64, 1+r.random.IntN(4))
		for i := range quantities {
			quantities[i] = 1 + int64(r.random.IntN(3))
		}
		entry := r.src.entryOf(quantities...)
		entry.Terms = 1 + int64(r.random.IntN(3))
		entries = append(entries, entry)
	}
	return entries
}

// redelivery returns some entries of the past, some cut, in any order.
func (r *randomRun) redelivery() (entries []port.Entry) {
	if len(r.past) == 0 {
		return nil
	}
	for range 1 + r.random.IntN(4) {
		entry := r.past[r.random.IntN(len(r.past))]
		head, tail := split(entry, r.random.IntN(len(entry.Claims)+1))
		entries = append(entries, [][]port.Entry{{entry}, {head}, {tail}, {tail, head}}[r.random.IntN(4)]...)
	}
	return entries
}

// forged returns an entry that is nearly one of the past.
func (r *randomRun) forged() []port.Entry {
	if len(r.past) == 0 {
		return nil
	}
	entry := r.past[r.random.IntN(len(r.past))]
	entry.Claims = slices.Clone(entry.Claims)
	if len(entry.Claims) == 0 {
		return nil
	}
	claim := &entry.Claims[r.random.IntN(len(entry.Claims))]
	fresh := r.src.entry(1) // its sequence stays a gap
	switch r.random.IntN(6) {
	case 0:
		claim.Order = fresh.Claims[0].Order
	case 1:
		claim.Buyer = fresh.Claims[0].Buyer
	case 2:
		claim.Key = fresh.Claims[0].Key
	case 3:
		claim.Quantity++
	case 4:
		entry.FirstSeq++
	case 5:
		entry.Epoch++
	}
	return []port.Entry{entry}
}

func (r *randomRun) changeTerms() {
	total := r.model.sale.Total
	switch r.random.IntN(4) {
	case 0:
		total = sluice.Unlimited
	case 1:
		total = int64(r.random.IntN(800))
	default:
		total = r.model.sale.Taken + int64(r.random.IntN(60))
	}
	price := int64(r.random.IntN(1000))
	changed, err := r.s.ChangeSale(r.t.Context(), r.model.sale.ID, func(s *sluice.Sale) error {
		s.Total, s.Paused, s.Price.Amount = total, !s.Paused, price
		return nil
	})
	if total != sluice.Unlimited && total != r.model.sale.Total && total < r.model.sale.Taken {
		wantError(r.t, err, sluice.ErrBelowTaken)
		return
	}
	if err != nil {
		r.t.Error(err)
	}
	m := &r.model.sale
	switch {
	case total == sluice.Unlimited, m.Cap == sluice.Unlimited, total > m.Cap:
		m.Cap = total
	}
	m.Total, m.Paused, m.Price.Amount, m.Version, m.UpdatedAt = total, !m.Paused, price, m.Version+1, changed.UpdatedAt
	r.model.terms = append(r.model.terms, m.Terms)
}

func (r *randomRun) fence() {
	epoch := r.model.sale.Epoch - int64(r.random.IntN(2))
	reason := fmt.Sprintf("reason %d", r.random.IntN(100))
	if err := r.s.FenceSale(r.t.Context(), r.model.sale.ID, epoch, reason); err != nil {
		r.t.Error(err)
	}
	if epoch == r.model.sale.Epoch && r.model.sale.Fence == "" {
		r.model.sale.Fence = reason
	}
}

func (r *randomRun) load() {
	m := &r.model.sale
	image, err := r.s.BeginLoad(r.t.Context(), m.ID, 0)
	if m.LoadedEpoch == m.Epoch && m.Fence == "" {
		wantError(r.t, err, port.ErrSaleLive)
		return
	}
	if err != nil {
		r.t.Error(err)
		return
	}
	r.model.passTerms()
	if m.Cap != m.Total { // a lowering that no ledger has decided about
		m.Total, m.Version = m.Cap, m.Version+1
		r.model.terms = append(r.model.terms, m.Terms)
	}
	m.Epoch++
	var records []port.Record
	for _, o := range r.model.orders {
		records = append(records, port.RecordOf(&o))
	}
	if diff := differ(records, image.Records); diff != "" {
		r.t.Errorf("records (-want +got):\n%.4000s", diff)
	}
	image.Records = nil
	if diff := cmp.Diff(port.LoadImage{Sale: m.ID, Epoch: m.Epoch, Terms: m.Terms, Taken: m.Taken}, image); diff != "" {
		r.t.Errorf("image (-want +got):\n%s", diff)
	}
	r.src.epoch, r.src.seq = m.Epoch, 0
	if r.random.IntN(3) == 0 {
		return // the server died here
	}
	if err := r.s.ConfirmLoad(r.t.Context(), m.ID, m.Epoch); err != nil {
		r.t.Error(err)
	}
	m.LoadedEpoch, m.Fence = m.Epoch, ""
}

// passTerms numbers the terms after those of claims that the store does not know.
func (m *model) passTerms() {
	own, first := m.sale.Terms, map[int64]time.Time{}
	for i := range m.orders {
		o := &m.orders[i]
		if at, seen := first[o.Terms]; o.Terms > own.Version && (!seen || o.AcceptedAt.Before(at)) {
			first[o.Terms] = o.AcceptedAt
		}
	}
	for _, version := range slices.Sorted(maps.Keys(first)) {
		unknown := own
		unknown.Version, unknown.Paused, unknown.ClosesAt = version, false, time.Time{}
		if first[version].Before(own.OpensAt) {
			unknown.OpensAt = first[version]
		}
		m.terms, m.sale.Version = append(m.terms, unknown), version+1
	}
	if len(first) > 0 {
		m.terms = append(m.terms, m.sale.Terms)
	}
}

func (r *randomRun) compare() {
	t := r.t
	t.Helper()
	c := mustBeSound(t, r.s, r.model.sale.ID)
	if strings.HasPrefix(c.Sale.Fence, sluice.NotCovered) {
		c.Sale.Fence = sluice.NotCovered // the rest is for people
	}
	want := r.model.sale
	want.UpdatedAt = c.Sale.UpdatedAt
	if diff := cmp.Diff(want, c.Sale); diff != "" {
		t.Fatalf("sale (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.model.terms, c.Terms); diff != "" {
		t.Fatalf("terms (-want +got):\n%s", diff)
	}
	last := time.Time{}
	for i := range c.Orders {
		o := &c.Orders[i]
		if o.StoredAt.Before(last) || !o.ExpiresAt.Equal(o.StoredAt.Add(want.PaymentWindow)) ||
			!o.KeepUntil.Equal(o.ExpiresAt.Add(want.PaymentGrace)) || o.UpdatedAt.Before(o.StoredAt) ||
			len(r.model.changes[o.ID]) == 0 && !o.UpdatedAt.Equal(o.StoredAt) {
			t.Fatalf("order %d: stored at %v, expires at %v, kept until %v, updated at %v", i, o.StoredAt, o.ExpiresAt,
				o.KeepUntil, o.UpdatedAt)
		}
		last = o.StoredAt.Add(-clockStep)
		// the model has no clock
		o.StoredAt, o.ExpiresAt, o.KeepUntil, o.UpdatedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	}
	if diff := differ(r.model.orders, c.Orders); diff != "" {
		t.Fatalf("orders (-want +got):\n%.4000s", diff)
	}
	r.compareEndings()
	lastSeq := map[int64]int64{}
	for _, o := range r.model.orders {
		lastSeq[o.Epoch] = max(lastSeq[o.Epoch], o.Seq)
	}
	for epoch := int64(1); epoch <= want.Epoch; epoch++ {
		if got, err := r.s.LastSeq(t.Context(), want.ID, epoch); err != nil || got != lastSeq[epoch] {
			t.Fatalf("last sequence of epoch %d: %d, %v, want %d", epoch, got, err, lastSeq[epoch])
		}
	}
}

// clockStep is how far a clock may be set back while the tests run.
const clockStep = time.Second

// Soak races payments against expiry and cancelling 10,000 times each, and then
// repeats what is random for as long as SLUICE_TEST_SOAK says. Without it, it
// skips.
func (databases Databases) Soak(t *testing.T) {
	text := os.Getenv("SLUICE_TEST_SOAK")
	if text == "" {
		t.Skip("a long campaign: set SLUICE_TEST_SOAK to its duration")
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SLUICE_TEST_SOAK: %v", err)
	}
	create := databases(t)
	end := time.Now().Add(long)
	t.Run("PaymentAgainstExpiry", func(t *testing.T) { racePaymentAndExpiry(t, create(t), 10_000) })
	t.Run("PaymentAgainstCancel", func(t *testing.T) { racePaymentAndCancel(t, create(t), 10_000) })
	for round := 1; time.Now().Before(end) && !t.Failed(); round++ {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) {
			t.Run("EverythingAtOnce", func(t *testing.T) { testEverythingAtOnce(t, create(t)) })
			t.Run("LoadsAgainstEndings", func(t *testing.T) { testLoadsAgainstEndings(t, create(t)) })
			t.Run("ConcurrentExpiry", func(t *testing.T) { testConcurrentExpiry(t, create(t)) })
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { random(t, create(t), "random", seed, 1000) })
		})
	}
}

// random does the same random things to a store and to the model.
func random(t *testing.T, db Database, sale sluice.SaleID, seed uint64, steps int) {
	r := &randomRun{t: t, db: db, s: db.Open(t), random: rand.New(rand.NewPCG(seed, 7))}
	r.run(sale, steps)
}
