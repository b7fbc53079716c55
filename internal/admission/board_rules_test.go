package admission

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// shop is a store and a ledger in which another server changes a sale.
type shop struct {
	port.SaleStore
	port.Reader
	mu    sync.Mutex
	sale  sluice.Sale
	terms sluice.Terms
	asked int // how often the row was read
}

func (s *shop) SelectSales(_ context.Context, f port.SaleFilter) ([]sluice.Sale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.Live {
		s.asked++
	}
	return []sluice.Sale{s.sale}, nil
}

func (s *shop) Read(_ context.Context, ids []sluice.SaleID) (all []port.Reading, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		all = append(all, port.Reading{Sale: id, Loaded: true, Epoch: 1, Terms: s.terms, Now: time.Now()})
	}
	return all, nil
}

// Rules that another server has changed are on the board as soon as the ledger
// shows that something has changed; at the latest with the next list.
func TestRulesReachTheBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shop{terms: sluice.Terms{Version: 1, Total: 10}}
		s.sale = sluice.Sale{ID: "sale", Epoch: 1, LoadedEpoch: 1, Terms: s.terms}
		b := NewBoard(s, s, BoardOptions{Refresh: 200 * time.Millisecond, Sales: time.Minute})
		running, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { b.Run(running) })
		defer done.Wait()
		defer stop()
		time.Sleep(900 * time.Millisecond) // an idle sale is read once a second; what has changed makes it hot
		for version := int64(2); version < 5; version++ {
			s.mu.Lock()
			s.sale.Rules.AdmissionRatio, s.sale.Version, s.terms.Version = float64(version), version, version
			s.mu.Unlock()
			time.Sleep(250 * time.Millisecond)
			synctest.Wait()
			if got := b.View("sale").Sale.Rules.AdmissionRatio; got != float64(version) {
				t.Errorf("a quarter of a second later the ratio is %v, want %d", got, version)
			}
		}
		// A store that was restored from an older copy is not asked all the time.
		s.mu.Lock()
		before := s.asked
		s.terms.Version = 9
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked != before+1 {
			t.Errorf("the row was read %d times for a version that the store does not have, want once", s.asked-before)
		}
	})
}
