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
	"github.com/sluicehq/sluice/internal/port"
)

// readFrom reads as this server, a consumer of the journal's group, over conn.
func (l *Ledger) readFrom(ctx context.Context, conn rueidis.CoreClient, read *port.JournalRead) ([]port.Entry,
	error,
) {
	switch read.Source {
	case port.Own:
		return l.readOwn(ctx, conn, read)
	case port.New:
		return l.readNew(ctx, conn, read)
	case port.Abandoned:
		return l.readAbandoned(ctx, conn, read)
	}
	return nil, fmt.Errorf("unknown source %d", read.Source)
}

// errOnlyJournal: the sale is gone and its journal is not. A rebuild stores what
// waits there (I5).
var errOnlyJournal = fmt.Errorf("only the journal is left: %w", port.ErrNotLoaded)

// hasJournal distinguishes a sale that is not loaded from one that lost its
// journal, and fences the latter. It reads nothing of a sale in a later format: its
// entries may be in one, too.
func (l *Ledger) hasJournal(ctx context.Context, sale sluice.SaleID) error {
	bound, cancel := l.bounded(ctx)
	defer cancel()
	results := l.client.DoMulti(bound,
		l.client.B().Hmget().Key(l.keys.sale(sale)).Field("epoch", "format").Build(),
		l.client.B().Exists().Key(l.keys.journal(sale)).Build())
	fields, err := results[0].AsStrSlice() // absent fields are empty
	epoch := int64(0)
	if err == nil && len(fields) == 2 {
		if err := errFormat(fields[1]); err != nil {
			return err
		}
		epoch = atoi(fields[0])
	}
	unloaded := isWrongType(err) || err == nil && epoch == 0 // gone, or damaged
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
		return port.ErrNotLoaded
	case there == 0:
		l.fenceLost(ctx, &port.Reading{Sale: sale, Epoch: epoch, Fence: "lost: the journal is gone"})
		return errNoJournal
	}
	return nil
}

// readOwn reads what was handed to this server before. Ids that are pending
// but not in the stream any more are acknowledged on the way.
func (l *Ledger) readOwn(ctx context.Context, conn rueidis.CoreClient, read *port.JournalRead) ([]port.Entry,
	error,
) {
	after := cmp.Or(read.After, "0-0")
	for {
		streams, err := l.on(ctx, conn, l.readGroup(read, after)).AsXRead()
		if redisErr, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(redisErr.Error(), "NOGROUP") {
			return nil, nil // nothing is anybody's own; readNew makes the group
		}
		page, err := l.decodeGroup(read.Sale, streams, err)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].ID
		var deleted []string
		entries := slices.DeleteFunc(page, func(e port.Entry) bool {
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
			return entries, l.countDeliveries(ctx, conn, read.Sale, entries)
		}
	}
}

// readNew reads the entries that no reader has received, and in the same step
// compares the journal with the number of entries on record. If they differ,
// these entries may never have been accepted and must not be stored: the sale
// is fenced.
func (l *Ledger) readNew(ctx context.Context, conn rueidis.CoreClient, read *port.JournalRead) ([]port.Entry,
	error,
) {
	journal := l.keys.journal(read.Sale)
	for range 2 {
		bound, cancel := l.bounded(ctx)
		results := conn.DoMulti(bound,
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
			l.fenceLost(ctx, &port.Reading{Sale: read.Sale, Epoch: count.epoch, Fence: lost})
			return nil, errors.New(lost)
		}
		streams, err := replies[2].AsXRead()
		if redisErr, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(redisErr.Error(), "NOGROUP") {
			// The stream is there (hasJournal), so nothing is lost with the group:
			// what is not acknowledged is handed out again, from the first entry.
			create := l.client.B().XgroupCreate().Key(journal).Group(group).Id("0").Build()
			if err := l.on(ctx, conn, create).Error(); err != nil {
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
func (l *Ledger) readGroup(read *port.JournalRead, from string) rueidis.Completed {
	return l.client.B().Xreadgroup().Group(group, l.opts.Node).Count(int64(read.Max)).
		Streams().Key(l.keys.journal(read.Sale)).Id(from).Build()
}

func (l *Ledger) decodeGroup(sale sluice.SaleID, streams map[string][]rueidis.XRangeEntry, err error) ([]port.Entry,
	error,
) {
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, l.explain(err)
	}
	var entries []port.Entry
	for _, entry := range streams[l.keys.journal(sale)] {
		entries = append(entries, decodeEntry(sale, entry))
	}
	return entries, nil
}

// countDeliveries fills in how often this server's own entries were handed
// out. They are sorted by id.
func (l *Ledger) countDeliveries(ctx context.Context, conn rueidis.CoreClient, sale sluice.SaleID,
	entries []port.Entry,
) error {
	pending, err := l.pending(ctx, conn, l.client.B().Xpending().Key(l.keys.journal(sale)).Group(group).
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
func (l *Ledger) readAbandoned(ctx context.Context, conn rueidis.CoreClient, read *port.JournalRead) (
	[]port.Entry, error,
) {
	start := "-"
	if at, ok := l.cursors.Load(read.Sale); ok {
		start = at.(string)
	}
	for range abandonedPages {
		page, err := l.pending(ctx, conn, l.client.B().Xpending().Key(l.keys.journal(read.Sale)).Group(group).
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
		entries, err := l.claimEntries(ctx, conn, read, others)
		if err != nil || len(entries) > 0 || last {
			return entries, err
		}
	}
	return nil, nil
}

// claimEntries makes other servers' entries this server's own, unless another
// server was faster.
func (l *Ledger) claimEntries(ctx context.Context, conn rueidis.CoreClient, read *port.JournalRead,
	others []pendingEntry,
) ([]port.Entry, error) {
	if len(others) == 0 {
		return nil, nil
	}
	ids := make([]string, len(others))
	deliveries := make(map[string]int64, len(others))
	for i, p := range others {
		ids[i], deliveries[p.id] = p.id, p.deliveries
	}
	claimed, err := l.on(ctx, conn, l.client.B().Xclaim().Key(l.keys.journal(read.Sale)).Group(group).
		Consumer(l.opts.Node).MinIdleTime(strconv.FormatInt(read.Idle.Milliseconds(), 10)).Id(ids...).Build()).ToArray()
	if err != nil {
		return nil, l.explain(err)
	}
	var entries []port.Entry
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
func (l *Ledger) pending(ctx context.Context, conn rueidis.CoreClient, command rueidis.Completed) ([]pendingEntry,
	error,
) {
	rows, err := l.on(ctx, conn, command).ToArray()
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
