package sqliteledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Release implements port.Releaser.
func (l *Ledger) Release(
	ctx context.Context, id sluice.SaleID, releases []port.Release,
) (_ port.Released, err error) {
	defer wrap(&err, "release sale=%s", id)
	releases = slices.Clone(releases)
	answer := new(port.Released) // the writer's, should the caller leave
	if err := l.do(ctx, func(g *group) (err error) {
		*answer, err = g.release(id, releases)
		return err
	}); err != nil {
		return port.Released{}, err
	}
	return *answer, nil
}

// Drop implements port.Keeper.
func (l *Ledger) Drop(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer wrap(&err, "drop sale=%s epoch=%d", id, epoch)
	return l.do(ctx, func(g *group) error { return g.drop(id, epoch) })
}

// release gives units back, each order's once (I6).
func (g *group) release(id sluice.SaleID, releases []port.Release) (answer port.Released, err error) {
	s := g.sale(id)
	switch {
	case s == nil:
		return answer, port.ErrNotLoaded
	case s.fence != "":
		return answer, port.ErrStaleEpoch
	}
	var all endings
	for _, r := range releases {
		switch i := s.find(s.account(r.Buyer), r.Key); {
		case r.Epoch > s.epoch:
			return port.Released{}, port.ErrStaleEpoch
		case r.Epoch < s.epoch: // counted when the sale was loaded
			answer.Before++
		case i < 0 || s.records.at(int(i)).order() != r.Order:
			answer.Unknown = append(answer.Unknown, r.Order)
		case !s.live(i) || all.has(i):
			answer.Before++
		default:
			answer.Applied++
			all = append(all, ending{i, r.Unpaid})
		}
	}
	if len(all) > 0 {
		g.closeRow(s)
		g.add(s, row{kind: kindRelease, epoch: s.epoch, at: g.now, n: int64(len(all)), body: s.encodeEndings(all)})
		s.mu.Lock()
		s.end(all, g.now)
		s.mu.Unlock()
	}
	return answer, nil
}

// ending is the end of a live claim.
type ending struct {
	record int32
	unpaid bool // it counts against the buyer's unpaid endings
}

type endings []ending

func (all endings) has(record int32) bool {
	return slices.ContainsFunc(all, func(e ending) bool { return e.record == record })
}

// end ends claims that are live: their units are available again. If nothing
// was, a cooldown begins.
func (s *sale) end(all endings, now time.Time) {
	soldOut := s.terms.Refusal(now) == 0 && s.terms.Available(s.taken) == 0
	var ended, unpaid []int32
	for _, e := range all {
		r := s.records.at(int(e.record))
		a := s.account(r.buyer())
		s.taken -= r.quantity
		a.units -= r.quantity
		s.count(r.counters(), -r.quantity)
		ended = append(ended, e.record)
		if e.unpaid {
			a.unpaid++
			unpaid = append(unpaid, e.record)
		}
	}
	s.ended = s.ended.with(ended)
	if len(unpaid) > 0 {
		s.unpaid = s.unpaid.with(unpaid)
	}
	if soldOut && s.terms.Available(s.taken) != 0 {
		s.cooldown, s.cooldownUntil = sluice.SoldOut, now.Add(sluice.RefusalLease)
	}
}

// encodeEndings writes the claims that end, a line each: buyer TAB key, and if
// it ended unpaid TAB "unpaid".
func (s *sale) encodeEndings(all endings) string {
	var b []byte
	for _, e := range all {
		r := s.records.at(int(e.record))
		b = append(b, r.buyer()...)
		b = append(b, '\t')
		b = append(b, r.key()...)
		if e.unpaid {
			b = append(b, "\tunpaid"...)
		}
		b = append(b, '\n')
	}
	return string(b)
}

// applyRelease ends the claims of a release row.
func (s *sale) applyRelease(r *row) {
	var all endings
	for line := range strings.Lines(r.body) {
		buyer, key, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		key, unpaid := strings.CutSuffix(key, "\tunpaid")
		i := s.find(s.account(sluice.BuyerID(buyer)), sluice.Key(key))
		if i < 0 || !s.live(i) || all.has(i) {
			s.lost("row %d releases a claim of %q that is not live", r.id, buyer)
			continue
		}
		all = append(all, ending{i, unpaid})
	}
	if int64(len(all)) != r.n {
		s.lost("row %d releases %d claims, want %d", r.id, len(all), r.n)
	}
	s.end(all, r.at)
}

// drop forgets a sale. One row stays behind, the same for all dropped sales,
// so that the ids of rows are never used again.
func (g *group) drop(id sluice.SaleID, epoch int64) error {
	s := g.sale(id)
	if s == nil {
		return nil
	}
	if s.epoch != epoch {
		return port.ErrStaleEpoch
	}
	published := int64(0)
	if v := s.view.Load(); v != nil {
		published = v.reading.Seq
	}
	// or claims of this group are on their way to it
	if waiting, _ := s.journal.backlog(); waiting > 0 || s.seq > published {
		return errors.New("entries of the sale wait in the journal")
	}
	g.lastID++
	g.rows = append(g.rows, row{id: g.lastID, kind: kindDrop, at: g.now, body: string(id)})
	g.replace(id, nil)
	return nil
}
