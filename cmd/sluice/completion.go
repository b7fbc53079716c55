package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
)

// completionTime bounds how long a shell waits at the Tab key.
const completionTime = 2 * time.Second

// complete makes shells complete what a command and those below it take: words that
// are fixed, and what the server has now.
func (a *app) complete(cmd *cobra.Command) {
	var names []string // of the arguments
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		names = append(names, strings.Trim(word, "[]"))
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(names) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch name := names[len(args)]; {
		case name == "SALE":
			return a.completeWith(cmd, saleIDs)
		case name == "ID" && cmd.Parent().Name() == "webhook":
			return a.completeWith(cmd, webhookIDs)
		case name == "PATH":
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	// The error of both is that the command has no such flag.
	_ = cmd.RegisterFlagCompletionFunc("sale",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.completeWith(cmd, saleIDs)
		})
	var statuses []string
	for _, s := range sluice.Statuses() {
		statuses = append(statuses, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(statuses, cobra.ShellCompDirectiveNoFileComp))
	for _, below := range cmd.Commands() {
		a.complete(below)
	}
}

// completeWith asks the server that the command would call. Without an answer there
// is nothing to complete, and a shell shows no errors.
func (a *app) completeWith(cmd *cobra.Command, values func(context.Context, *client.Client) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var all []string
	err := a.with(func(_ *cobra.Command, c *config.Config, _ []string) error {
		key, err := adminKey(c)
		if err != nil {
			return err
		}
		cl, err := newClient(c.AdminURL, client.Options{AdminKey: key})
		if err == nil {
			all, err = values(ctx, cl)
		}
		return err
	})(cmd, nil)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// A completion is followed by a tab and what the shell shows beside it.

func saleIDs(ctx context.Context, c *client.Client) ([]string, error) {
	sales, err := c.AdminSales(ctx)
	all := make([]string, len(sales))
	for i, s := range sales {
		all[i] = clean(string(s.ID)) + "\t" + clean(string(s.State)+", "+s.Title)
	}
	return all, err
}

func webhookIDs(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Webhooks(ctx)
	all := make([]string, len(list))
	for i, w := range list {
		all[i] = clean(string(w.ID)) + "\t" + clean(w.URL)
	}
	return all, err
}
