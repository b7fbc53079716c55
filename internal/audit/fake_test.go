package audit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

const saleID = sluice.SaleID("phone")

var opens = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// world is a ledger and a store in memory: what an audit can be shown, right
// or wrong. Its methods move claims along the proper way; tests edit its fields
// to plant what must not be.
type world struct {
	port.AuditStore // nil: for what the audit does not call
	mu              sync.Mutex

	// The ledger.
	reading port.Reading
	records []port.Record
	journal []port.Entry

	// The store.
	sale     sluice.Sale
	versions []sluice.Terms
	orders   []sluice.Order
	letters  []port.DeadLetter
	ended    map[sluice.OrderID]int64 // how often, by the history
	// returning is the outbox.
	returning []sluice.OrderID

	fail    map[string]error // by the name of the method
	entryID int
	between func() // called while records and journal are walked, without the lock
}

func newWorld(total, maxPerBuyer int64) *world {
	terms := sluice.Terms{
		Version: 1, Total: total, MaxPerBuyer: maxPerBuyer, MaxOrders: sluice.Unlimited,
		OpensAt: opens, ClosesAt: opens.Add(time.Hour),
	}
	return &world{
		reading:  port.Reading{Sale: saleID, Loaded: true, Epoch: 1, Terms: terms, Now: opens},
		sale:     sluice.Sale{ID: saleID, Terms: terms, Cap: terms.Total, Epoch: 1, LoadedEpoch: 1},
		versions: []sluice.Terms{terms},
		fail:     map[string]error{},
		between:  func() {},
	}
}

// claim accepts claims of one unit each, as one journal entry.
func (w *world) claim(buyers ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.Now = w.reading.Now.Add(time.Millisecond)
	w.entryID++
	e := port.Entry{
		ID: fmt.Sprintf("%08d", w.entryID), Sale: saleID, Epoch: w.reading.Epoch, Terms: w.reading.Terms.Version,
		At: w.reading.Now, FirstSeq: w.reading.Seq + 1,
	}
	for _, b := range buyers {
		n := w.reading.Seq + 1
		e.Claims = append(e.Claims, sluice.Claim{
			Buyer: sluice.BuyerID(b), Key: sluice.Key(fmt.Sprintf("key-%d-%05d", w.reading.Epoch, n)), Quantity: 1,
			Order: orderID(w.reading.Epoch, n),
		})
		w.records = append(w.records, e.Record(len(e.Claims)-1))
		w.reading.Seq = n
		w.reading.Taken++
	}
	w.journal = append(w.journal, e)
}

// count has the first claims name counters.
func (w *world) count(claims int, counters sluice.Counters) {
	for i := range claims {
		w.records[i].Counters, w.orders[i].Counters = counters, counters
	}
}

func orderID(epoch, n int64) sluice.OrderID {
	return saleID.Order(fmt.Sprintf("%016x%016x", epoch, n))
}

// insert is the pipeline's transaction for the oldest entry; ack its
// acknowledgement.
func (w *world) insert() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.journal) == 0 {
		return false
	}
	e := w.journal[0]
	for i := range e.Claims {
		r := e.Record(i)
		o := r.AsOrder(sluice.Money{})
		o.Status = sluice.Pending
		w.orders = append(w.orders, o)
		w.sale.Taken++
	}
	return true
}

func (w *world) ack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal = slices.Clone(w.journal[1:])
}

func (w *world) drain() {
	for w.insert() {
		w.ack()
	}
}

// end cancels the i-th order in the store; release gives its units back in the
// ledger.
func (w *world) end(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders[i].Status = sluice.Cancelled
	if w.ended == nil {
		w.ended = map[sluice.OrderID]int64{}
	}
	w.ended[w.orders[i].ID]++
	w.returning = append(w.returning, w.orders[i].ID)
	w.sale.Taken -= w.orders[i].Quantity
}

func (w *world) release(order sluice.OrderID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.returning = slices.DeleteFunc(w.returning, func(id sluice.OrderID) bool { return id == order })
	for i := range w.records {
		if w.records[i].Order == order && w.records[i].Live {
			w.records[i].Live = false
			w.reading.Taken -= w.records[i].Quantity
		}
	}
}

// load brings the sale into the ledger under the next epoch.
func (w *world) load() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sale.Epoch++
	w.sale.LoadedEpoch = w.sale.Epoch
	w.reading = port.Reading{
		Sale: saleID, Loaded: true, Epoch: w.sale.Epoch, Taken: w.sale.Taken, Terms: w.sale.Terms, Now: w.reading.Now,
	}
	w.records, w.journal = nil, nil
	for i := range w.orders {
		w.records = append(w.records, port.RecordOf(&w.orders[i]))
	}
}

// change gives the sale new terms, in the store and then in the ledger.
func (w *world) change(edit func(*sluice.Terms)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(&w.sale.Terms)
	w.sale.Version++
	w.versions = append(slices.Clone(w.versions), w.sale.Terms)
	w.reading.Terms = w.sale.Terms
}

func (w *world) Read(_ context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(sales) != 1 || sales[0] != saleID {
		return nil, fmt.Errorf("unexpected sales %v", sales)
	}
	return []port.Reading{w.reading}, w.fail["Read"]
}

// Records yields what there is at the call, each claim with the state it has
// when its turn comes, and perhaps some newer ones, and every third one twice.
func (w *world) Records(_ context.Context, _ sluice.SaleID, yield func(port.Record) bool) error {
	n := 0
	for {
		w.mu.Lock()
		if n >= len(w.records) {
			defer w.mu.Unlock()
			return w.fail["Records"]
		}
		r := w.records[n]
		w.mu.Unlock()
		if !yield(r) || n%3 == 0 && !yield(r) {
			return nil
		}
		n++
		w.between()
	}
}

// PeekJournal yields the entries that have not been acknowledged when their
// turn comes.
func (w *world) PeekJournal(_ context.Context, _ sluice.SaleID, yield func(port.Entry) bool) error {
	last := ""
	for {
		w.mu.Lock()
		i := slices.IndexFunc(w.journal, func(e port.Entry) bool { return e.ID > last })
		if i < 0 {
			defer w.mu.Unlock()
			return w.fail["PeekJournal"]
		}
		e := w.journal[i]
		w.mu.Unlock()
		last = e.ID
		if !yield(e) {
			return nil
		}
		w.between()
	}
}

type snapshot struct {
	sale     sluice.Sale
	versions []sluice.Terms
	orders   []sluice.Order
	letters  []port.DeadLetter

	ended     map[sluice.OrderID]int64
	returning []sluice.OrderID
}

func (w *world) Snapshot(_ context.Context, id sluice.SaleID, read func(port.Snapshot) error) error {
	w.mu.Lock()
	s := snapshot{w.sale, w.versions, slices.Clone(w.orders), w.letters, maps.Clone(w.ended), slices.Clone(w.returning)}
	err := w.fail["Snapshot"]
	w.mu.Unlock()
	if id != saleID {
		err = sluice.ErrSaleNotFound
	}
	if err != nil {
		return err
	}
	return read(s)
}

func (s snapshot) Sale() sluice.Sale                       { return s.sale }
func (s snapshot) TermsVersions() []sluice.Terms           { return s.versions }
func (s snapshot) DeadLetters() ([]port.DeadLetter, error) { return s.letters, nil }
func (s snapshot) Endings(yield func(sluice.OrderID, int64) bool) error {
	for id, times := range s.ended {
		if !yield(id, times) {
			return nil
		}
	}
	return nil
}

func (s snapshot) Returning(yield func(sluice.OrderID) bool) error {
	for _, id := range s.returning {
		if !yield(id) {
			return nil
		}
	}
	return nil
}

func (s snapshot) Orders(yield func(sluice.Order) bool) error {
	for _, o := range s.orders {
		if !yield(o) {
			return nil
		}
	}
	return nil
}

func (w *world) Sales(context.Context) ([]sluice.Sale, error) {
	return []sluice.Sale{w.sale}, w.fail["Sales"]
}

func run(t *testing.T, w *world) sluice.AuditReport {
	t.Helper()
	r := must.Get(audit.Run(t.Context(), w, w, saleID))(t)
	return r
}

// red returns the ids of the checks that are not OK, those that could not be
// made with a question mark.
func red(r sluice.AuditReport) []string {
	var ids []string
	for _, c := range r.Checks {
		switch {
		case c.Unchecked && !c.OK:
			ids = append(ids, c.ID+"?")
		case !c.OK:
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func wantRed(t *testing.T, r sluice.AuditReport, want ...string) {
	t.Helper()
	if got := red(r); !slices.Equal(got, want) {
		t.Errorf("red are %v, want %v", got, want)
	}
	if r.OK != (len(want) == 0) {
		t.Errorf("the report's OK is %v", r.OK)
	}
	if t.Failed() {
		for _, c := range r.Checks {
			t.Logf("%s %v %v: %s", c.ID, c.OK, c.Unchecked, c.Detail)
		}
		t.Logf("in flight %d, figures %+v", r.InFlight, *r.Figures)
	}
}

func detail(r sluice.AuditReport, id string) string {
	for _, c := range r.Checks {
		if c.ID == id {
			return c.Detail
		}
	}
	return ""
}

var errDown = errors.New("connection refused")

func (w *world) failing(methods ...string) *world {
	w.fail = maps.Clone(w.fail)
	for _, m := range methods {
		w.fail[m] = errDown
	}
	return w
}
