package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

// scanCount is how many fields a step of a scan looks at.
const scanCount = 500

// errGone: the sale hash is there, what belongs to it is not. It is never told
// as "no such order".
var errGone = errors.New("the records of the buyers are gone")

// Records implements sluice.Reader.
func (l *Ledger) Records(ctx context.Context, sale sluice.SaleID, yield func(sluice.Record) bool) error {
	if err := l.scan(ctx, sale, onceEach(sale, yield)); err != nil {
		return fmt.Errorf("redisledger: records sale=%s: %w", sale, err)
	}
	return nil
}

// onceEach calls yield with each record of the fields that it is called with
// once. A scan may come by a field twice, the second time with more lines
// (lines are only added), so it is remembered how many were handed out.
func onceEach(sale sluice.SaleID, yield func(sluice.Record) bool) func(field, value string) (bool, error) {
	done := map[string]int{}
	return func(field, value string) (bool, error) {
		buyer, _, _ := strings.Cut(field, "\n")
		skip, n := done[field], 0
		more, err := eachLine(sale, sluice.BuyerID(buyer), value, func(r sluice.Record) bool {
			n++
			return n <= skip || yield(r)
		})
		if n > skip {
			done[field] = n
		}
		return more, err
	}
}

// Holders implements sluice.Reader.
func (l *Ledger) Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	err := l.scan(ctx, sale, func(field, _ string) (bool, error) {
		if strings.Contains(field, "\n") {
			return true, nil // a shard; the buyer has a field of their own as well
		}
		return yield(sluice.BuyerID(field)), nil
	})
	if err != nil {
		return fmt.Errorf("redisledger: holders sale=%s: %w", sale, err)
	}
	return nil
}

// scan calls yield with every field of the buyers hash but the sentinel,
// perhaps more than once. That the hash is whole, and the same one, is checked
// before and after.
func (l *Ledger) scan(ctx context.Context, sale sluice.SaleID, yield func(field, value string) (bool, error)) error {
	before, _, err := l.held(ctx, sale)
	if err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		entry, err := l.do(ctx, l.client.B().Hscan().Key(l.keys.buyers(sale)).Cursor(cursor).Count(scanCount).Build()).AsScanEntry()
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
	after, _, err := l.held(ctx, sale)
	if err == nil && after != before {
		err = errors.New("the sale was loaded anew in the meantime")
	}
	return err
}

// Find implements sluice.Reader. Without a buyer it reads the journal, where
// an order that the store does not know yet stands, and then every record.
func (l *Ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (sluice.Record, error) {
	var record sluice.Record
	sale, ok := order.Sale()
	err := sluice.ErrOrderNotFound
	if ok {
		record, err = l.find(ctx, sale, order, buyer)
	}
	if err != nil {
		return sluice.Record{}, fmt.Errorf("redisledger: find order=%s: %w", order, err)
	}
	return record, nil
}

func (l *Ledger) find(ctx context.Context, sale sluice.SaleID, order sluice.OrderID, buyer sluice.BuyerID) (found sluice.Record, err error) {
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
		err = l.scan(ctx, sale, func(field, value string) (bool, error) {
			buyer, _, _ := strings.Cut(field, "\n")
			return eachLine(sale, sluice.BuyerID(buyer), value, hit)
		})
	}
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}

// buyerInJournal finds who made a claim that is still in the journal, or
// nobody.
func (l *Ledger) buyerInJournal(ctx context.Context, sale sluice.SaleID, order sluice.OrderID) (buyer sluice.BuyerID, err error) {
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

// recordsOf calls yield with the records of one buyer.
func (l *Ledger) recordsOf(ctx context.Context, sale sluice.SaleID, buyer sluice.BuyerID, yield func(sluice.Record) bool) error {
	k := l.known(sale)
	for range 2 {
		_, guess := k.get()
		_, layout, values, err := l.heldWith(ctx, sale, l.recordCommand(sale, buyer, guess))
		if err != nil {
			return err
		}
		if layout != guess {
			k.setLayout(layout)
			continue
		}
		return eachValue(sale, buyer, values, yield)
	}
	return errors.New("the sale changes its layout with every call")
}

// recordCommand reads the fields with the lines of one buyer.
func (l *Ledger) recordCommand(sale sluice.SaleID, buyer sluice.BuyerID, layout string) rueidis.Completed {
	fields := []string{string(buyer)}
	if layout == split {
		fields = make([]string, shards)
		for i := range fields {
			fields[i] = shardFieldAt(buyer, i)
		}
	}
	return l.client.B().Hmget().Key(l.keys.buyers(sale)).Field(fields...).Build()
}

// eachValue calls yield with the records in the fields that recordCommand read.
func eachValue(sale sluice.SaleID, buyer sluice.BuyerID, values []rueidis.RedisMessage, yield func(sluice.Record) bool) error {
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		value, err := values[i].ToString()
		if err != nil {
			return err
		}
		if more, err := eachLine(sale, buyer, value, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// held returns the epoch and layout of a sale whose records are all there, or
// why they are not.
func (l *Ledger) held(ctx context.Context, sale sluice.SaleID) (epoch, layout string, err error) {
	epoch, layout, _, err = l.heldWith(ctx, sale)
	return epoch, layout, err
}

// heldWith is held, with one more command in the same round trip that returns
// a list.
func (l *Ledger) heldWith(ctx context.Context, sale sluice.SaleID, more ...rueidis.Completed) (epoch, layout string, list []rueidis.RedisMessage, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	results := l.client.DoMulti(ctx, append([]rueidis.Completed{
		l.client.B().Hmget().Key(l.keys.sale(sale)).Field("format", "epoch", "layout", "fence").Build(),
		l.client.B().Hget().Key(l.keys.buyers(sale)).Field(sentinel).Build(),
	}, more...)...)
	for _, result := range results {
		if err := result.NonRedisError(); err != nil {
			return "", "", nil, l.explain(err)
		}
	}
	fields, err := results[0].AsStrSlice() // absent fields are empty
	if err != nil {
		return "", "", nil, l.explain(err)
	}
	complete, err := results[1].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", "", nil, l.explain(err)
	}
	epoch, layout = fields[1], fields[2]
	switch {
	case fields[0] == "":
		return "", "", nil, sluice.ErrNotLoaded
	case fields[0] != format:
		return "", "", nil, fmt.Errorf("format %q of the sale is unknown to this version", fields[0])
	case complete != epoch && fields[3] == sluice.FenceLoading:
		return "", "", nil, fmt.Errorf("its load is not complete: %w", sluice.ErrNotLoaded)
	case complete != epoch:
		return "", "", nil, errGone
	}
	if len(more) > 0 {
		if list, err = results[2].ToArray(); err != nil {
			return "", "", nil, l.explain(err)
		}
	}
	return epoch, layout, list, nil
}

// do runs one command within Options.Timeout.
func (l *Ledger) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return l.client.Do(ctx, command)
}
