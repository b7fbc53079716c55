package redisledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// account is a buyer's own field of the buyers hash (record.go).
type account struct {
	sluice.Account
	first  onRecord // the first claim
	newest string   // key of the newest claim; empty if that is the first
}

// onRecord is a claim as its line has it.
type onRecord struct {
	port.Record // without its place
	place, line string
}

// placed returns the record with its place; kept is what is kept of its batch, if it has one.
func (r *onRecord) placed(kept string) (port.Record, error) { return place(r.Record, r.place, kept) }

// parseAccount reads a buyer's own field. What no server writes so is an error.
func parseAccount(sale sluice.SaleID, buyer sluice.BuyerID, text string) (a account, err error) {
	head, rest, _ := strings.Cut(text, "\n")
	line, newest, linked := strings.Cut(rest, "\n")
	a.first.line, a.newest = line, newest
	ok := false
	if a.Account, ok = parseHead(head); !ok {
		return a, errAccount(buyer, text)
	}
	if a.first.Record, a.first.place, err = parseLine(sale, buyer, line); err != nil {
		return a, err
	}
	units := int64(0)
	if a.first.Live {
		units = a.first.Quantity
	}
	if single := a.Orders == 1; single == linked || linked && newest == "" || strings.ContainsAny(newest, "\n\t") ||
		a.Units < units || single && a.Units != units {
		return a, errAccount(buyer, text)
	}
	return a, nil
}

// claim returns the claim with this key, which is the first, or the further one whose field has
// this value, and reports whether there is one.
func (a *account) claim(sale sluice.SaleID, key sluice.Key, value string, further bool) (c onRecord, found bool,
	err error,
) {
	if !further {
		return a.first, a.first.Key == key, nil
	}
	linked := false
	c.line, _, linked = strings.Cut(value, "\n")
	c.Record, c.place, err = parseLine(sale, a.first.Buyer, c.line)
	if err == nil && (!linked || c.Key != key || a.first.Key == key) {
		err = errAccount(a.first.Buyer, value)
	}
	return c, true, err
}

func errAccount(buyer sluice.BuyerID, text string) error {
	return fmt.Errorf("damaged record of buyer %q: %.200q", buyer, text)
}

// with returns the field as it becomes when a further claim is accepted.
func (a account) with(c *sluice.Claim) string {
	a.Units, a.Orders, a.newest = a.Units+c.Quantity, a.Orders+1, string(c.Key)
	return a.text()
}

func (a *account) text() string {
	b := appendHead(make([]byte, 0, len(a.first.line)+len(a.newest)+24), a.Account)
	b = append(append(b, '\n'), a.first.line...)
	if a.newest != "" {
		b = append(append(b, '\n'), a.newest...)
	}
	return string(b)
}

// appendHead appends what a buyer's own field begins with.
func appendHead(b []byte, a sluice.Account) []byte {
	b = strconv.AppendInt(b, a.Units, 10)
	b = strconv.AppendInt(append(b, '\t'), a.Orders, 10)
	if a.Unpaid > 0 {
		b = strconv.AppendInt(append(b, '\t'), a.Unpaid, 10)
	}
	return b
}

// parseHead reads what appendHead writes.
func parseHead(head string) (a sluice.Account, ok bool) {
	first, rest, _ := strings.Cut(head, "\t")
	second, third, more := strings.Cut(rest, "\t")
	units, isUnits := number(first)
	orders, isOrders := number(second)
	unpaid, isUnpaid := number(third)
	return sluice.Account{Units: units, Orders: orders, Unpaid: unpaid},
		isUnits && isOrders && units >= 0 && orders > 0 && (!more || isUnpaid && unpaid > 0)
}
