package main

import (
	"context"
	"fmt"
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
	replay := letterVerb(a, "replay ID", "Try to store one again", (*client.Client).ReplayDeadLetter, a.printReplayed)
	replay.Long = "Tries to store the entry's orders; those of an epoch that is over are claimed again,\n" +
		"under their own ids. Orders that could not be saved are named, and the exit code is 2."
	cmd.AddCommand(a.deadLetterList(), replay,
		letterVerb(a, "show ID", "Show one, with its claims", (*client.Client).DeadLetter, a.printDeadLetter))
	return cmd
}

// letterVerb is a verb about a dead letter, which has a number.
func letterVerb[T any](a *app, use, short string,
	do func(*client.Client, context.Context, int64) (T, error), show func(T) error,
) *cobra.Command {
	var id int64
	cmd := verb(a, use, short, func(c *client.Client, ctx context.Context, _ string) (T, error) { return do(c, ctx, id) },
		show)
	return before(cmd, func(args []string) (err error) {
		if id, err = strconv.ParseInt(args[0], 10, 64); err != nil || id < 1 {
			return fmt.Errorf("dead letter %q: want its number", args[0])
		}
		return nil
	})
}

func (a *app) deadLetterList() *cobra.Command {
	var sale sluice.SaleID
	cmd := &cobra.Command{Use: "list", Short: "List unresolved dead letters, oldest first", Args: exactly()}
	return a.calls(saleFilter(cmd, &sale), func(ctx context.Context, c *client.Client, _ []string) error {
		letters, err := c.DeadLetters(ctx, sale)
		if err != nil {
			return err
		}
		return a.printDeadLetters(letters)
	})
}

func (a *app) printDeadLetters(letters []api.DeadLetter) error {
	headers := []string{">ID", "SALE", "ENTRY", ">CLAIMS", "ACCEPTED", "SET ASIDE", "REASON"}
	return printList(a, api.DeadLetterList{DeadLetters: letters}, headers, letters, func(l *api.DeadLetter) []string {
		return []string{
			strconv.FormatInt(l.ID, 10), string(l.SaleID), l.EntryID, figures.Thousands(strings.Count(l.Claims, "\n")),
			timeOrNone(l.At), l.CreatedAt.String(), l.Reason,
		}
	})
}

func (a *app) printDeadLetter(l api.DeadLetter) error {
	err := a.printRecord(l, [][2]string{
		{"id", strconv.FormatInt(l.ID, 10)},
		{"sale", string(l.SaleID)},
		{"entry", l.EntryID},
		{"reason", l.Reason},
		{"node", l.Node},
		{"place", fmt.Sprintf("epoch %d, sequence %d on", l.Epoch, l.FirstSeq)},
		{"accepted", timeOrNone(l.At)},
		{"set aside", l.CreatedAt.String()},
		{"resolved", strings.TrimSpace(timeOrNone(l.ResolvedAt) + " " + l.Resolution)},
	})
	for line := range strings.Lines(l.Claims) {
		if !a.json {
			fmt.Fprintln(a.stdout, "  "+clean(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "  ")))
		}
	}
	return err
}

// printReplayed names the orders; one that is lost is a failure.
func (a *app) printReplayed(r api.Replayed) error {
	var rows [][]string
	for _, id := range r.Saved {
		rows = append(rows, []string{string(id), "saved"})
	}
	for _, id := range r.Lost {
		rows = append(rows, []string{string(id), "lost"})
	}
	if err := a.printTable(r, []string{"ORDER", "OUTCOME"}, rows); err != nil || len(r.Lost) == 0 {
		return err
	}
	return fmt.Errorf("%s could not be saved", figures.Plural(len(r.Lost), "order", "orders"))
}
