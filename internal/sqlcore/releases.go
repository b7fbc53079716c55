package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// AddReleases writes releases of orders, stamped with the epoch of their sales
	// and the order's updated_at.
	sqlAddReleases = newStatement("AddReleases", `INSERT INTO releases (`+ReleaseColumns+`, created_at)
		SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, sales.epoch, o.unpaid, o.updated_at
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY (?::text[])
			AND sales.archived_at IS NULL`)
	// ArchivedOf counts the orders whose sales are archived.
	sqlArchivedOf = newStatement("ArchivedOf", `SELECT count(*)
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY (?::text[])
			AND sales.archived_at IS NOT NULL`)
	sqlNextReleasing = newStatement("NextReleasing",
		`SELECT sale_id FROM releases WHERE sale_id > ? ORDER BY sale_id LIMIT 1`)
	// SelectReleases selects the oldest first, holds them, and passes over those
	// that another transaction holds.
	sqlSelectReleases = newStatement("SelectReleases", `SELECT `+ReleaseColumns+`
		FROM releases FORCE INDEX (releases_of_sale)
		WHERE sale_id = ? ORDER BY position LIMIT ? FOR UPDATE SKIP LOCKED`)
	sqlDeleteReleases  = newStatement("DeleteReleases", `DELETE FROM releases WHERE order_id = ANY (?::text[])`)
	sqlPendingReleases = newStatement("PendingReleases", `SELECT count(*) FROM releases WHERE sale_id = ?`)
)

// Holder is a dialect that cannot hold rows without keeping all others from
// writing. It knows by itself what is in hand: Hold reports false while another
// has the sale's releases, else what to call when they are free again.
type Holder interface {
	Hold(sale sluice.SaleID) (free func(), ok bool)
}

// GiveReleases hands up to limit releases of each sale that has any to give,
// one sale after the other. A sale whose releases cannot be given does not stop
// those of others: the errors are joined, and come with the count of what was
// given. A sale for which that took long rests for a while. The next call begins
// with the next sale, so that one that takes all the time of ctx does not either.
func (s *Store) GiveReleases(
	ctx context.Context, limit int, give func(sluice.SaleID, []port.Release) error,
) (given int, err error) {
	defer s.wrapAsIs(&err, "give releases")
	if limit < 1 {
		return 0, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if err := s.enterToChange(ctx); err != nil {
		return 0, err
	}
	var failures []error
	start := s.releasing.Load()
	for sale, wrapped := *start, false; ; {
		next, err := s.nextReleasing(ctx, sale)
		switch {
		case err != nil:
			return given, errors.Join(append(failures, err)...)
		case next == "" && !wrapped && *start != "":
			sale, wrapped = "", true
			continue
		case next == "" || wrapped && next > *start: // all have had their turn
			s.releasing.Store(new(sluice.SaleID))
			return given, errors.Join(failures...)
		}
		sale = next
		s.releasing.Store(&next)
		if s.slow.releases.resting(sale) {
			continue
		}
		begun := time.Now()
		n, err := s.giveSale(ctx, sale, limit, give)
		given += n
		if n > 0 || err != nil { // else another server may have them in hand
			s.slow.releases.note(sale, time.Since(begun), err != nil)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("sale=%s: %w", sale, err))
		}
	}
}

// nextReleasing returns the next sale that has releases; empty after the last.
func (s *Store) nextReleasing(ctx context.Context, after sluice.SaleID) (sluice.SaleID, error) {
	next, err := only[sluice.SaleID](s.reads(ctx).row(sqlNextReleasing, after))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return next, err
}

// giveSale hands out releases of one sale and deletes them. If that breaks off
// anywhere, also because this server dies, they are there again (I6: the
// ledger applies each once, whether or not it has seen it).
func (s *Store) giveSale(
	ctx context.Context, sale sluice.SaleID, limit int, give func(sluice.SaleID, []port.Release) error,
) (n int, err error) {
	handOut := func(from *conn, remove func(orders []string) error) error {
		releases, err := all(from, sqlSelectReleases, scanRelease, sale, limit)
		if err != nil || len(releases) == 0 {
			return err
		}
		if err := give(sale, releases); err != nil {
			return err
		}
		ids := make([]string, len(releases))
		for i := range releases {
			ids[i] = string(releases[i].Order)
		}
		n = len(ids)
		return remove(ids)
	}
	if holder, ok := s.d.(Holder); ok {
		free, ok := holder.Hold(sale)
		if !ok {
			return 0, nil
		}
		defer free()
		err = handOut(s.reads(ctx), func(orders []string) error {
			return s.change(ctx, func(tx *conn) error { return tx.deleteReleases(orders) })
		})
		return unless(n, err)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	err = s.within(ctx, s.write, nil, false, func(tx *conn) error { return handOut(tx, tx.deleteReleases) })
	return unless(n, err)
}

func scanRelease(row row) (r port.Release, err error) {
	err = row.Scan(&r.Order, &r.Sale, &r.Buyer, &r.Key, &r.Quantity, &r.Epoch, &r.Unpaid)
	return r, err
}

func (q *conn) deleteReleases(orders []string) error {
	return q.exactly(len(orders), q.s.sql[sqlDeleteReleases], orders)
}

// addReleases writes the releases of orders that the transaction has ended. The
// sales' rows are locked by it. Those of an archived sale have none: the ledger
// has forgotten the sale, or is about to, and could not take the units.
func (q *conn) addReleases(orders []string) {
	added := q.count(sqlAddReleases, orders)
	if added == int64(len(orders)) {
		return
	}
	if without, _ := only[int64](q.row(sqlArchivedOf, orders)); added+without != int64(len(orders)) {
		q.fail(fmt.Errorf("%d releases of %d orders, %d of archived sales", added, len(orders), without))
	}
}

// PendingReleases counts the releases of a sale that wait.
func (s *Store) PendingReleases(ctx context.Context, sale sluice.SaleID) (n int64, err error) {
	defer s.wrap(&err, "count releases sale=%s", sale)
	return only[int64](s.reads(ctx).row(sqlPendingReleases, sale))
}

// rests are sales that made a loop over all sales wait. Such a sale is passed
// over for a while, so that it delays the others now and then, not every time.
type rests struct {
	mu    sync.Mutex
	until map[sluice.SaleID]time.Time
	ended time.Time // when a success last ended the rests of all
}

const (
	// isSlow is how long a failure must take to be followed by a rest: those that
	// come at once delay nothing, and may be over as quickly.
	isSlow = time.Second
	// Together, sales that make the loop wait take about one part in slowShare of its
	// time at most, unless they rest for longestRest each.
	slowShare   = 4
	longestRest = 5 * time.Minute
)

func (r *rests) resting(sale sluice.SaleID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[sale])
}

// note notes how long the sale took, and whether in vain. A success after a rest
// ends the rests of all: what they wait for is often the same, and one that still
// has to wait costs its time once more. That happens once per longestRest at most: a
// sale that comes and goes must not wake those whose shard hangs each time.
func (r *rests) note(sale sluice.SaleID, took time.Duration, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, rested := time.Now(), !r.until[sale].IsZero()
	switch {
	case !failed && rested && now.Sub(r.ended) >= longestRest:
		clear(r.until)
		r.ended = now
	case !failed || took < isSlow:
		delete(r.until, sale)
	default:
		// A sale that had nothing to do after its rest is not noted again.
		maps.DeleteFunc(r.until, func(_ sluice.SaleID, until time.Time) bool { return now.Sub(until) > longestRest })
		if r.until == nil {
			r.until = map[sluice.SaleID]time.Time{}
		}
		r.until[sale] = now
		r.until[sale] = now.Add(min(slowShare*took*time.Duration(len(r.until)), longestRest))
	}
}
