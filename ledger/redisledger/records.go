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
	"github.com/sluicehq/sluice/internal/port"
)

// scanCount is how many fields a step of a scan looks at.
const scanCount = 500

// maxDamaged bounds the buyers that a DamageError names.
const maxDamaged = 100

// errGone: the sale hash is there, what belongs to it is not. It never becomes
// "no such order", and holds up no rebuild: what is gone cannot be read.
var errGone = fmt.Errorf("the records of the buyers are gone: %w", port.ErrNotLoaded)

// Records implements port.Reader.
func (l *Ledger) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) (err error) {
	defer wrap(&err, "records sale=%s", sale)
	damage := &port.DamageError{}
	seen := map[string]bool{} // a scan may come by a field twice
	err = l.scan(ctx, sale, func(p *page, field, value string) bool {
		more, err := p.record(field, value, func(r port.Record) bool {
			again := seen[field]
			seen[field] = true
			return again || yield(r)
		})
		buyer, _, _ := strings.Cut(field, "\n")
		if id := sluice.BuyerID(buyer); err != nil && len(damage.Buyers) < maxDamaged && !slices.Contains(damage.Buyers, id) {
			damage.Buyers = append(damage.Buyers, id)
		}
		return more
	})
	if err != nil || len(damage.Buyers) == 0 {
		return err
	}
	return damage
}

// Holders implements port.Reader.
func (l *Ledger) Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) (err error) {
	defer wrap(&err, "holders sale=%s", sale)
	return l.scan(ctx, sale, func(_ *page, field, _ string) bool {
		if strings.Contains(field, "\n") {
			return true // a further claim; the buyer has a field of their own as well
		}
		return yield(sluice.BuyerID(field))
	})
}

// scan calls yield with every field of the buyers hash that holds claims, perhaps more
// than once, until it returns false. That the hash is whole, and the same one, is
// checked with each page.
func (l *Ledger) scan(ctx context.Context, sale sluice.SaleID, yield func(p *page, field, value string) bool) error {
	epoch, scanned := "", 0
	for cursor := "0"; ; scanned++ {
		p, err := l.page(ctx, sale, "scan", cursor, strconv.Itoa(scanCount))
		if errors.Is(err, port.ErrNotLoaded) && p.epoch != "" {
			err = nil // only the sale hash is gone: a rebuild reads what the records still have (I5)
		}
		if err != nil {
			return err
		}
		if scanned > 0 && p.epoch != epoch {
			return errors.New("the sale was loaded again in the meantime")
		}
		epoch = p.epoch
		for i := 0; i+1 < len(p.fields); i += 2 {
			if strings.HasPrefix(p.fields[i], "\n") {
				continue // the sentinel, or what is kept of a batch
			}
			if !yield(&p, p.fields[i], p.fields[i+1]) {
				return nil
			}
		}
		if cursor = p.next; cursor == "0" {
			return nil
		}
	}
}

// Find implements port.Reader. Without a buyer it reads the journal, where
// an order that the store does not know yet stands, and then every record.
func (l *Ledger) Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (_ port.Record, err error) {
	defer wrap(&err, "find order=%s", order)
	sale, ok := order.Sale()
	if !ok {
		return port.Record{}, sluice.ErrOrderNotFound
	}
	return l.find(ctx, sale, order, buyer)
}

func (l *Ledger) find(ctx context.Context, sale sluice.SaleID, order sluice.OrderID,
	buyer sluice.BuyerID,
) (found port.Record, err error) {
	hit := func(r port.Record) bool {
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
		err = l.recordsOf(ctx, sale, buyer, "", hit)
	} else {
		damage := error(nil)
		err = l.scan(ctx, sale, func(p *page, field, value string) bool {
			more, err := p.record(field, value, hit)
			damage = cmp.Or(damage, err)
			return more
		})
		if err == nil && found.Order == "" && damage != nil {
			return found, fmt.Errorf("%w: %w", damage, port.ErrNotLoaded)
		}
		if err == nil && found.Order == "" {
			var p page
			if p, err = l.page(ctx, sale, "sale"); err == nil {
				err = p.doubt()
			}
		}
	}
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}

// Recall returns the accepted claim with this id, in one step that only reads.
func (l *Ledger) Recall(ctx context.Context, claim sluice.ClaimID) (found port.Record, err error) {
	defer wrap(&err, "recall sale=%s", claim.Sale)
	err = l.recordsOf(ctx, claim.Sale, claim.Buyer, claim.Key, func(r port.Record) bool {
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
	err = l.peek(ctx, sale, func(e port.Entry) bool {
		for i := range e.Claims {
			if e.Claims[i].Order == order {
				buyer = e.Claims[i].Buyer
			}
		}
		return buyer == ""
	})
	return buyer, err
}

// recordsOf calls yield with the records of one buyer, or with that of a key if there is
// one. When it has yielded all of them and the ledger may have lost some, it returns an
// error: "no such record" would be a final answer about a promise that a rebuild may
// still bring back.
func (l *Ledger) recordsOf(ctx context.Context, sale sluice.SaleID, buyer sluice.BuyerID, key sluice.Key,
	yield func(port.Record) bool,
) error {
	args := []string{"fields", string(buyer), string(buyer) + "\n" + string(key)}
	if key == "" {
		args = []string{"buyer", string(buyer), "", strconv.Itoa(scanCount)}
	}
	epoch, claims, found := "", int64(0), int64(0)
	for {
		p, err := l.page(ctx, sale, args...)
		if err != nil {
			return err
		}
		if epoch != "" && p.epoch != epoch {
			return errors.New("the sale was loaded again in the meantime")
		}
		epoch = p.epoch
		n, has, stopped, err := p.chain(yield)
		if stopped {
			return nil
		}
		found, claims = found+n, max(claims, has)
		if err == nil && key == "" && (p.next == "" || found > claims) && found != claims {
			err = fmt.Errorf("%d of %d claims of buyer %q are on record", found, claims, buyer)
		}
		if err != nil && p.fence == "" {
			p.fence = damagedRecord
			l.fenceLost(ctx, &port.Reading{Sale: sale, Epoch: atoi(p.epoch), Fence: p.fence})
		}
		if err != nil || key != "" || p.next == "" {
			return p.doubt()
		}
		args[2] = p.next
	}
}

// page is a reply of records.lua: a sale whose records are all there, and some of them.
type page struct {
	sale    sluice.SaleID
	epoch   string
	fence   string            // as recorded, or what this server has received proves lost
	next    string            // the cursor, or the key, to go on with; of fields the units taken
	fields  []string          // and values
	batches map[string]string // that the fields point to, by name
}

// values returns the fields.
func (p *page) values() map[string]string {
	values := make(map[string]string, len(p.fields)/2)
	for i := 0; i+1 < len(p.fields); i += 2 {
		values[p.fields[i]] = p.fields[i+1]
	}
	return values
}

// record calls yield with the record of a field, and returns what it does. If the field
// is damaged it yields the line, if that is whole.
func (p *page) record(field, value string, yield func(port.Record) bool) (more bool, err error) {
	r, _, _, err := fieldRecord(p.sale, field, value, p.batches)
	return r.Order == "" || yield(r), err
}

// chain calls yield with the records of one buyer, and returns how many there were, and
// how many claims the buyer has if the first is among them.
func (p *page) chain(yield func(port.Record) bool) (found, claims int64, stopped bool, err error) {
	for i := 0; i+1 < len(p.fields); i += 2 {
		r, has, _, damage := fieldRecord(p.sale, p.fields[i], p.fields[i+1], p.batches)
		if err = cmp.Or(err, damage); r.Order == "" {
			continue
		}
		found, claims = found+1, max(claims, has)
		if !yield(r) {
			return found, claims, true, nil
		}
	}
	return found, claims, false, err
}

// doubt is an error if records may be missing: the sale is fenced, so it has
// lost some or is being loaded.
func (p *page) doubt() error {
	if p.fence == "" {
		return nil
	}
	return fmt.Errorf("the sale is fenced (%s): %w", p.fence, port.ErrNotLoaded)
}

// page calls records.lua; its header explains the arguments.
func (l *Ledger) page(ctx context.Context, sale sluice.SaleID, args ...string) (page, error) {
	have := l.receivedOf(sale) // before the reading
	message, err := l.run(ctx, recordsScript, l.keys.of(sale)[:2], append([]string{toldPrefix + l.opts.Node}, args...))
	if err != nil {
		return page{}, err
	}
	return l.parsePage(sale, have, message)
}

func (l *Ledger) parsePage(sale sluice.SaleID, have received, message rueidis.RedisMessage) (page, error) {
	p := page{sale: sale, batches: map[string]string{}}
	parts, err := message.ToArray()
	if err == nil && len(parts) != 9 {
		err = fmt.Errorf("reply of %d parts", len(parts))
	}
	if err != nil {
		return p, err
	}
	var text [7]string // format, epoch, fence, sequence, sequence received, sentinel, next
	for i := range text {
		if text[i], err = parts[i].ToString(); err != nil {
			return p, err
		}
	}
	batches, err := parts[8].AsStrSlice()
	if err == nil {
		p.fields, err = parts[7].AsStrSlice()
	}
	if err != nil {
		return p, err
	}
	for i := 0; i+1 < len(batches); i += 2 {
		p.batches[batches[i]] = batches[i+1]
	}
	format, complete := text[0], text[5]
	p.epoch, p.fence, p.next = text[1], text[2], text[6]
	switch {
	case errFormat(format) != nil:
		return page{}, errFormat(format)
	case format == "" || atoi(p.epoch) < 1 || atoi(p.epoch) > port.MaxEpoch:
		p.epoch = complete
		return p, port.ErrNotLoaded
	case complete != p.epoch && p.fence == port.FenceLoading:
		return page{}, fmt.Errorf("its load is not complete: %w", port.ErrNotLoaded)
	case complete != p.epoch:
		return page{}, errGone
	case format != thisFormat && p.fence == "":
		p.fence = port.FenceLost + `: the sale's field "format" is gone or damaged`
	}
	if p.fence == "" {
		r := port.Reading{Epoch: atoi(p.epoch), Seq: atoi(text[3])}
		p.fence = have.lostIn(&r, atoi(text[4]), l.opts.Node)
	}
	return p, nil
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
