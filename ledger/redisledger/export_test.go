package redisledger

import "github.com/sluicehq/sluice"

// ParseURL is parseURL.
var ParseURL = parseURL

// ForceLayout makes every load use this layout, whatever the terms.
func (l *Ledger) ForceLayout(layout string) {
	l.layoutFor = func(*sluice.Terms) string { return layout }
}

// Remembered counts the sales of which this handle has received something.
func (l *Ledger) Remembered() (n int) {
	l.sales.Range(func(any, any) bool { n++; return true })
	return n
}
