package auth

import (
	"strings"
	"testing"
)

func TestCheckOrigins(t *testing.T) {
	for _, good := range []string{
		"https://shop.example", "http://localhost:3000", "https://shop.example:8443",
		"http://[::1]:3000",
	} {
		if err := CheckOrigins([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, why := range map[string]string{
		"*": "exact", "https://*.shop.example": "exact", "shop.example": "scheme", "null": "scheme", "": "scheme",
		"ftp://x":               "scheme",
		"https://shop.example/": "alone, in lower case: https://shop.example", "https://u@shop.example": "alone",
		"https://shop.example?x": "alone",
		"https://Shop.example":   "lower case", "https://shop.example:443": "no port", "http://shop.example:80": "no port",
		"https://": "scheme",
	} {
		if err := CheckOrigins([]string{"https://good.example", bad}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want a word on %q", bad, err, why)
		}
	}
}
