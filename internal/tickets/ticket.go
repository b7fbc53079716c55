// Package tickets makes and checks what stands between a crowd of machines and
// a sale: purchase tickets, the proof of work that may be asked before one, and
// the question to the merchant's own risk service.
//
// Tickets and proofs are stateless. A ticket or a challenge is a short text that names its
// format, its key and its expiry, and ends with an HMAC-SHA256 over all of that
// and over the sale and the buyer it is for. Any server that has the key can
// check it, and nothing is stored or shared. So a ticket cannot be made up,
// passed on to another buyer or another sale, or kept for later; and handing
// it out only shortly before the opening leaves no time to prepare.
//
// Nothing here decides about units: the invariants are the ledger's. A claim
// that comes without a good ticket may still be the repeat of an accepted one
// (I4), so the gate asks the ledger for that before it refuses.
//
// An Asker asks the merchant's risk service (a captcha, a risk score) whether a
// buyer may have a ticket. The service may be slow, down or wrong: the time, the
// memory and the concurrent requests spent on it are bounded, and each sale says
// what happens to a buyer whom the service has not judged.
package tickets

import (
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// Life is how long a ticket is good: from the moment it is handed out, or from
// the opening if that is later.
const ticketLife = 10 * time.Minute

// From is when tickets of a sale are handed out: before ahead of the opening.
func From(opensAt time.Time, before time.Duration) time.Time { return opensAt.Add(-before) }

// Ticket makes a ticket of one buyer for one sale, which is or will be open
// from opensAt. Now is the ledger's clock, so that all servers agree. It is
// the same for all calls of a millisecond: a buyer may request any number of
// tickets, and has one right.
func (k *Keys) Ticket(sale sluice.SaleID, buyer sluice.BuyerID, opensAt, now time.Time) (ticket string,
	expires time.Time,
) {
	if opensAt.After(now) {
		now = opensAt
	}
	expires = now.Add(ticketLife).Truncate(time.Millisecond).UTC()
	current := k.known[0]
	return current.sign(string(forTicket)+"."+current.id+"."+formatTime(expires.UnixMilli()), sale, buyer), expires
}

// CheckTicket returns nil for a ticket of this buyer for this sale that is
// good at now, by the ledger's clock; ErrExpired for one that was; and
// ErrForged for everything else.
func (k *Keys) CheckTicket(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) error {
	_, expires, err := k.open(ticket, forTicket, 1, sale, buyer)
	if err == nil && !now.Before(expires) {
		err = ErrExpired
	}
	return err
}

func formatTime(ms int64) string { return strconv.FormatInt(ms, 36) }

// parseTime reads only what formatTime writes.
func parseTime(field string) (ms int64, ok bool) {
	if len(field) > timeDigits {
		return 0, false
	}
	ms, err := strconv.ParseInt(field, 36, 64)
	return ms, err == nil && formatTime(ms) == field
}
