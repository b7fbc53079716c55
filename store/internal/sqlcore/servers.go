package sqlcore

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// servers are those of the database that are trusted, and what waits on the last of them. Before
// the first call of Trust all are.
type servers struct {
	mu              sync.Mutex
	trusted         map[string]bool
	expires, change time.Time
}

// Trust is of sluice.ReplicatedStore.
func (s *Store) Trust(server string, expires, change time.Time) {
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	if s.servers.trusted == nil {
		s.servers.trusted = map[string]bool{}
	}
	s.servers.trusted[server] = true
	s.servers.expires, s.servers.change = expires, change
}

var (
	errUntrusted = Plainly("another server of the database answers than before", sluice.ErrStoreBusy)
	errRepeating = Plainly("the database has failed over, and what it may have forgotten comes first", sluice.ErrStoreBusy)
)

// check refuses a server that is not trusted.
func (s *servers) check(server string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server != "" && s.trusted != nil && !s.trusted[server] {
		return errUntrusted
	}
	return nil
}

// mayExpire and mayChange are asked after check, in the same transaction: it may have begun
// before the failover.
func (s *servers) mayExpire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.expires)
}

func (s *servers) mayChange(c *sluice.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.At.IsZero() && time.Now().Before(s.change) {
		return errRepeating
	}
	return nil
}
