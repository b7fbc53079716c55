package redisledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

const (
	// defaultRead is how many entries a read returns unless it says.
	defaultRead = 100
	// peekCount is how many entries a step of PeekJournal reads.
	peekCount = 200
	// ackCount is how many ids go in one call of ack.lua.
	ackCount = 500
)

// errNoJournal: the sale is there and its journal is not, so entries that
// no server has stored yet may be gone with it.
var errNoJournal = fmt.Errorf("lost: the journal is gone: %w", sluice.ErrNotLoaded)

// ReadJournal implements sluice.Journal. A journal that is missing while the
// sale is there is an error, and fences the sale as lost.
func (l *Ledger) ReadJournal(ctx context.Context, read sluice.JournalRead) (entries []sluice.Entry, err error) {
	defer wrap(&err, "read journal sale=%s", read.Sale)
	read.Max = cmp.Or(max(read.Max, 0), defaultRead)
	_, read.After = splitID(read.After)
	if entries, err = l.readJournal(ctx, &read); err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].ID = entryID(&entries[i])
	}
	return entries, nil
}

func (l *Ledger) readJournal(ctx context.Context, read *sluice.JournalRead) ([]sluice.Entry, error) {
	if err := l.writable(); err != nil {
		return nil, err
	}
	if err := l.hasJournal(ctx, read.Sale); err != nil {
		return nil, err
	}
	switch read.Source {
	case sluice.Own:
		return l.readOwn(ctx, read)
	case sluice.New:
		return l.readNew(ctx, read)
	case sluice.Abandoned:
		return l.readAbandoned(ctx, read)
	}
	return nil, fmt.Errorf("unknown source %d", read.Source)
}

// errOnlyJournal: the sale is gone and its journal is not. A rebuild stores what
// waits there (I5).
var errOnlyJournal = fmt.Errorf("only the journal is left: %w", sluice.ErrNotLoaded)

// hasJournal distinguishes a sale that is not loaded from one that lost its
// journal, and fences the latter.
func (l *Ledger) hasJournal(ctx context.Context, sale sluice.SaleID) error {
	bound, cancel := l.bounded(ctx)
	defer cancel()
	results := l.client.DoMulti(bound,
		l.client.B().Hget().Key(l.keys.sale(sale)).Field("epoch").Build(),
		l.client.B().Exists().Key(l.keys.journal(sale)).Build())
	text, err := results[0].ToString()
	epoch := atoi(text)
	unloaded := rueidis.IsRedisNil(err) || isWrongType(err) || err == nil && epoch == 0 // gone, or damaged
	there := int64(0)
	if err == nil || unloaded {
		there, err = results[1].AsInt64()
	}
	switch {
	case err != nil:
		return l.explain(err)
	case unloaded && there > 0:
		return errOnlyJournal
	case unloaded:
		return sluice.ErrNotLoaded
	case there == 0:
		l.fenceLost(ctx, &sluice.Reading{Sale: sale, Epoch: epoch, Fence: "lost: the journal is gone"})
		return errNoJournal
	}
	return nil
}

// readOwn reads what was handed to this server before. Ids that are pending
// but not in the stream any more are acknowledged on the way.
func (l *Ledger) readOwn(ctx context.Context, read *sluice.JournalRead) ([]sluice.Entry, error) {
	after := read.After
	after = cmp.Or(after, "0-0")
	for {
		streams, err := l.do(ctx, l.readGroup(read, after)).AsXRead()
		if redisErr, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(redisErr.Error(), "NOGROUP") {
			return nil, nil // nothing is anybody's own; readNew makes the group
		}
		page, err := l.decodeGroup(read.Sale, streams, err)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].ID
		var deleted []string
		entries := slices.DeleteFunc(page, func(e sluice.Entry) bool {
			if errors.Is(e.Damage, errDeleted) {
				deleted = append(deleted, e.ID)
				return true
			}
			return false
		})
		if err := l.ack(ctx, read.Sale, deleted); err != nil { // they are in no journal
			return nil, err
		}
		if len(entries) > 0 {
			return entries, l.countDeliveries(ctx, read.Sale, entries)
		}
	}
}

// readNew reads the entries that no reader has received, and in the same step
// compares the journal with the number of entries on record. If they differ,
// these entries may never have been accepted and must not be stored: the sale
// is fenced.
func (l *Ledger) readNew(ctx context.Context, read *sluice.JournalRead) ([]sluice.Entry, error) {
	journal := l.keys.journal(read.Sale)
	for range 2 {
		bound, cancel := l.bounded(ctx)
		results := l.client.DoMulti(bound,
			l.client.B().Multi().Build(),
			l.countEntries(read.Sale), l.client.B().Xlen().Key(journal).Build(), l.readGroup(read, ">"),
			l.client.B().Exec().Build())
		cancel()
		replies, err := results[len(results)-1].ToArray()
		if err != nil {
			return nil, l.explain(err)
		}
		count, err := parseCount(replies)
		if err != nil {
			return nil, l.explain(err)
		}
		if lost := count.lost(); lost != "" {
			l.fenceLost(ctx, &sluice.Reading{Sale: read.Sale, Epoch: count.epoch, Fence: lost})
			return nil, errors.New(lost)
		}
		streams, err := replies[2].AsXRead()
		if redisErr, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(redisErr.Error(), "NOGROUP") {
			// The stream is there (hasJournal), so nothing is lost with the group:
			// what is not acknowledged is handed out again, from the first entry.
			create := l.client.B().XgroupCreate().Key(journal).Group(group).Id("0").Build()
			if err := l.do(ctx, create).Error(); err != nil {
				return nil, l.explain(err)
			}
			continue
		}
		entries, err := l.decodeGroup(read.Sale, streams, err)
		for i := range entries {
			entries[i].Deliveries = 1
		}
		return entries, err
	}
	return nil, errors.New("the consumer group goes as soon as it is made")
}

// readGroup reads as this server, a consumer of the group: new entries with
// ">", its own pending ones after an id.
func (l *Ledger) readGroup(read *sluice.JournalRead, from string) rueidis.Completed {
	return l.client.B().Xreadgroup().Group(group, l.opts.Node).Count(int64(read.Max)).
		Streams().Key(l.keys.journal(read.Sale)).Id(from).Build()
}

func (l *Ledger) decodeGroup(sale sluice.SaleID, streams map[string][]rueidis.XRangeEntry, err error) ([]sluice.Entry,
	error,
) {
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, l.explain(err)
	}
	var entries []sluice.Entry
	for _, entry := range streams[l.keys.journal(sale)] {
		entries = append(entries, decodeEntry(sale, entry))
	}
	return entries, nil
}

// countDeliveries fills in how often this server's own entries were handed
// out. They are sorted by id.
func (l *Ledger) countDeliveries(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) error {
	pending, err := l.pending(ctx, l.client.B().Xpending().Key(l.keys.journal(sale)).Group(group).
		Start(entries[0].ID).End(entries[len(entries)-1].ID).Count(int64(len(entries))).Consumer(l.opts.Node).Build())
	if err != nil {
		return err
	}
	counts := make(map[string]int64, len(pending))
	for _, p := range pending {
		counts[p.id] = p.deliveries
	}
	for i := range entries {
		entries[i].Deliveries = max(counts[entries[i].ID], 1)
	}
	return nil
}

// abandonedPages bounds one Abandoned read when all it finds is its own.
const abandonedPages = 10

// readAbandoned takes over what other servers have left for long. XAUTOCLAIM
// would take this server's own old entries along and count them as handed out
// once more, so the list is looked at first and only others' are claimed. Each
// call looks at a part of the list; the next one goes on from there.
func (l *Ledger) readAbandoned(ctx context.Context, read *sluice.JournalRead) ([]sluice.Entry, error) {
	start := "-"
	if at, ok := l.cursors.Load(read.Sale); ok {
		start = at.(string)
	}
	for range abandonedPages {
		page, err := l.pending(ctx, l.client.B().Xpending().Key(l.keys.journal(read.Sale)).Group(group).
			Idle(read.Idle.Milliseconds()).Start(start).End("+").Count(int64(read.Max)).Build())
		if err != nil {
			return nil, err
		}
		last := len(page) < read.Max
		if last {
			l.cursors.Delete(read.Sale)
		} else {
			start = "(" + page[len(page)-1].id
			l.cursors.Store(read.Sale, start)
		}
		others := slices.DeleteFunc(page, func(p pendingEntry) bool { return p.consumer == l.opts.Node })
		entries, err := l.claimEntries(ctx, read, others)
		if err != nil || len(entries) > 0 || last {
			return entries, err
		}
	}
	return nil, nil
}

// claimEntries makes other servers' entries this server's own, unless another
// server was faster.
func (l *Ledger) claimEntries(ctx context.Context, read *sluice.JournalRead, others []pendingEntry) ([]sluice.Entry,
	error,
) {
	if len(others) == 0 {
		return nil, nil
	}
	ids := make([]string, len(others))
	deliveries := make(map[string]int64, len(others))
	for i, p := range others {
		ids[i], deliveries[p.id] = p.id, p.deliveries
	}
	claimed, err := l.do(ctx, l.client.B().Xclaim().Key(l.keys.journal(read.Sale)).Group(group).Consumer(l.opts.Node).
		MinIdleTime(strconv.FormatInt(read.Idle.Milliseconds(), 10)).Id(ids...).Build()).ToArray()
	if err != nil {
		return nil, l.explain(err)
	}
	var entries []sluice.Entry
	for i := range claimed {
		if claimed[i].IsNil() { // deleted: Own acknowledges it
			continue
		}
		raw, err := claimed[i].AsXRangeEntry()
		if err != nil {
			return nil, l.explain(err)
		}
		entry := decodeEntry(read.Sale, raw)
		if errors.Is(entry.Damage, errDeleted) {
			continue
		}
		entry.Deliveries = deliveries[entry.ID] + 1
		entries = append(entries, entry)
	}
	return entries, nil
}

// pendingEntry is an entry that was handed out and not acknowledged.
type pendingEntry struct {
	id         string
	consumer   string
	deliveries int64
}

// pending runs XPENDING with a range.
func (l *Ledger) pending(ctx context.Context, command rueidis.Completed) ([]pendingEntry, error) {
	rows, err := l.do(ctx, command).ToArray()
	if err != nil {
		return nil, l.explain(err)
	}
	page := make([]pendingEntry, len(rows))
	for i := range rows {
		row, err := rows[i].ToArray() // id, consumer, idle, deliveries
		if err != nil || len(row) != 4 {
			return nil, fmt.Errorf("pending entry of %d parts: %w", len(row), err)
		}
		var errs [3]error
		page[i].id, errs[0] = row[0].ToString()
		page[i].consumer, errs[1] = row[1].ToString()
		page[i].deliveries, errs[2] = row[3].AsInt64()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Ack implements sluice.Journal.
func (l *Ledger) Ack(ctx context.Context, sale sluice.SaleID, ids []string) (err error) {
	defer wrap(&err, "acknowledge sale=%s", sale)
	if err := l.writable(); err != nil {
		return err
	}
	return l.ack(ctx, sale, ids)
}

func (l *Ledger) ack(ctx context.Context, sale sluice.SaleID, ids []string) error {
	byEpoch := map[string][]string{} // of one epoch, as a rule
	for _, id := range ids {
		// What is no id is unknown, and ignored like other unknown ids.
		if epoch, id := splitID(id); isStreamID(id) {
			byEpoch[epoch] = append(byEpoch[epoch], id)
		}
	}
	for epoch, ids := range byEpoch {
		for chunk := range slices.Chunk(ids, ackCount) {
			args := append([]string{group, epoch}, chunk...)
			if _, err := l.run(ctx, ackScript, []string{l.keys.journal(sale), l.keys.sale(sale)}, args); err != nil {
				return err
			}
		}
	}
	return nil
}

// entryID names an entry for those outside: EPOCH:ID, as the stream calls it, so
// that Ack takes nothing out of another epoch's journal. Of a damaged entry the
// epoch is not known.
func entryID(e *sluice.Entry) string {
	if e.Damage != nil {
		return e.ID
	}
	return strconv.FormatInt(e.Epoch, 10) + ":" + e.ID
}

// splitID is the inverse of entryID; without an epoch, that is empty.
func splitID(name string) (epoch, id string) {
	epoch, id, found := strings.Cut(name, ":")
	if !found {
		return "", name
	}
	return epoch, id
}

// isStreamID reports whether id is written as Redis writes the id of an entry.
func isStreamID(id string) bool {
	ms, seq, found := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, err2 := strconv.ParseUint(seq, 10, 64)
	return found && err == nil && err2 == nil
}

// PeekJournal implements sluice.Journal. Entry.Deliveries is left 0.
func (l *Ledger) PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(sluice.Entry) bool) (err error) {
	defer wrap(&err, "peek journal sale=%s", sale)
	return l.peek(ctx, sale, yield)
}

func (l *Ledger) peek(ctx context.Context, sale sluice.SaleID, yield func(sluice.Entry) bool) error {
	if err := l.hasJournal(ctx, sale); err != nil && !errors.Is(err, errOnlyJournal) {
		return err
	}
	torn, err := l.torn(ctx, sale)
	if err != nil {
		return err
	}
	for from := "-"; ; {
		page, err := l.do(ctx, l.client.B().Xrange().Key(l.keys.journal(sale)).Start(from).End("+").Count(peekCount).Build()).
			AsXRange()
		if err != nil {
			return l.explain(err)
		}
		for _, raw := range page {
			entry := decodeEntry(sale, raw)
			entry.ID = entryID(&entry)
			if !torn[raw.ID] && !yield(entry) {
				return nil
			}
		}
		if len(page) < peekCount {
			return nil
		}
		from = "(" + page[len(page)-1].ID
	}
}
