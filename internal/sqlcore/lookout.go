package sqlcore

import (
	"context"
	"sync"
	"time"
)

// lookout is what a store knows of orders that may have no number.
type lookout struct {
	mu     sync.Mutex
	newest int64     // the last position of an order
	seen   int64     // orders up to this position have a number, unless they were committed late
	since  time.Time // when newest appeared, or when orders committed late were found last
	clean  bool      // a look found none, so late that no transaction from before can have stored any since
	live   time.Time // when the orders of all live sales were looked through
	all    time.Time // when those of archived sales were, too
	leave  bool      // a sale may have been archived since
}

const (
	// lastCommit is how long live sales are looked through after an order has
	// appeared: another one may have got its position before, and be committed later.
	// That happens every lateEvery: it asks of each sale, however few of them sell.
	lastCommit = 2 * changeTimeout
	lateEvery  = 2 * time.Second
	// maxNewest is up to how many positions are looked through for new orders, of whichever
	// sale: several turns of a rush. If there are more, all live sales are asked.
	maxNewest = 5000
	// numberAllEvery is how often archived sales are looked through for orders
	// without a number: one can have some only if it was archived before they were
	// numbered. That leaves an event of the sale, and is looked for at once.
	numberAllEvery = time.Minute
)

// look is a search for what has no number: of orders, those after seen and up to a position,
// and those that were committed late.
type look struct {
	at      time.Time
	upto    int64     // the last position of an order
	seen    int64     // lookout.seen
	orders  statement // NewestOrders, or one that selects the sales that are asked for theirs
	changes bool      // there are some, of orders
	sales   bool      // and events of sales
	sure    bool      // there is something, without a look at each sale
}

// nextLook returns where anything may be without a number, nil if nothing is. It
// asks one question, however many sales there are.
func (s *Store) nextLook(ctx context.Context) (*look, error) {
	next := &look{at: time.Now()}
	if err := s.reads(ctx).row(sqlUnnumbered).Scan(&next.upto, &next.changes, &next.sales); err != nil {
		return nil, err
	}
	l := &s.lookout
	l.mu.Lock()
	defer l.mu.Unlock()
	if next.upto != l.newest {
		l.newest, l.since, l.clean = next.upto, next.at, false
	}
	behind := next.upto - l.seen
	next.seen, next.sure = l.seen, behind > 0
	switch {
	case l.leave || next.at.Sub(l.all) > numberAllEvery:
		next.orders, next.sure = sqlSalesWithNewOrders, false
	case behind < 0 || behind > maxNewest || !l.clean && next.at.Sub(l.live) > lateEvery:
		next.orders = sqlLiveWithNewOrders
	case behind > 0 || next.changes || next.sales:
		next.orders = sqlNewestOrders
	default:
		return nil, nil
	}
	return next, nil
}

// looked notes what a look has found, once that has its numbers.
func (l *lookout) looked(at *look, found *newRows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave = len(found.sales) > 0
	l.seen = found.upto
	if at.orders == sqlNewestOrders {
		return
	}
	l.live = at.at
	if at.orders == sqlSalesWithNewOrders {
		l.all = at.at
	}
	if len(found.orders) > 0 {
		l.since, l.clean = at.at, false
	} else if at.at.Sub(l.since) > lastCommit {
		l.clean = true
	}
}
