package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// Lists holds the lists of buyers of all live sales in memory, and follows
// what is uploaded: about eight bytes per buyer, twice that for the moment in
// which a list is replaced. A reader takes no lock.
//
// A list is kept as 64 bits of a seeded hash per buyer, in order. A buyer not on a
// list of a million matches it with a chance of one in 10^13, and no client can
// choose an id that does.
type Lists struct {
	store port.ListStore
	board *Board
	log   *slog.Logger

	current atomic.Pointer[map[listName]*listed] // nil until the lists of the sales are known
	mu      sync.Mutex                           // one refresh at a time
}

type listName struct {
	sale sluice.SaleID
	kind sluice.ListKind
}

// listed is a list in memory. It never changes.
type listed struct {
	generation int64
	buyers     []uint64 // sorted; nil and loaded false: there is one, and this server does not have it yet
	loaded     bool
}

// listsEvery is how often the store is asked for lists that have changed.
const listsEvery = time.Second

// listPage is how many buyers are read at a time.
const listPage = 10_000

// NewLists returns empty lists; Refresh and Run fill them. Of sales that the
// board knows as archived no list is kept. The board may be nil.
func NewLists(store port.ListStore, board *Board, log *slog.Logger) *Lists {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Lists{store: store, board: board, log: log}
}

// has reports whether a buyer is on a list; a list that was never uploaded is
// empty. ErrUnready if this server does not know the list yet, which happens
// only when it has just started: later a list holds until the next one is
// loaded.
func (l *Lists) has(sale sluice.SaleID, kind sluice.ListKind, buyer sluice.BuyerID) (bool, error) {
	if l == nil {
		return false, nil
	}
	all := l.current.Load()
	if all == nil {
		return false, ErrUnready
	}
	list := (*all)[listName{sale, kind}]
	switch {
	case list == nil:
		return false, nil
	case !list.loaded:
		return false, ErrUnready
	}
	_, found := slices.BinarySearch(list.buyers, hashBuyer(buyer))
	return found, nil
}

// Loaded returns the generation of a list that this server has in memory, and
// how many buyers are on it; 0 if it has none.
func (l *Lists) Loaded(sale sluice.SaleID, kind sluice.ListKind) (generation, size int64) {
	if all := l.current.Load(); all != nil {
		if list := (*all)[listName{sale, kind}]; list != nil && list.loaded {
			return list.generation, int64(len(list.buyers))
		}
	}
	return 0, 0
}

// Run follows the lists until the context ends.
func (l *Lists) Run(ctx context.Context) {
	trouble := loop.Trouble{
		Log: l.log, Begins: "the lists of buyers cannot be read", Ceases: "the lists of buyers are read again",
	}
	for range loop.Every(ctx, listsEvery) {
		if err := l.Refresh(ctx); ctx.Err() == nil {
			trouble.Note(err)
		}
	}
}

// Refresh reads the lists that have changed since. Those that cannot be read
// stay as they were.
func (l *Lists) Refresh(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, listsTimeout)
	defer cancel()
	lists, err := l.store.Lists(asking)
	if err != nil {
		return err
	}
	before := l.current.Load()
	next := make(map[listName]*listed, len(lists))
	var missing []port.BuyerList
	for _, list := range lists {
		name := listName{list.Sale, list.Kind}
		if l.archived(list.Sale) {
			continue
		}
		have := &listed{}
		if before != nil {
			have = (*before)[name]
		}
		if have == nil || !have.loaded || have.generation != list.Generation {
			missing = append(missing, list)
		}
		if have != nil {
			next[name] = have
		}
	}
	l.publish(next)
	var failures []error
	for _, list := range missing { // one at a time: each is published as soon as it is there
		got, err := l.load(ctx, list)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if got == nil {
			continue // replaced meanwhile
		}
		with := maps.Clone(next)
		with[listName{list.Sale, list.Kind}] = got
		l.publish(with)
		next = with
	}
	return errors.Join(failures...)
}

const listsTimeout = 5 * time.Second

func (l *Lists) publish(all map[listName]*listed) { l.current.Store(&all) }

func (l *Lists) archived(sale sluice.SaleID) bool {
	if l.board == nil {
		return false
	}
	view := l.board.View(sale)
	return view != nil && view.Archived()
}

// load reads a list; nil if it is not whole any more.
func (l *Lists) load(ctx context.Context, list port.BuyerList) (*listed, error) {
	got := &listed{generation: list.Generation, buyers: make([]uint64, 0, list.Size), loaded: true}
	for after := sluice.BuyerID(""); ; {
		asking, cancel := context.WithTimeout(ctx, listsTimeout)
		page, err := l.store.Listed(asking, list, after, listPage)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, buyer := range page {
			got.buyers = append(got.buyers, hashBuyer(buyer))
		}
		if len(page) < listPage || len(got.buyers) > port.MaxListed {
			break
		}
		after = page[len(page)-1]
	}
	if int64(len(got.buyers)) != list.Size {
		return nil, nil
	}
	slices.Sort(got.buyers)
	return got, nil
}
