package redisledger

// What the tests open as the driver does.
var (
	ParseURL     = parseURL
	OpenReadOnly = openReadOnly
)

// Remembered counts the sales of which this handle has received something.
func (l *Ledger) Remembered() int { return l.sales.Size() }

// ReleaseSHA is the name by which Redis knows release.lua.
var ReleaseSHA = releaseScript.sha
