package sluice

import (
	"context"
	"errors"
)

// LatestEvent, in place of an event's id, is the last event there is.
const LatestEvent = "latest"

// EventsAfter reads up to limit events after the one with this id, and returns them with
// the id to go on from. No id means from the first event that the store still has. A
// limit of 0 finds the id alone.
//
// The event that is named must be the one that stands at its number: so a store that
// was replaced by an older copy is noticed. ErrBadCursor if it is not, an
// *EventsGoneError if events after it are deleted.
func EventsAfter(ctx context.Context, s EventStore, after string, limit int) ([]Event, string, error) {
	seq, ok := ParseEventID(after)
	if !ok && after != "" && after != LatestEvent {
		return nil, after, ErrBadCursor
	}
	if after == LatestEvent {
		var err error
		if seq, err = s.LastEvent(ctx); err != nil {
			return nil, after, err
		}
	}
	next := after
	if seq > 0 {
		last, err := s.Events(ctx, seq-1, 1)
		gone, ok := errors.AsType[*EventsGoneError](err)
		switch {
		case ok && gone.First == seq+1: // it alone is gone: the reader has missed nothing
		case err != nil:
			return nil, after, err
		case len(last) == 0 || after != LatestEvent && last[0].ID() != after:
			return nil, after, ErrBadCursor
		default:
			next = last[0].ID()
		}
	} else if after == LatestEvent {
		next = ""
	}
	if limit == 0 || after == LatestEvent {
		return nil, next, nil
	}
	events, err := s.Events(ctx, seq, limit)
	if gone, ok := errors.AsType[*EventsGoneError](err); ok && after == "" {
		events, err = s.Events(ctx, gone.First-1, limit)
	}
	if len(events) > 0 {
		next = events[len(events)-1].ID()
	}
	return events, next, err
}
