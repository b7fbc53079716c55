// Package loadgen is the crowd: many buyers who want the same thing at the same
// moment. It speaks HTTP only, so what it measures is what buyers meet.
//
// Every buyer has one token and tries once; a share of them tries a second
// time with a new key. A try that is not decided (no answer, 503) is repeated
// with the same key until RetryFor is over, as a shop's client would do, so an
// error of the result is a try that was never decided.
//
// Closed loop: each connection sends its next request when the answer has
// come. Open loop (Rate): tries start at fixed moments, and latency counts from
// the moment a try should have started, so that a slow server cannot hide by
// slowing the crowd down (coordinated omission).
//
// Where a sale asks for purchase tickets, buyers do what the buyers' pages
// do: they get theirs before the tries begin (GetTickets), keep it for all
// their tries, and get another one when the server demands a new one.
package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehq/sluice"
)

// Options of a crowd.
type Options struct {
	URL  string // of the server: http or https
	Sale sluice.SaleID

	Buyers      int           // at least 1; with Tokens, 0 means all of them
	Again       float64       // share of buyers who try a second time, 0 to 1
	Connections int           // default 64
	Rate        float64       // tries a second, open loop; 0: closed loop
	Duration    time.Duration // begin no try after it, and go round until then; 0: once through the crowd
	Seed        uint64        // of the order of buyers and of the keys: an equal seed repeats the same keys

	// Secret signs the buyers' tokens (HS256); or Tokens are theirs.
	Secret []byte
	// Issuer and Audience are in the tokens that are signed, if given.
	Issuer, Audience string
	Tokens           []string
	// Invited: the tokens that are signed name the sale, as those of buyers who
	// are invited to it (sluice.EligibleToken).
	Invited bool

	// Tickets: the sale asks for tickets. Nil: it does not, as far as is known;
	// a buyer whose claim is refused for the want of one gets it all the same.
	Tickets *TicketWindow

	// Start, if set, is the moment before which no try begins. By then all connections
	// are open and have read the sale, as buyers' pages have; otherwise a connection
	// opens with its first try.
	Start time.Time

	RetryFor time.Duration // of one try; default 30 s
	Timeout  time.Duration // of one request; default 10 s
	TLS      *tls.Config   // of https; default: the system's roots

	Progress *Progress // optional

	// Accepted is called with every promise, one after the other, as soon as
	// its answer has come. It must not block. Optional.
	Accepted func(Promise)
	// Ended is called with every try, one after the other, once it has ended: when it
	// should have begun, after the first one, and how long it took. It must not block.
	// Optional.
	Ended func(begin, took time.Duration, code sluice.Code)
	// Remember keeps the buyers refused as sold_out, for ComeBack.
	Remember bool
}

// Progress is read while the crowd is at work.
type Progress struct {
	Minted   atomic.Int64 // tokens
	Tickets  atomic.Int64 // buyers who have asked for theirs
	Decided  atomic.Int64 // tries that ended, those without a decision too
	Accepted atomic.Int64
	Planned  atomic.Int64 // tries; 0 when the time decides
}

// Crowd is prepared once and rushes once.
type Crowd struct {
	o       Options
	addr    string      // host:port to dial
	tls     *tls.Config // nil for http
	sale    string      // request up to the word after the sale's id
	host    string      // from there to the token
	headers string      // request from the key on
	tokens  []string
	plan    []int32 // buyer of each try; a second occurrence is the second try
	second  []bool  // parallel to plan

	wallet *wallet       // tickets
	early  time.Duration // earlyFor
	known  verdicts      // refusals

	next     atomic.Int64
	requests atomic.Int64 // claims

	mu       sync.Mutex // guards all below
	latency  *hdrhistogram.Histogram
	codes    [256]int64 // by sluice.Code
	replayed int64
	reasons  map[string]int64
	barred   map[string]int64 // reasons of Forbidden
	promises []Promise
	refused  []attempt // of buyers refused as sold_out, with Remember
}

// attempt is a buyer's claim, as often as it is sent.
type attempt struct {
	buyer int
	key   sluice.Key
}

// Promise is an accepted claim: the server has answered 202, so this order
// must exist for ever.
type Promise struct {
	Buyer int // index in the crowd
	Key   sluice.Key
	Order sluice.OrderID
}

// New checks the options.
func New(o Options) (*Crowd, error) {
	if err := o.Sale.Validate(); err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	if o.Buyers == 0 {
		o.Buyers = len(o.Tokens)
	}
	switch {
	case o.Buyers < 1:
		return nil, errors.New("loadgen: want at least one buyer")
	case o.Buyers > 50_000_000:
		return nil, errors.New("loadgen: want at most 50 million buyers")
	case len(o.Tokens) > 0 && len(o.Tokens) < o.Buyers:
		return nil, fmt.Errorf("loadgen: %d buyers, but only %d tokens", o.Buyers, len(o.Tokens))
	case len(o.Tokens) == 0 && len(o.Secret) == 0:
		return nil, errors.New("loadgen: want a secret to sign tokens with, or tokens")
	case !(o.Again >= 0 && o.Again <= 1):
		return nil, errors.New("loadgen: again: want a share from 0 to 1")
	case !(o.Rate >= 0 && o.Rate <= 10e6):
		return nil, errors.New("loadgen: rate: want 0 to 10 million a second")
	case o.Duration < 0:
		return nil, errors.New("loadgen: duration: want 0 or more")
	}
	defaultTo(&o.Connections, 64)
	defaultTo(&o.RetryFor, 30*time.Second)
	defaultTo(&o.Timeout, 10*time.Second)
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	c := &Crowd{
		o: o, reasons: map[string]int64{}, barred: map[string]int64{},
		latency: newHistogram(), wallet: newWallet(), early: earlyFor, known: verdicts{of: map[string]verdict{}},
	}
	return c, c.address()
}

func defaultTo[T int | time.Duration](v *T, preset T) {
	if *v <= 0 {
		*v = preset
	}
}

// address prepares what all requests share.
func (c *Crowd) address() error {
	u, err := url.Parse(c.o.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return errors.New("loadgen: the server's URL: want http://host:port or https://host")
	}
	port := u.Port()
	if u.Scheme == "https" {
		c.tls = c.o.TLS.Clone()
		if c.tls == nil {
			c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		c.tls.NextProtos = []string{"http/1.1"}
		if c.tls.ServerName == "" {
			c.tls.ServerName = u.Hostname()
		}
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	c.addr = net.JoinHostPort(u.Hostname(), port)
	c.sale = "POST " + strings.TrimRight(u.EscapedPath(), "/") + "/v1/sales/" + string(c.o.Sale) + "/"
	c.host = " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: sluice-load\r\nAuthorization: Bearer "
	c.headers = "\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"quantity\":1}"
	return nil
}

// Rush sends the crowd, when the sale opens if it asks for tickets. It returns what happened when every try has ended,
// and
// with an error what happened until ctx was cancelled.
func (c *Crowd) Rush(ctx context.Context) (*Outcome, error) {
	if c.tokens == nil {
		if err := c.Prepare(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.GetTickets(ctx); err != nil {
		return nil, err
	}
	if c.o.Tickets != nil && !sleep(ctx, time.Until(c.here(c.o.Tickets.Opens))) {
		return nil, ctx.Err()
	}
	all := make([]*worker, c.o.Connections)
	for i := range all {
		all[i] = &worker{c: c}
		defer all[i].close()
	}
	if !c.o.Start.IsZero() {
		if err := c.visit(ctx, all); err != nil {
			return nil, err
		}
		if !sleep(ctx, time.Until(c.o.Start)) {
			return nil, ctx.Err()
		}
	}
	start := time.Now()
	var workers sync.WaitGroup
	for _, w := range all {
		workers.Go(func() {
			defer w.close()
			w.run(ctx, start)
		})
	}
	workers.Wait()
	return c.outcome(time.Since(start)), ctx.Err()
}

// visit opens every worker's connection and reads the sale over it.
func (c *Crowd) visit(ctx context.Context, all []*worker) error {
	page := "GET" + strings.TrimSuffix(strings.TrimPrefix(c.sale, "POST"), "/")
	var next, visits atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, min(64, len(all)))
	for i := range failed {
		group.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(all)) && failed[i] == nil; n = next.Add(1) - 1 {
				_, failed[i] = all[n].send(ctx, &visits, page, c.host, c.tokens[0], "\r\n\r\n")
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// Repeat sends promised claims again, each with its key. It returns those that
// did not get the same order (I4), with the reason.
func (c *Crowd) Repeat(ctx context.Context, promises []Promise) map[Promise]string {
	broken := map[Promise]string{}
	w := &worker{c: c}
	defer w.close()
	for _, p := range promises {
		got := w.try(ctx, p.Buyer, p.Key, time.Now().Add(c.o.RetryFor))
		switch {
		case got.code != sluice.Accepted:
			broken[p] = "answered " + got.String()
		case got.order != p.Order:
			broken[p] = "answered with order " + string(got.order)
		case !got.replayed:
			broken[p] = "not marked as a replay"
		}
	}
	return broken
}
