package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func (a *app) adminCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "admin", Short: "Show what admins did"}
	group(cmd)
	cmd.AddCommand(a.adminLog())
	return cmd
}

func (a *app) adminLog() *cobra.Command {
	var size int
	var cursor string
	cmd := &cobra.Command{
		Use: "log", Short: "List what admins changed, or tried to, the newest first", Args: exactly(),
		Long: "Lists every request that changed something, or was to, by the name of the key it\n" +
			"came with; and requests that were forbidden (status 403), within bounds.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if size < 1 || size > sluice.MaxPage {
				return usage(fmt.Errorf("--limit: want 1 to %d", sluice.MaxPage))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			page, err := c.AdminActions(cmd.Context(), sluice.AdminActionFilter{Limit: size, Cursor: cursor})
			if err != nil {
				return err
			}
			return a.printActions(page)
		},
	}
	cmd.Flags().IntVar(&size, "limit", 100, "entries of a page, at most 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on at this `CURSOR`, which the page before gave")
	clientFlags(cmd)
	return cmd
}

func (a *app) printActions(page api.AdminActionPage) error {
	if a.json {
		if page.Actions == nil {
			page.Actions = []api.AdminAction{}
		}
		return a.printJSON(page)
	}
	rows := make([][]string, len(page.Actions))
	for i, action := range page.Actions {
		about := string(action.OrderID)
		if about == "" {
			about = string(action.SaleID)
		}
		outcome := strconv.Itoa(action.Status)
		if action.Code != "" {
			outcome += " " + action.Code
		}
		rows[i] = []string{
			action.At.String(), clean(action.By), clean(action.Route), clean(about), clean(outcome),
			clean(action.Address), clean(action.RequestID),
		}
	}
	a.printTable([]string{"AT", "BY", "ROUTE", "ABOUT", "OUTCOME", "FROM", "REQUEST"}, rows)
	if page.NextCursor != "" {
		a.say("more with --cursor %s", page.NextCursor)
	}
	return nil
}
