package redisledger

// ParseURL is parseURL.
var ParseURL = parseURL

// Remembered counts the sales of which this handle has received something.
func (l *Ledger) Remembered() int { return l.sales.Size() }
