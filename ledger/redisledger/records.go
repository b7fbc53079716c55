package redisledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

// scanCount is how many fields a step of a scan looks at.
const scanCount = 500

// maxDamaged bounds the buyers that a DamageError names.
const maxDamaged = 100

// errGone: the sale hash is there, what belongs to it is not. It never becomes
// "no such order", and holds up no rebuild: what is gone cannot be read.
var errGone = fmt.Errorf("the records of the buyers are gone: %w", sluice.ErrNotLoaded)

// Records implements sluice.Reader.
func (l *Ledger) Records(ctx context.Context, sale sluice.SaleID, yield func(sluice.Record) bool) (err error) {
	defer wrap(&err, "records sale=%s", sale)
	damage := &sluice.DamageError{}
	if err := l.scan(ctx, sale, onceEach(sale, yield, damage)); err != nil || len(damage.Buyers) == 0 {
		return err
	}
	return damage
}

// onceEach calls yield with each record of the fields that it is called with
// once. A scan may come by a field twice, the second time with more lines
// (lines are only added), so it is remembered how many were handed out.
func onceEach(sale sluice.SaleID, yield func(sluice.Record) bool, damage *sluice.DamageError,
) func(field, value string) (bool, error) {
	done := map[string]int{}
	return func(field, value string) (bool, error) {
		skip, n := done[field], 0
		more, err := eachLine(sale, field, value, func(r sluice.Record) bool {
			n++
			return n <= skip || yield(r)
		})
		if n > skip {
			done[field] = n
		}
		buyer, _, _ := strings.Cut(field, "\n")
		if id := sluice.BuyerID(buyer); err != nil && len(damage.Buyers) < maxDamaged && !slices.Contains(damage.Buyers, id) {
			damage.Buyers = append(damage.Buyers, id)
		}
		return more, nil
	}
}

// Holders implements sluice.Reader.
func (l *Ledger) Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) (err error) {
	defer wrap(&err, "holders sale=%s", sale)
	return l.scan(ctx, sale, func(field, _ string) (bool, error) {
		if strings.Contains(field, "\n") {
			return true, nil // a shard; the buyer has a field of their own as well
		}
		return yield(sluice.BuyerID(field)), nil
	})
}

// scan calls yield with every field of the buyers hash but the sentinel,
// perhaps more than once. That the hash is whole, and the same one, is checked
// before and after.
func (l *Ledger) scan(ctx context.Context, sale sluice.SaleID, yield func(field, value string) (bool, error)) error {
	whole := func() (epoch string, err error) {
		h, err := l.held(ctx, sale)
		if errors.Is(err, sluice.ErrNotLoaded) && h.epoch != "" {
			err = nil // only the sale hash is gone: a rebuild reads what the records still have (I5)
		}
		return h.epoch, err
	}
	before, err := whole()
	if err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		entry, err := l.do(ctx, l.client.B().Hscan().Key(l.keys.buyers(sale)).Cursor(cursor).Count(scanCount).Build()).
			AsScanEntry()
		if err != nil {
			return l.explain(err)
		}
		for i := 0; i+1 < len(entry.Elements); i += 2 {
			if entry.Elements[i] == sentinel {
				continue
			}
			if more, err := yield(entry.Elements[i], entry.Elements[i+1]); err != nil || !more {
				return err
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			break
		}
	}
	after, err := whole()
	if err == nil && after != before {
		err = errors.New("the sale was loaded again in the meantime")
	}
	return err
}

// Find implements sluice.Reader. Without a buyer it reads the journal, where
// an order that the store does not know yet stands, and then every record.
func (l *Ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (_ sluice.Record, err error) {
	defer wrap(&err, "find order=%s", order)
	sale, ok := order.Sale()
	if !ok {
		return sluice.Record{}, sluice.ErrOrderNotFound
	}
	return l.find(ctx, sale, order, buyer)
}

func (l *Ledger) find(ctx context.Context, sale sluice.SaleID, order sluice.OrderID,
	buyer sluice.BuyerID,
) (found sluice.Record, err error) {
	hit := func(r sluice.Record) bool {
		if r.Order == order {
			found = r
		}
		return found.Order == ""
	}
	if buyer == "" {
		if buyer, err = l.buyerInJournal(ctx, sale, order); err != nil {
			return found, err
		}
	}
	if buyer != "" {
		err = l.recordsOf(ctx, sale, buyer, hit)
	} else {
		damage := error(nil)
		err = l.scan(ctx, sale, func(field, value string) (bool, error) {
			more, err := eachLine(sale, field, value, hit)
			damage = cmp.Or(damage, err)
			return more, nil
		})
		if err == nil && found.Order == "" && damage != nil {
			return found, fmt.Errorf("%w: %w", damage, sluice.ErrNotLoaded)
		}
		if err == nil && found.Order == "" {
			var h held
			if h, err = l.held(ctx, sale); err == nil {
				err = h.doubt()
			}
		}
	}
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}

// Recall returns the accepted claim with this id, from the buyer's own fields:
// one transaction that only reads.
func (l *Ledger) Recall(ctx context.Context, claim sluice.ClaimID) (found sluice.Record, err error) {
	defer wrap(&err, "recall sale=%s", claim.Sale)
	err = l.recordsOf(ctx, claim.Sale, claim.Buyer, func(r sluice.Record) bool {
		if r.Key != claim.Key {
			return true
		}
		found = r
		return false
	})
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}

// buyerInJournal returns the buyer of a claim that is still in the journal, or
// "".
func (l *Ledger) buyerInJournal(ctx context.Context, sale sluice.SaleID, order sluice.OrderID) (buyer sluice.BuyerID,
	err error,
) {
	err = l.peek(ctx, sale, func(e sluice.Entry) bool {
		for i := range e.Claims {
			if e.Claims[i].Order == order {
				buyer = e.Claims[i].Buyer
			}
		}
		return buyer == ""
	})
	return buyer, err
}

// recordsOf calls yield with the records of one buyer. When it has yielded all
// of them and the ledger may have lost some, it returns an error: "no such
// record" would be a final answer about a promise that a rebuild may still
// bring back.
func (l *Ledger) recordsOf(ctx context.Context, sale sluice.SaleID, buyer sluice.BuyerID,
	yield func(sluice.Record) bool,
) error {
	guess := l.layoutOf(sale)
	for range 2 {
		s, values, err := l.heldWith(ctx, sale, l.recordCommand(sale, buyer, guess))
		if err != nil {
			return err
		}
		if s.layout != guess {
			guess = s.layout
			l.known(sale).setLayout(guess)
			continue
		}
		why := ""
		if head, err := values[0].ToString(); err == nil && strings.Contains(head, "\n") == (guess == split) {
			why = sluice.FenceLost + ": the records of the buyers are not laid out as " + guess
		} else if more, err := eachValue(sale, buyer, values, yield); !more {
			return nil
		} else if err != nil {
			why = damagedRecord
		}
		if why != "" && s.fence == "" {
			s.fence = why
			l.fenceLost(ctx, &sluice.Reading{Sale: sale, Epoch: atoi(s.epoch), Fence: why})
		}
		return s.doubt()
	}
	return errors.New("the sale changes its layout with every call")
}

// recordCommand reads the buyer's own field, and then those with the lines if
// they are others.
func (l *Ledger) recordCommand(sale sluice.SaleID, buyer sluice.BuyerID, layout string) rueidis.Completed {
	fields := []string{string(buyer)}
	if layout == split {
		for i := range shards {
			fields = append(fields, shardFieldAt(buyer, i))
		}
	}
	return l.client.B().Hmget().Key(l.keys.buyers(sale)).Field(fields...).Build()
}

// eachValue calls yield with the records in the fields that recordCommand read.
func eachValue(sale sluice.SaleID, buyer sluice.BuyerID, values []rueidis.RedisMessage,
	yield func(sluice.Record) bool,
) (more bool, err error) {
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		field := string(buyer)
		if i > 0 {
			field = shardFieldAt(buyer, i-1)
		}
		value, damage := values[i].ToString()
		if damage == nil {
			more, damage = eachLine(sale, field, value, yield)
		}
		if err = cmp.Or(err, damage); damage == nil && !more {
			return false, err
		}
	}
	return true, err
}

// held is a sale whose records are all there, at the moment of a command.
type held struct {
	epoch  string
	layout string
	fence  string // as recorded, or what this server's mark proves lost
}

// doubt is an error if records may be missing: the sale is fenced, so it has
// lost some or is being loaded.
func (h *held) doubt() error {
	if h.fence == "" {
		return nil
	}
	return fmt.Errorf("the sale is fenced (%s): %w", h.fence, sluice.ErrNotLoaded)
}

// held reads a sale whose records are all there, or why they are not.
func (l *Ledger) held(ctx context.Context, sale sluice.SaleID) (held, error) {
	h, _, err := l.heldWith(ctx, sale)
	return h, err
}

// heldWith is held, with one more command in the same transaction that returns
// a list: a load or a loss between them would make an accepted claim look as
// if it had never been there.
func (l *Ledger) heldWith(ctx context.Context, sale sluice.SaleID, more ...rueidis.Completed) (h held,
	list []rueidis.RedisMessage, err error,
) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	mark := l.markOf(sale) // before the reading
	commands := append([]rueidis.Completed{
		l.client.B().Multi().Build(),
		l.client.B().Hmget().Key(l.keys.sale(sale)).Field("format", "epoch", "layout", "fence", "seq",
			toldPrefix+l.opts.Node).Build(),
		l.client.B().Hget().Key(l.keys.buyers(sale)).Field(sentinel).Build(),
	}, more...)
	results := l.client.DoMulti(ctx, append(commands, l.client.B().Exec().Build())...)
	replies, err := results[len(results)-1].ToArray()
	if err == nil && len(replies) != 2+len(more) {
		err = fmt.Errorf("%d replies to %d commands", len(replies), 2+len(more))
	}
	if err != nil {
		return held{}, nil, l.explain(err)
	}
	fields, err := replies[0].AsStrSlice() // absent fields are empty
	if isWrongType(err) {
		fields, err = make([]string, 6), nil
	}
	if err != nil {
		return held{}, nil, l.explain(err)
	}
	complete, err := replies[1].ToString()
	if err != nil && !rueidis.IsRedisNil(err) && !isWrongType(err) {
		return held{}, nil, l.explain(err)
	}
	h = held{epoch: fields[1], layout: fields[2], fence: fields[3]}
	switch {
	case errFormat(fields[0]) != nil:
		return held{}, nil, errFormat(fields[0])
	case fields[0] == "" || atoi(h.epoch) < 1 || atoi(h.epoch) > sluice.MaxEpoch:
		return held{epoch: complete}, nil, sluice.ErrNotLoaded
	case complete != h.epoch && h.fence == sluice.FenceLoading:
		return held{}, nil, fmt.Errorf("its load is not complete: %w", sluice.ErrNotLoaded)
	case complete != h.epoch:
		return held{}, nil, errGone
	case fields[0] != format && h.fence == "":
		h.fence = sluice.FenceLost + `: the sale's field "format" is gone or damaged`
	case h.layout != whole && h.layout != split && h.fence == "":
		h.fence = sluice.FenceLost + `: the sale's field "layout" is gone or damaged`
	}
	if h.fence == "" {
		r := sluice.Reading{Epoch: atoi(fields[1]), Seq: atoi(fields[4])}
		h.fence = mark.lostIn(&r, atoi(fields[5]), l.opts.Node)
	}
	if len(more) > 0 {
		if list, err = replies[2].ToArray(); err != nil {
			return held{}, nil, l.explain(err)
		}
	}
	return h, list, nil
}

// number reads a number as a server writes it, and reports whether it is one.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// atoi is a number of the sale hash; one that is absent or damaged is 0, which
// is less than what any server received.
func atoi(text string) int64 {
	if n, ok := number(text); ok {
		return n
	}
	return 0
}

// do runs one command within Options.Timeout.
func (l *Ledger) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return l.on(ctx, l.client, command)
}

// on is do, over this connection.
func (l *Ledger) on(ctx context.Context, conn rueidis.CoreClient, command rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return conn.Do(ctx, command)
}
