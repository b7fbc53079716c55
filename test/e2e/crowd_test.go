package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

var sales atomic.Int64

// newSaleID is new everywhere: tests may share their backends.
func newSaleID() sluice.SaleID {
	return sluice.SaleID(fmt.Sprintf("e2e-%x-%d", time.Now().UnixNano(), sales.Add(1)))
}

// createSale creates an open sale under a new id.
func createSale(t testing.TB, s *server, total, perBuyer int64) sluice.SaleID {
	t.Helper()
	id := newSaleID()
	createSaleAs(t, s, id, total, perBuyer)
	return id
}

// createSaleAs creates an open sale under this id.
func createSaleAs(t testing.TB, s *server, id sluice.SaleID, total, perBuyer int64) {
	t.Helper()
	must.Get(s.merchant().CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(id), SKU: "E2E-1", Title: "A thing",
		Price: api.Some(sluice.Money{Amount: 100, Currency: "CNY"}),
		Total: api.Value(total), MaxPerBuyer: api.Value(perBuyer),
		OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
	}))(t)
}

// buyer returns a client with a buyer's token.
func buyer(t testing.TB, url string, name sluice.BuyerID, o client.Options) *client.Client {
	t.Helper()
	o.Token = mint(t, name, time.Hour)
	c := must.Get(client.New(url, o))(t)
	return c
}

// mint signs a buyer's token, as the shop's login would.
func mint(t testing.TB, buyer sluice.BuyerID, ttl time.Duration) string {
	t.Helper()
	token := must.Get(loadgen.Mint([]byte(buyerSecret), buyer, time.Now(), ttl))(t)
	return token
}

// rush is crowds at work, each at one server. Crowds of equal seeds are the
// same buyers with the same keys; those of other seeds have other keys.
type rush struct {
	t        testing.TB
	sale     sluice.SaleID
	crowds   []*loadgen.Crowd
	progress []*loadgen.Progress
	outcomes []*loadgen.Outcome // when over is closed
	over     chan struct{}
}

// startRush lets a crowd loose on each URL, the i-th with the i-th seed.
func startRush(t testing.TB, o loadgen.Options, urls []string, seeds ...uint64) *rush {
	t.Helper()
	r := &rush{t: t, sale: o.Sale, over: make(chan struct{}), outcomes: make([]*loadgen.Outcome, len(urls))}
	o.Secret = []byte(buyerSecret)
	o.RetryFor, o.Timeout = patience, 5*time.Second
	for i, url := range urls {
		o.URL, o.Seed, o.Progress = url, seeds[i], &loadgen.Progress{}
		crowd, err := loadgen.New(o)
		if err == nil {
			err = crowd.Prepare(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		r.crowds, r.progress = append(r.crowds, crowd), append(r.progress, o.Progress)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(urls))
	for i, crowd := range r.crowds {
		go func() {
			var err error
			r.outcomes[i], err = crowd.Rush(ctx)
			ended <- err
		}()
	}
	go func() {
		defer close(r.over)
		for range urls {
			if err := <-ended; err != nil && t.Context().Err() == nil {
				t.Errorf("rush: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-r.over
	})
	return r
}

func (r *rush) sum(of func(*loadgen.Progress) *atomic.Int64) (n int64) {
	for _, p := range r.progress {
		n += of(p).Load()
	}
	return n
}

func (r *rush) decided() int64 {
	return r.sum(func(p *loadgen.Progress) *atomic.Int64 { return &p.Decided })
}

func (r *rush) accepted() int64 {
	return r.sum(func(p *loadgen.Progress) *atomic.Int64 { return &p.Accepted })
}

func (r *rush) planned() int64 {
	return r.sum(func(p *loadgen.Progress) *atomic.Int64 { return &p.Planned })
}

func (r *rush) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// awaitDecided waits until this many tries are decided. False: the rush ended
// before.
func (r *rush) awaitDecided(n int64) bool {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d tries decided", n), func() bool { return r.decided() >= n || r.isOver() })
	return !r.isOver()
}

// wait waits for the end of the rush; every try must have been decided.
func (r *rush) wait() []*loadgen.Outcome {
	r.t.Helper()
	select {
	case <-r.over:
	case <-time.After(3 * patience):
		r.t.Fatal("the rush does not end")
	}
	for _, out := range r.outcomes {
		if out.Errors > 0 {
			r.t.Errorf("%d tries were never decided: %v", out.Errors, out.ErrorReasons)
		}
	}
	return r.outcomes
}
