package port

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
)

// EventStore is the feed of events. Whatever is committed gets its number a
// little later, by NumberEvents: nothing is skipped, and nothing is numbered twice.
type EventStore interface {
	// NumberEvents gives the next numbers to what was committed and has none,
	// about limit of each kind, and returns how many: fewer than limit only if no
	// more was there when it began, or changes whose orders have no number yet. Several
	// servers may call it at the same time: they follow each other.
	NumberEvents(ctx context.Context, limit int) (int, error)

	// Events returns up to limit events (1 to MaxPage) numbered after this one,
	// in order; fewer only at the end of the feed. ErrBadCursor if after is
	// negative, or beyond the last number: then the store is an older copy. An
	// *EventsGoneError if the event after it is deleted.
	Events(ctx context.Context, after int64, limit int) ([]sluice.Event, error)

	// LastEvent returns the last number given, 0 if there is none.
	LastEvent(ctx context.Context) (int64, error)
}

// EventsAfter reads up to limit events after the one with this id, and returns them with
// the id to go on from. No id means from the first event that the store still has. A
// limit of 0 finds the id alone.
//
// The event that is named must be the one that stands at its number: so a store that
// was replaced by an older copy is noticed. ErrBadCursor if it is not, an
// *EventsGoneError if events after it are deleted.
func EventsAfter(ctx context.Context, s EventStore, after string, limit int) ([]sluice.Event, string, error) {
	seq, ok := sluice.ParseEventID(after)
	if !ok && after != "" && after != sluice.LatestEvent {
		return nil, after, sluice.ErrBadCursor
	}
	if after == sluice.LatestEvent {
		var err error
		if seq, err = s.LastEvent(ctx); err != nil {
			return nil, after, err
		}
	}
	next := after
	if seq > 0 {
		last, err := s.Events(ctx, seq-1, 1)
		gone, ok := errors.AsType[*sluice.EventsGoneError](err)
		switch {
		case ok && gone.First == seq+1: // it alone is gone: the reader has missed nothing
		case err != nil:
			return nil, after, err
		case len(last) == 0 || after != sluice.LatestEvent && last[0].ID() != after:
			return nil, after, sluice.ErrBadCursor
		default:
			next = last[0].ID()
		}
	} else if after == sluice.LatestEvent {
		next = ""
	}
	if limit == 0 || after == sluice.LatestEvent {
		return nil, next, nil
	}
	events, err := s.Events(ctx, seq, limit)
	if gone, ok := errors.AsType[*sluice.EventsGoneError](err); ok && after == "" {
		events, err = s.Events(ctx, gone.First-1, limit)
	}
	if len(events) > 0 {
		next = events[len(events)-1].ID()
	}
	return events, next, err
}
