package redisledger

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Read implements port.Reader: one script call per sale, all in one round
// trip. A sale that has lost data, by what is there or by what was
// reported to this server, is fenced as lost, and the reading says so.
func (l *Ledger) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	if len(sales) == 0 {
		return nil, nil
	}
	had := make([]received, len(sales)) // before the reading: answers to claims may overtake it
	for i, sale := range sales {
		had[i] = l.receivedOf(sale)
	}
	readings, lost, err := l.readMany(ctx, sales, func(i int, r *port.Reading, reported int64) string {
		return cmp.Or(had[i].lostIn(r, reported, l.opts.Node), had[i].lostTerms(r, l.opts.Node))
	})
	for i := range readings {
		switch r := &readings[i]; {
		case r.Err != nil || !r.Loaded:
		case lost[i]:
			l.fenceLost(ctx, r)
		case r.Fence == "":
			k, terms := l.known(r.Sale), r.Terms
			k.advance(received{epoch: r.Epoch, seen: r.Seq, version: terms.Version})
			k.read(r.Epoch, &terms)
		}
	}
	if err != nil {
		return readings, fmt.Errorf("redisledger: read: %w", err)
	}
	return readings, nil
}

// readMany calls read.lua for each sale. The fence of a sale that has lost
// data, by the reading or by judge, is that finding, and lost says so. The
// error names the first sale that cannot be read; the other readings are valid.
func (l *Ledger) readMany(ctx context.Context, sales []sluice.SaleID,
	judge func(i int, r *port.Reading, reported int64) string,
) (readings []port.Reading, lost []bool, failed error) {
	keys := make([][]string, len(sales))
	for i, sale := range sales {
		keys[i] = l.keys.of(sale)
	}
	args := slices.Repeat([][]string{{l.now(), toldPrefix + l.opts.Node}}, len(sales))
	results := l.runMany(ctx, readScript, keys, args)
	readings, lost = make([]port.Reading, len(sales)), make([]bool, len(sales))
	for i, sale := range sales {
		r, reported, missing, err := parseReading(sale, results[i])
		if err != nil {
			err = fmt.Errorf("sale=%s: %w", sale, l.explain(err))
			readings[i] = port.Reading{Sale: sale, Err: err}
			if failed == nil {
				failed = err
			}
			continue
		}
		if r.Loaded && r.Fence == "" {
			if r.Fence = missing; missing == "" {
				r.Fence = judge(i, &r, reported)
			}
			lost[i] = r.Fence != ""
		}
		readings[i] = r
	}
	return readings, lost, failed
}

// lostIn says what the sale lost since this server's last reply, or nothing.
func (m received) lostIn(r *port.Reading, reported int64, node string) string {
	switch {
	case r.Epoch < m.epoch:
		return fmt.Sprintf("%s: epoch %d, where %s knew epoch %d", port.FenceLost, r.Epoch, node, m.epoch)
	case r.Epoch == m.epoch && reported < m.reported:
		return fmt.Sprintf("%s: %s received sequence %d, on record is %d", port.FenceLost, node, m.reported, reported)
	case r.Epoch == m.epoch && r.Seq < m.seen:
		return fmt.Sprintf("%s: sequence %d, where %s saw %d", port.FenceLost, r.Seq, node, m.seen)
	}
	return ""
}

// lostTerms says that the sale's terms are older than this server's, or nothing: what was
// paused, or postponed, must not be sold by those of before (I8).
func (m received) lostTerms(r *port.Reading, node string) string {
	if r.Epoch != m.epoch || r.Terms.Version >= m.version {
		return ""
	}
	return fmt.Sprintf("%s: version %d of the terms, where %s knew %d", port.FenceLost, r.Terms.Version, node, m.version)
}

// fenceLost makes the loss known to the other servers, and waits for no replica: many
// sales are read one after the other. If that fails, the next reading or claim finds
// the same loss.
func (l *Ledger) fenceLost(ctx context.Context, r *port.Reading) {
	if !l.readOnly {
		args := []string{strconv.FormatInt(r.Epoch, 10), r.Fence}
		_, _ = l.runInt(ctx, fenceScript, []string{l.keys.sale(r.Sale)}, args)
	}
}

// readingFields names the parts of a reply that are fields of the sale hash, and
// numbers but for format and fence.
var readingFields = [...]string{
	3: "format", "epoch", "seq", "taken", "terms", "total", "max_buyer", "max_orders", "opens", "closes", "paused",
	"fence", "calm_until",
	16: "told", 18: "max_unpaid", "calm_code",
}

// least is the least number of a field, as the scripts have it.
func least(name string) int64 {
	switch name {
	case "opens", "closes":
		return math.MinInt64
	case "total", "max_buyer", "max_orders":
		return sluice.Unlimited
	}
	return 0
}

// most is the greatest number of a field, as the scripts have it.
func most(name string) int64 {
	switch name {
	case "opens", "closes":
		return math.MaxInt64
	case "epoch":
		return port.MaxEpoch
	case "paused":
		return 1
	case "calm_code":
		return int64(len(sluice.Codes()))
	}
	return 1<<53 - 1 // what Lua has exactly
}

// parseReading reads a reply of read.lua; reported is the last sequence this server
// received according to the ledger, missing says which data is gone or
// damaged. Without an epoch the sale is not loaded: a rebuild brings it back.
func parseReading(sale sluice.SaleID, result rueidis.RedisResult) (r port.Reading, reported int64, missing string,
	err error,
) {
	r.Sale = sale
	parts, err := result.ToArray()
	if err != nil {
		return r, 0, "", err
	}
	fields := parser{text: make([]string, len(parts))}
	gap := -1 // a field that the sale hash should have
	for i := range parts {
		fields.text[i], err = partText(&parts[i])
		if rueidis.IsRedisNil(err) {
			gap, fields.text[i], err = i, "0", nil
		}
		if err != nil {
			return r, 0, "", fmt.Errorf("part %d of the reply: %w", i, err)
		}
	}
	r.Now = fields.time(0)
	if len(parts) == 1 {
		return r, 0, "", fields.err
	}
	if len(parts) != 20 {
		return r, 0, "", fmt.Errorf("reply of %d parts", len(parts))
	}
	if err := errFormat(fields.text[3]); err != nil {
		return r, 0, "", err
	}
	if fields.text[3] != thisFormat {
		gap = 3
	}
	for i, name := range readingFields {
		if n, ok := number(fields.text[i]); name != "" && name != "format" && name != "fence" &&
			(!ok || n < least(name) || n > most(name)) {
			gap, fields.text[i] = i, "0"
		}
	}
	if fields.number(4) == 0 {
		return r, 0, "", fields.err
	}
	if gap >= 0 {
		fields.text[1] = fmt.Sprintf("%s: the sale's field %q is gone or damaged", port.FenceLost, readingFields[gap])
	}
	r.Loaded = true
	r.Backlog, r.Epoch, r.Seq, r.Taken = fields.number(2), fields.number(4), fields.number(5), fields.number(6)
	r.Terms = sluice.Terms{
		Version: fields.number(7), Total: fields.number(8), MaxPerBuyer: fields.number(9), MaxOrders: fields.number(10),
		MaxUnpaid: fields.number(18), OpensAt: fields.time(11), Paused: fields.number(13) == 1,
	}
	if fields.text[12] != "0" {
		r.Terms.ClosesAt = fields.time(12)
	}
	if gap != 14 {
		r.Fence = fields.text[14]
	}
	if cooldown := fields.time(15); sluice.InCooldown(r.Now, cooldown) {
		r.CooldownUntil = cooldown
	}
	reported, r.Oldest = fields.number(16), fields.number(17)
	return r, reported, fields.text[1], fields.err
}

// partText is a part of a reply as text.
func partText(part *rueidis.RedisMessage) (string, error) {
	if part.IsInt64() {
		n, err := part.AsInt64()
		return strconv.FormatInt(n, 10), err
	}
	return part.ToString()
}

// parser reads numbers and keeps the first error.
type parser struct {
	text []string
	err  error
}

func (p *parser) number(i int) int64 {
	n, err := strconv.ParseInt(p.text[i], 10, 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%q is not a number (reply %d)", p.text[i], i)
	}
	return n
}

func (p *parser) time(i int) time.Time { return fromMillis(p.number(i)) }
