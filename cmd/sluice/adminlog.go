package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

func (a *app) adminCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "admin", Short: "Show what admins did"}
	group(cmd)
	cmd.AddCommand(a.adminLog())
	return cmd
}

func (a *app) adminLog() *cobra.Command {
	var filter sluice.AdminActionFilter
	cmd := &cobra.Command{
		Use: "log", Short: "List what admins changed, or tried to, the newest first", Args: exactly(),
		Long: "Lists every request that changed something, or was to, by the name of the key it\n" +
			"came with; and requests that were forbidden (status 403), within bounds.",
	}
	pageFlag(cmd, &filter.Limit, "entries of a page, at most 1000")
	cmd.Flags().StringVar(&filter.Cursor, "cursor", "", "go on at this `CURSOR`, which the page before gave")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		page, err := c.AdminActions(ctx, filter)
		if err != nil {
			return err
		}
		headers := []string{"AT", "BY", "ROUTE", "ABOUT", "OUTCOME", "FROM", "REQUEST"}
		err = printList(a, page, headers, page.Actions, func(action *api.AdminAction) []string {
			return []string{
				action.At.String(), action.By, action.Route, cmp.Or(string(action.OrderID), string(action.SaleID)),
				strings.TrimSpace(strconv.Itoa(action.Status) + " " + action.Code), action.Address, action.RequestID,
			}
		})
		a.sayMore(page.NextCursor)
		return err
	})
}
