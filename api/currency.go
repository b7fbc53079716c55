package api

import (
	"fmt"

	"github.com/sluicehq/sluice"
)

// mistaken are names of currencies that have the form of a code, and are none
// of ISO 4217: browsers and payment services do not know them. All other codes
// are let through, since new ones come every few years.
var mistaken = map[string]string{
	"RMB": "CNY", "NTD": "TWD", "YEN": "JPY", "WON": "KRW", "UKP": "GBP", "STG": "GBP", "NIS": "ILS",
}

// checkCurrency refuses a currency that is commonly mistaken for a code.
func checkCurrency(field string, m sluice.Money) error {
	if right, ok := mistaken[m.Currency]; ok {
		return fmt.Errorf("%s: currency %q: want an ISO 4217 code like %s", field, m.Currency, right)
	}
	return nil
}
