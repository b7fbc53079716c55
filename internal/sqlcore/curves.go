package sqlcore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// The table has no foreign key: it would take a lock of the sale's row, for which those wait who store orders.
var (
	// KeepStretch writes over one of the same sale, server and beginning.
	sqlKeepStretch = newStatement("Curves.Keep", insertInto("stretches", "sale_id, begun_at, node, ended, figures")+`
		ON CONFLICT (sale_id, begun_at, node) DO UPDATE SET ended = excluded.ended, figures = excluded.figures`)
	sqlStretches = newStatement("Curves.Select", `SELECT sale_id, begun_at, node, ended, figures FROM stretches
		WHERE sale_id = ? AND begun_at >= ? ORDER BY begun_at DESC, node DESC LIMIT ?`)
	sqlDeleteStretches = newStatement("Delete.Stretches", `DELETE FROM stretches WHERE sale_id = ?`)
)

// maxFigures bounds the bytes of one stretch.
const maxFigures = 64 << 10

// KeepStretches keeps some. A sale that is archived at the same moment may keep those of that moment.
func (s *Store) KeepStretches(ctx context.Context, stretches []port.Stretch) (err error) {
	defer s.wrap(&err, "keep what was counted of sales")
	var ids []sluice.SaleID
	for i := range stretches {
		one := &stretches[i]
		if !shortText(one.Node) {
			return errNotShort("name of a server", one.Node)
		}
		if len(one.Figures) > maxFigures || !one.From.Equal(one.From.Truncate(time.Second)) {
			return fmt.Errorf("a stretch from %s of %d bytes: want one that begins with a second, of at most %d", one.From,
				len(one.Figures), maxFigures)
		}
		ids = append(ids, one.Sale)
	}
	return s.change(ctx, func(tx *conn) error {
		sales, err := all(tx, sqlNamedSales, scanListed, asTexts(ids))
		if err != nil {
			return err
		}
		keeps := map[sluice.SaleID]bool{}
		for i := range sales {
			keeps[sales[i].ID] = sales[i].ArchivedAt.IsZero()
		}
		for i := range stretches {
			if one := &stretches[i]; keeps[one.Sale] {
				tx.exec(sqlKeepStretch, one.Sale, one.From, one.Node, one.Ended, append([]byte{}, one.Figures...))
			}
		}
		return tx.err
	})
}

// Stretches returns those of a sale.
func (s *Store) Stretches(ctx context.Context, sale sluice.SaleID, from time.Time) (found []port.Stretch, err error) {
	defer s.wrap(&err, "read what was counted of sale=%s", sale)
	if from.IsZero() {
		from = time.UnixMilli(0).UTC()
	}
	found, err = all(s.reads(ctx), sqlStretches, func(r row) (one port.Stretch, err error) {
		err = r.Scan(&one.Sale, moment{&one.From}, &one.Node, &one.Ended, &one.Figures)
		return one, err
	}, sale, from, port.MaxStretches)
	slices.Reverse(found)
	return found, err
}
