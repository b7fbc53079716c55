package redisledger

// ParseURL is parseURL.
var ParseURL = parseURL

// Remembered counts the sales of which this handle has received something.
func (l *Ledger) Remembered() (n int) {
	l.sales.Range(func(any, any) bool { n++; return true })
	return n
}
