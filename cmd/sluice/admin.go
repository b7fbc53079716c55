package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) adminCommand() *cobra.Command {
	return group(&cobra.Command{Use: "admin", Short: "Show what admins did"}, a.adminLog())
}

func (a *app) adminLog() *cobra.Command {
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "log", Short: "List what admins changed, or tried to, the newest first", Args: exactly(),
		Long: "Lists every request that changed something, or was to, with the name of the admin's key; " +
			"and requests that were forbidden (status 403), within bounds.",
	}
	pageFlag(cmd, &limit, "entries on a page, at most 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "`CURSOR` that the page before printed")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		page, err := c.AdminActions(ctx, limit, cursor)
		if err != nil {
			return err
		}
		headers := []string{"AT", "BY", "ROUTE", "ABOUT", "OUTCOME", "FROM", "REQUEST"}
		err = printList(a, page, headers, page.Actions, func(action *api.AdminAction) []string {
			return []string{
				a.short(&action.At), action.By, action.Route, cmp.Or(string(action.OrderID), string(action.SaleID)),
				strings.TrimSpace(strconv.Itoa(action.Status) + " " + action.Code), action.Address, action.RequestID,
			}
		})
		a.sayMore(page.NextCursor)
		return err
	})
}

func (a *app) buyerCommand() *cobra.Command {
	return group(&cobra.Command{Use: "buyer", Short: "Erase a buyer's personal data"}, a.buyerErase())
}

// erasureReasons say what an operator does about a sale that waits.
var erasureReasons = map[sluice.ErasureReason]string{
	sluice.NotArchived: "is not archived yet",
	sluice.OnList:      "is not archived yet, and has the buyer on a list: upload the list without the buyer",
	sluice.OwedRefund:  "owes the buyer a refund: make it, then record it (sluice order refund)",
}

func (a *app) buyerErase() *cobra.Command {
	cmd := &cobra.Command{
		Use: "erase BUYER", Short: "Replace a buyer in archived sales by a keyed hash", Args: exactly("BUYER"),
		Long: "Replaces the buyer's id, keys, meta and payment ids in the orders of archived sales, " +
			"in their histories and events, and in dead letters; sums and audits stay the same. An " +
			"erasure cannot be undone. What waits is listed, and the exit code is 2 until a repeat finds " +
			"nothing. The admin log records the erasure, without the id.",
		Example: "  sluice buyer erase customer-4711",
	}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		buyer := sluice.BuyerID(args[0])
		if err := buyer.Validate(); err != nil {
			return usage(err)
		}
		erased, err := c.EraseBuyer(ctx, buyer)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(erased)
		} else {
			fmt.Fprintf(a.stdout, "erased: %s orders, %s dead letters, %s admin actions\n",
				figures.Thousands(erased.Orders), figures.Thousands(erased.DeadLetters),
				figures.Thousands(erased.Actions))
			for _, w := range erased.Waits {
				fmt.Fprintf(a.stdout, "waits: sale %s %s\n", w.Sale, erasureReasons[w.Why])
			}
		}
		if err == nil && len(erased.Waits) > 0 {
			err = &exitError{exitFailed, errors.New("not everything is erased yet; repeat the command later")}
		}
		return err
	})
}

func (a *app) deadLetterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letter", Short: "List, show and replay journal entries that could not be stored"}
	replay := letterVerb(a, "replay ID", "Try to store a dead letter again", (*client.Client).ReplayDeadLetter,
		a.printReplayed)
	replay.Long = "Tries to store the entry's orders; orders of an epoch that is over are claimed again, " +
		"under their own ids. Orders that could not be saved are named, and the exit code is 2."
	return group(cmd, a.deadLetterList(), replay,
		letterVerb(a, "show ID", "Show a dead letter and its claims", (*client.Client).DeadLetter, a.printDeadLetter))
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
	return a.calls(saleFilter(cmd, &sale, "dead letters"), func(ctx context.Context, c *client.Client, _ []string) error {
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
			a.short(l.At), a.short(&l.CreatedAt), l.Reason,
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
		{"accepted", a.local(l.At)},
		{"set aside", a.local(&l.CreatedAt)},
		{"resolved", strings.TrimSpace(a.local(l.ResolvedAt) + " " + l.Resolution)},
	})
	var claims [][]string
	for line := range strings.Lines(l.Claims) {
		cells := strings.Split("  "+strings.TrimRight(line, "\n"), "\t")
		for i := range cells {
			cells[i] = clean(cells[i])
		}
		claims = append(claims, cells)
	}
	if !a.json {
		a.printColumns(claims, nil)
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
	for _, id := range r.Waiting {
		rows = append(rows, []string{string(id), "waiting"})
	}
	if err := a.printTable(r, []string{"ORDER", "OUTCOME"}, rows); err != nil || len(r.Lost) == 0 {
		return err
	}
	return fmt.Errorf("%s could not be saved", figures.Plural(len(r.Lost), "order", "orders"))
}
