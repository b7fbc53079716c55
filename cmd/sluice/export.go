package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
)

func (a *app) orderExport() *cobra.Command {
	var of orderFilter
	var format string
	cmd := &cobra.Command{
		Use: "export", Short: "Write all stored orders as NDJSON or CSV, oldest first", Args: exactly(),
		Long: "Writes to standard output, a page at a time, however many orders there are. What\n" +
			"changes meanwhile may stand there as it was before or after. ndjson: an order a\n" +
			"line, as the API shows it. csv: RFC 4180 in UTF-8, with a header; columns are only\n" +
			"ever added, at the end. When it does not end with exit code 0, it is not complete.",
		Example: "  sluice order export --sale phone --status paid --format csv > paid.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := of.filter()
			if err != nil {
				return err
			}
			out := bufio.NewWriterSize(a.stdout, 64<<10)
			var writer orderWriter
			switch {
			case format == "ndjson":
				writer = newNDJSON(out)
			case format == "csv" && a.json:
				return usage(fmt.Errorf("--json and --format csv: want one or the other"))
			case format == "csv":
				writer = newCSV(out)
			default:
				return usage(fmt.Errorf("--format %q: want ndjson or csv", format))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			for order, err := range c.AllAdminOrders(cmd.Context(), filter) {
				if err == nil {
					err = writer.order(&order)
				}
				if err != nil {
					_ = out.Flush()
					return fmt.Errorf("the export is not complete: %w", err)
				}
			}
			if err := writer.end(); err != nil {
				return fmt.Errorf("the export is not complete: %w", err)
			}
			if err := out.Flush(); err != nil {
				return fmt.Errorf("the export is not complete: %w", err)
			}
			return nil
		},
	}
	of.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "`FORMAT`: ndjson or csv")
	clientFlags(cmd)
	return cmd
}

// orderWriter writes orders in some format.
type orderWriter interface {
	order(o *api.Order) error
	end() error
}

// ndjson is an order a line, as JSON.
type ndjson struct{ enc *json.Encoder }

func newNDJSON(w io.Writer) *ndjson {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &ndjson{enc}
}

func (n *ndjson) order(o *api.Order) error { return n.enc.Encode(o) }
func (n *ndjson) end() error               { return nil }

// orderCSV is RFC 4180: lines end with CRLF, the first one has the names of
// the columns.
type orderCSV struct {
	w   *csv.Writer
	err error // of the header
}

// csvHeader: other programs read it; columns are added at the end.
var csvHeader = []string{
	"order_id", "sale_id", "buyer_id", "quantity", "status", "reason", "price_amount", "price_currency", "payment_id",
	"accepted_at", "stored_at", "expires_at", "keep_until", "updated_at", "idempotency_key", "epoch", "seq", "meta",
}

func newCSV(w io.Writer) *orderCSV {
	c := &orderCSV{w: csv.NewWriter(w)}
	c.w.UseCRLF = true
	c.err = c.w.Write(csvHeader)
	return c
}

func (c *orderCSV) order(o *api.Order) error {
	if c.err != nil {
		return c.err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	meta := string(o.Meta)
	if meta == "null" {
		meta = ""
	}
	return c.w.Write([]string{
		string(o.OrderID), string(o.SaleID), cell(string(o.BuyerID)), number(o.Quantity), string(o.Status), cell(o.Reason),
		number(o.Price.Amount), o.Price.Currency, cell(o.PaymentID),
		o.AcceptedAt.String(), timeOrNone(o.StoredAt), timeOrNone(o.ExpiresAt), timeOrNone(o.KeepUntil),
		timeOrNone(o.UpdatedAt),
		cell(string(o.Key)), number(o.Epoch), number(o.Seq), cell(meta),
	})
}

// cell keeps a spreadsheet from taking a text that others chose for a formula: an
// apostrophe before it makes it text.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (c *orderCSV) end() error {
	c.w.Flush()
	if c.err != nil {
		return c.err
	}
	return c.w.Error()
}
