package figures

import (
	"strconv"
	"strings"
)

// Digits counts those that a currency has behind its point, by ISO 4217. format.js of
// the pages and examples/woocommerce have the same table; tests compare.
func Digits(currency string) int {
	if digits, ok := unusual[currency]; ok {
		return digits
	}
	return 2
}

var unusual = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0,
	"UGX": 0, "UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
}

// Money writes an amount in minor units as people do: 199.00 CNY.
func Money(amount int64, currency string) string {
	text := strconv.FormatInt(amount, 10)
	if n := Digits(currency); n > 0 {
		text = strings.Repeat("0", max(n+1-len(text), 0)) + text
		text = text[:len(text)-n] + "." + text[len(text)-n:]
	}
	return text + " " + currency
}
