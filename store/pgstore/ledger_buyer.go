package pgstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// buyer is what is known of a buyer's claims.
type buyer struct {
	sluice.Account
	claims []port.Record
	more   bool // there are claims that were not read
}

// fewClaims is how many claims of each buyer are read at once. Nearly no buyer has
// more; of one who has, the claims that are asked for are looked up, and all are
// counted, up to manyClaims.
const (
	fewClaims  = 100
	manyClaims = 10_000
)

// know adds a claim of a buyer.
func (d *deciding) know(r port.Record) {
	b := d.buyers[r.Buyer]
	if b == nil {
		b = &buyer{}
		d.buyers[r.Buyer] = b
	}
	if len(b.claims) == fewClaims {
		b.more = true
		return
	}
	b.add(r)
}

func (b *buyer) add(r port.Record) {
	b.claims = append(b.claims, r)
	b.Orders++
	if r.Live {
		b.Units += r.Quantity
	}
	if r.Unpaid {
		b.Unpaid++
	}
}

// claim returns what is known of a claim; nil if nothing is. There are few.
func (b *buyer) claim(key sluice.Key) *port.Record {
	for i := range b.claims {
		if b.claims[i].Key == key {
			return &b.claims[i]
		}
	}
	return nil
}

// lookMore reads what is rare: promises of a load, and more of buyers with very many
// claims.
func (d *deciding) lookMore(ctx context.Context, conn *pgxpool.Conn) error {
	var buyers, keys, many []string
	for i := range d.claims {
		if b := d.buyers[d.claims[i].Buyer]; b != nil && b.more {
			buyers, keys = append(buyers, string(d.claims[i].Buyer)), append(keys, string(d.claims[i].Key))
		}
	}
	for id, b := range d.buyers {
		if b != nil && b.more {
			many = append(many, string(id))
		}
	}
	if len(many) > 0 {
		rows, err := conn.Query(ctx, countsOfBuyers, d.state.Sale, many, manyClaims+1)
		if err != nil {
			return err
		}
		var id sluice.BuyerID
		var have sluice.Account
		if _, err := pgx.ForEachRow(rows, []any{&id, &have.Orders, &have.Units, &have.Unpaid}, func() error {
			d.buyers[id].Account = have
			return nil
		}); err != nil {
			return err
		}
		rows, err = conn.Query(ctx, claimsByKey, d.state.Sale, buyers, keys)
		if err != nil {
			return err
		}
		if err := scanRecords(rows, func(r port.Record) bool {
			if b := d.buyers[r.Buyer]; b.claim(r.Key) == nil {
				b.claims = append(b.claims, r)
			}
			return true
		}); err != nil {
			return err
		}
	}
	if d.state.promised == 0 {
		return nil
	}
	all := make([]string, 0, len(d.buyers))
	for b := range d.buyers {
		all = append(all, string(b))
	}
	rows, err := conn.Query(ctx, promisesOfBuyers, d.state.Sale, all)
	if err != nil {
		return err
	}
	if err := scanRecords(rows, func(r port.Record) bool {
		b := d.buyers[r.Buyer]
		if b == nil {
			b = &buyer{}
			d.buyers[r.Buyer] = b
		}
		b.add(r)
		return true
	}); err != nil || len(d.counted) == 0 {
		return err
	}
	if rows, err = conn.Query(ctx, promisesOfCounters, d.state.Sale, slices.Collect(maps.Keys(d.counted))); err != nil {
		return err
	}
	return d.count(rows)
}

// count adds rows of counters and their units.
func (d *deciding) count(rows pgx.Rows) error {
	name, units := "", int64(0)
	_, err := pgx.ForEachRow(rows, []any{&name, &units}, func() error {
		d.counted[name] += units
		return nil
	})
	return err
}

// Statements about buyers. Their first argument is the sale.
const (
	recordColumns  = `buyer_id, claim_key, order_id, quantity, meta, counters, sale_id, epoch, seq, terms, accepted_at`
	orderRecord    = recordColumns + `, status IN ('pending', 'paid'), unpaid`
	promisedRecord = recordColumns + `, true, false`

	// theClaim is the order of the claim c (buyer, key), and ofBuyer are those of the buyer
	// b.id. Written as an equality, the sale would let the planner take the index of sales,
	// and read a whole sale for each buyer: it does so while it has no statistics, or those
	// of smaller sales.
	theClaim = `buyer_id = c.buyer AND (buyer_id, sale_id, claim_key) >= (c.buyer, $1, c.key)
		AND (buyer_id, sale_id, claim_key) <= (c.buyer, $1, c.key)`
	ofBuyer = `FROM orders WHERE buyer_id = b.id AND (buyer_id, sale_id) >= (b.id, $1) AND (buyer_id, sale_id) <= (b.id, $1)`

	claimsByKey = `SELECT o.* FROM unnest($2::text[], $3::text[]) AS c (buyer, key),
		LATERAL (SELECT ` + orderRecord + ` FROM orders WHERE ` + theClaim + ` LIMIT 1) o`
	countsOfBuyers = `SELECT b.id, count(*), coalesce(sum(quantity) FILTER (WHERE status IN ('pending', 'paid')), 0)::bigint,
			count(*) FILTER (WHERE unpaid)
		FROM unnest($2::text[]) AS b (id), LATERAL (SELECT quantity, status, unpaid ` + ofBuyer + ` LIMIT $3) o GROUP BY b.id`
	promisesOfBuyers = `SELECT ` + promisedRecord + ` FROM ledger_promises p
		WHERE sale_id = $1 AND buyer_id = ANY ($2::text[])
		AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = p.order_id)`

	// counterNames are the names in a column of counters. The sale is compared so that no index of
	// sales has it: by that the planner would read a whole sale for each counter.
	counterNames    = `string_to_array(regexp_replace(counters, '=[0-9]+', '', 'g'), ' ')`
	unitsOfCounters = `SELECT c.name, (SELECT coalesce(sum(quantity), 0)::bigint FROM orders
			WHERE counters <> '' AND status IN ('pending', 'paid') AND ` + counterNames + ` @> ARRAY[c.name]
			AND sale_id || '' = $1)
		FROM unnest($2::text[]) AS c (name)`
	promisesOfCounters = `SELECT c.name, sum(p.quantity)::bigint
		FROM unnest($2::text[]) AS c (name), ledger_promises p
		WHERE p.sale_id = $1 AND ` + counterNames + ` @> ARRAY[c.name]
		AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = p.order_id)
		GROUP BY c.name`
)

// claimsOfBuyers has no argument for the limit: the planner would guess at it, and plan
// each batch again.
var claimsOfBuyers = fmt.Sprintf(`SELECT o.* FROM unnest($2::text[]) AS b (id), LATERAL (
	SELECT `+orderRecord+` `+ofBuyer+` LIMIT %d) o`, fewClaims+1)

// scanRecords reads rows of recordColumns, and whether the claim is live and ended
// unpaid, until yield returns false.
func scanRecords(rows pgx.Rows, yield func(port.Record) bool) error {
	defer rows.Close()
	for rows.Next() {
		var r port.Record
		if err := rows.Scan(&r.Buyer, &r.Key, &r.Order, &r.Quantity, &r.Meta, &r.Counters, &r.Sale, &r.Epoch, &r.Seq,
			&r.Terms, &r.At, &r.Live, &r.Unpaid); err != nil {
			return err
		}
		if r.At = sqlcore.WholeMillis(r.At); !yield(r) {
			return nil
		}
	}
	return rows.Err()
}
