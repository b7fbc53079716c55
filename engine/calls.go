package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
)

// What follows is for programs that embed Sluice and call it without HTTP.

// ErrOutcomeUnknown is returned for a claim that the ledger may have accepted. The same
// claim, with the same key, tells.
var ErrOutcomeUnknown = admission.ErrOutcomeUnknown

// Claim decides one claim of a buyer, as POST /v1/sales/{sale}/orders does: by the same
// gate and in the same batches, and it is durable when the answer comes. Claim
// makes the order's id.
//
// A refusal is a Decision, with its code; Unavailable and Overloaded say nothing about
// earlier claims with this key. Errors: what is wrong with the claim; a *sluice.RefusedError;
// ErrOutcomeUnknown; sluice.ErrClosed, of an engine that is closed: it was never sent.
func (e *Engine) Claim(ctx context.Context, sale sluice.SaleID, claim sluice.Claim, caller sluice.Caller) (
	sluice.Decision, error,
) {
	if e.ended.Load() {
		return sluice.Decision{}, sluice.ErrClosed
	}
	buyer, err := e.who.verifier.BuyerID(claim.Buyer)
	if err != nil {
		return sluice.Decision{}, err
	}
	claim.Buyer = buyer
	if sale.Validate() != nil {
		e.claims.Decided(sale, sluice.SaleNotFound)
		return sluice.Decision{Code: sluice.SaleNotFound}, nil
	}
	claim.Order = sale.Order(noOrder)
	err = cmp.Or(claim.Key.Validate(), claim.Validate())
	if err == nil && claim.Meta != "" && (claim.Meta[0] != '{' || !json.Valid([]byte(claim.Meta))) {
		err = errors.New("meta: want a JSON object")
	}
	if err != nil {
		return sluice.Decision{}, err
	}
	claim.Order = "" // the batcher makes it
	decision, err := e.gate.Claim(ctx, sale, claim, caller)
	var refused *sluice.RefusedError
	switch {
	case errors.Is(err, sluice.ErrClosed):
		return decision, err
	case errors.Is(err, admission.ErrOverloaded):
		decision, err = sluice.Decision{Code: sluice.Overloaded}, nil
	case errors.Is(err, admission.ErrUnanswered), errors.Is(err, admission.ErrRefusesWrites):
		decision, err = sluice.Decision{Code: sluice.Unavailable}, nil
	case errors.As(err, &refused):
		e.claims.Count(sale, api.CodeForbidden)
		e.claims.Refused(sale, string(refused.Reason))
		return decision, err
	case err != nil && !errors.Is(err, ErrOutcomeUnknown): // the caller has left, say
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	if err != nil {
		e.claims.Count(sale, api.CodeOutcomeUnknown)
	} else {
		e.claims.Decided(sale, decision.Code)
	}
	return decision, err
}

// noOrder stands for the digits of an order's id, which the batcher makes.
const noOrder = "00000000000000000000000000000000"

// listening is how often Events asks for what is new, and after an error.
const listening = 250 * time.Millisecond

// Events yields every event after the one with this id, in order, and then those that
// come, until the context ends; from the first event that the store has if the id is
// empty. Keep the id of the last event that was dealt with (Event.ID) and go on after
// it when the program starts again: nothing is skipped.
//
// An error is yielded with a zero Event. After trouble of the store the loop may go on:
// Events then asks again. sluice.ErrBadCursor (the store has been replaced by an older
// copy), a *sluice.EventsGoneError (the events are deleted) and sluice.ErrClosed (the
// engine is closed) are the last.
func (e *Engine) Events(ctx context.Context, after string) iter.Seq2[sluice.Event, error] {
	return func(yield func(sluice.Event, error) bool) {
		for after := after; ctx.Err() == nil; { // a second loop begins there again
			events, next, err := port.EventsAfter(ctx, e.store, after, sluice.MaxPage)
			if ctx.Err() != nil {
				return
			}
			for _, event := range events {
				if !yield(event, nil) {
					return
				}
			}
			if err != nil {
				over := errors.Is(err, sluice.ErrBadCursor) || errors.Is(err, sluice.ErrClosed) ||
					errors.As(err, new(*sluice.EventsGoneError))
				if !yield(sluice.Event{}, err) || over {
					return
				}
			}
			after = next
			if len(events) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(listening):
			}
		}
	}
}
