package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

const (
	// listenEvery is how often AllEvents asks for what is new.
	listenEvery = time.Second
	// silence ends a stream: the server sends something every 15 seconds.
	silence = 40 * time.Second
)

// AllEvents yields every event after the one with this id, in order, and then those that
// come, until the context ends; from the first one if the id is empty. Keep the id of the
// last event that was dealt with, and go on after it when the program starts again:
// nothing is skipped.
//
// An error is yielded with a zero Event. After one that may pass (no answer, 5xx, 429) the
// loop may go on: AllEvents then asks again. Others are the last, api.CodeStaleCursor and
// api.CodeGone for instance.
func (c *Client) AllEvents(ctx context.Context, after string) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for after, failed := after, 0; ctx.Err() == nil; { // a second loop begins there again
			page, err := c.Events(ctx, after, sluice.MaxPage)
			if err != nil {
				failed++
				if ctx.Err() != nil || !yield(api.Event{}, err) || !mayPass(err) || !pause(ctx, failed, err) {
					return
				}
				continue
			}
			for _, event := range page.Events {
				if !yield(event, nil) {
					return
				}
			}
			after, failed = page.Next, 0
			if len(page.Events) == 0 && !pauseFor(ctx, listenEvery) {
				return
			}
		}
	}
}

// FollowSale yields a sale as it is, and whenever it changes, until the context ends, by
// the stream of the server; states between two that a slow reader takes are left out. An
// error is yielded with a zero Sale. After one that may pass, as for AllEvents, FollowSale
// connects again; others are the last: sale_not_found once it has been deleted or hidden.
func (c *Client) FollowSale(ctx context.Context, id sluice.SaleID) iter.Seq2[api.Sale, error] {
	return func(yield func(api.Sale, error) bool) {
		for failed := 0; ctx.Err() == nil; {
			err := c.stream(ctx, salePath(id)+"/events", func(data []byte) (more bool, err error) {
				var sale api.Sale
				if err = json.Unmarshal(data, &sale); err != nil {
					return false, err
				}
				failed = 0
				return yield(sale, nil), nil
			})
			failed++
			if err == nil || ctx.Err() != nil || !yield(api.Sale{}, err) || !mayPass(err) || !pause(ctx, failed, err) {
				return
			}
		}
	}
}

// stream calls event with the data of each event of a stream while it wants more; then the
// error is nil. The end of the stream is one.
func (c *Client) stream(ctx context.Context, path string, event func(data []byte) (more bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := func(err error) error { return &NetworkError{URL: c.base, Err: cmp.Or(context.Cause(ctx), err)} }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Accept", "text/event-stream")
	quiet := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the server has said nothing for %s", silence)) })
	defer quiet.Stop()
	res, err := c.untimed().Do(req)
	if err != nil {
		return lost(unwrapURL(err))
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	if res.StatusCode != http.StatusOK {
		lines.Scan()
		return parseError(res, lines.Bytes())
	}
	for lines.Scan() {
		quiet.Reset(silence)
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		quiet.Stop() // the caller may take its time
		if more, err := event(data); err != nil {
			return lost(fmt.Errorf("an event: %w", err))
		} else if !more {
			return nil
		}
		quiet.Reset(silence)
	}
	return lost(cmp.Or(lines.Err(), errors.New("the server has ended the stream")))
}

// mayPass reports whether asking again may help.
func mayPass(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status >= 500 || e.Status == http.StatusTooManyRequests
	}
	_, ok := errors.AsType[*NetworkError](err)
	return ok
}
