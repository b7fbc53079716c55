package sluicetest_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/sluicetest"
)

// An order that nobody pays expires, and its unit is for sale again: fifteen minutes that pass at once.
func TestAnOrderExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sluicetest.Open(t, engine.Config{})
		sale := sluice.NewSale(1, 1) // one unit, open now
		sale.ID, sale.Title, sale.Price = "phone", "A phone", sluice.Money{Amount: 99900, Currency: "CNY"}
		if _, err := e.Control().Create(t.Context(), sale); err != nil {
			t.Fatal(err)
		}
		claim := sluice.Claim{Buyer: "ann", Key: sluice.NewKey(), Quantity: 1}
		placed, err := e.Claim(t.Context(), "phone", claim, sluice.Caller{})
		if err != nil || placed.Code != sluice.Accepted {
			t.Fatal(placed, err)
		}

		time.Sleep(sale.PaymentWindow + sale.PaymentGrace + time.Second)

		order, err := e.Order(t.Context(), placed.Order)
		if err != nil || order.Status != sluice.Expired {
			t.Error(order.Status, err)
		}
		if now, err := e.Sale(t.Context(), "phone"); err != nil || *now.Available != 1 {
			t.Error(now.State, err)
		}
	})
}

// docs/library.md shows the test above.
func TestDocumented(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(source), "\nfunc TestAnOrderExpires")
	shown, _, _ = strings.Cut(shown, "\n}\n")
	for _, page := range []string{"library.md", "library.zh-CN.md"} {
		text, err := os.ReadFile("../docs/" + page)
		if err != nil || !strings.Contains(string(text), "\nfunc TestAnOrderExpires"+shown+"\n}\n") {
			t.Errorf("docs/%s does not show it: %v", page, err)
		}
	}
}
