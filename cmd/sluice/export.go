package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// export writes much to standard output. What is not complete must not pass
// for it.
func (a *app) export(write func(out *bufio.Writer) error) error {
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	err := write(out)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return fmt.Errorf("the export is not complete: %w", err)
	}
	return nil
}

func (a *app) orderExport() *cobra.Command {
	var filter sluice.OrderFilter
	var format string
	cmd := &cobra.Command{
		Use: "export", Short: "Write all stored orders as NDJSON or CSV, oldest first", Args: exactly(),
		Long: "Writes to standard output, a page at a time, however many orders there are. What\n" +
			"changes meanwhile may appear as it was before or after. ndjson: an order a line, as\n" +
			"the API shows it. csv: RFC 4180 in UTF-8, with a header; columns are only ever\n" +
			"added, at the end. When it does not end with exit code 0, it is not complete.",
		Example: "  sluice order export --sale phone --status paid --format csv > paid.csv",
	}
	orderFilter(cmd, &filter)
	cmd.Flags().StringVar(&format, "format", "ndjson", "`FORMAT`: ndjson or csv")
	before(cmd, func([]string) error {
		switch {
		case format == "csv" && a.json:
			return fmt.Errorf("--json and --format csv: want one or the other")
		case format != "csv" && format != "ndjson":
			return fmt.Errorf("--format %q: want ndjson or csv", format)
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		return a.export(func(out *bufio.Writer) error {
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			write := func(o *api.Order) error { return lines.Encode(o) }
			table := csv.NewWriter(out) // lines end with CRLF, the first one has the names of the columns
			table.UseCRLF = true
			if format == "csv" {
				write = func(o *api.Order) error { return table.Write(csvRow(o)) }
				if err := table.Write(csvHeader); err != nil {
					return err
				}
			}
			for order, err := range c.AllAdminOrders(ctx, filter) {
				if err == nil {
					err = write(&order)
				}
				if err != nil {
					return err
				}
			}
			table.Flush()
			return table.Error()
		})
	})
}

// csvHeader: other programs read it; columns are added at the end.
var csvHeader = []string{
	"order_id", "sale_id", "buyer_id", "quantity", "status", "reason", "price_amount", "price_currency", "payment_id",
	"accepted_at", "stored_at", "expires_at", "keep_until", "updated_at", "idempotency_key", "epoch", "seq", "meta",
}

func csvRow(o *api.Order) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		string(o.OrderID), string(o.SaleID), cell(string(o.BuyerID)), number(o.Quantity), string(o.Status), cell(o.Reason),
		number(o.Price.Amount), o.Price.Currency, cell(o.PaymentID),
		o.AcceptedAt.String(), timeOrNone(o.StoredAt), timeOrNone(o.ExpiresAt), timeOrNone(o.KeepUntil),
		timeOrNone(o.UpdatedAt),
		cell(string(o.Key)), number(o.Epoch), number(o.Seq), cell(metaText(o)),
	}
}

// cell keeps a spreadsheet from taking a text that others chose for a formula: an
// apostrophe before it makes it text.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
