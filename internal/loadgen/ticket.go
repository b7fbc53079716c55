package loadgen

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/tickets"
)

// TicketWindow is what the server says of a sale that asks for tickets, by the
// server's clock.
type TicketWindow struct {
	TicketsFrom time.Time // from when on tickets are handed out
	Opens       time.Time // the tries begin then
	// Ahead is how far the server's clock is ahead of this machine's.
	Ahead time.Duration
}

// Tickets counts what it took to get purchase tickets. It is no part of the tries:
// the requests and the latency of a result count claims alone.
type Tickets struct {
	HandedOut int64            `json:"handed_out"`
	Refused   map[string]int64 `json:"refused"`  // buyers who got none: by the reason of a 403, or by code
	Errors    int64            `json:"errors"`   // buyers who had no usable answer after retries
	Requests  int64            `json:"requests"` // for tickets and challenges, repeats too
	Solved    int64            `json:"solved"`   // proofs of work
	DurationS float64          `json:"duration_s"`
	// LatencyMS is from a buyer's first request to the ticket, without the proof
	// of work, and without waiting for a free core to do it.
	LatencyMS Latency `json:"latency_ms"`
	WorkMS    Latency `json:"work_ms"` // of a proof of work, on one core

	ErrorReasons map[string]int64 `json:"error_reasons,omitempty"`
}

// Reasons of a 403 that another challenge may mend.
const (
	challengeMissing = "challenge_missing"
	challengeExpired = "challenge_expired" // the sale may ask for more work now
	challengeInvalid = "challenge_invalid" // the server may have another secret now
)

// wallet is what a crowd has and knows of tickets.
type wallet struct {
	used     atomic.Bool  // there is a ticket in it
	work     atomic.Bool  // the sale wants a proof of work, as an answer to some buyer said
	requests atomic.Int64 // for tickets and challenges
	once     sync.Once    // of GetTickets

	// A proof of work takes a core. More buyers than cores may be between their
	// challenge and their ticket, so that no core waits for the network; but not
	// all of them, so that no challenge expires before its turn comes.
	hands, cores chan struct{}

	mu              sync.RWMutex // guards all below
	tickets         map[int]string
	latency, effort *hdrhistogram.Histogram
	sum             Tickets // all but the latencies
}

func newWallet() *wallet {
	cores := runtime.GOMAXPROCS(0)
	return &wallet{
		hands: make(chan struct{}, 8*cores), cores: make(chan struct{}, cores),
		tickets: map[int]string{}, latency: newHistogram(), effort: newHistogram(),
		sum: Tickets{Refused: map[string]int64{}, ErrorReasons: map[string]int64{}},
	}
}

// ticket returns a buyer's ticket, if there is one.
func (t *wallet) ticket(buyer int) string {
	if !t.used.Load() {
		return ""
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.tickets[buyer]
}

// report is nil if no buyer has asked for a ticket.
func (t *wallet) report() *Tickets {
	if t.requests.Load() == 0 {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	sum := t.sum
	sum.Refused, sum.ErrorReasons = maps.Clone(sum.Refused), maps.Clone(sum.ErrorReasons)
	sum.Requests = t.requests.Load()
	sum.LatencyMS, sum.WorkMS = latencyOf(t.latency), latencyOf(t.effort)
	return &sum
}

// GetTickets does what the buyers' pages do before the opening: each buyer gets
// a ticket, as soon as they are handed out, with the proof of work if the sale
// asks for one. Without Options.Tickets nothing is asked. A buyer who gets none
// is no error: they try all the same, and ask once more if their claim is
// refused for lack of a ticket. The error is the context's.
//
// Rush does it otherwise.
func (c *Crowd) GetTickets(ctx context.Context) error {
	if c.o.Tickets == nil {
		return nil
	}
	var err error
	c.wallet.once.Do(func() { err = c.getTickets(ctx) })
	return err
}

// here is a moment of the server's clock by ours.
func (c *Crowd) here(t time.Time) time.Time {
	if c.o.Tickets == nil {
		return t
	}
	return t.Add(-c.o.Tickets.Ahead)
}

func (c *Crowd) getTickets(ctx context.Context) error {
	if c.tokens == nil {
		if err := c.Prepare(ctx); err != nil {
			return err
		}
	}
	if !sleep(ctx, time.Until(c.here(c.o.Tickets.TicketsFrom))) {
		return ctx.Err()
	}
	start := time.Now()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(c.o.Connections, c.o.Buyers) {
		workers.Go(func() {
			w := &worker{c: c}
			defer w.close()
			for n := next.Add(1) - 1; n < int64(len(c.plan)) && ctx.Err() == nil; n = next.Add(1) - 1 {
				if !c.second[n] {
					w.getTicket(ctx, int(c.plan[n]))
					c.o.Progress.Tickets.Add(1)
				}
			}
		})
	}
	workers.Wait()
	c.wallet.mu.Lock()
	defer c.wallet.mu.Unlock()
	c.wallet.sum.DurationS = Round(time.Since(start).Seconds())
	return ctx.Err()
}

// getTicket gets a ticket for a buyer and keeps it. If there is none to be had,
// the verdict says why; with a sale that asks for none all is well.
func (w *worker) getTicket(ctx context.Context, buyer int) (got verdict, ok bool) {
	a := asking{worker: w, token: w.c.tokens[buyer]}
	start := time.Now()
	got, ok = a.run(ctx, start.Add(w.c.o.RetryFor))
	took := time.Since(start) - a.away
	t := w.c.wallet
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case ok && a.got.Ticket == "":
		delete(t.tickets, buyer)
	case ok:
		t.tickets[buyer] = a.got.Ticket
		t.used.Store(true)
		t.sum.HandedOut++
		observe(t.latency, took)
	case got.code != 0:
		t.sum.Refused[got.why()]++
	case ctx.Err() == nil:
		t.sum.Errors++
		countReason(t.sum.ErrorReasons, got.reason)
	}
	return got, ok
}

// asking is one buyer on the way to a ticket.
type asking struct {
	*worker
	token string
	got   api.Ticket    // in the end; empty if the sale asks for none
	away  time.Duration // spent on the proof of work, and waiting for a core
}

// run asks until there is a ticket, a refusal that stays, or no time left.
func (a *asking) run(ctx context.Context, until time.Time) (got verdict, ok bool) {
	for n := 0; ; n++ {
		work := a.c.wallet.work.Load()
		ask := a.post
		if work {
			ask = a.prove
		}
		got, wait, final := ask(ctx)
		switch {
		case got == verdict{}:
			return got, true
		case got.reason == api.CodeSaleState && work:
			// No proof is asked for any more; or no ticket, as the next answer says.
			a.c.wallet.work.Store(false)
			final = false
		case got.reason == api.CodeSaleState:
			return got, true
		case got.code == Forbidden && got.reason == challengeMissing && !work:
			a.c.wallet.work.Store(true)
			continue
		case got.code == Forbidden:
			final = got.reason != challengeMissing && got.reason != challengeExpired && got.reason != challengeInvalid
		case got.code == sluice.NotOpen:
			wait, final = max(time.Until(a.c.here(got.from)), wait), false
		case got.code == sluice.RateLimited:
			final = false
		}
		wait = max(wait, min(firstWait<<min(n, 10), maxWait))
		if final || time.Now().Add(wait).After(until.Add(a.away)) || !sleep(ctx, wait) {
			return got, false
		}
	}
}

// post asks for the ticket without a proof of work.
func (a *asking) post(ctx context.Context) (got verdict, wait time.Duration, final bool) {
	return a.take(ctx, "")
}

// prove does the proof of work first.
func (a *asking) prove(ctx context.Context) (got verdict, wait time.Duration, final bool) {
	t := a.c.wallet
	if !a.queue(ctx, t.hands) {
		return verdict{reason: plain(ctx.Err())}, 0, true
	}
	defer func() { <-t.hands }()
	var challenge api.Challenge
	got, wait, final = a.request(ctx, "challenge", "", &challenge)
	if got != (verdict{}) {
		return got, wait, final
	}
	nonce, err := a.solve(ctx, challenge)
	if err != nil {
		return verdict{reason: "the proof of work took longer than " + tickets.ChallengeLife.String()}, 0, true
	}
	body, err := json.Marshal(api.AskTicket{Challenge: challenge.Challenge, Nonce: nonce})
	if err != nil {
		return verdict{reason: plain(err)}, 0, true
	}
	return a.take(ctx, string(body))
}

// solve does the work on a core of its own.
func (a *asking) solve(ctx context.Context, c api.Challenge) (nonce string, err error) {
	t := a.c.wallet
	if !a.queue(ctx, t.cores) {
		return "", ctx.Err()
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, tickets.ChallengeLife) // later it is worth nothing
	nonce, err = tickets.Solve(ctx, c.Challenge, int(c.Difficulty))
	cancel()
	took := time.Since(start)
	a.away += took
	<-t.cores
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Solved++
	observe(t.effort, took)
	return nonce, nil
}

// queue waits for a place; false when ctx ended first.
func (a *asking) queue(ctx context.Context, places chan struct{}) bool {
	start := time.Now()
	defer func() { a.away += time.Since(start) }()
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// take asks for the ticket, and believes in one only if a header can carry it.
func (a *asking) take(ctx context.Context, body string) (got verdict, wait time.Duration, final bool) {
	got, wait, final = a.request(ctx, "ticket", body, &a.got)
	bad := func(r rune) bool { return r <= ' ' || r > '~' }
	if got == (verdict{}) && (a.got.Ticket == "" || strings.ContainsFunc(a.got.Ticket, bad)) {
		a.got = api.Ticket{}
		return verdict{reason: "200 without a ticket"}, 0, false
	}
	return got, wait, final
}

// request sends one request; the verdict is empty when it did what was asked.
func (a *asking) request(ctx context.Context, what, body string, into any) (got verdict, wait time.Duration,
	final bool,
) {
	head := "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	answer, err := a.send(ctx, &a.c.wallet.requests, a.c.sale, what, a.c.host, a.token, head, body)
	switch {
	case err != nil:
		return verdict{reason: plain(err)}, 0, false
	case answer.status != http.StatusOK:
		got, final = a.refused(answer)
		return got, answer.retryAfter, final
	}
	if err := json.Unmarshal(answer.body, into); err != nil {
		return verdict{reason: "200 without a " + what}, 0, false
	}
	return verdict{}, 0, true
}
