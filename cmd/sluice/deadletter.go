package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) deadLetterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letter", Short: "List, show and replay journal entries that could not be stored"}
	group(cmd)
	cmd.AddCommand(a.deadLetterList(), a.deadLetterShow(), a.deadLetterReplay())
	return cmd
}

func (a *app) deadLetterList() *cobra.Command {
	var sale string
	cmd := &cobra.Command{
		Use: "list", Short: "List unresolved dead letters, oldest first", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id := sluice.SaleID(sale)
			if sale != "" {
				if err := id.Validate(); err != nil {
					return usage(fmt.Errorf("--sale: %w", err))
				}
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			letters, err := c.DeadLetters(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printDeadLetters(letters)
		},
	}
	cmd.Flags().StringVar(&sale, "sale", "", "only of this `SALE`")
	clientFlags(cmd)
	return cmd
}

func (a *app) printDeadLetters(letters []api.DeadLetter) error {
	if a.json {
		if letters == nil {
			letters = []api.DeadLetter{}
		}
		return a.printJSON(api.DeadLetterList{DeadLetters: letters})
	}
	rows := make([][]string, len(letters))
	for i, l := range letters {
		rows[i] = []string{
			strconv.FormatInt(l.ID, 10), string(l.SaleID), clean(l.EntryID), figures.Thousands(int64(strings.Count(l.Claims,
				"\n"))),
			timeOrNone(l.At), l.CreatedAt.String(), clean(l.Reason),
		}
	}
	a.printTable([]string{">ID", "SALE", "ENTRY", ">CLAIMS", "ACCEPTED", "SET ASIDE", "REASON"}, rows)
	return nil
}

func (a *app) deadLetterShow() *cobra.Command {
	return a.deadLetterVerb("show", "Show one, with its claims",
		func(ctx context.Context, c *client.Client, id int64) error {
			letter, err := c.DeadLetter(ctx, id)
			if err != nil {
				return err
			}
			return a.printDeadLetter(letter)
		})
}

func (a *app) deadLetterReplay() *cobra.Command {
	cmd := a.deadLetterVerb("replay", "Try to store one again",
		func(ctx context.Context, c *client.Client, id int64) error {
			replayed, err := c.ReplayDeadLetter(ctx, id)
			if err != nil {
				return err
			}
			return a.printReplayed(replayed)
		})
	cmd.Long = "Tries to store the entry's orders; those of an epoch that is over are claimed again,\n" +
		"under their own ids. Orders that could not be saved are named, and the exit code is 2."
	return cmd
}

// deadLetterVerb is a command that does one thing with one dead letter.
func (a *app) deadLetterVerb(verb, short string, do func(context.Context, *client.Client, int64) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id < 1 {
				return usage(fmt.Errorf("dead letter %q: want its number", args[0]))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			return do(cmd.Context(), c, id)
		},
	}
	clientFlags(cmd)
	return cmd
}

func (a *app) printDeadLetter(l api.DeadLetter) error {
	if a.json {
		return a.printJSON(l)
	}
	fields := [][2]string{
		{"id", strconv.FormatInt(l.ID, 10)},
		{"sale", string(l.SaleID)},
		{"entry", clean(l.EntryID)},
		{"reason", clean(l.Reason)},
		{"node", clean(l.Node)},
		{"place", fmt.Sprintf("epoch %d, sequence %d on", l.Epoch, l.FirstSeq)},
		{"accepted", timeOrNone(l.At)},
		{"set aside", l.CreatedAt.String()},
		{"dealt with", strings.TrimSpace(timeOrNone(l.ResolvedAt) + " " + clean(l.Resolution))},
	}
	a.printFields(slices.DeleteFunc(fields, func(f [2]string) bool { return f[1] == "" }))
	for line := range strings.Lines(l.Claims) {
		fmt.Fprintln(a.stdout, "  "+clean(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "  ")))
	}
	return nil
}

// printReplayed names the orders; one that is lost is a failure.
func (a *app) printReplayed(r api.Replayed) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		var rows [][]string
		for _, id := range r.Saved {
			rows = append(rows, []string{string(id), "saved"})
		}
		for _, id := range r.Lost {
			rows = append(rows, []string{string(id), "lost"})
		}
		a.printTable([]string{"ORDER", "OUTCOME"}, rows)
	}
	if len(r.Lost) > 0 {
		return fmt.Errorf("%s could not be saved", figures.Plural(len(r.Lost), "order", "orders"))
	}
	return nil
}
