package main

import (
	"bufio"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			sale := sluice.SaleID(args[0])
			if err := sale.Validate(); err != nil {
				return usage(err)
			}
			given := 0
			for _, is := range []bool{file != "", empty, export} {
				if is {
					given++
				}
			}
			switch {
			case given > 1:
				return usage(errors.New("--file, --empty, --export: want one of them"))
			case export && a.json:
				return usage(errors.New("--json and --export: want one or the other"))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			var list api.BuyerList
			switch {
			case export:
				return a.exportBuyers(cmd, c, sale, kind)
			case empty:
				list, err = c.ClearBuyers(cmd.Context(), sale, kind)
			case file != "":
				list, err = a.uploadBuyers(cmd, c, sale, kind, file)
			default:
				var page api.BuyerPage
				page, err = c.Buyers(cmd.Context(), sale, kind, 1, "")
				list = page.BuyerList
			}
			if err != nil {
				return err
			}
			return a.printBuyerList(list)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "replace the list by the ids in `PATH`, one a line; - is standard input")
	cmd.Flags().BoolVar(&empty, "empty", false, "take everybody off the list")
	cmd.Flags().BoolVar(&export, "export", false, "write the ids to standard output, one a line")
	clientFlags(cmd)
	return cmd
}

func (a *app) uploadBuyers(cmd *cobra.Command, c *client.Client, sale sluice.SaleID, kind sluice.ListKind,
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
	return c.ReplaceBuyers(cmd.Context(), sale, kind, body)
}

func (a *app) exportBuyers(cmd *cobra.Command, c *client.Client, sale sluice.SaleID, kind sluice.ListKind) error {
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	for cursor := ""; ; {
		page, err := c.Buyers(cmd.Context(), sale, kind, sluice.MaxPage, cursor)
		if err != nil {
			_ = out.Flush()
			return fmt.Errorf("the export is not complete: %w", err)
		}
		for _, id := range page.Buyers {
			fmt.Fprintln(out, id)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("the export is not complete: %w", err)
	}
	return nil
}

func (a *app) printBuyerList(l api.BuyerList) error {
	if a.json {
		return a.printJSON(l)
	}
	updated := "never"
	if l.UpdatedAt != nil {
		updated = l.UpdatedAt.String()
	}
	a.printFields([][2]string{
		{"sale", string(l.SaleID)}, {"list", string(l.List)}, {"buyers", figures.Thousands(l.Size)}, {"updated", updated},
	})
	return nil
}
