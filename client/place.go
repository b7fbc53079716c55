package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/tickets"
)

// Placed is an accepted claim.
type Placed struct {
	api.Placed
	Replayed bool // an earlier try with this key had been accepted already
	Attempts int  // requests sent
}

// Waits between the tries of Place, unless the server asks for longer.
const (
	firstWait = 50 * time.Millisecond
	maxWait   = 2 * time.Second
	// longestWait bounds what a server can make a client wait.
	longestWait = time.Minute
)

// Place claims units for the buyer of the client's token. The key names the
// attempt (see NewKey). As long as nothing is decided (outcome_unknown,
// overloaded, unavailable, no answer) it tries again with the same key, at
// most Options.PlaceAttempts times, and waits as long as the server asks.
//
// The error is an *Error for what the server refused, an *OutcomeUnknownError
// when it gave up and an earlier try may have been accepted.
func (c *Client) Place(ctx context.Context, sale sluice.SaleID, key sluice.Key, order api.PlaceOrder) (Placed, error) {
	return c.PlaceWithTicket(ctx, sale, key, "", order)
}

// PlaceWithTicket is Place for a sale that asks for a purchase ticket (see
// Ticket). Tries of one attempt may carry different tickets.
func (c *Client) PlaceWithTicket(ctx context.Context, sale sluice.SaleID, key sluice.Key, ticket string,
	order api.PlaceOrder,
) (Placed, error) {
	if err := key.Validate(); err != nil {
		return Placed{}, fmt.Errorf("client: %w", err)
	}
	unknown := false // an earlier try may have been accepted
	for n := 1; ; n++ {
		placed, err := c.placeOnce(ctx, sale, key, ticket, order)
		if err == nil {
			placed.Attempts = n
			return placed, nil
		}
		again, lost := undecided(err, unknown)
		if again {
			unknown = unknown || lost
			if n < c.attempts && pause(ctx, n, err) {
				continue
			}
		}
		if unknown && (again || !looked(err)) {
			return Placed{}, &OutcomeUnknownError{Key: key, Attempts: n, Last: err}
		}
		return Placed{}, err
	}
}

func (c *Client) placeOnce(ctx context.Context, sale sluice.SaleID, key sluice.Key, ticket string,
	order api.PlaceOrder,
) (Placed, error) {
	var placed Placed
	header := http.Header{"Idempotency-Key": {string(key)}}
	if ticket != "" {
		header["Sluice-Ticket"] = []string{ticket}
	}
	a, err := c.do(ctx, request{
		method: http.MethodPost, path: salePath(sale) + "/orders", bearer: c.token,
		header: header, body: order, into: &placed.Placed,
	})
	if err != nil {
		return Placed{}, err
	}
	if a.status != http.StatusAccepted || placed.OrderID == "" || placed.SaleID != sale {
		return Placed{}, &NetworkError{URL: c.base, Err: fmt.Errorf("HTTP %d is no answer to a claim", a.status)}
	}
	placed.Replayed = a.header.Get("Idempotent-Replayed") == "true"
	return placed, nil
}

// undecided says whether the same claim should be sent again, and whether this
// try may have been accepted. After such a try, 429 decides nothing either: it
// says nothing about earlier tries.
func undecided(err error, unknown bool) (again, lost bool) {
	var e *Error
	if !errors.As(err, &e) {
		var network *NetworkError
		var op *net.OpError
		neverSent := errors.As(err, &op) && op.Op == "dial"
		return errors.As(err, &network), !neverSent
	}
	switch e.Code {
	case sluice.Overloaded.String(), sluice.Unavailable.String():
		return true, false
	case api.CodeOutcomeUnknown:
		return true, true
	case sluice.RateLimited.String():
		return unknown, false
	case "":
		if e.Status == http.StatusTooManyRequests { // a proxy's
			return unknown, false
		}
		// A proxy's 502 or 504: the server behind it may have decided.
		return e.Status >= 500, true
	}
	return false, false
}

// looked reports whether a server answered that knows what became of earlier
// tries: no proxy did, and it was no answer to a token that has expired meanwhile.
func looked(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code != "" && e.Status != http.StatusUnauthorized
}

// pause waits before the next try; false when there is no time left for it.
func pause(ctx context.Context, n int, err error) bool {
	wait := min(firstWait<<min(n-1, 10), maxWait)
	wait = wait/2 + rand.N(wait/2+1) // a crowd must not return in step
	if e, ok := errors.AsType[*Error](err); ok {
		wait = max(wait, e.RetryAfter)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return false
	}
	return pauseFor(ctx, min(wait, longestWait))
}

// pauseFor waits; false when the context ends first.
func pauseFor(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Challenge asks for the proof of work that a sale wants before a ticket.
func (c *Client) Challenge(ctx context.Context, sale sluice.SaleID) (api.Challenge, error) {
	return call[api.Challenge](ctx, c, c.token, http.MethodPost, salePath(sale)+"/challenge", nil)
}

// AskTicket asks once for a purchase ticket of the buyer of the client's token.
func (c *Client) AskTicket(ctx context.Context, sale sluice.SaleID, ask api.AskTicket) (api.Ticket, error) {
	return call[api.Ticket](ctx, c, c.token, http.MethodPost, salePath(sale)+"/ticket", ask)
}

// Ticket gets a purchase ticket: it does the proof of work if the sale asks for
// one, which takes as long as it takes, until ctx ends. RiskToken is what a page
// would hand on from the merchant's captcha; it may be empty.
//
// Before tickets are handed out the error has the code not_open; of a sale that
// asks for no tickets, sale_state.
func (c *Client) Ticket(ctx context.Context, sale sluice.SaleID, riskToken string) (api.Ticket, error) {
	ask := api.AskTicket{Token: riskToken}
	ticket, err := c.AskTicket(ctx, sale, ask)
	var refused *Error
	if !errors.As(err, &refused) || refused.Reason != "challenge_missing" {
		return ticket, err
	}
	challenge, err := c.Challenge(ctx, sale)
	if err != nil {
		return api.Ticket{}, err
	}
	ask.Challenge = challenge.Challenge
	if ask.Nonce, err = tickets.Solve(ctx, challenge.Challenge, int(challenge.Difficulty)); err != nil {
		return api.Ticket{}, err
	}
	return c.AskTicket(ctx, sale, ask)
}
