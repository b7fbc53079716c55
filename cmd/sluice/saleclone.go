package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

func (a *app) saleClone() *cobra.Command {
	var id, opens string
	var rehearse bool
	var at api.Time
	cmd := &cobra.Command{
		Use: "clone SALE", Short: "Create a sale with the terms and lists of another", Args: exactly("SALE"),
		Long: "Creates a sale with the terms, rules and lists of buyers of another, which lasts as long.\n" +
			"With --rehearse it is one for load tests: its title and SKU say so, and buyers find it by\n" +
			"its id alone. Its orders are real ones, with events and webhooks: their sale is named\n" +
			"SALE-rehearsal. Cancel them, or close it, when you are done.",
		Example: "  sluice sale clone phone --rehearse --opens-at now && sluice load --sale phone-rehearsal\n" +
			"  sluice sale clone phone --id phone-2 --opens-at 2030-01-01T12:00:00Z",
	}
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the new sale (default with --rehearse: SALE-rehearsal)")
	cmd.Flags().StringVar(&opens, "opens-at", "+10m", "`TIME` in RFC 3339, or +10m for in ten minutes, or now")
	cmd.Flags().BoolVar(&rehearse, "rehearse", false, "a sale that no buyer takes for the real one")
	before(cmd, func(args []string) error {
		if !rehearse && id == "" {
			return errors.New("--id is missing (or --rehearse)")
		}
		id = cmp.Or(id, args[0]+"-rehearsal")
		if err := sluice.SaleID(id).Validate(); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
		parsed, err := flagTime("opens-at", opens, time.Now(), "now")
		at = parsed.Value
		return err
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		from, err := c.AdminSale(ctx, sluice.SaleID(args[0]))
		if err != nil {
			return err
		}
		message, err := cloneOf(from, sluice.SaleID(id), at, rehearse)
		if err != nil {
			return err
		}
		// It does not open before it has its lists: who is on them could buy, or not buy.
		var window api.PatchSale // what it gets when it has them
		if time.Until(at.Time) < listsCopied {
			window = api.PatchSale{OpensAt: message.OpensAt, ClosesAt: message.ClosesAt}
			message.OpensAt = api.Some(api.At(time.Now().Add(listsCopied)))
			message.ClosesAt = api.Nullable[api.Time]{}
		}
		made, err := c.CreateSale(ctx, message)
		if err != nil {
			return err
		}
		for _, kind := range []sluice.ListKind{sluice.AllowList, sluice.DenyList} {
			if err := cloneBuyers(ctx, c, from.ID, made.ID, kind); err != nil {
				return fmt.Errorf("sale %s is created, but its %s list is not copied: %w", made.ID, kind, err)
			}
		}
		if window.OpensAt.Set && time.Until(at.Time) < 2*time.Second {
			window.OpensAt = api.Opt[api.Time]{} // too near to be postponed to
			made, err = c.OpenSale(ctx, made.ID)
		}
		if err == nil && window != (api.PatchSale{}) {
			made, err = c.PatchSale(ctx, made.ID, window)
		}
		if err != nil {
			return fmt.Errorf("sale %s is created with its lists, but not with the times that were asked for: %w", id, err)
		}
		return a.printSale(made)
	})
}

// listsCopied is longer than copying lists takes.
const listsCopied = 5 * time.Minute

// cloneOf is the message that creates a sale like another. Both have their fields
// under the same names in JSON, so that a new field needs nothing here.
func cloneOf(from api.AdminSale, id sluice.SaleID, opens api.Time, rehearse bool) (m api.CreateSale, err error) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	m.ID, m.OpensAt = api.Some(id), api.Some(opens)
	if from.ClosesAt != nil {
		m.ClosesAt = api.Value(api.At(opens.Add(from.ClosesAt.Sub(from.OpensAt.Time))))
	}
	if rehearse {
		m.Title, m.SKU = marked("REHEARSAL: ", m.Title), marked("REHEARSAL-", m.SKU)
		m.Visibility = api.Some(sluice.Unlisted)
	}
	return m, err
}

// mostText is how long a title or an SKU may be, in bytes.
const mostText = 256

// marked is a title or an SKU with a mark before it, cut where it would be too long.
func marked(mark, text string) string {
	text = mark + text
	for len(text) > mostText {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

func cloneBuyers(ctx context.Context, c *client.Client, from, to sluice.SaleID, kind sluice.ListKind) error {
	if page, err := c.Buyers(ctx, from, kind, 1, ""); err != nil || page.Size == 0 {
		return err
	}
	read, write := io.Pipe()
	defer read.Close()
	go func() {
		out := bufio.NewWriter(write)
		err := exportBuyers(ctx, c, from, kind, out)
		write.CloseWithError(errors.Join(err, out.Flush()))
	}()
	_, err := c.ReplaceBuyers(ctx, to, kind, read)
	return err
}
