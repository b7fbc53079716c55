package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) webhookCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "webhook", Short: "Post events of orders and sales to endpoints of yours"}
	group(cmd)
	cmd.AddCommand(a.webhookCreate(), a.webhookList(),
		a.webhookVerb("show", "Show one", (*client.Client).Webhook),
		a.webhookVerb("enable", "Let a disabled one go on where it was", (*client.Client).EnableWebhook),
		a.webhookVerb("disable", "Stop one; its events wait", (*client.Client).DisableWebhook),
		a.webhookDelete(), a.webhookDeliveries(), a.webhookReplay())
	return cmd
}

func (a *app) webhookCreate() *cobra.Command {
	var message api.CreateWebhook
	var types []string
	cmd := &cobra.Command{
		Use: "create URL", Short: "Add an endpoint, and print its secret", Args: exactly("URL"),
		Long: "Adds an endpoint that gets the events from now on. The secret that its signatures\n" +
			"are verified with is printed once; keep it.",
		Example: "  sluice webhook create https://shop.example/hooks/sluice\n" +
			"  sluice webhook create http://10.0.0.7:9000/ --types order.created,order.paid",
		RunE: func(cmd *cobra.Command, args []string) error {
			message.URL = args[0]
			for _, t := range types {
				message.Types = append(message.Types, sluice.EventType(t))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			w, err := c.CreateWebhook(cmd.Context(), message)
			if err != nil {
				return err
			}
			return a.printWebhook(w)
		},
	}
	cmd.Flags().StringSliceVar(&types, "types", nil,
		"only events of these `TYPES`, with commas between them (default: all)")
	cmd.Flags().StringVar(&message.Description, "description", "", "what it is, a `TEXT` for people")
	clientFlags(cmd)
	return cmd
}

func (a *app) webhookList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List all of them", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			list, err := c.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				if list == nil {
					list = []api.Webhook{}
				}
				return a.printJSON(api.WebhookList{Webhooks: list})
			}
			rows := make([][]string, len(list))
			for i, w := range list {
				rows[i] = []string{
					string(w.ID), w.Status, figures.Thousands(w.Behind), figures.Thousands(w.Pending), figures.Thousands(w.Failed),
					figures.Thousands(w.Delivered),
					clean(w.URL), clean(w.LastError),
				}
			}
			a.printTable([]string{"ID", "STATUS", ">BEHIND", ">PENDING", ">FAILED", ">DELIVERED", "URL", "LAST ERROR"}, rows)
			return nil
		},
	}
	clientFlags(cmd)
	return cmd
}

// webhookVerb is a command that does one thing with one webhook, and shows it.
func (a *app) webhookVerb(verb, short string,
	do func(*client.Client, context.Context, sluice.WebhookID) (api.Webhook, error),
) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			w, err := do(c, cmd.Context(), sluice.WebhookID(args[0]))
			if err != nil {
				return err
			}
			return a.printWebhook(w)
		},
	}
	clientFlags(cmd)
	return cmd
}

func (a *app) printWebhook(w api.Webhook) error {
	if a.json {
		return a.printJSON(w)
	}
	types := make([]string, len(w.Types))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	fields := [][2]string{
		{"id", string(w.ID)},
		{"url", clean(w.URL)},
		{"description", clean(w.Description)},
		{"types", strings.Join(types, ", ")},
		{"secret", w.Secret},
		{"status", w.Status},
		{"disabled", strings.TrimSpace(timeOrNone(w.DisabledAt) + " " + clean(w.DisabledWhy))},
		{"behind", figures.Thousands(w.Behind)},
		{"pending", figures.Thousands(w.Pending)},
		{"failed", figures.Thousands(w.Failed)},
		{"delivered", figures.Thousands(w.Delivered)},
		{"last success", timeOrNone(w.LastSuccessAt)},
		{"last failure", strings.TrimSpace(timeOrNone(w.LastFailureAt) + " " + clean(w.LastError))},
	}
	a.printFields(slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" }))
	return nil
}

func (a *app) webhookDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete one, and forget what has not reached it", Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			if err := c.DeleteWebhook(cmd.Context(), sluice.WebhookID(args[0])); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(api.WebhookDeleted{Deleted: sluice.WebhookID(args[0])})
			}
			a.say("deleted %s", clean(args[0]))
			return nil
		},
	}
	clientFlags(cmd)
	return cmd
}

func (a *app) webhookDeliveries() *cobra.Command {
	var state, after string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries ID", Short: "List the events that have not reached one", Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > sluice.MaxPage {
				return usage(fmt.Errorf("--limit: want 1 to %d", sluice.MaxPage))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			page, err := c.Deliveries(cmd.Context(), sluice.WebhookID(args[0]), sluice.DeliveryState(state), after, limit)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(page)
			}
			rows := make([][]string, len(page.Deliveries))
			for i, d := range page.Deliveries {
				rows[i] = []string{
					d.EventID, clean(d.Subject), string(d.State), fmt.Sprint(d.Attempts), timeOrNone(d.NextAt),
					clean(d.LastError),
				}
			}
			a.printTable([]string{"EVENT", "SUBJECT", "STATE", ">ATTEMPTS", "NEXT", "LAST ERROR"}, rows)
			if page.Next != "" {
				a.say("more: --after %s", page.Next)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only in this `STATE`: pending or failed")
	cmd.Flags().StringVar(&after, "after", "", "the `NEXT` of the page before")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most `N`")
	clientFlags(cmd)
	return cmd
}

func (a *app) webhookReplay() *cobra.Command {
	var message api.ReplayWebhook
	cmd := &cobra.Command{
		Use: "replay ID", Short: "Send events again", Args: exactly("ID"),
		Long: "Sends again the events that were given up (--failed), one event (--event), or one\n" +
			"and all that came after it (--from). A receiver knows repeats by their ids.",
		Example: "  sluice webhook replay wh_0123 --failed\n" +
			"  sluice webhook replay wh_0123 --event evt_17_0123abcd",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := message.Validate(); err != nil {
				return usage(errors.New("want one of --failed, --event ID and --from ID; an id is like evt_17_0123abcd"))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			n, err := c.ReplayWebhook(cmd.Context(), sluice.WebhookID(args[0]), message)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(api.WebhookReplayed{Replayed: n})
			}
			fmt.Fprintf(a.stdout, "%s will be sent again\n", figures.Plural(n, "event", "events"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&message.Failed, "failed", false, "those that were given up")
	cmd.Flags().StringVar(&message.Event, "event", "", "the one with this `ID`")
	cmd.Flags().StringVar(&message.From, "from", "", "the one with this `ID`, and all that came after it")
	clientFlags(cmd)
	return cmd
}
