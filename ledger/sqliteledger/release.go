package sqliteledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	_ sluice.Releaser = (*Ledger)(nil)
	_ sluice.Dropper  = (*Ledger)(nil)
)

// Release implements sluice.Releaser.
func (l *Ledger) Release(ctx context.Context, id sluice.SaleID, releases []sluice.Release) (sluice.Released, error) {
	releases = slices.Clone(releases)
	answer := new(sluice.Released) // the writer's, should the caller leave
	err := l.do(ctx, func(g *group) (err error) {
		*answer, err = g.release(id, releases)
		return err
	})
	if err != nil {
		return sluice.Released{}, fmt.Errorf("sqliteledger: release sale=%s: %w", id, err)
	}
	return *answer, nil
}

// Drop implements sluice.Dropper.
func (l *Ledger) Drop(ctx context.Context, id sluice.SaleID, epoch int64) error {
	if err := l.do(ctx, func(g *group) error { return g.drop(id, epoch) }); err != nil {
		return fmt.Errorf("sqliteledger: drop sale=%s epoch=%d: %w", id, epoch, err)
	}
	return nil
}

// release gives units back, each order's once (I6).
func (g *group) release(id sluice.SaleID, releases []sluice.Release) (answer sluice.Released, err error) {
	s := g.sale(id)
	switch {
	case s == nil:
		return answer, sluice.ErrNotLoaded
	case s.fence != "":
		return answer, sluice.ErrStaleEpoch
	}
	var ending []int32
	for _, r := range releases {
		switch i := s.find(s.account(r.Buyer), r.Key); {
		case r.Epoch > s.epoch:
			return sluice.Released{}, sluice.ErrStaleEpoch
		case r.Epoch < s.epoch: // counted when the sale was loaded
			answer.Before++
		case i < 0 || s.records.at(int(i)).order() != r.Order:
			answer.Unknown = append(answer.Unknown, r.Order)
		case !s.live(i) || slices.Contains(ending, i):
			answer.Before++
		default:
			answer.Applied++
			ending = append(ending, i)
		}
	}
	if len(ending) > 0 {
		g.closeRow(s)
		g.add(s, row{kind: kindRelease, epoch: s.epoch, at: g.now, n: int64(len(ending)), body: s.encodeEnding(ending)})
		s.mu.Lock()
		s.end(ending, g.now)
		s.mu.Unlock()
	}
	return answer, nil
}

// end ends claims that are live: their units are available again. If nothing
// was, the sale rests.
func (s *sale) end(places []int32, now time.Time) {
	soldOut := s.terms.Refusal(now) == 0 && s.terms.Available(s.taken) == 0
	s.ended = s.ended.with(places)
	for _, i := range places {
		r := s.records.at(int(i))
		s.taken -= r.quantity
		s.account(r.buyer()).units -= r.quantity
	}
	if soldOut && s.terms.Available(s.taken) != 0 {
		s.calm, s.calmUntil = sluice.SoldOut, now.Add(sluice.RefusalLease)
	}
}

// encodeEnding writes the claims that end, a line each: buyer TAB key.
func (s *sale) encodeEnding(places []int32) string {
	var b []byte
	for _, i := range places {
		r := s.records.at(int(i))
		b = append(b, r.buyer()...)
		b = append(b, '\t')
		b = append(b, r.key()...)
		b = append(b, '\n')
	}
	return string(b)
}

// applyRelease ends the claims of a release row.
func (s *sale) applyRelease(r *row) {
	var places []int32
	for line := range strings.Lines(r.body) {
		buyer, key, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		i := s.find(s.account(sluice.BuyerID(buyer)), sluice.Key(key))
		if i < 0 || !s.live(i) || slices.Contains(places, i) {
			s.lost("row %d releases a claim of %q that is not live", r.id, buyer)
			continue
		}
		places = append(places, i)
	}
	if int64(len(places)) != r.n {
		s.lost("row %d releases %d claims, want %d", r.id, len(places), r.n)
	}
	s.end(places, r.at)
}

// drop forgets a sale. One row stays behind, the same for all dropped sales,
// so that the ids of rows are never used again.
func (g *group) drop(id sluice.SaleID, epoch int64) error {
	s := g.sale(id)
	if s == nil {
		return nil
	}
	if s.epoch != epoch {
		return sluice.ErrStaleEpoch
	}
	published := int64(0)
	if v := s.view.Load(); v != nil {
		published = v.reading.Seq
	}
	if waiting, _ := s.journal.backlog(); waiting > 0 || s.seq > published { // or claims of this group are on their way to it
		return errors.New("entries of the sale wait in the journal")
	}
	g.lastID++
	g.rows = append(g.rows, row{id: g.lastID, kind: kindDrop, at: g.now, body: string(id)})
	g.replace(id, nil)
	return nil
}
