package redisledger

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A Redis that is killed in the middle of writing its append-only file leaves a
// torn transaction at the end of it: MULTI and some of its commands, without
// EXEC. At the next start it cuts off the torn command, not the whole commands
// before it (aof-load-truncated). Later writes follow that open MULTI,
// so at the start after that the remains of the torn transaction take effect
// together with the first transaction behind it: a batch of claims that was
// never decided, whose sequence others have got since.
//
// The journal gives it away. commit.lua writes the journal entry first and the
// sale hash, with the number of entries, last. So of a torn batch, whatever
// else is left of it, the entry is there, and the number does not count it:
// from then on the journal is longer than the record says. That is a loss (the
// batch took a place that others rely on), and the sale is rebuilt from what
// was accepted.

// countEntries reads what parseCount wants first.
func (l *Ledger) countEntries(sale sluice.SaleID) rueidis.Completed {
	return l.client.B().Hmget().Key(l.keys.sale(sale)).Field("epoch", "entries").Build()
}

// entryCount is the journal's length, and what is on record about it.
type entryCount struct {
	epoch, recorded, there int64
}

// parseCount reads the replies to countEntries and to XLEN.
func parseCount(replies []rueidis.RedisMessage) (c entryCount, err error) {
	if len(replies) < 2 {
		return c, fmt.Errorf("%d replies", len(replies))
	}
	fields, err := replies[0].AsStrSlice() // absent fields are empty
	if err != nil {
		return c, err
	}
	if len(fields) != 2 || atoi(fields[0]) == 0 {
		return c, port.ErrNotLoaded
	}
	c.epoch = atoi(fields[0])
	if n, ok := number(fields[1]); ok {
		c.recorded = n
	} else {
		c.recorded = -1 // no number that a journal has
	}
	c.there, err = replies[1].AsInt64()
	return c, err
}

// lost says what is wrong, or nothing.
func (c *entryCount) lost() string {
	if c.there == c.recorded {
		return ""
	}
	return fmt.Sprintf("%s: the journal has %d entries, where %d are on record", port.FenceLost, c.there, c.recorded)
}

// torn returns the ids of entries that were never accepted. A journal that
// agrees with its record has none. In one that does not, those are the entries
// whose sequence a later entry has as well: it was free when that one was
// decided.
func (l *Ledger) torn(ctx context.Context, sale sluice.SaleID) (map[string]bool, error) {
	bound, cancel := l.bounded(ctx)
	defer cancel()
	journal := l.keys.journal(sale)
	results := l.client.DoMulti(bound, l.client.B().Multi().Build(),
		l.countEntries(sale), l.client.B().Xlen().Key(journal).Build(), l.client.B().Exec().Build())
	replies, err := results[len(results)-1].ToArray()
	if err != nil {
		return nil, l.explain(err)
	}
	count, err := parseCount(replies)
	err = l.explain(err)
	if errors.Is(err, port.ErrNotLoaded) {
		err = nil // nothing says how many entries there should be: each is judged
	} else if err != nil || count.lost() == "" {
		return nil, err
	}

	torn := map[string]bool{}
	lowest := map[int64]int64{} // by epoch: the first sequence of the entries after this one
	for end := "+"; ; {
		page, err := l.do(ctx, l.client.B().Xrevrange().Key(journal).End(end).Start("-").Count(peekCount).Build()).AsXRange()
		if err != nil {
			return nil, l.explain(err)
		}
		for _, raw := range page {
			e := decodeEntry(sale, raw)
			if e.Damage != nil {
				continue
			}
			next, seen := lowest[e.Epoch]
			if !seen {
				next = math.MaxInt64
			}
			if e.FirstSeq+int64(len(e.Claims)) > next {
				torn[e.ID] = true
			}
			lowest[e.Epoch] = min(next, e.FirstSeq)
		}
		if len(page) < peekCount {
			return torn, nil
		}
		end = "(" + page[len(page)-1].ID
	}
}
