package redisledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
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
var errNoJournal = fmt.Errorf("lost: the journal is gone: %w", port.ErrNotLoaded)

// ReadJournal implements port.Journal. A journal that is missing while the
// sale is there is an error, and fences the sale as lost.
func (l *Ledger) ReadJournal(ctx context.Context, read port.JournalRead) (entries []port.Entry, err error) {
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

func (l *Ledger) readJournal(ctx context.Context, read *port.JournalRead) ([]port.Entry, error) {
	if err := l.writable(); err != nil {
		return nil, err
	}
	if err := l.hasJournal(ctx, read.Sale); err != nil {
		return nil, err
	}
	if l.opts.WaitReplicas <= 0 {
		return l.readFrom(ctx, l.client, read)
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout+l.opts.WaitTimeout)
	defer cancel()
	conn, err := l.dedicate(ctx)
	if err != nil {
		return nil, l.explain(err)
	}
	defer conn.release()
	entries, err := l.readFrom(ctx, conn, read)
	if err == nil && len(entries) > 0 {
		err = l.confirm(ctx, conn, read.Sale, entries[len(entries)-1].ID)
	}
	if errors.Is(err, sluice.ErrNoAnswer) {
		conn.Close() // it may hang, and others would wait behind these commands
	}
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// confirm returns when enough replicas have the entries that were read over this
// connection. A primary without them may be one that others have replaced, and what
// it decided since was never promised: it must not reach the store (I4, I5). The
// entries stay this server's own, to be read and confirmed again.
//
// WAIT covers what its connection has written, and all that was written before. To
// claim an entry that is its own writes, and changes nothing.
func (l *Ledger) confirm(ctx context.Context, conn dedicated, sale sluice.SaleID, id string) error {
	results := conn.DoMulti(ctx, l.client.B().Xclaim().Key(l.keys.journal(sale)).Group(group).
		Consumer(l.opts.Node).MinIdleTime("0").Id(id).Justid().Build(), l.wait())
	switch claimed, err := results[0].AsStrSlice(); {
	case err != nil:
		return l.explain(err)
	case len(claimed) == 0:
		return fmt.Errorf("entry %s is not this server's own any more", id)
	}
	if err := l.checkWait(results[1]); err != nil {
		return fmt.Errorf("entries are not stored until replicas have them: %w", err)
	}
	return nil
}

// Ack implements port.Journal.
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
		// A text that is no id is ignored, like unknown ids.
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
// that Ack takes nothing out of another epoch's journal. A damaged entry's
// epoch is not known.
func entryID(e *port.Entry) string {
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

// PeekJournal implements port.Journal. Entry.Deliveries is left 0.
func (l *Ledger) PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) (err error) {
	defer wrap(&err, "peek journal sale=%s", sale)
	return l.peek(ctx, sale, yield)
}

func (l *Ledger) peek(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error {
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
