package sqlcore

import (
	"errors"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// servers are those of the database that are trusted, and what waits on the last of them. Before
// the first call of Trust all are.
type servers struct {
	mu              sync.Mutex
	trusted         map[string]bool
	refused         map[string]time.Time // since when
	expires, change time.Time
	reject          time.Time // claims are beyond the cap: the endings of others are there by then
}

// trustedAfter bounds how long a server is refused: behind a proxy that sends transactions elsewhere
// than single statements, the engine never learns its name and never trusts it.
const trustedAfter = 10 * time.Second

// Trust is of sluice.ReplicatedStore.
func (s *Store) Trust(server string, expires, change time.Time) {
	v := &s.servers
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.trusted == nil {
		v.trusted, v.refused = map[string]bool{}, map[string]time.Time{}
	}
	v.trusted[server], v.expires, v.change = true, expires, change
	v.reject = change.Add(time.Until(change)) // twice as long
	delete(v.refused, server)
}

// check refuses a server that is not trusted.
func (s *servers) check(server string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server == "" || s.trusted == nil || s.trusted[server] {
		return nil
	}
	since, known := s.refused[server]
	if !known {
		since = time.Now()
		s.refused[server] = since
	}
	if time.Since(since) > trustedAfter {
		return nil
	}
	return sluice.ErrStoreRestarted
}

// These are asked after check, in the same transaction: it may have begun before the failover.

func (s *servers) mayExpire() bool { return !s.waits(&s.expires) }

func (s *servers) mayChange(c *sluice.Change) error {
	if c.At.IsZero() && s.waits(&s.change) {
		return sluice.ErrStoreRestarted
	}
	return nil
}

// mayReject is for claims beyond the cap: an ending that is forgotten may make room for them.
func (s *servers) mayReject() error {
	if s.waits(&s.reject) {
		return sluice.ErrStoreRestarted
	}
	return nil
}

func (s *servers) waits(until *time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(*until)
}

// missing is what becomes of a change of an order that is not there: in a sale that is fenced, or
// on a server that may have forgotten it, it may be back soon.
func (q *conn) missing(c *sluice.Change) error {
	if !errors.Is(q.err, sluice.ErrOrderNotFound) || !c.At.IsZero() {
		return q.err
	}
	q.err = nil
	q.now()
	q.fail(q.s.servers.mayChange(c))
	if id, ok := c.Order.Sale(); ok && q.err == nil {
		sale, err := one(q, sluice.ErrSaleNotFound, sqlSelectSale, scanListed, id)
		if err == nil && sale.Fence != "" {
			return sluice.ErrStoreRestarted
		}
		q.err = nil
	}
	q.fail(sluice.ErrOrderNotFound)
	return q.err
}
