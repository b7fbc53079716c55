package tickets

import (
	"errors"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// Life is how long a ticket is good: from the moment it is handed out, or from
// the opening if that is later.
const Life = 10 * time.Minute

// ErrTooEarly: tickets of the sale are not handed out yet.
var ErrTooEarly = errors.New("tickets are not handed out yet")

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
	expires = now.Add(Life).Truncate(time.Millisecond).UTC()
	current := k.known[0]
	return current.sign(string(forTicket)+"."+current.id+"."+formatTime(expires.UnixMilli()), sale, buyer), expires
}

// CheckTicket returns nil for a ticket of this buyer for this sale that is
// good at now, by the ledger's clock; ErrExpired for one that was; and
// ErrForged for everything else.
func (k *Keys) CheckTicket(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) error {
	fields, err := k.open(ticket, forTicket, 1, sale, buyer)
	if err != nil {
		return err
	}
	expires, err := expiry(fields[0])
	if err != nil {
		return err
	}
	if !now.Before(expires) {
		return ErrExpired
	}
	return nil
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
