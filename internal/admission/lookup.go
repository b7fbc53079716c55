package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Sales that are not on the board are looked up in the store, all that are
// asked for meanwhile by one query, and one query at a time: a flood of made-up
// ids costs the store a few dozen small queries a second, however large it is. The
// ledger is asked for each id of a claim, for a few at a time.
//
// "No such sale" is final for a buyer: another server may have accepted their
// claim a moment ago, on a sale that is new (I4). So it is said only of an id
// that a query begun after the request does not find. Nothing is remembered.
//
// To buyers a hidden sale is such an id, and the time of an answer must not tell one
// from the other: both take the same calls, and both answers wait for the end of the
// rest after the query, however long the sale's row took to be read.

// errLookup: the store has not answered a lookup, or too many wait for one.
var errLookup = errors.New("admission: the store does not answer")

const (
	// maxLookups bounds the ids that wait to be looked up.
	maxLookups = 5000
	// lookupPause is the time between two queries, or so many times that.
	lookupPause = 20 * time.Millisecond
	// singleReads is how many of the ids that were looked up are read at a time.
	singleReads = 4
	// lookupRest: for so long after a query has failed, there is none.
	lookupRest = time.Second
)

type lookups struct {
	failed atomic.Int64 // when a query failed, in Unix nanoseconds
	next   time.Time    // the earliest moment of the next query; of the goroutine that makes them

	mu      sync.Mutex
	waiting map[sluice.SaleID]*lookup
	running bool
}

// lookup is one id. The rest is set when done is closed.
type lookup struct {
	done   chan struct{}
	err    error
	hidden *sluice.Sale // the row that the query returned, if it is hidden
	begun  time.Time    // when the query was

	asked atomic.Bool   // for a reading
	read  chan struct{} // closed when that has ended
}

// Lookup is View for a sale that may not be on the board yet: then the store is
// asked.
//
// Errors: sluice.ErrSaleNotFound, of a query begun after this call; any other
// says nothing about the sale.
func (b *Board) Lookup(ctx context.Context, id sluice.SaleID) (*View, error) {
	if view := b.View(id); view != nil {
		return view, nil
	}
	l, err := b.lookup(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.hidden != nil {
		b.readOnce(ctx, l, id)
	}
	return b.found(id)
}

// found returns the view of a sale that the store had a moment ago.
func (b *Board) found(id sluice.SaleID) (*View, error) {
	if view := b.View(id); view != nil {
		return view, nil
	}
	return nil, errLookup // archived, and pushed out by others meanwhile
}

// readOnce reads an id in the ledger, one time for all who wait for this lookup, whether
// it is a sale or not. The reading begins after each of them came. There is none if it finds
// no place in time, or the first of them leaves: then the board's view is from before the
// lookup, and proves nothing.
func (b *Board) readOnce(ctx context.Context, l *lookup, id sluice.SaleID) {
	if !l.asked.Swap(true) {
		go func() {
			defer close(l.read)
			waiting, cancel := context.WithTimeout(ctx, b.opts.Timeout)
			defer cancel()
			select { // made-up ids keep no readings of sales waiting
			case b.single <- struct{}{}:
			case <-waiting.Done():
				return
			}
			defer func() { <-b.single }()
			b.readAny(context.WithoutCancel(ctx), id)
		}()
	}
	select {
	case <-l.read:
	case <-ctx.Done():
	}
}

// readAny is readNow for an id that may be no sale's: then nothing is made of the reading.
func (b *Board) readAny(ctx context.Context, id sluice.SaleID) {
	if _, ok := b.sales.Load(id); ok {
		b.readNow(ctx, id)
		return
	}
	b.mu.Lock()
	c := b.begin(ctx, &boardSale{id: id, board: b, index: -1, retired: true})
	b.mu.Unlock()
	<-c.done
}

// Public is Lookup for a buyer, to whom a hidden sale does not exist: then the view
// comes with sluice.ErrSaleNotFound, and of a query begun after this call as well. So
// a sale that has just been shown is found, and one that is hidden takes as long to
// be refused as an id that does not exist.
func (b *Board) Public(ctx context.Context, id sluice.SaleID) (*View, error) {
	view, _, err := b.public(ctx, id)
	return view, err
}

// public is Public, with the lookup of an id that buyers do not find.
func (b *Board) public(ctx context.Context, id sluice.SaleID) (*View, *lookup, error) {
	if view := b.View(id); view != nil && !view.Hidden() {
		return view, nil, nil
	}
	l, err := b.lookup(ctx, id)
	switch {
	case err != nil:
		return nil, l, err
	case l.hidden != nil:
		view := b.View(id)
		if view == nil {
			view = &View{Sale: *l.hidden} // not read yet
		}
		return view, l, sluice.ErrSaleNotFound
	}
	view, err := b.found(id)
	return view, nil, err
}

// lookup asks the store.
func (b *Board) lookup(ctx context.Context, id sluice.SaleID) (*lookup, error) {
	if id.Validate() != nil {
		return nil, sluice.ErrSaleNotFound
	}
	if time.Since(time.Unix(0, b.lookups.failed.Load())) < lookupRest {
		return nil, errLookup
	}
	l, err := b.join(ctx, id)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join adds an id to those that the next query asks for.
func (b *Board) join(ctx context.Context, id sluice.SaleID) (*lookup, error) {
	ls := &b.lookups
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.waiting[id]; l != nil {
		return l, nil
	}
	if len(ls.waiting) >= maxLookups {
		return nil, fmt.Errorf("%w in time", errLookup)
	}
	if ls.waiting == nil {
		ls.waiting = map[sluice.SaleID]*lookup{}
	}
	l := &lookup{done: make(chan struct{}), read: make(chan struct{})}
	ls.waiting[id] = l
	if !ls.running {
		ls.running = true
		go b.lookUp(context.WithoutCancel(ctx))
	}
	return l, nil
}

// lookUp makes queries until none is wanted.
func (b *Board) lookUp(ctx context.Context) {
	ls := &b.lookups
	for {
		ls.mu.Lock()
		if len(ls.waiting) == 0 {
			ls.running = false
			ls.mu.Unlock()
			return
		}
		ls.mu.Unlock()
		time.Sleep(time.Until(ls.next))
		batch := map[sluice.SaleID]*lookup{}
		ls.mu.Lock()
		for id, l := range ls.waiting {
			if len(batch) == rowsAtOnce {
				break
			}
			batch[id] = l
			delete(ls.waiting, id)
		}
		ls.mu.Unlock()
		b.lookUpBatch(ctx, batch)
	}
}

func (b *Board) lookUpBatch(ctx context.Context, batch map[sluice.SaleID]*lookup) {
	ids := make([]sluice.SaleID, 0, len(batch))
	for id := range batch {
		ids = append(ids, id)
	}
	begun := time.Now()
	asking, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	rows, err := b.store.SelectSales(asking, port.SaleFilter{IDs: ids})
	if err != nil {
		b.lookups.failed.Store(time.Now().UnixNano())
		err = fmt.Errorf("%w: %w", errLookup, err)
	} else {
		b.take(rows, begun)
		err = sluice.ErrSaleNotFound
	}
	for i := range rows {
		l := batch[rows[i].ID]
		l.begun = begun
		if rows[i].Rules.Visibility == sluice.Hidden {
			l.hidden = &rows[i]
			continue
		}
		delete(batch, rows[i].ID)
		go func() { // its reading may hang, and no other waits for it
			b.readNow(ctx, rows[i].ID)
			close(l.done)
		}()
	}
	b.lookups.next = time.Now().Add(lookupPause - time.Since(begun)%lookupPause)
	if len(batch) > 0 && errors.Is(err, sluice.ErrSaleNotFound) {
		time.Sleep(time.Until(b.lookups.next))
	}
	for _, l := range batch {
		if l.hidden == nil {
			l.err = err
		}
		close(l.done)
	}
}
