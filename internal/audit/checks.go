package audit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// checkNames lists the checks in the order of the report. Those by sums can also be made
// of orders that are deleted.
var checkNames = [...]struct {
	id, name string
	bySums   bool
}{
	{"I1", "No oversell", true},
	{"I2", "Conservation", true},
	{"I3", "Limit", false},
	{"I4", "Same answer (unique)", false},
	{"I5", "One order", false},
	{"I6", "One end", false},
	{"I8", "Window", false},
}

// finding gathers what one check saw.
type finding struct {
	faults []string
	facts  []string
}

func (f *finding) fact(format string, args ...any) {
	f.facts = append(f.facts, fmt.Sprintf(format, args...))
}

func (f *finding) fault(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// offence is a fault if the list has anything in it. The text has one %d, for
// how many.
func (f *finding) offence(l *list, format string) {
	if l.n > 0 {
		f.fault(format+" (%s)", l.n, l.names())
	}
}

// report makes every check. The order matters: join sorts by order, the
// others by what they need.
func (b *Book) report() sluice.AuditReport {
	r := sluice.AuditReport{Sale: b.names.sale, OK: true, Figures: b.figures()}
	joined := b.join()
	r.InFlight = joined.inFlight
	r.Figures.Newer = joined.newer
	r.Figures.Store.SetAside = joined.setAside.n

	found := [len(checkNames)]finding{
		b.oversell(r.Figures), b.conservation(r.Figures, joined), b.limit(joined), b.unique(joined), b.oneOrder(joined),
		b.oneEnd(), b.window(),
	}
	for i, c := range checkNames {
		archived := errors.Is(b.LedgerErr, errArchived)
		check := sluice.AuditCheck{ID: c.id, Name: c.name, OK: len(found[i].faults) == 0 && (b.LedgerErr == nil || archived)}
		parts := found[i].facts
		unneeded := false
		switch {
		case b.deleted > 0 && !c.bySums && check.OK:
			check.OK, check.Unchecked, unneeded = false, true, true
			parts = append([]string{b.deletion()}, parts...)
		case b.deleted > 0 && archived:
			parts = append([]string{b.deletion()}, parts...)
		case archived:
			parts = append([]string{errArchived.Error()}, parts...)
		case b.LedgerErr != nil:
			check.Unchecked = len(found[i].faults) == 0
			parts = append([]string{"not checked with the ledger: " + b.LedgerErr.Error()}, parts...)
		}
		check.Detail = strings.Join(append(found[i].faults, parts...), "; ")
		r.Checks = append(r.Checks, check)
		r.OK = r.OK && (check.OK || unneeded)
	}
	return r
}

// deletion says how many orders of the sale are only sums, and since when.
func (b *Book) deletion() string {
	if at := b.Stored.Remains.At; !at.IsZero() {
		return fmt.Sprintf("%d orders deleted on %s by order_retention, only their sums are left", b.deleted,
			at.Format(time.DateOnly))
	}
	return fmt.Sprintf("%d orders are deleted by order_retention, only their sums are left", b.deleted)
}

func (b *Book) figures() *sluice.AuditFigures {
	f := &sluice.AuditFigures{At: b.First.Now}
	l, s, first, stored := &f.Ledger, &f.Store, &b.First, &b.Stored
	l.Loaded, l.Epoch, l.Seq, l.Fence = first.Loaded, first.Epoch, first.Seq, first.Fence
	l.Total, l.Taken, l.Claims = limited(first.Terms.Total), first.Taken, int64(len(b.claims))
	l.LiveClaims, l.LiveUnits = live(b.claims)
	if b.LedgerErr != nil {
		l.Error = b.LedgerErr.Error()
	}
	f.Journal.Entries, f.Journal.Claims, f.Journal.Damaged = b.entries, int64(len(b.journal)), b.damaged
	s.Epoch, s.Total, s.Taken, s.Fence = stored.Epoch, limited(stored.Total), stored.Taken, stored.Fence
	s.Orders, s.Deleted, s.ByStatus = b.deleted+int64(len(b.orders)), b.deleted, b.byStatus
	s.LiveUnits, s.DeadLetters = b.StoredUnits(), b.asides
	return f
}

// live returns how many rows hold units, and how many units.
func live(rows []Row) (n, units int64) {
	for i := range rows {
		if rows[i].Live {
			n++
			units += rows[i].Quantity
		}
	}
	return n, units
}

// StoredUnits returns the units of the live orders of the snapshot, with those of orders
// that were paid and are deleted.
func (b *Book) StoredUnits() int64 {
	_, units := live(b.orders)
	if b.Stored.Remains != nil {
		units += b.Stored.Remains.Live()
	}
	return units
}

// Held returns the units of the ledger's live claims up to the first reading, and
// whether its counter can be their sum. They were read after the first reading
// and before the second. So the first counter counts all that were found live,
// and more that were released since; and the second counts none but those, and
// what was accepted in between.
func (b *Book) Held() (units int64, addsUp bool) {
	_, units = live(b.claims)
	missing := b.First.Taken - units
	return units, missing >= 0 && missing <= b.released()
}

// limited returns nil for a limit that is absent. A ledger that does not hold
// the sale has terms of version 0 and so a total that means nothing.
func limited(n int64) *int64 {
	if n == sluice.Unlimited {
		return nil
	}
	return &n
}

// A side is what the same check looks at in the ledger and in the store.
type side struct {
	name, what string
	rows       []Row
}

// sides leaves out the ledger when it could not be read.
func (b *Book) sides() []side {
	store := side{"store", "orders", b.orders}
	if b.LedgerErr != nil {
		return []side{store}
	}
	return []side{{"ledger", "claims", b.claims}, store}
}

// oversell is I1: neither side holds more than its total, and nothing was
// promised that the store had to refuse.
func (b *Book) oversell(f *sluice.AuditFigures) (c finding) {
	if b.First.Loaded {
		compareTotal(&c, "ledger", f.Ledger.Total, f.Ledger.Taken)
	}
	// The store's own limit is its cap: the total, or more for a moment after a
	// person has lowered it.
	compareTotal(&c, "store", limited(b.Stored.Cap), max(f.Store.Taken, f.Store.LiveUnits))
	var refused list
	for i := range b.orders {
		if b.orders[i].refused {
			refused.add(func() string { return b.names.order(&b.orders[i]) })
		}
	}
	c.offence(&refused, "%d accepted claims were promised beyond the total and are rejected as "+sluice.NotCovered)
	if b.Stored.Remains != nil && b.Stored.Remains.NotCovered > 0 {
		c.fault("%d orders that are deleted had been promised beyond the total", b.Stored.Remains.NotCovered)
	}
	return c
}

func compareTotal(c *finding, side string, total *int64, taken int64) {
	switch {
	case total == nil:
		c.fact("%s: %d taken, no total", side, taken)
	case taken > *total:
		c.fault("%s: %d taken of a total of %d", side, taken, *total)
	default:
		c.fact("%s: %d taken of a total of %d", side, taken, *total)
	}
}

// conservation is I2: what each side counts is what its live claims and orders
// add up to, and no unit is back in the ledger while its order lives.
func (b *Book) conservation(f *sluice.AuditFigures, j *joined) (c finding) {
	if b.Stored.Total == sluice.Unlimited && (!b.First.Loaded || b.First.Terms.Total == sluice.Unlimited) {
		c.fact("does not apply: the sale has no total")
		return c
	}
	if b.First.Loaded && b.LedgerErr == nil {
		b.ledgerSum(&c, f)
	}
	if b.Stored.Taken != f.Store.LiveUnits {
		c.fault("store: %d taken, but the live orders hold %d", b.Stored.Taken, f.Store.LiveUnits)
	} else {
		c.fact("store: %d taken = %d in live orders", b.Stored.Taken, f.Store.LiveUnits)
	}
	c.offence(&j.resold, "%d orders live in the store whose units the ledger has taken back")
	if b.First.Loaded && b.LedgerErr == nil {
		c.fact("of the ledger's units %d are stored, %d in flight, %d returning, %d set aside",
			j.storedUnits, j.flightUnits, j.returningUnits, j.asideUnits)
	}
	return c
}

func (b *Book) ledgerSum(c *finding, f *sluice.AuditFigures) {
	taken := f.Ledger.Taken
	live, addsUp := b.Held()
	if !addsUp {
		c.fault("ledger: %d taken, but the live claims hold %d", taken, live)
		return
	}
	if total := f.Ledger.Total; total != nil {
		c.fact("ledger: total %d = %d available + %d taken", *total, b.First.Terms.Available(taken), taken)
	}
	c.fact("ledger: %d taken = %d in live claims", taken, live)
	if missing := taken - live; missing > 0 {
		c.fact("%d released while the claims were read", missing)
	}
}

// released returns the units that the ledger took back between the first and
// the second reading: what it had, and got, and has no more. When the new
// claims in between are not all known it is unknown, and may be anything.
func (b *Book) released() int64 {
	got := make(map[int64]int64, b.Second.Seq-b.First.Seq)
	for _, rows := range [][]Row{b.later, b.journal, b.letters, b.orders} {
		for i := range rows {
			if r := &rows[i]; r.Epoch == b.First.Epoch && r.Seq > b.First.Seq && r.Seq <= b.Second.Seq {
				got[r.Seq] = max(got[r.Seq], r.Quantity) // a torn transaction may have left another there
			}
		}
	}
	if int64(len(got)) != b.Second.Seq-b.First.Seq {
		return math.MaxInt64
	}
	units := b.First.Taken - b.Second.Taken
	for _, n := range got {
		units += n
	}
	return units
}

// limit is I3. The limit may have been changed, so each live claim is judged
// by the limit it was accepted under: with the buyer's older claims that are
// live still, and so were live then, it must not exceed it. The unpaid endings
// that the ledger counts must be those of the store; whether one came before a
// claim was accepted is unknown, since they have two clocks.
func (b *Book) limit(j *joined) (c finding) {
	for _, s := range b.sides() {
		b.limitOf(&c, s.name, s.rows)
		b.countersOf(&c, s.name, s.rows)
	}
	if b.Stored.MaxUnpaid != 0 { // without a limit they count for nothing
		c.offence(&j.unpaid, "%d ended claims are unpaid on one side only, and count for or against their buyers wrongly")
		var unpaid int64
		for i := range b.orders {
			if b.orders[i].Unpaid {
				unpaid++
			}
		}
		c.fact("store: %d orders ended unpaid, at most %d for each buyer now", unpaid, b.Stored.MaxUnpaid)
	}
	if b.Stored.MaxPerBuyer == sluice.Unlimited {
		c.fact("no limit now")
	} else {
		c.fact("limit now %d", b.Stored.MaxPerBuyer)
	}
	return c
}

func (b *Book) limitOf(c *finding, side string, rows []Row) {
	slices.SortFunc(rows, byBuyer)
	var over list
	var buyers, held, most int64
	var reported bool // of a buyer, the first claim beyond the limit is enough
	for i := range rows {
		r := &rows[i]
		if i == 0 || rows[i-1].buyer != r.buyer {
			held, reported = 0, false
		}
		if !r.Live {
			continue
		}
		if held == 0 {
			buyers++
		}
		held += r.Quantity
		most = max(most, held)
		if t, ok := b.Versions[r.terms]; ok && t.MaxPerBuyer != sluice.Unlimited && held > t.MaxPerBuyer && !reported {
			reported = true
			over.add(func() string {
				return fmt.Sprintf("%q: %d of %d", b.names.buyers[r.buyer], held, t.MaxPerBuyer)
			})
		}
	}
	c.offence(&over, side+": %d buyers over their limit")
	c.fact("%s: %d buyers with live units, at most %d each", side, buyers, most)
}

// countersOf is limitOf for counters: a live claim and the older ones that are live hold no more
// than it may, and every claim names a counter for each of the sale's limits. Archived sales have
// none where buyers are erased.
func (b *Book) countersOf(c *finding, side string, rows []Row) {
	slices.SortFunc(rows, byPlace)
	var over, without list
	held := map[string]int64{}
	for i := range rows {
		counters := b.names.counters[rows[i].counters].List()
		if b.Stored.ArchivedAt.IsZero() && !b.Stored.Rules.Limits.Cover(counters) {
			without.add(func() string { return b.names.order(&rows[i]) })
		}
		if !rows[i].Live {
			continue
		}
		for _, counter := range counters {
			if held[counter.Name] += rows[i].Quantity; held[counter.Name] > counter.Max {
				over.add(func() string { return fmt.Sprintf("%s: %d of %d", counter.Name, held[counter.Name], counter.Max) })
			}
		}
	}
	c.offence(&over, side+": %d claims beyond a limit of their sale")
	c.offence(&without, side+": %d claims that no counter of a limit counts")
	if len(held) > 0 {
		c.fact("%s: %d values of limits have live units", side, len(held))
	}
}

// unique is what I4 rests on: an order, a claim and a place in the sequence
// are each there once, and both sides say the same of them.
func (b *Book) unique(j *joined) (c finding) {
	for _, s := range b.sides() {
		b.uniqueIn(&c, s.name, s.rows)
	}
	c.offence(&j.answers, "%d claims have one order in the ledger and another in the store")
	c.offence(&b.foreign, "%d order ids are not of this sale")
	return c
}

func (b *Book) uniqueIn(c *finding, side string, rows []Row) {
	for _, by := range []struct {
		what    string
		compare func(a, b Row) int
	}{
		{"an order id", func(a, b Row) int { return slices.Compare(a.order[:], b.order[:]) }},
		{"a claim id", byClaim},
		{"a place in the sequence", byPlace},
	} {
		slices.SortFunc(rows, by.compare)
		var twice list
		for i := 1; i < len(rows); i++ {
			if a, r := &rows[i-1], &rows[i]; by.compare(*a, *r) == 0 {
				twice.add(func() string {
					return fmt.Sprintf("%s and %s, buyer %q, epoch %d sequence %d",
						b.names.order(a), b.names.order(r), b.names.buyers[r.buyer], r.Epoch, r.Seq)
				})
			}
		}
		c.offence(&twice, side+": %d rows repeat "+by.what)
	}
	c.fact("%s: %d order ids, claim ids and places", side, len(rows))
}

// window is I8: every claim was accepted while the terms it was decided under
// let it, and newer terms were never followed by older ones within an epoch: a load
// brings in claims of dead letters, as they were accepted.
func (b *Book) window() (c finding) {
	for _, s := range b.sides() {
		b.windowOf(&c, s.name, s.what, s.rows)
	}
	c.fact("%d versions of the terms", len(b.Versions))
	return c
}

func (b *Book) windowOf(c *finding, side, what string, rows []Row) {
	slices.SortFunc(rows, byPlace)
	var outside, unknown, backwards list
	var newest int64
	for i := range rows {
		r := &rows[i]
		if i > 0 && rows[i-1].Epoch != r.Epoch {
			newest = 0
		}
		if r.terms < newest {
			backwards.add(func() string { return fmt.Sprintf("%s: version %d after %d", b.names.order(r), r.terms, newest) })
		}
		newest = max(newest, r.terms)
		t, ok := b.Versions[r.terms]
		if !ok {
			unknown.add(func() string { return fmt.Sprintf("%s: version %d", b.names.order(r), r.terms) })
			continue
		}
		at := time.UnixMilli(r.at)
		if code := t.Refusal(at); code != 0 {
			outside.add(func() string {
				return fmt.Sprintf("%s: %s at %s under version %d", b.names.order(r), code,
					at.UTC().Format("2006-01-02T15:04:05.000Z"), r.terms)
			})
		}
	}
	c.offence(&outside, side+": %d "+what+" accepted outside their window")
	c.offence(&unknown, side+": %d "+what+" carry terms that the store does not know")
	c.offence(&backwards, side+": %d "+what+" were decided under older terms than those before them")
	c.fact("%s: %d %s", side, len(rows), what)
}

// gaps returns the sequences from 1 to the epoch's last that rows, sorted by
// place, do not have.
func gaps(rows []Row, epoch, last int64) (missing list) {
	i, _ := slices.BinarySearchFunc(rows, epoch, func(r Row, epoch int64) int { return cmp.Compare(r.Epoch, epoch) })
	for next := int64(1); next <= last; {
		until := last + 1
		if i < len(rows) && rows[i].Epoch == epoch {
			until = rows[i].Seq
			i++
		}
		if until > next {
			missing.n += until - next
			if len(missing.shown) < maxShown {
				missing.shown = append(missing.shown, span(next, until-1))
			}
		}
		next = max(next, until+1)
	}
	return missing
}

func span(from, to int64) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// earlierGaps counts the places without a claim in epochs before this one, up
// to the last claim of each that is known.
func earlierGaps(rows []Row, epoch int64) (n int64) {
	for i := range rows {
		if r := &rows[i]; r.Epoch < epoch {
			if i > 0 && rows[i-1].Epoch == r.Epoch {
				n += max(r.Seq-rows[i-1].Seq-1, 0)
			} else {
				n += r.Seq - 1
			}
		}
	}
	return n
}
