package httpapi

import (
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/meters"
)

// What one buyer may have of a server, however many connections send their
// requests, and what all buyers together may have of its databases.
const (
	// buyerRequests are the requests of a buyer that are answered at a time.
	buyerRequests = 32
	// buyerReads and buyerChanges are the queries for orders and the cancellations
	// of all buyers that the databases see at a time. They leave the pipeline,
	// expiry and payments the rest of the connections. More requests wait.
	buyerReads, buyerChanges = 4, 2
	// pictureUploads are pictures at a time, each of which may be in memory.
	pictureUploads = 4
	// webhookTests are the tests of webhooks at a time: a receiver may take ten seconds.
	webhookTests = 4
)

// buyerMeter is how often a buyer may ask for or cancel orders, on each server:
// 20 times a second, after 100 at once.
var buyerMeter = sluice.BuyerRate{Requests: 100, PerS: 5}.Meter()

// requestLimits counts what buyers have.
type requestLimits struct {
	seed   maphash.Seed
	shards [64]struct {
		mu  sync.Mutex
		now map[sluice.BuyerID]int // requests that are being answered; absent: 0
	}
	asked *meters.Table
	start time.Time

	reads, changes chan struct{}     // a value for each that the databases see
	tests          chan struct{}     // a value for each webhook that is tried
	uploads        chan struct{}     // a value for each picture that is being uploaded
	pictures       chan struct{}     // a value for the picture that is being made
	sales          [64]chan struct{} // a value for each change of the sales that share it
}

func newRequestLimits(now time.Time) *requestLimits {
	s := &requestLimits{
		seed: maphash.MakeSeed(), asked: meters.New(1 << 18), start: now,
		reads: make(chan struct{}, buyerReads), changes: make(chan struct{}, buyerChanges),
		tests:   make(chan struct{}, webhookTests),
		uploads: make(chan struct{}, pictureUploads), pictures: make(chan struct{}, 1),
	}
	for i := range s.shards {
		s.shards[i].now = map[sluice.BuyerID]int{}
	}
	for i := range s.sales {
		s.sales[i] = make(chan struct{}, 1)
	}
	return s
}

// enter counts a request of a buyer, unless there are too many. Leave ends it.
func (s *requestLimits) enter(buyer sluice.BuyerID) bool {
	shard := &s.shards[maphash.Comparable(s.seed, buyer)%uint64(len(s.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	n := shard.now[buyer]
	if n >= buyerRequests {
		return false
	}
	shard.now[buyer] = n + 1
	return true
}

func (s *requestLimits) leave(buyer sluice.BuyerID) {
	shard := &s.shards[maphash.Comparable(s.seed, buyer)%uint64(len(s.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if n := shard.now[buyer]; n > 1 {
		shard.now[buyer] = n - 1
	} else {
		delete(shard.now, buyer)
	}
}

// metered is a handler that a buyer may ask as often as buyerMeter says.
func (s *Server) metered(next tokenHandler) tokenHandler {
	return func(w http.ResponseWriter, r *http.Request, token auth.Token) {
		asked := s.limits.asked
		now := s.Now().Sub(s.limits.start).Microseconds()
		if wait := asked.Try(buyerMeter, meters.Key(asked, token.Buyer), now); wait > 0 {
			s.encoded[sluice.RateLimited].write(w, retryIn(time.Duration(wait)*time.Microsecond))
			return
		}
		next(w, r, token)
	}
}

// inTurn asks the databases for a buyer, while few enough others are asked for: when
// it has got a turn in each queue. Neither a body that comes slowly nor an answer that
// is read slowly may be part of it. ErrNoTurn: there was none in time, or the client
// has left. Without queues, the merchant's, it is always the turn.
func inTurn(ctx context.Context, queues []chan struct{}, ask func() error) error {
	if len(queues) == 0 {
		return ask()
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for _, queue := range queues {
		select {
		case queue <- struct{}{}:
			defer func() { <-queue }()
		case <-enough.C:
			return ErrNoTurn
		case <-ctx.Done():
			return ErrNoTurn
		}
	}
	return ask()
}

// ErrNoTurn: the databases see enough requests of buyers already.
var ErrNoTurn error = &fault{
	Problem: api.Problem{Code: sluice.Overloaded.String(), Detail: "too many others wait for the same; try again"},
	after:   retryIn(time.Second),
}

// turns returns the queues that a buyer's request waits in; a merchant's waits in none.
func turns(buyer sluice.BuyerID, of ...chan struct{}) []chan struct{} {
	if buyer == "" {
		return nil
	}
	return of
}

// changeOf returns the queues of a change of an order. A sale has one at a time: those
// that wait for its row, which may be locked for long, leave turns to other sales.
func (s *requestLimits) changeOf(sale sluice.SaleID, buyer sluice.BuyerID) []chan struct{} {
	return turns(buyer, s.sales[maphash.Comparable(s.seed, sale)%uint64(len(s.sales))], s.changes)
}
