package redisledger

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sluicehq/sluice"
)

// keys makes the keys of sales; its value is Options.Prefix. The keys of a sale
// share one hash tag, so that they live in one slot of a cluster and one script
// can use them all. docs/redis-keys.md describes what they hold.
type keys string

// name is the text by which the store knows this Redis (Ledger.Name).
func (k keys) name() string { return string(k) + ":name" }

// made exists for ten minutes after that text was made up.
func (k keys) made() string { return string(k) + ":made" }

// sale is the hash with the sale's terms, counters and fence.
func (k keys) sale(id sluice.SaleID) string { return string(k) + ":{" + string(id) + "}:sale" }

// buyers is the hash with every accepted claim, by buyer.
func (k keys) buyers(id sluice.SaleID) string { return string(k) + ":{" + string(id) + "}:buyers" }

// journal is the stream of accepted claims on their way to the store.
func (k keys) journal(id sluice.SaleID) string { return string(k) + ":{" + string(id) + "}:journal" }

// aside is the journal as it stood when the sale was loaded under epoch, with
// the entries that were not acknowledged. It is kept as evidence for a
// rebuild, until the sale is dropped; a load that finds an empty journal leaves
// none.
func (k keys) aside(id sluice.SaleID, epoch int64) string {
	return k.journal(id) + ":before:" + strconv.FormatInt(epoch, 10)
}

// rate is what a buyer's tries have cost so far (Meter.Try). It expires.
func (k keys) rate(id sluice.SaleID, buyer sluice.BuyerID) string {
	return string(k) + ":{" + string(id) + "}:rate:" + string(buyer)
}

// address is the same of an address.
func (k keys) address(id sluice.SaleID, address string) string {
	return string(k) + ":{" + string(id) + "}:addr:" + address
}

// probe is what Confirmed writes. It expires.
func (k keys) probe(id sluice.SaleID) string { return string(k) + ":{" + string(id) + "}:probe" }

// of lists the keys that most scripts need: sale, buyers, journal.
func (k keys) of(id sluice.SaleID) []string {
	return []string{k.sale(id), k.buyers(id), k.journal(id)}
}

const (
	// group is the consumer group of every journal; the consumers are the
	// servers, by Options.Node.
	group = "sluice"

	// sentinel is the field of the buyers hash that holds the epoch of the
	// load that completed it. No buyer is called so, since ids hold no control
	// characters. A buyers hash without it is not what Load wrote.
	sentinel = "\n"

	// toldPrefix and a server's name make the field of the sale hash with the
	// last sequence that this server received.
	toldPrefix = "told:"

	// thisFormat is the version of all of this. A later one, up to lastFormat, is an
	// error, not a guess; everything else is damage. load_begin.lua and drop.lua have both.
	thisFormat = "1"
	lastFormat = 1000
)

// errFormat refuses a sale whose format is a later one.
func errFormat(text string) error {
	if n := atoi(text); n <= atoi(thisFormat) || n > lastFormat {
		return nil
	}
	return fmt.Errorf("%w, which is of format %s, where it knows %s: run the version that wrote it", errLaterFormat, text,
		thisFormat)
}

// errLaterFormat: a later version has written the sale.
var errLaterFormat = errors.New("this server is older than the sale's data")
