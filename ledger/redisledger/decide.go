package redisledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// What the first number of a reply of commit.lua says, but for 0: done.
const (
	mistaken = 1 // the sale is not what the server takes it for; nothing was done
	refused  = 2 // nothing is accepted, and every buyer is as believed
)

// commitReply is a reply of commit.lua.
type commitReply struct {
	state    int64
	seq      int64 // of the sale, after the batch
	at       int64 // when it was decided, ms
	cooldown sluice.Cooldown
	taken    int64
	stopped  int64                  // the first claim that waits for its turn, from 1; 0: none
	told     int64                  // to this server, where it and seq show a loss; else -1
	back     []rueidis.RedisMessage // positions of claims that come back, each with what differs
}

func parseCommit(message rueidis.RedisMessage) (r commitReply, err error) {
	parts, err := message.ToArray()
	if err != nil {
		return r, err
	}
	r.told = -1
	var until, code int64
	numbers := []*int64{&r.state, &r.seq, &r.at, &until, &code, &r.taken, &r.stopped}
	switch len(parts) {
	case 1, 6:
		numbers = numbers[:len(parts)]
	case 3:
		numbers = []*int64{&r.state, &r.seq, &r.told}
	}
	if len(parts) < len(numbers) || (len(parts)-len(numbers))%2 != 0 {
		return r, fmt.Errorf("reply of %d parts", len(parts))
	}
	for i, number := range numbers {
		if *number, err = parts[i].AsInt64(); err != nil {
			return r, err
		}
	}
	r.cooldown = sluice.Cooldown{Code: sluice.Code(code), Until: fromMillis(until)}
	r.back = parts[len(numbers):]
	return r, nil
}

// parseBack reads what a claim comes back with: the units taken at its turn and those that its
// counters have, or the latter and how its buyer differs, of which NUL is a part.
func parseBack(c *attempt, message rueidis.RedisMessage) (
	taken int64, counted map[string]int64, differs string, err error,
) {
	if message.IsInt64() {
		taken, err = message.AsInt64()
		return taken, nil, "", err
	}
	text, err := message.ToString()
	if err != nil {
		return 0, nil, "", err
	}
	numbers, differs, found := strings.Cut(text, "\x00")
	fields, ok := strings.Fields(numbers), true
	if !found && len(fields) > 0 {
		taken, ok = number(fields[0])
		fields = fields[1:]
	}
	counters := c.Counters.List()
	counted = make(map[string]int64, len(counters))
	for i, counter := range counters {
		if ok = ok && i < len(fields); ok {
			counted[counter.Name], ok = number(fields[i])
		}
	}
	if !ok {
		err = fmt.Errorf("a claim of %d counters comes back with %.64q", len(counters), numbers)
	}
	return taken, counted, differs, err
}

// taking takes replies to commit.lua in: it decides the claims that come back.
type taking struct {
	l         *Ledger
	ctx       context.Context
	sale      sluice.SaleID
	terms     *sluice.Terms
	have      received
	decisions []sluice.Decision
	again     []attempt
	limited   []attempt // refused by their buyer's limit
}

func (t *taking) take(claims []attempt, message rueidis.RedisMessage) error {
	r, err := parseCommit(message)
	if err != nil {
		return err
	}
	k := t.l.known(t.sale)
	v := t.terms.Verdict(fromMillis(r.at), r.cooldown)
	reported := int64(0)
	switch r.state {
	case mistaken:
		t.l.mistaken(t.ctx, t.sale, t.have, r.seq, r.told)
		t.again = append(t.again, claims...)
		return nil
	case refused:
		for i := range claims {
			t.refuse(&claims[i], v.Decide(claims[i].account(), nil, r.taken, claims[i].Claim))
		}
	default:
		seq := r.seq - int64(len(claims)-len(r.back)/2)
		next := 0 // the first claim without a decision
		accept := func(until int) {
			for ; next < until; next++ {
				c := &claims[next]
				seq++
				t.decisions[c.place] = sluice.Decision{
					Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, At: v.Now, Seq: seq, Epoch: t.have.epoch,
					Terms: t.terms.Version,
				}
				reported = r.seq
			}
		}
		for pair := range slices.Chunk(r.back, 2) {
			position, err := pair[0].AsInt64()
			if err == nil && (position <= int64(next) || position > int64(len(claims))) {
				err = fmt.Errorf("an answer for claim %d of %d, after %d", position, len(claims), next)
			}
			if err != nil {
				return err
			}
			accept(int(position) - 1)
			next++
			c, waits := &claims[position-1], r.stopped > 0 && position > r.stopped
			taken, counted, differs, err := parseBack(c, pair[1])
			switch {
			case err != nil:
				return err
			case differs == "" && waits:
				t.again = append(t.again, *c)
			case differs == "":
				t.refuse(c, v.Decide(c.account(), counted, taken, c.Claim))
			case t.returned(c, &v, counted, r.taken, waits, differs):
				reported = r.seq
			}
		}
		accept(len(claims))
	}
	k.advance(received{epoch: t.have.epoch, reported: reported, seen: r.seq})
	return nil
}

// mistaken deals with a reply that the sale is not what the server, which had received this,
// takes it for: it is read again. Where told is not -1, the sequences show a loss.
func (l *Ledger) mistaken(ctx context.Context, sale sluice.SaleID, have received, seq, told int64) {
	r := port.Reading{Sale: sale, Epoch: have.epoch, Seq: seq}
	if r.Fence = have.lostIn(&r, told, l.opts.Node); told >= 0 && r.Fence != "" {
		l.fenceLost(ctx, &r)
	}
	l.known(sale).forget()
}

// account is what the buyer is believed to have.
func (a *attempt) account() sluice.Account {
	if a.have == nil {
		return sluice.Account{}
	}
	return a.have.Account
}

// refuse answers a claim that was not accepted although its buyer is as believed.
func (t *taking) refuse(c *attempt, d sluice.Decision) {
	if d.Code == 0 { // the terms in Redis are not those of their version
		t.l.known(t.sale).forget()
		t.again = append(t.again, *c)
		return
	}
	t.decisions[c.place] = d
	if d.Code == sluice.BuyerLimit {
		t.limited = append(t.limited, *c)
	}
}

// returned decides a claim whose buyer is not as believed, and reports whether it was told of
// an accepted claim. One that waits for its turn may find fewer units there, and more counted.
func (t *taking) returned(c *attempt, v *sluice.Verdict, counted map[string]int64, taken int64, waits bool,
	differs string,
) (told bool) {
	record, line, kept := "", "", ""
	record, differs, _ = strings.Cut(differs, "\x00")
	line, kept, _ = strings.Cut(differs, "\x00")
	d, have, err := t.judge(c, v, counted, taken, record, line, kept)
	switch {
	case err != nil: // what was decided stays so
		t.decisions[c.place] = sluice.Decision{Code: sluice.Unavailable}
		t.l.fenceLost(t.ctx, &port.Reading{Sale: t.sale, Epoch: t.have.epoch, Fence: damagedRecord})
		t.l.known(t.sale).forget()
	case d.Code == sluice.Accepted || d.Code == sluice.KeyReused:
		t.decisions[c.place] = d
		return true
	default:
		again := *c
		again.record, again.have = strings.TrimPrefix(record, present), have
		if d.Code == 0 || waits && (d.Code >= sluice.SoldOut || d.Counter != "") {
			t.again = append(t.again, again)
		} else {
			t.refuse(&again, d)
		}
	}
	return false
}

// present precedes what is there: a record that is empty is not one that is absent.
const present = "+"

// judge decides by what is on record: the buyer's record, a further claim with this key, and
// what is kept of the batch of the claim with this key.
func (t *taking) judge(c *attempt, v *sluice.Verdict, counted map[string]int64, taken int64, record, line, kept string,
) (d sluice.Decision, have *account, err error) {
	record, known := strings.CutPrefix(record, present)
	value, further := strings.CutPrefix(line, present)
	switch {
	case !known && line != "", !further && line != "":
		return d, nil, errAccount(c.Buyer, line)
	case !known:
		return v.Decide(sluice.Account{}, counted, taken, c.Claim), nil, nil
	}
	a, err := parseAccount(t.sale, c.Buyer, record)
	if err != nil {
		return d, nil, err
	}
	first, found, err := a.claim(t.sale, c.Key, value, further)
	switch {
	case err != nil:
		return d, nil, err
	case !found:
		return v.Decide(a.Account, counted, taken, c.Claim), &a, nil
	}
	r, err := first.placed(kept)
	return r.Repeat(c.Claim), &a, err
}

// What listOrders reads at most: so many buyers, with so many accepted claims
// together, in this part of Options.Timeout: 250 ms by default.
const (
	ordersBuyers = 64
	ordersClaims = 1000
	ordersPart   = 8
)

// listOrders lists what buyers beyond their limit hold. Where the record does not have all
// claims of a buyer, they are read now, all in one round trip; where that would be much, or
// fails, orders are missing in the answer: the claim is decided.
func (t *taking) listOrders() {
	var apart []*attempt
	most := int64(ordersClaims)
	for i := range t.limited {
		c := &t.limited[i]
		switch a := c.have; {
		case a == nil || a.Units == 0:
		case a.Orders == 1:
			t.decisions[c.place].Orders = []sluice.OrderID{a.first.Order}
		case a.Orders <= most && len(apart) < ordersBuyers:
			apart, most = append(apart, c), most-a.Orders
		}
	}
	if len(apart) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.l.opts.Timeout/ordersPart)
	defer cancel()
	args := make([][]string, len(apart))
	for i, c := range apart {
		args[i] = []string{toldPrefix + t.l.opts.Node, "buyer", string(c.Buyer), "", strconv.Itoa(ordersClaims)}
	}
	keys := slices.Repeat([][]string{t.l.keys.of(t.sale)[:2]}, len(apart))
	for i, result := range t.l.runMany(ctx, recordsScript, keys, args) {
		if message, err := result.ToMessage(); err == nil {
			if p, err := t.l.parsePage(t.sale, received{}, message); err == nil {
				t.decisions[apart[i].place].Orders = p.liveOrders()
			}
		}
	}
}

// liveOrders returns the live orders of a page of one buyer's claims, in the order of
// acceptance.
func (p *page) liveOrders() (orders []sluice.OrderID) {
	var live []port.Record
	_, _, _, _ = p.chain(func(r port.Record) bool {
		if r.Live {
			live = append(live, r)
		}
		return true
	})
	slices.SortFunc(live, func(a, b port.Record) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	for i := range live {
		orders = append(orders, live[i].Order)
	}
	return orders
}
