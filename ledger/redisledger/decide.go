package redisledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

// states of a reply of claim.lua
const (
	decided = iota
	notLoaded
	fenced
	lost
	otherLayout
)

// answer turns a reply into decisions, and remembers what it told this server.
func (l *Ledger) answer(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, reply claimReply, decisions []sluice.Decision) error {
	if reply.state == decided {
		told, err := l.decide(ctx, sale, claims, reply, decisions)
		if err == nil {
			l.known(sale).advance(reply.mark(told))
		}
		return err
	}
	for i := range decisions {
		decisions[i] = sluice.Decision{Code: sluice.Unavailable}
	}
	if reply.state == fenced {
		l.known(sale).advance(reply.mark(0))
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

func (r *claimReply) mark(told int64) mark { return mark{epoch: r.epoch, told: told, seen: r.seq} }

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
// this server has been told: that of the sale, if a claim was accepted now or
// before. claim.lua writes the same (I4: a replay is an acceptance too).
func (l *Ledger) decide(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, reply claimReply, decisions []sluice.Decision) (told int64, err error) {
	n := len(claims)
	at := fromMillis(reply.at)
	var accepted int64
	var limits []limitAnswer
	number := func(i int, answer int64) {
		if answer > 0 {
			decisions[i] = sluice.Decision{
				Code: sluice.Accepted, Order: claims[i].Order, Quantity: claims[i].Quantity, Seq: answer, At: at,
				Epoch: reply.epoch, Terms: reply.terms,
			}
			told = reply.seq
			accepted++
			return
		}
		decisions[i] = sluice.Decision{Code: sluice.Code(-answer)}
		switch decisions[i].Code {
		case sluice.NotOpen:
			decisions[i].OpensAt = fromMillis(reply.opens)
		case sluice.BuyerLimit:
			limits = append(limits, limitAnswer{claim: i, accepted: accepted})
		}
	}

	switch answers := reply.answers; {
	case len(answers) == 0: // all accepted
		for i := range n {
			number(i, reply.seq-int64(n-1-i))
		}
	case len(answers) == 1 && answers[0].IsInt64(): // all refused alike, or one claim
		answer, err := answers[0].AsInt64()
		if err != nil {
			return 0, err
		}
		for i := range n {
			number(i, answer)
		}
	case len(answers) == n:
		for i := range answers {
			if answers[i].IsInt64() {
				answer, err := answers[i].AsInt64()
				if err != nil {
					return 0, err
				}
				number(i, answer)
				continue
			}
			text, err := answers[i].ToString()
			if err != nil {
				return 0, err
			}
			if strings.HasPrefix(text, "R") {
				told = reply.seq
			}
			if decisions[i], err = decideText(sale, &claims[i], text); err != nil {
				return 0, err
			}
		}
	default:
		return 0, fmt.Errorf("%d answers for %d claims", len(answers), n)
	}
	if _, layout := l.known(sale).get(); layout == split && len(limits) > 0 {
		for i := range limits {
			limits[i].seq = reply.seq - accepted + limits[i].accepted
		}
		err = l.fillOrders(ctx, sale, claims, reply.epoch, limits, decisions)
	}
	return told, err
}

// decideText decides a claim whose answer carries what is on record.
func decideText(sale sluice.SaleID, claim *sluice.Claim, text string) (sluice.Decision, error) {
	if len(text) == 0 || text[0] != 'R' && text[0] != 'L' {
		return sluice.Decision{}, fmt.Errorf("answer %q", text)
	}
	if text[0] == 'L' {
		orders, err := liveOrders(sale, claim.Buyer, text[1:])
		return sluice.Decision{Code: sluice.BuyerLimit, Orders: orders}, err
	}
	record, err := parseLine(sale, claim.Buyer, text[1:])
	if err != nil {
		return sluice.Decision{}, err
	}
	if !claim.SameContent(&record.Claim) {
		return sluice.Decision{Code: sluice.KeyReused}, nil
	}
	return sluice.Decision{
		Code: sluice.Accepted, Order: record.Order, Quantity: record.Quantity, Seq: record.Seq, At: record.At,
		Epoch: record.Epoch, Terms: record.Terms, Replayed: true,
	}, nil
}

// limitAnswer is an answer BuyerLimit that does not carry the buyer's orders.
type limitAnswer struct {
	claim    int   // index in the batch
	accepted int64 // claims of the batch accepted before it
	seq      int64 // of the sale, when it was decided
}

// fillOrders looks up what buyers beyond their limit hold, where the script
// does not have it at hand: layout split, with a limit set since the load.
func (l *Ledger) fillOrders(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim, epoch int64, limits []limitAnswer, decisions []sluice.Decision) error {
	for _, answer := range limits {
		var live []sluice.Record
		err := l.recordsOf(ctx, sale, claims[answer.claim].Buyer, func(r sluice.Record) bool {
			if r.Live && (r.Epoch < epoch || r.Seq <= answer.seq) {
				live = append(live, r)
			}
			return true
		})
		if err != nil {
			return err
		}
		slices.SortFunc(live, func(a, b sluice.Record) int {
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
		})
		for _, r := range live {
			decisions[answer.claim].Orders = append(decisions[answer.claim].Orders, r.Order)
		}
	}
	return nil
}
