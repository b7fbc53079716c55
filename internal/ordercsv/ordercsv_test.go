package ordercsv

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
)

// No text that a buyer, or a payment service, chose becomes a formula.
func TestExportedCellsAreNoFormulas(t *testing.T) {
	for _, text := range []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1"} {
		o := api.Order{Reason: text, PaymentID: text}
		o.BuyerID, o.Key, o.Meta = "=1+1", "-attempt", []byte(`{"note":"=1"}`)
		cells := row(&o)
		for i, text := range cells {
			if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
				t.Errorf("%s: %q", columns[i], text)
			}
		}
		if cells[2] != "'=1+1" || cells[17] != `{"note":"=1"}` {
			t.Errorf("%q", cells)
		}
	}
}
