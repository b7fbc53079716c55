package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// followEvery is how often --follow asks for more.
const followEvery = 500 * time.Millisecond

func (a *app) eventsCommand() *cobra.Command {
	var after string
	var limit int
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "List what happened to orders and sales, in order", Args: exactly(),
		Long: "Lists the events after --after, in the order in which they were numbered; all of\n" +
			"them without it. With --follow it goes on until it is interrupted, and waits for\n" +
			"a server that does not answer; without --after it then begins with what comes\n" +
			"next. With --json it prints an event a line, as webhooks carry them.",
		Example: "  sluice events --json > events.ndjson\n" +
			"  sluice events --follow\n" +
			"  sluice events --after evt_17_0123abcd --limit 100",
	}
	cmd.Flags().StringVar(&after, "after", "", "only what came after the event with this `ID`")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most `N` events (default: all)")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with what happens")
	before(cmd, func([]string) error {
		if limit < 0 {
			return errors.New("--limit: want 0 (no limit) or more")
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if follow && after == "" {
			after = client.LatestEvent
		}
		return a.printEvents(ctx, c, after, limit, follow)
	})
}

// printEvents prints events page by page, as they come.
func (a *app) printEvents(ctx context.Context, c *client.Client, after string, limit int, follow bool) error {
	for printed := 0; ; {
		size := 1000
		if limit > 0 {
			size = min(size, limit-printed)
		}
		page, err := c.Events(ctx, after, size)
		switch {
		case err != nil && ctx.Err() != nil && follow:
			return nil // interrupted, as it is meant to be
		case err != nil && follow && mayRecover(err):
			a.say("%v; trying again", err)
		case err != nil:
			return err
		default:
			for i := range page.Events {
				if err := a.printEvent(&page.Events[i]); err != nil {
					return err
				}
			}
			after = page.Next
			printed += len(page.Events)
		}
		switch {
		case limit > 0 && printed >= limit:
			return nil
		case err == nil && len(page.Events) > 0:
			continue
		case !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// mayRecover reports whether a retry may help: there was no answer, or a
// server error.
func mayRecover(err error) bool {
	var answer *client.Error
	var network *client.NetworkError
	return errors.As(err, &network) || errors.As(err, &answer) && answer.Status >= http.StatusInternalServerError
}

// printEvent prints a line.
func (a *app) printEvent(e *api.Event) error {
	if a.json {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", line)
		return err
	}
	text := ""
	switch d := e.Data; {
	case d.Order != nil && d.RefusedPaymentID != "":
		text = fmt.Sprintf("%s  %s  payment %s", d.Order.OrderID, clean(string(d.Order.BuyerID)), clean(d.RefusedPaymentID))
	case d.Order != nil:
		text = fmt.Sprintf("%s  %s", d.Order.OrderID, clean(string(d.Order.BuyerID)))
	case d.Sale != nil:
		text = string(d.Sale.ID)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s  %-21s  %s\n", e.ID, e.CreatedAt, e.Type, text)
	return err
}
