package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

// saleBuyers is `sale allow` and `sale deny`.
func (a *app) saleBuyers(kind sluice.ListKind, short, long string) *cobra.Command {
	var file string
	var empty, export bool
	cmd := &cobra.Command{
		Use: string(kind) + " SALE", Short: short, Args: exactly("SALE"),
		Long: long + "\n\nWithout flags it shows how long the list is. --file replaces all of it at one moment;\n" +
			"a file that is wrong somewhere changes nothing. Servers follow within two seconds.",
		Example: fmt.Sprintf("  sluice sale %s phone --file buyers.txt\n  sluice sale %s phone --export > buyers.txt", kind,
			kind),
	}
	cmd.Flags().StringVar(&file, "file", "", "replace the list by the ids in `PATH`, one a line; - is standard input")
	cmd.Flags().BoolVar(&empty, "empty", false, "take all buyers off the list")
	cmd.Flags().BoolVar(&export, "export", false, "write the ids to standard output, one a line")
	before(cmd, func([]string) error {
		switch {
		case file != "" && (empty || export) || empty && export:
			return errors.New("--file, --empty, --export: want one of them")
		case export && a.json:
			return errors.New("--json and --export: want one or the other")
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) (err error) {
		sale := sluice.SaleID(args[0])
		var list api.BuyerList
		switch {
		case export:
			return a.export(func(out *bufio.Writer) error { return exportBuyers(ctx, c, sale, kind, out) })
		case empty:
			list, err = c.ClearBuyers(ctx, sale, kind)
		case file != "":
			list, err = a.uploadBuyers(ctx, c, sale, kind, file)
		default:
			var page api.BuyerPage
			page, err = c.Buyers(ctx, sale, kind, 1, "")
			list = page.BuyerList
		}
		if err != nil {
			return err
		}
		updated := "never"
		if list.UpdatedAt != nil {
			updated = list.UpdatedAt.String()
		}
		return a.printRecord(list, [][2]string{
			{"sale", string(list.SaleID)},
			{"list", string(list.List)},
			{"buyers", figures.Thousands(list.Size)},
			{"updated", updated},
		})
	})
}

func (a *app) uploadBuyers(ctx context.Context, c *client.Client, sale sluice.SaleID, kind sluice.ListKind,
	path string,
) (api.BuyerList, error) {
	var body io.Reader = a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return api.BuyerList{}, usage(err)
		}
		defer f.Close()
		body = f
	}
	return c.ReplaceBuyers(ctx, sale, kind, body)
}

func exportBuyers(ctx context.Context, c *client.Client, sale sluice.SaleID, kind sluice.ListKind,
	out io.Writer,
) error {
	for cursor := ""; ; {
		page, err := c.Buyers(ctx, sale, kind, sluice.MaxPage, cursor)
		if err != nil {
			return err
		}
		for _, id := range page.Buyers {
			if _, err := fmt.Fprintln(out, id); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}
