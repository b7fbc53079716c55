package sqliteledger

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// entry is a journal entry: a row of claims that is not acknowledged. Its
// claims are in the records; the journal holds no copy.
type entry struct {
	id       int64 // of the row
	node     string
	batch    *batch
	firstSeq int64
	records  records // as they were when the row was complete
	first    int     // place of its first record
	count    int

	damage error // why the row cannot be read
	raw    string

	deliveries int64 // guarded by journal.mu, as is acked
	acked      bool
}

// journal is a sale's entries on their way to the store, oldest first. Only
// committed ones are in it.
type journal struct {
	mu      sync.Mutex
	entries []*entry // ascending by id; acknowledged ones are marked, then dropped
	acked   int      // of entries
	oldest  int      // place of the first one that is not acknowledged
	// handed is the id up to which entries have been handed out: New goes
	// through the entries in order, so one number separates own from new.
	handed int64
}

func (j *journal) add(e *entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// backlog is the number of entries not acknowledged yet, and the sequence of
// the first claim of the oldest.
func (j *journal) backlog() (entries, oldest int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.oldest < len(j.entries) {
		oldest = j.entries[j.oldest].firstSeq
	}
	return int64(len(j.entries) - j.acked), oldest
}

// after returns the place of the first entry with an id above this one.
func (j *journal) after(id int64) int {
	i, _ := slices.BinarySearchFunc(j.entries, id+1, func(e *entry, id int64) int { return int(e.id - id) })
	return i
}

// delivery is an entry with its count at the moment it was handed out.
type delivery struct {
	*entry
	count int64
}

// own returns entries that were handed out before, from the one after this id.
func (j *journal) own(after int64, most int) []delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hand(j.after(after), most, func(e *entry) bool { return e.id <= j.handed })
}

// fresh returns entries that no reader has received.
func (j *journal) fresh(most int) []delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.hand(j.after(j.handed), most, func(*entry) bool { return true })
	if len(out) > 0 {
		j.handed = out[len(out)-1].id
	}
	return out
}

func (j *journal) hand(from, most int, wanted func(*entry) bool) (out []delivery) {
	for _, e := range j.entries[from:] {
		if len(out) >= most || !wanted(e) {
			break
		}
		if !e.acked {
			e.deliveries++
			out = append(out, delivery{e, e.deliveries})
		}
	}
	return out
}

// waiting returns every entry not acknowledged yet, without handing it out.
func (j *journal) waiting() (out []delivery) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if !e.acked {
			out = append(out, delivery{e, e.deliveries})
		}
	}
	return out
}

// known returns those of the ids that are in the journal and not acknowledged.
func (j *journal) known(ids []int64) (known []int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		if i := j.after(id - 1); i < len(j.entries) && j.entries[i].id == id && !j.entries[i].acked {
			known = append(known, id)
		}
	}
	return known
}

// drop takes entries out.
func (j *journal) drop(ids []int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		if i := j.after(id - 1); i < len(j.entries) && j.entries[i].id == id && !j.entries[i].acked {
			j.entries[i].acked = true
			j.acked++
		}
	}
	for j.oldest < len(j.entries) && j.entries[j.oldest].acked {
		j.oldest++
	}
	if j.acked > len(j.entries)/2 {
		j.entries = slices.DeleteFunc(j.entries, func(e *entry) bool { return e.acked })
		j.acked, j.oldest = 0, 0
	}
}

// asEntry returns the entry as the port has it.
func (d *delivery) asEntry(id sluice.SaleID) port.Entry {
	e := port.Entry{ID: strconv.FormatInt(d.id, 10), Sale: id, Deliveries: d.count}
	if d.damage != nil {
		e.Damage, e.Raw = d.damage, d.raw
		return e
	}
	e.Epoch, e.Terms, e.At = d.batch.epoch, d.batch.terms, d.batch.at
	e.Node, e.FirstSeq = d.node, d.firstSeq
	e.Claims = make([]sluice.Claim, d.entry.count)
	for i := range e.Claims {
		e.Claims[i] = d.records.at(d.first + i).claim()
	}
	return e
}

// ReadJournal implements port.Journal. One process owns the file, so nothing
// is ever Abandoned. The log notes a delivery without waiting for
// the disk: should the note be lost, the entry is new once more.
func (l *Ledger) ReadJournal(ctx context.Context, read port.JournalRead) (_ []port.Entry, err error) {
	defer wrap(&err, "read journal sale=%s", read.Sale)
	s, err := l.look(ctx, read.Sale)
	if err != nil {
		return nil, err
	}
	var handed []delivery
	switch read.Source {
	case port.Own:
		after, _ := strconv.ParseInt(read.After, 10, 64) // empty: from the first
		handed = s.journal.own(after, read.Max)
	case port.New:
		if handed = s.journal.fresh(read.Max); len(handed) > 0 {
			last := handed[len(handed)-1].id
			l.queue.add(&op{run: func(g *group) error { return g.noteHanded(s, last) }})
		}
	case port.Abandoned:
	}
	return asEntries(read.Sale, handed), nil
}

func asEntries(id sluice.SaleID, handed []delivery) []port.Entry {
	entries := make([]port.Entry, len(handed))
	for i := range handed {
		entries[i] = handed[i].asEntry(id)
	}
	return entries
}

// noteHanded writes down up to which entry the journal has been handed out.
func (g *group) noteHanded(s *sale, last int64) error {
	if g.sale(s.id) == s { // not reloaded meanwhile
		g.add(s, row{kind: kindHanded, epoch: s.epoch, at: g.now, n: last})
	}
	return nil
}

// Ack implements port.Journal. It returns when the acknowledgement is on the
// disk.
func (l *Ledger) Ack(ctx context.Context, id sluice.SaleID, ids []string) (err error) {
	defer wrap(&err, "ack sale=%s", id)
	numbers := make([]int64, 0, len(ids))
	for _, text := range ids {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil { // else it is not ours: unknown
			numbers = append(numbers, n)
		}
	}
	return l.do(ctx, func(g *group) error { g.ack(id, numbers); return nil })
}

func (g *group) ack(id sluice.SaleID, ids []int64) {
	s := g.sale(id)
	if s == nil {
		return
	}
	if ids = s.journal.known(ids); len(ids) == 0 {
		return
	}
	g.add(s, row{kind: kindAck, epoch: s.epoch, at: g.now, n: int64(len(ids)), body: encodeIDs(ids)})
	g.after = append(g.after, func() { s.journal.drop(ids) })
}
