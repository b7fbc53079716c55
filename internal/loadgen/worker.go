package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httpapi/wire"
)

// worker is one connection.
type worker struct {
	c     *Crowd
	conn  *conn // nil until dialled, and after a failure
	known map[string]sluice.Code
}

func newWorker(c *Crowd) *worker { return &worker{c: c, known: map[string]sluice.Code{}} }

func (w *worker) close() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// run takes one try after the other until there are none left.
func (w *worker) run(ctx context.Context, start time.Time) {
	o := &w.c.o
	for ctx.Err() == nil {
		n := w.c.next.Add(1) - 1
		if o.Duration == 0 && n >= int64(len(w.c.plan)) {
			return
		}
		begin := time.Now()
		if o.Rate > 0 {
			begin = start.Add(time.Duration(float64(n) / o.Rate * float64(time.Second)))
			if o.Duration > 0 && begin.Sub(start) >= o.Duration || !sleep(ctx, time.Until(begin)) {
				return
			}
		} else if o.Duration > 0 && begin.Sub(start) >= o.Duration {
			return
		}
		buyer, key := w.c.pick(n)
		got := w.try(ctx, buyer, key, time.Now().Add(o.RetryFor))
		if got.code == 0 && ctx.Err() != nil {
			return // broken off by us, not by the server
		}
		w.c.record(buyer, key, got, time.Since(begin))
	}
}

// verdict is how a try ended: with a decision, or code 0 and the reason.
type verdict struct {
	code     sluice.Code
	order    sluice.OrderID
	replayed bool
	reason   string
}

func (v verdict) String() string {
	if v.code != 0 {
		return v.code.String()
	}
	return v.reason
}

// Waits between the requests of one try, unless the server asks for longer.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// try repeats one claim with its key until it is decided or until is over.
func (w *worker) try(ctx context.Context, buyer int, key sluice.Key, until time.Time) verdict {
	for n := 0; ; n++ {
		got, wait, final := w.once(ctx, w.c.tokens[buyer], key)
		if final {
			return got
		}
		wait = max(wait, min(firstWait<<min(n, 10), maxWait))
		if time.Now().Add(wait).After(until) || !sleep(ctx, wait) {
			return got
		}
	}
}

// once sends the claim one time. It is final when there is no reason to send
// it again.
func (w *worker) once(ctx context.Context, token string, key sluice.Key) (got verdict, wait time.Duration, final bool) {
	if w.conn == nil {
		fresh, err := dial(ctx, w.c.addr, w.c.tls, w.c.o.Timeout)
		if err != nil {
			return verdict{reason: plain(err)}, 0, false
		}
		w.conn = fresh
	}
	w.c.requests.Add(1)
	a, err := w.conn.exchange(w.c.o.Timeout, w.c.head, token, string(key), w.c.headers)
	if err != nil {
		w.close()
		return verdict{reason: plain(err)}, 0, false
	}
	if a.close {
		w.close()
	}
	if a.status == http.StatusAccepted {
		got, final = w.accepted(a)
		return got, 0, final
	}
	got, final = w.refused(a)
	return got, a.retryAfter, final
}

// accepted believes a 202 only if it is the answer to this claim.
func (w *worker) accepted(a answer) (verdict, bool) {
	var p wire.Placed
	if err := json.Unmarshal(a.body, &p); err != nil {
		return verdict{reason: "202 without an order"}, false
	}
	if sale, ok := p.OrderID.Sale(); !ok || sale != w.c.o.Sale || p.SaleID != sale || p.Quantity != 1 {
		return verdict{reason: "202 with an order that was not asked for"}, false
	}
	return verdict{code: sluice.Accepted, order: p.OrderID, replayed: a.replayed}, true
}

// refused reads a problem. Most refusals of a rush are the same bytes, so they
// are decoded once.
func (w *worker) refused(a answer) (verdict, bool) {
	code, ok := w.known[string(a.body)]
	if !ok {
		var p wire.Problem
		if a.status < 400 || json.Unmarshal(a.body, &p) != nil || p.Status != a.status || p.Code == "" {
			return verdict{reason: fmt.Sprintf("HTTP %d without a code", a.status)}, false
		}
		var err error
		if code, err = sluice.ParseCode(p.Code); err != nil || code == sluice.Accepted {
			// No decision; trying again helps only with what may pass.
			return verdict{reason: p.Code}, a.status < 500
		}
		if len(w.known) < 64 {
			w.known[string(a.body)] = code
		}
	}
	if code == sluice.Overloaded || code == sluice.Unavailable {
		return verdict{reason: code.String()}, false
	}
	return verdict{code: code}, true
}

// record counts a try that has ended.
func (c *Crowd) record(buyer int, key sluice.Key, got verdict, took time.Duration) {
	c.o.Progress.Decided.Add(1)
	if got.code == sluice.Accepted {
		c.o.Progress.Accepted.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.latency.RecordValue(min(max(took.Microseconds(), 1), c.latency.HighestTrackableValue()))
	c.codes[got.code]++
	switch got.code {
	case 0:
		if len(c.reasons) < 32 || c.reasons[got.reason] > 0 {
			c.reasons[got.reason]++
		}
	case sluice.Accepted:
		if got.replayed {
			c.replayed++
		}
		c.promised(Promise{Buyer: buyer, Key: key, Order: got.order})
	case sluice.SoldOut:
		if c.o.Remember {
			c.refused = append(c.refused, attempt{buyer, key})
		}
	}
}

// promised keeps a promise and tells of it; c.mu is held.
func (c *Crowd) promised(p Promise) {
	c.promises = append(c.promises, p)
	if c.o.Accepted != nil {
		c.o.Accepted(p)
	}
}

// plain says why there was no answer, without addresses, so that equal reasons
// are counted together.
func plain(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &op) && op.Op == "dial":
		return "no connection: " + lastPart(op.Err)
	}
	return "connection lost: " + lastPart(err)
}

func lastPart(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
