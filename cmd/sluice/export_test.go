package main

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
)

// No text that a buyer, or a payment service, chose becomes a formula.
func TestExportedCellsAreNoFormulas(t *testing.T) {
	var out strings.Builder
	w := newCSV(&out)
	formulas := []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(1)", "\t=1", "\r=1"}
	for _, text := range formulas {
		o := api.Order{Reason: text, PaymentID: text}
		o.BuyerID, o.Key, o.Meta = "=1+1", "-attempt", []byte(`{"note":"=1"}`)
		if err := w.order(&o); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil || len(rows) != 1+len(formulas) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		for i, text := range row {
			if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
				t.Errorf("%s: %q", rows[0][i], text)
			}
		}
		if row[2] != "'=1+1" || row[17] != `{"note":"=1"}` {
			t.Errorf("%q", row)
		}
	}
}
