package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// worker is one connection.
type worker struct {
	c    *Crowd
	conn *conn // nil until dialled, and after a failure
}

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
			return // cancelled by us, not by the server
		}
		w.c.record(buyer, key, got, begin.Sub(start), time.Since(begin)-got.away)
	}
}

// verdict is how a try ended: with a decision, or code 0 and the reason.
type verdict struct {
	code     sluice.Code
	order    sluice.OrderID
	replayed bool
	reason   string        // of code 0, and of Forbidden
	from     time.Time     // of NotOpen, for a ticket: when tickets are handed out
	away     time.Duration // of the try: spent on getting a ticket
}

func (v verdict) String() string {
	if v.code != 0 {
		return CodeName(v.code)
	}
	return v.reason
}

// wantsTicket: the claim was refused, and a new ticket may help.
func (v verdict) wantsTicket() bool {
	return v.code == Forbidden && strings.HasPrefix(v.reason, "ticket_")
}

// why is the most that is known of a refusal.
func (v verdict) why() string {
	if v.code == Forbidden && v.reason != "" {
		return v.reason
	}
	return CodeName(v.code)
}

// Waits between the requests of one try, unless the server asks for longer.
const (
	firstWait = 20 * time.Millisecond
	maxWait   = time.Second
)

// earlyFor is how long a crowd that has waited for the opening believes that
// the server will open yet: their clocks differ by a little.
const earlyFor = 3 * time.Second

// try repeats one claim with its key until it is decided or until is over. Once
// it gets a new ticket for it, when the server wants one: then this very claim
// has not been accepted before (I4).
func (w *worker) try(ctx context.Context, buyer int, key sluice.Key, until time.Time) verdict {
	var away time.Duration
	renewed := false
	for n := 0; ; n++ {
		got, wait, final := w.once(ctx, buyer, key)
		switch {
		case !renewed && got.wantsTicket():
			renewed = true
			start := time.Now()
			refused, ok := w.getTicket(ctx, buyer)
			away += time.Since(start)
			until = until.Add(time.Since(start))
			if ok {
				continue
			}
			got, final = refused, true
		case got.code == sluice.NotOpen && w.c.tooEarly():
			final = false
		}
		got.away = away
		if final {
			return got
		}
		wait = max(wait, min(firstWait<<min(n, 10), maxWait))
		if time.Now().Add(wait).After(until) || !sleep(ctx, wait) {
			return got
		}
	}
}

// tooEarly: the crowd has waited for the opening, and that was a moment ago.
func (c *Crowd) tooEarly() bool {
	return c.o.Tickets != nil && time.Since(c.here(c.o.Tickets.Opens)) < c.early
}

// once sends the claim one time. It is final when there is no reason to send
// it again.
func (w *worker) once(ctx context.Context, buyer int, key sluice.Key) (got verdict, wait time.Duration, final bool) {
	header, ticket := "", w.c.wallet.ticket(buyer)
	if ticket != "" {
		header = "\r\nSluice-Ticket: "
	}
	a, err := w.send(ctx, &w.c.requests, w.c.sale, "orders", w.c.host, w.c.tokens[buyer],
		"\r\nIdempotency-Key: ", string(key), header, ticket, w.c.headers)
	if err != nil {
		return verdict{reason: plain(err)}, 0, false
	}
	if a.status == http.StatusAccepted {
		got, final = w.accepted(a)
		return got, 0, final
	}
	got, final = w.refused(a)
	return got, a.retryAfter, final
}

// send sends one request, dials before if need be, and counts it.
func (w *worker) send(ctx context.Context, sent *atomic.Int64, request ...string) (answer, error) {
	if w.conn == nil {
		fresh, err := dial(ctx, w.c.addr, w.c.tls, w.c.o.Timeout)
		if err != nil {
			return answer{}, err
		}
		w.conn = fresh
	}
	sent.Add(1)
	a, err := w.conn.exchange(w.c.o.Timeout, request...)
	if err != nil || a.close {
		w.close()
	}
	return a, err
}

// accepted believes a 202 only if it is the answer to this claim.
func (w *worker) accepted(a answer) (verdict, bool) {
	var p api.Placed
	if err := json.Unmarshal(a.body, &p); err != nil {
		return verdict{reason: "202 without an order"}, false
	}
	if sale, ok := p.OrderID.Sale(); !ok || sale != w.c.o.Sale || p.SaleID != sale || p.Quantity != 1 {
		return verdict{reason: "202 with an order that was not asked for"}, false
	}
	return verdict{code: sluice.Accepted, order: p.OrderID, replayed: a.replayed}, true
}

// verdicts keeps what refusals say, by their bodies: most of a rush are the same bytes,
// which the crowd decodes once.
type verdicts struct {
	mu sync.RWMutex
	of map[string]verdict
}

func (k *verdicts) get(body []byte) (verdict, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok := k.of[string(body)]
	return v, ok
}

func (k *verdicts) add(body []byte, v verdict) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.of) < 64 {
		k.of[string(body)] = v
	}
}

// refused reads a problem.
func (w *worker) refused(a answer) (verdict, bool) {
	got, ok := w.c.known.get(a.body)
	if !ok {
		var p api.Problem
		if a.status < 400 || json.Unmarshal(a.body, &p) != nil || p.Status != a.status || p.Code == "" {
			return verdict{reason: fmt.Sprintf("HTTP %d without a code", a.status)}, false
		}
		var err error
		if got.code, err = parseCode(p.Code); err != nil || got.code == sluice.Accepted {
			// No decision; trying again helps only with what may pass.
			return verdict{reason: p.Code}, a.status < 500
		}
		if got.code == Forbidden {
			got.reason = p.Reason
		}
		if p.TicketsFrom != nil {
			got.from = p.TicketsFrom.Time
		}
		if len(p.OrderIDs) == 0 { // else no other has this body
			w.c.known.add(a.body, got)
		}
	}
	if got.code == sluice.Overloaded || got.code == sluice.Unavailable {
		return verdict{reason: got.code.String()}, false
	}
	return got, true
}

// record counts a try that has ended.
func (c *Crowd) record(buyer int, key sluice.Key, got verdict, begin, took time.Duration) {
	c.o.Progress.Decided.Add(1)
	if got.code == sluice.Accepted {
		c.o.Progress.Accepted.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	observe(c.latency, took)
	c.codes[got.code]++
	if c.o.Ended != nil {
		c.o.Ended(begin, took, got.code)
	}
	switch got.code {
	case 0:
		countReason(c.reasons, got.reason)
	case Forbidden:
		countReason(c.barred, got.why())
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

// Answered reports whether a reason for an error is what a server answered, a code or a status, and
// not that no answer came.
func Answered(reason string) bool { return answered.MatchString(reason) }

var answered = regexp.MustCompile(`^([a-z_]+|HTTP \d.*|20\d .*)$`)

// countReason counts one, of a bounded number of different ones.
func countReason(reasons map[string]int64, reason string) {
	if len(reasons) < 32 || reasons[reason] > 0 {
		reasons[reason]++
	}
}

// promised keeps a promise and reports it; c.mu is held.
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
