// Package ordercsv writes orders as a table that spreadsheets and other programs read.
package ordercsv

import (
	"encoding/csv"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/api"
)

// bom begins files that spreadsheets and some editors of Windows take for UTF-8.
const bom = "\ufeff"

// columns: other programs read them; more are added at the end.
var columns = []string{
	"order_id", "sale_id", "buyer_id", "quantity", "status", "reason", "price_amount", "price_currency", "payment_id",
	"accepted_at", "stored_at", "expires_at", "keep_until", "updated_at", "idempotency_key", "epoch", "seq", "meta",
	"amount", "currency",
}

// Write writes orders to w as CSV (RFC 4180, with lines that end with CRLF), the names of the columns first, and before
// them a byte order mark if it is wanted: without one Excel garbles Chinese. Texts that others chose are no formulas.
// It ends at the first error, be it of orders or of w; what it has written then is not whole.
func Write(w io.Writer, mark bool, orders iter.Seq2[api.Order, error]) error {
	if mark {
		if _, err := io.WriteString(w, bom); err != nil {
			return err
		}
	}
	table := csv.NewWriter(w)
	table.UseCRLF = true
	err := table.Write(columns)
	if err != nil {
		return err
	}
	for o, err := range orders {
		if err == nil {
			err = table.Write(row(&o))
		}
		if err != nil {
			return err
		}
	}
	table.Flush()
	return table.Error()
}

func row(o *api.Order) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		string(o.OrderID), string(o.SaleID), cell(string(o.BuyerID)), number(o.Quantity), string(o.Status), cell(o.Reason),
		number(o.Price.Amount), o.Price.Currency, cell(o.PaymentID),
		o.AcceptedAt.String(), when(o.StoredAt), when(o.ExpiresAt), when(o.KeepUntil), when(o.UpdatedAt),
		cell(string(o.Key)), number(o.Epoch), number(o.Seq), cell(strings.TrimPrefix(string(o.Meta), "null")),
		number(o.Amount), o.Currency,
	}
}

// when is empty while there is no such time.
func when(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

// cell keeps a spreadsheet from taking a text that others chose for a formula: an
// apostrophe before it makes it text.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
