package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// This file is what the board takes from the store: the rows of sales.

// At most listRows of the list of sales are read in a second, and reading it takes
// about one part in listShare of the time. It is asked for every listMax all the same, and
// then read even if nothing seems to have changed.
const (
	listRows  = 250
	listShare = 50
	listMax   = time.Minute
)

// followStore reads the list of sales, or between two lists those that are fenced,
// for whose rebuild other servers wait; or, when woken, the rows that have been
// asked for.
func (b *Board) followStore(ctx context.Context, woken bool) (pause time.Duration, err error) {
	begun := time.Now()
	switch {
	case woken:
		return 0, b.readRows(ctx)
	case begun.Add(b.opts.Sales / 2).Before(b.nextList): // else it is nearer than the next turn
		err = b.readFenced(ctx)
		return min(listShare*time.Since(begun), listMax), err
	}
	err = b.ReadSales(ctx)
	pause = max(listShare*time.Since(begun), time.Duration(b.sales.Size())*time.Second/listRows)
	b.nextList = begun.Add(min(pause, listMax))
	return 0, err
}

// readFenced reads the rows of sales that are fenced.
func (b *Board) readFenced(ctx context.Context) error {
	begun := time.Now()
	asking, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	fenced, err := b.store.SelectSales(asking, port.SaleFilter{Fenced: true})
	b.take(fenced, begun)
	return err
}

// ReadSales reads the store's list of live sales, if it is not as it was, or was last read
// listMax ago. If that fails the old one stays. A sale that has left the list is read by itself:
// it may be archived.
func (b *Board) ReadSales(ctx context.Context) error {
	begun := time.Now()
	asking, cancel := context.WithTimeout(ctx, max(b.opts.Timeout, listTimeout))
	defer cancel()
	filter := port.SaleFilter{Live: true}
	b.mu.Lock()
	if last := b.list; begun.Sub(last.begun) < listMax && int64(b.sales.Size()) == last.digest.Sales {
		filter.Unless = last.digest
	}
	b.mu.Unlock()
	list, err := b.store.SelectSales(asking, filter)
	switch {
	case errors.Is(err, port.ErrUnchanged):
		b.unchanged(begun)
		return b.readRows(ctx)
	case err != nil:
		return err
	}
	b.takeList(list, begun)
	if b.sales.Size() > len(list) {
		listed := make(map[sluice.SaleID]bool, len(list))
		for i := range list {
			listed[list[i].ID] = true
		}
		b.mu.Lock()
		for id, e := range b.sales.Range {
			if !listed[id] {
				b.askRow(e)
			}
		}
		b.mu.Unlock()
	}
	return b.readRows(ctx)
}

// saleList is what is known of the list of live sales while the board has each of its rows as
// it is there; else it is zero.
type saleList struct {
	begun  time.Time // the reading
	digest port.SalesDigest
}

// takeList is take of the list of live sales.
func (b *Board) takeList(list []sluice.Sale, begun time.Time) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	whole := true
	for i := range list {
		whole = b.keep(&list[i], begun) && whole
	}
	if whole {
		b.list = saleList{begun, port.DigestSales(list)}
	}
}

// unchanged notes a reading of the list that found all rows as the board has them.
func (b *Board) unchanged(begun time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.sales.Range {
		if e.rowRead.Before(begun) {
			e.rowRead = begun
		}
	}
}

// listTimeout bounds a reading of the list, which may be long.
const listTimeout = 10 * time.Second

// rowsAtOnce bounds the rows asked for by one query.
const rowsAtOnce = 500

// rowEvery is how long a sale's row is not asked for again out of turn.
const rowEvery = time.Second

// askRow asks for a sale's row. The caller holds mu.
func (b *Board) askRow(e *boardSale) {
	if now := time.Now(); now.Sub(e.rowAsked) >= rowEvery {
		e.rowAsked = now
		b.rows[e.id] = true
		b.changed.Ring()
	}
}

// readRows reads the rows that have been asked for.
func (b *Board) readRows(ctx context.Context) error {
	for {
		var ids []sluice.SaleID
		b.mu.Lock()
		for id := range b.rows {
			if delete(b.rows, id); len(ids) < rowsAtOnce {
				ids = append(ids, id)
			}
			if len(ids) == rowsAtOnce {
				break
			}
		}
		b.mu.Unlock()
		if len(ids) == 0 {
			return nil
		}
		begun := time.Now()
		asking, cancel := context.WithTimeout(ctx, b.opts.Timeout)
		rows, err := b.store.SelectSales(asking, port.SaleFilter{IDs: ids})
		cancel()
		if err != nil {
			return err // the readings ask again
		}
		b.take(rows, begun)
		b.missed(ids, rows, begun)
	}
}

// take puts rows on the board whose reading began then.
func (b *Board) take(rows []sluice.Sale, begun time.Time) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range rows {
		b.keep(&rows[i], begun)
	}
}

// Reload puts the store's row of one sale on the board with a fresh reading:
// what a server does with a sale it has just changed. If only the ledger does
// not answer, the view says that (View.Down).
func (b *Board) Reload(ctx context.Context, id sluice.SaleID) (*View, error) {
	begun := time.Now()
	sale, err := b.store.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	b.take([]sluice.Sale{sale}, begun)
	b.readNow(ctx, id)
	view := b.View(id)
	if view == nil {
		return nil, sluice.ErrSaleNotFound
	}
	return view, nil
}

// maxArchived bounds the views of archived sales, which are kept as long as
// they are asked for.
const maxArchived = 4096

// storeBack is for how long a store may show an older row than before, while a
// reading is under way or another node of a cluster answers. One that shows it for
// longer was restored from an older copy.
const storeBack = 5 * time.Second

// keep takes a row unless the board has a newer one: the list may have been
// read before a change that this server has made itself. It reports whether the board
// shows the row. The caller holds mu.
func (b *Board) keep(sale *sluice.Sale, begun time.Time) bool {
	e, ok := b.sales.Load(sale.ID)
	switch {
	case ok && olderRow(sale, &e.sale) && begun.Sub(e.rowRead) < storeBack:
		return false
	case ok && e.rowRead.Before(begun):
		e.rowRead = begun
	}
	if !sale.ArchivedAt.IsZero() {
		b.retire(e, sale)
		return false
	}
	if v, ok := b.archived.Load(sale.ID); ok && olderRow(sale, &v.Sale) {
		return false
	}
	if !ok {
		e = &boardSale{id: sale.ID, board: b, index: -1, rowRead: begun}
		b.sales.Store(sale.ID, e)
		b.version.Add(1)
	}
	b.rules = b.rules || !ok || e.sale.Rules != sale.Rules
	news := !ok || e.sale != *sale
	if e.sale = *sale; news {
		b.list = saleList{} // the row may be another than the list's
		b.plan(e, time.Now())
		b.bell.Ring()
	}
	return true
}

// retire takes a sale that is archived off the board: nothing is read of it any
// more. Refreshed receives it once. The caller holds mu.
func (b *Board) retire(e *boardSale, sale *sluice.Sale) {
	old, _ := b.archived.Load(sale.ID)
	if e != nil {
		e.retired = true
		b.unplan(e)
		delete(b.hot, e)
		b.recovered(e)
		old = e.view.Load()
		b.sales.Delete(e.id)
		b.rules = true
	}
	v := &View{Sale: *sale, Reading: port.Reading{Sale: sale.ID, Now: sale.UpdatedAt}}
	v.Body = b.opts.Encode(v, old)
	if b.archived.Size() >= maxArchived {
		b.archived.Clear()
	}
	b.archived.Store(sale.ID, v)
	b.version.Add(1)
	if e != nil {
		b.opts.Refreshed(map[sluice.SaleID]*View{sale.ID: v})
	}
}

// missed takes sales off the board whose rows the store has not had for storeBack:
// they are deleted, or the store was restored from a copy that lacks them. Buyers are
// answered as for any unknown id.
func (b *Board) missed(ids []sluice.SaleID, rows []sluice.Sale, begun time.Time) {
	for _, id := range ids {
		if !slices.ContainsFunc(rows, func(row sluice.Sale) bool { return row.ID == id }) {
			b.forget(id, func(e *boardSale) bool {
				gone := begun.Sub(e.rowRead) >= storeBack
				if gone {
					b.opts.Gone(id)
				}
				return gone
			})
		}
	}
}

// Forget takes a sale off the board that this server has deleted.
func (b *Board) Forget(id sluice.SaleID) { b.forget(id, func(*boardSale) bool { return true }) }

func (b *Board) forget(id sluice.SaleID, really func(*boardSale) bool) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.sales.Load(id)
	if !ok || !really(e) {
		return
	}
	e.retired = true
	b.unplan(e)
	delete(b.hot, e)
	b.recovered(e)
	b.sales.Delete(id)
	b.rules = true
	b.version.Add(1)
}

// olderRow compares two states of a row by what only grows, whatever a database's
// clock does: epochs, the version of the terms, and under the same epoch the
// fence, which only the next load lifts. Of two sales that had the id one after the
// other, the one that was created first is older.
func olderRow(a, b *sluice.Sale) bool {
	fenced := func(s *sluice.Sale) int {
		if s.Fence != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(
		a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.LoadedEpoch, b.LoadedEpoch),
		cmp.Compare(a.Version, b.Version), cmp.Compare(fenced(a), fenced(b)),
		a.ArchivedAt.Compare(b.ArchivedAt),
	) < 0
}

// A server that starts while the store does not answer knows no sale, and the
// ledger could sell without it. But limits fail closed: what a sale asks of its
// buyers must hold then as well. So a server keeps the rules of its sales
// (BoardOptions.RulesChanged), and decides by those until it has read the sale
// again.

// rulesOnly returns a view of a sale that is not on the board, while the store
// does not answer: its rates, ticket, limits and invitations by token count; with a
// ratio there is one claim at a time. A deny list cannot be read and denies no buyer.
// It returns nil for a sale whose rules are not kept, or that needs an allow list.
func (b *Board) rulesOnly(id sluice.SaleID) *View {
	rules, known := b.opts.Rules[id]
	if !known || rules.Eligibility == sluice.EligibleList {
		return nil
	}
	return &View{Sale: sluice.Sale{ID: id, Rules: rules}, rulesOnly: true}
}

// tell passes the rules on, if some have changed.
func (b *Board) tell() {
	if b.opts.RulesChanged == nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	changed := b.rules
	b.rules = false
	var all map[sluice.SaleID]sluice.Rules
	if changed {
		all = make(map[sluice.SaleID]sluice.Rules, b.sales.Size())
		for id, e := range b.sales.Range {
			all[id] = e.sale.Rules
		}
	}
	b.mu.Unlock()
	if changed {
		b.opts.RulesChanged(all)
	}
}
