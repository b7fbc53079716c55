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

// states of a reply of claim.lua and release.lua
const (
	decided = iota
	notLoaded
	fenced
	lost
	_
	laterEpoch // of release.lua alone
	newerFormat
)

// answer turns a reply into decisions, and remembers what it reported to this server.
func (l *Ledger) answer(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, reply claimReply,
	decisions []sluice.Decision,
) error {
	if reply.state == decided {
		reported, err := l.decide(ctx, sale, claims, reply, decisions)
		if err == nil {
			l.known(sale).advance(reply.received(reported))
		}
		return err
	}
	unavailable(decisions)
	if reply.state == fenced {
		l.known(sale).advance(reply.received(0))
	}
	return nil
}

// claimReply is a reply of claim.lua.
type claimReply struct {
	state   int64
	epoch   int64
	seq     int64 // of the sale, after the batch
	at      int64 // when it was decided, ms
	opens   int64 // ms
	terms   int64 // version
	answers []rueidis.RedisMessage
}

func (r *claimReply) received(reported int64) received {
	return received{epoch: r.epoch, reported: reported, seen: r.seq}
}

func parseReply(message rueidis.RedisMessage) (claimReply, error) {
	var r claimReply
	parts, err := message.ToArray()
	if err != nil {
		return r, err
	}
	if len(parts) == 1 {
		r.state, err = parts[0].AsInt64()
		return r, err
	}
	if len(parts) < 6 {
		return r, fmt.Errorf("reply of %d parts", len(parts))
	}
	for i, number := range []*int64{&r.state, &r.epoch, &r.seq, &r.at, &r.opens, &r.terms} {
		if *number, err = parts[i].AsInt64(); err != nil {
			return r, err
		}
	}
	r.answers = parts[6:]
	return r, nil
}

// decide turns the answers into decisions, and returns the sequence up to which
// this server has received: that of the sale, if a claim was accepted now or
// before. claim.lua writes the same (I4: a replay is an acceptance too).
func (l *Ledger) decide(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, reply claimReply,
	decisions []sluice.Decision,
) (reported int64, err error) {
	n, at := len(claims), fromMillis(reply.at)
	limited, records := false, map[sluice.BuyerID]string(nil) // by a limit; and those buyers' records
	refuse := func(i int, code int64) {
		decisions[i] = sluice.Decision{Code: sluice.Code(code)}
		switch decisions[i].Code {
		case sluice.NotOpen:
			decisions[i].OpensAt = fromMillis(reply.opens)
		case sluice.BuyerLimit:
			limited = true
		}
	}
	accepted, next := 0, 0 // next is the first claim without a decision
	accept := func(until int) {
		for ; next < until; next++ {
			accepted++
			decisions[next] = sluice.Decision{
				Code: sluice.Accepted, Order: claims[next].Order, Quantity: claims[next].Quantity, At: at,
				Seq: reply.seq - int64(n-len(reply.answers)/2-accepted), Epoch: reply.epoch, Terms: reply.terms,
			}
			reported = reply.seq
		}
	}

	switch answers := reply.answers; {
	case len(answers) == 1: // all refused alike
		code, err := answers[0].AsInt64()
		if err != nil {
			return 0, err
		}
		for i := range n {
			refuse(i, -code)
		}
	case len(answers)%2 == 0: // in pairs, what was not accepted now
		for pair := range slices.Chunk(answers, 2) {
			position, err := pair[0].AsInt64()
			if err == nil && (position <= int64(next) || position > int64(n)) {
				err = fmt.Errorf("an answer for claim %d of %d, after %d", position, n, next)
			}
			if err != nil {
				return 0, err
			}
			i := int(position) - 1
			accept(i)
			next++
			if pair[1].IsInt64() {
				code, err := pair[1].AsInt64()
				if err != nil {
					return 0, err
				}
				refuse(i, -code)
				continue
			}
			text, err := pair[1].ToString()
			if err != nil {
				return 0, err
			}
			if record, ok := strings.CutPrefix(text, "L"); ok {
				if records == nil {
					records = map[sluice.BuyerID]string{}
				}
				decisions[i].Code, records[claims[i].Buyer], limited = sluice.BuyerLimit, record, true
				continue
			}
			reported = reply.seq
			if decisions[i], err = decideText(sale, &claims[i], text); err != nil { // what was decided stays so
				decisions[i] = sluice.Decision{Code: sluice.Unavailable}
				l.fenceLost(ctx, &port.Reading{Sale: sale, Epoch: reply.epoch, Fence: damagedRecord})
			}
		}
		accept(n)
	default:
		return 0, fmt.Errorf("%d answers for %d claims", len(answers), n)
	}
	if limited {
		before := received{epoch: reply.epoch, seen: reply.seq - int64(accepted)}
		l.fillOrders(ctx, sale, claims, before, records, decisions)
	}
	return reported, nil
}

// decideText decides a claim whose answer carries the line on record.
func decideText(sale sluice.SaleID, claim *sluice.Claim, text string) (sluice.Decision, error) {
	line, ok := strings.CutPrefix(text, "R")
	if !ok {
		return sluice.Decision{}, fmt.Errorf("answer %q", text)
	}
	line, kept, _ := strings.Cut(line, "\n")
	_, place, _ := parseLine(sale, claim.Buyer, line)
	name, _, _ := strings.Cut(place, ":")
	record, err := resolve(sale, claim.Buyer, line, map[string]string{name: kept})
	if err != nil {
		return sluice.Decision{}, err
	}
	return record.Repeat(claim), nil
}

// What fillOrders reads at most: so many buyers, with so many accepted claims
// together, in this part of Options.Timeout: 250 ms by default.
const (
	ordersBuyers = 64
	ordersClaims = 1000
	ordersPart   = 8
)

// fillOrders lists what buyers beyond their limit hold: what their records had
// before the batch, and what the batch accepted before the refusal. Where the
// answer does not have all claims of a buyer, they are read now, all in one round
// trip; where that would be much, or fails, orders are missing in the answer: the
// batch is decided.
func (l *Ledger) fillOrders(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, before received,
	records map[sluice.BuyerID]string, decisions []sluice.Decision,
) {
	held := map[sluice.BuyerID][]sluice.OrderID{}
	var apart []sluice.BuyerID
	most := int64(ordersClaims)
	for i := range decisions {
		buyer := claims[i].Buyer
		if _, seen := held[buyer]; seen || decisions[i].Code != sluice.BuyerLimit {
			continue
		}
		held[buyer] = nil
		text := strings.Split(records[buyer], "\n") // head, first line, key of the newest, its line, and so on backwards
		switch units, claims, ok := parseHead(text[0]); {
		case !ok || units == 0:
		case claims == 1 || claims == int64(len(text)-2):
			lines := append(text[min(3, len(text)):], text[1])
			slices.Reverse(lines)
			for _, line := range lines {
				if r, _, err := parseLine(sale, buyer, line); err == nil && r.Live {
					held[buyer] = append(held[buyer], r.Order)
				}
			}
		case claims <= most && len(apart) < ordersBuyers:
			apart, most = append(apart, buyer), most-claims
		}
	}
	l.readOrders(ctx, sale, before, apart, held)
	for i := range decisions {
		orders, limited := held[claims[i].Buyer]
		switch d := &decisions[i]; {
		case !limited:
		case d.Code == sluice.BuyerLimit:
			d.Orders = slices.Clip(orders)
		case d.Code == sluice.Accepted && !d.Replayed:
			held[claims[i].Buyer] = append(orders, d.Order)
		}
	}
}

// readOrders reads the live orders of these buyers, as far as they were accepted
// up to this place, in order.
func (l *Ledger) readOrders(ctx context.Context, sale sluice.SaleID, until received, buyers []sluice.BuyerID,
	held map[sluice.BuyerID][]sluice.OrderID,
) {
	if len(buyers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout/ordersPart)
	defer cancel()
	args := make([][]string, len(buyers))
	for i, buyer := range buyers {
		args[i] = []string{toldPrefix + l.opts.Node, "buyer", string(buyer), "", strconv.Itoa(ordersClaims)}
	}
	keys := slices.Repeat([][]string{l.keys.of(sale)[:2]}, len(buyers))
	for i, result := range l.runMany(ctx, recordsScript, keys, args) {
		message, err := result.ToMessage()
		if err != nil {
			continue
		}
		p, err := l.parsePage(sale, received{}, message)
		if err != nil {
			continue
		}
		var live []port.Record
		_, _, _, _ = p.chain(func(r port.Record) bool {
			if r.Live && (r.Epoch < until.epoch || r.Epoch == until.epoch && r.Seq <= until.seen) {
				live = append(live, r)
			}
			return true
		})
		slices.SortFunc(live, func(a, b port.Record) int {
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
		})
		for _, r := range live {
			held[buyers[i]] = append(held[buyers[i]], r.Order)
		}
	}
}
