package redisledger

import "github.com/sluicehq/sluice"

// ForceLayout makes every load use this layout, whatever the terms.
func (l *Ledger) ForceLayout(layout string) {
	l.layoutFor = func(*sluice.Terms) string { return layout }
}
