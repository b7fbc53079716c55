package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

// followEvery is how often --follow asks for more.
const followEvery = 500 * time.Millisecond

func (a *app) eventsCommand() *cobra.Command {
	var after string
	var limit int
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "List what happened to orders and sales, in order", Args: exactly(),
		Long: "Lists events in the order of their numbers: all, or those after --after. With --follow " +
			"the command prints new events until it is interrupted, and waits for a server that does not " +
			"answer; without --after it begins with the next event, with an empty one (--after \"\") with " +
			"the first event that is kept. --json prints an event a line, as webhooks carry them.",
		Example: "  sluice events --json > events.ndjson\n" +
			"  sluice events --follow\n" +
			"  sluice events --after evt_17_0123abcd --limit 100",
	}
	cmd.Flags().StringVar(&after, "after", "", "only events after the event with this `ID`")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most `N` events (default: all)")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for new events and print them")
	before(cmd, func([]string) error {
		if limit < 0 {
			return errors.New("--limit: want 0 (no limit) or more")
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		if follow && !cmd.Flags().Changed("after") {
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
	cells := []string{e.ID, a.short(&e.CreatedAt), fmt.Sprintf("%-21s", e.Type)}
	switch d := e.Data; {
	case d.Order != nil:
		cells = append(cells, string(d.Order.OrderID), clean(string(d.Order.BuyerID)))
		if d.RefusedPaymentID != "" {
			cells = append(cells, "payment "+clean(d.RefusedPaymentID))
		}
	case d.Sale != nil:
		cells = append(cells, string(d.Sale.ID))
	}
	a.printColumns([][]string{cells}, nil)
	return nil
}

func (a *app) webhookCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "webhook", Short: "Post events of orders and sales to endpoints of yours"}
	return group(cmd, a.webhookCreate(), a.webhookList(),
		verb(a, "show ID", "Show an endpoint", (*client.Client).Webhook, a.printWebhook),
		verb(a, "enable ID", "Let a disabled endpoint go on with the next event it lacks", (*client.Client).EnableWebhook,
			a.printWebhook),
		verb(a, "disable ID", "Stop an endpoint; its events wait", (*client.Client).DisableWebhook, a.printWebhook),
		a.webhookDelete(), a.webhookDeliveries(), a.webhookReplay(), a.webhookTest())
}

func (a *app) webhookCreate() *cobra.Command {
	var message api.CreateWebhook
	var types []string
	cmd := &cobra.Command{
		Use: "create URL", Short: "Add an endpoint, and print its secret", Args: exactly("URL"),
		Long: "Adds an endpoint that gets the events from now on. The secret that its signatures " +
			"are verified with is printed once; keep it.",
		Example: "  sluice webhook create https://shop.example/hooks/sluice\n" +
			"  sluice webhook create http://10.0.0.7:9000/ --types order.created,order.paid",
	}
	cmd.Flags().StringSliceVar(&types, "types", nil,
		"only events of these `TYPES`, with commas between them (default: all)")
	cmd.Flags().StringVar(&message.Description, "description", "", "what the endpoint is for, a `TEXT` for people")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		message.URL = args[0]
		for _, t := range types {
			message.Types = append(message.Types, sluice.EventType(t))
		}
		w, err := c.CreateWebhook(ctx, message)
		if err != nil {
			return err
		}
		return a.printWebhook(w)
	})
}

func (a *app) webhookList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all endpoints", Args: exactly()}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		list, err := c.Webhooks(ctx)
		if err != nil {
			return err
		}
		headers := []string{"ID", "STATUS", ">BEHIND", ">PENDING", ">FAILED", ">DELIVERED", "URL", "LAST ERROR"}
		return printList(a, api.WebhookList{Webhooks: list}, headers, list, func(w *api.Webhook) []string {
			return []string{
				string(w.ID), w.Status, figures.Thousands(w.Behind), figures.Thousands(w.Pending), figures.Thousands(w.Failed),
				figures.Thousands(w.Delivered), w.URL, w.LastError,
			}
		})
	})
}

func (a *app) printWebhook(w api.Webhook) error {
	types := make([]string, len(w.Types))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	return a.printRecord(w, [][2]string{
		{"id", string(w.ID)},
		{"url", w.URL},
		{"description", w.Description},
		{"types", strings.Join(types, ", ")},
		{"secret", w.Secret},
		{"status", w.Status},
		{"disabled", strings.TrimSpace(a.local(w.DisabledAt) + " " + w.DisabledWhy)},
		{"behind", figures.Thousands(w.Behind)},
		{"pending", figures.Thousands(w.Pending)},
		{"failed", figures.Thousands(w.Failed)},
		{"delivered", figures.Thousands(w.Delivered)},
		{"last success", a.local(w.LastSuccessAt)},
		{"last failure", strings.TrimSpace(a.local(w.LastFailureAt) + " " + w.LastError)},
	})
}

func (a *app) webhookDelete() *cobra.Command {
	return verb(a, "delete ID", "Delete an endpoint, and forget the events it lacks",
		func(c *client.Client, ctx context.Context, id sluice.WebhookID) (sluice.WebhookID, error) {
			return id, c.DeleteWebhook(ctx, id)
		},
		func(id sluice.WebhookID) error {
			a.say("deleted %s", clean(string(id)))
			return a.printRecord(api.WebhookDeleted{Deleted: id}, nil)
		})
}

func (a *app) webhookDeliveries() *cobra.Command {
	var state, cursor string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries ID", Short: "List the events that have not reached an endpoint", Args: exactly("ID"),
	}
	cmd.Flags().StringVar(&state, "state", "", "only deliveries in this `STATE`: pending or failed")
	cmd.Flags().StringVar(&cursor, "cursor", "", "`CURSOR` that the page before printed")
	pageFlag(cmd, &limit, "at most `N` deliveries")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		page, err := c.Deliveries(ctx, sluice.WebhookID(args[0]), sluice.DeliveryState(state), cursor, limit)
		if err != nil {
			return err
		}
		headers := []string{"EVENT", "SUBJECT", "STATE", ">ATTEMPTS", "NEXT", "LAST ERROR"}
		err = printList(a, page, headers, page.Deliveries, func(d *api.Delivery) []string {
			return []string{
				d.EventID, d.Subject, string(d.State), fmt.Sprint(d.Attempts), a.short(d.NextAt), d.LastError,
			}
		})
		a.sayMore(page.NextCursor)
		return err
	})
}

func (a *app) webhookTest() *cobra.Command {
	cmd := verb(a, "test ID", "Post a message to an endpoint, to see whether it arrives", (*client.Client).TestWebhook,
		func(t api.WebhookTested) error {
			err := a.printRecord(t, [][2]string{
				{"message", t.EventID},
				{"answer", strconv.Itoa(t.Status)},
				{"took", fmt.Sprintf("%d ms", t.TookMS)},
			})
			if err == nil && !t.Delivered {
				err = fmt.Errorf("the test was not delivered: %s", clean(t.Error))
			}
			return err
		})
	cmd.Long = "Posts a signed message of the type webhook.test, once, also to a disabled endpoint, and " +
		"prints the answer. Its events go on as before. A receiver answers 200 to types that " +
		"it does not know."
	cmd.Example = "  sluice webhook test wh_0123"
	return cmd
}

func (a *app) webhookReplay() *cobra.Command {
	var message api.ReplayWebhook
	cmd := verb(a, "replay ID", "Send events again",
		func(c *client.Client, ctx context.Context, id sluice.WebhookID) (api.WebhookReplayed, error) {
			n, err := c.ReplayWebhook(ctx, id, message)
			return api.WebhookReplayed{Replayed: n}, err
		},
		func(r api.WebhookReplayed) error {
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintf(a.stdout, "%s will be sent again\n", figures.Plural(r.Replayed, "event", "events"))
			return nil
		})
	cmd.Long = "Sends again the events that were given up (--failed), one event (--event), or one " +
		"and all that came after it (--from). A receiver knows repeats by their ids."
	cmd.Example = "  sluice webhook replay wh_0123 --failed\n" +
		"  sluice webhook replay wh_0123 --event evt_17_0123abcd"
	cmd.Flags().BoolVar(&message.Failed, "failed", false, "send the events that were given up")
	cmd.Flags().StringVar(&message.Event, "event", "", "send the event with this `ID`")
	cmd.Flags().StringVar(&message.From, "from", "", "send the event with this `ID` and all events after it")
	return before(cmd, func([]string) error {
		if message.Validate() != nil {
			return errors.New("want one of --failed, --event ID and --from ID; an id is like evt_17_0123abcd")
		}
		return nil
	})
}
