package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// lifeGrace is how long the demo's units are kept after the payment window.
const lifeGrace = time.Second

// DefaultWindow is as short as a demo should be, and lets all winners pay in
// time on a small and busy machine.
func DefaultWindow(stock int64) time.Duration {
	return 10*time.Second + time.Duration(min(stock/1000, 3000))*time.Second
}

// patience is how long the crowd goes on while nothing happens: longer than it
// takes an order to expire, on a busy machine too.
func (d *run) patience() time.Duration { return d.Window + lifeGrace + 15*time.Second }

// settlers is how many orders are paid or cancelled at the same time. When
// crowded winners wait for that, no other buyer comes back: orders beyond what
// can be paid in time would only expire.
const (
	settlers = 64
	crowded  = 2 * settlers
)

// lives settles the winners' orders while the rush is still going: of the
// buyers who get units first a third pay, a third cancel and a third do nothing;
// a buyer who gets a returned unit pays. The merchant's calls and the buyers'
// are the real ones, over HTTP.
type lives struct {
	*run
	http    *http.Client // of all buyers
	workers sync.WaitGroup

	mu       sync.Mutex
	work     *sync.Cond // there is some, or there will be none
	room     *sync.Cond // fewer than crowded winners wait
	queue    []winner
	open     int   // winners whose orders are not settled
	over     bool  // no further buyer will win
	accepted int64 // promises so far
	seen     map[sluice.OrderID]sluice.Status
	failed   []error

	paid, cancelled atomic.Int64
	moved           atomic.Int64 // when something happened last, in Unix nanoseconds

	back   *loadgen.Comeback
	rushed time.Time // when the rush was over
}

// winner is a promise and what becomes of it.
type winner struct {
	loadgen.Promise
	fate  sluice.Action
	tries int
	since time.Time
}

func newLives(d *run) *lives {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = settlers
	l := &lives{
		run: d, http: &http.Client{Transport: transport, Timeout: 15 * time.Second},
		seen: map[sluice.OrderID]sluice.Status{},
	}
	l.work, l.room = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	return l
}

// accept takes a promise, in the order in which the answers came.
func (l *lives) accept(p loadgen.Promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fate := sluice.Pay
	if l.accepted < l.Stock {
		fate = []sluice.Action{sluice.Pay, sluice.Cancel, sluice.Expire}[l.accepted%3]
	}
	l.accepted++
	l.moved.Store(time.Now().UnixNano())
	if fate != sluice.Expire {
		l.open++
		l.queue = append(l.queue, winner{Promise: p, fate: fate, since: time.Now()})
		l.work.Signal()
	}
}

func (l *lives) start(ctx context.Context) {
	for range settlers {
		l.workers.Go(func() {
			for w, ok := l.next(); ok; w, ok = l.next() {
				l.settle(ctx, w)
			}
		})
	}
}

// next waits for a winner; false when there are no more. The last one comes
// first: where not all can be paid in time, those who waited longest are late
// anyway, and must not make the others late.
func (l *lives) next() (winner, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.over && l.open == 0 {
			return winner{}, false
		}
		l.work.Wait()
	}
	last := len(l.queue) - 1
	w := l.queue[last]
	l.queue = l.queue[:last]
	return w, true
}

// done counts a winner as settled.
func (l *lives) done(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = append(l.failed, err)
	}
	if l.open--; l.open < crowded {
		l.room.Broadcast()
	}
	if l.open == 0 {
		l.work.Broadcast()
	}
}

// stop waits until every winner is settled. It is idempotent.
func (l *lives) stop() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.work.Broadcast()
	l.workers.Wait()
	l.http.CloseIdleConnections()
}

// settleFor is how long one payment or cancellation is tried.
const settleFor = 30 * time.Second

// settle does what the winner's fate is. As all these calls are idempotent,
// what was not answered, and an order that is still queued, is tried again
// after a while; others come first.
func (l *lives) settle(ctx context.Context, w winner) {
	do := l.pay
	if w.fate == sluice.Cancel {
		do = l.cancel
	}
	status, err := do(ctx, w)
	if err == nil {
		l.tell(w.Order, status)
		l.done(nil)
		return
	}
	wait := min(20*time.Millisecond<<min(w.tries, 6), time.Second)
	var e *client.Error
	final := false
	if errors.As(err, &e) {
		final = e.Status < 500 && e.Code != api.CodeOrderQueued
		wait = max(wait, e.RetryAfter)
	}
	if final || ctx.Err() != nil || time.Since(w.since) > settleFor {
		l.done(fmt.Errorf("%s %s: %w", w.fate, w.Order, err))
		return
	}
	w.tries++
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.queue = append(l.queue, w)
		l.work.Signal()
	})
}

// enough reports whether the crowd need not come back any more: every unit is
// paid, or nothing happens. It waits while too many winners do.
func (l *lives) enough() bool {
	l.mu.Lock()
	for l.open >= crowded {
		l.room.Wait()
	}
	l.mu.Unlock()
	return l.paid.Load() >= l.Stock || time.Since(time.Unix(0, l.moved.Load())) > l.patience()
}

// pay is the merchant's payment callback. Money that came too late goes back.
func (l *lives) pay(ctx context.Context, w winner) (sluice.Status, error) {
	order, err := l.client.PayOrder(ctx, w.Order, "pay-"+string(w.Order))
	if err == nil && order.Status == sluice.RefundDue {
		order, err = l.client.RefundOrder(ctx, w.Order)
	}
	return order.Status, err
}

// cancel is the buyer's own. One who comes too late finds the order expired.
func (l *lives) cancel(ctx context.Context, w winner) (sluice.Status, error) {
	token, err := loadgen.Mint(l.Crowd.Secret, loadgen.BuyerName(w.Buyer), time.Now(), time.Hour)
	if err != nil {
		return "", err
	}
	buyer, err := client.New(l.server.url, client.Options{Token: token, HTTPClient: l.http})
	if err != nil {
		return "", err
	}
	order, err := buyer.CancelOrder(ctx, w.Order)
	if client.CodeOf(err) == api.CodeOrderEnded {
		return sluice.Expired, nil
	}
	return order.Status, err
}

// tell keeps the end of an order as a buyer or the merchant saw it.
func (l *lives) tell(order sluice.OrderID, status sluice.Status) {
	l.mu.Lock()
	l.seen[order] = status
	l.mu.Unlock()
	l.moved.Store(time.Now().UnixNano())
	switch status {
	case sluice.Paid:
		l.paid.Add(1)
	case sluice.Cancelled:
		l.cancelled.Add(1)
	}
}

// goOn is the time after the rush: the buyers refused as sold_out come back until
// every unit is paid, every buyer has one, or nothing happens any more.
func (l *lives) goOn(ctx context.Context, crowd *loadgen.Crowd, out *loadgen.Outcome) error {
	l.rushed = time.Now()
	l.moved.Store(l.rushed.UnixNano())
	stop := l.Screen.Watch(func() string {
		l.mu.Lock()
		accepted := l.accepted
		l.mu.Unlock()
		n := l.paid.Load()
		return fmt.Sprintf("  paid     %s%s of %s, %s cancelled, %s sold again", l.Screen.Bar(n, l.Stock),
			figures.Thousands(n),
			figures.Thousands(l.Stock),
			figures.Thousands(l.cancelled.Load()), figures.Thousands(max(accepted-l.Stock, 0)))
	})
	l.back = crowd.ComeBack(ctx, float64(max(l.Stock, 2000)), l.enough)
	l.stop()
	stop()
	out.Promises = crowd.Promises()
	return ctx.Err()
}
