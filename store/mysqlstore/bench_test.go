package mysqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/store/mysqlstore"
	"github.com/sluicehq/sluice/store/storetest"
)

const perBatch = 500

// BenchmarkInsert stores batches of 500 new claims. Beside each batch, in the
// same run and on the same server, it inserts as many rows by one bare
// multi-row INSERT into an identical table with identical indexes, each in a
// transaction of its own. It reports rows a second of both, and their ratio:
// what exactly-once and the cap cost.
func BenchmarkInsert(b *testing.B) {
	url := servertest.MySQL(b)
	s := open(b, url)
	db := mysqlstore.RawDB(s)
	if _, err := db.ExecContext(b.Context(), "CREATE TABLE bare LIKE orders"); err != nil {
		b.Fatal(err)
	}
	sale := aSale(sluice.MaxUnits)
	sale, err := s.CreateSale(b.Context(), sale)
	if err != nil {
		b.Fatal(err)
	}
	var stored, bare time.Duration
	n := 0
	for b.Loop() {
		n++
		entry := benchEntry(n)
		began := time.Now()
		if got, err := s.Insert(b.Context(), "phones", []sluice.Entry{entry}); err != nil || got.Inserted != perBatch {
			b.Fatal(got, err)
		}
		stored += time.Since(began)

		query, args := bareInsert(&sale, &entry)
		began = time.Now()
		if _, err := db.ExecContext(b.Context(), query, args...); err != nil {
			b.Fatal(err)
		}
		bare += time.Since(began)
	}
	rows := float64(n) * perBatch
	b.ReportMetric(rows/stored.Seconds(), "rows/s")
	b.ReportMetric(rows/bare.Seconds(), "bare-rows/s")
	b.ReportMetric(bare.Seconds()/stored.Seconds(), "ratio")
}

func benchEntry(n int) sluice.Entry {
	e := sluice.Entry{
		ID: fmt.Sprint(n), Sale: "phones", Epoch: 1, Node: "node-1", Terms: 1, At: time.Now(),
		FirstSeq: int64((n-1)*perBatch + 1), Claims: make([]sluice.Claim, perBatch),
	}
	for i := range e.Claims {
		at := e.FirstSeq + int64(i)
		e.Claims[i] = sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%x", at*0x9e3779b97f4a7c1%0xffffffff)), Key: sluice.Key(fmt.Sprintf("key-%08x", at*2654435761%0xffffffff)),
			Quantity: 1, Order: sluice.MakeOrderID("phones", fmt.Sprintf("%032x", at)), Meta: `{"channel":"app"}`,
		}
	}
	return e
}

// bareInsert is what a program without Sluice's guarantees would do.
func bareInsert(sale *sluice.Sale, e *sluice.Entry) (string, []any) {
	const columns = 19
	var query strings.Builder
	query.WriteString(`INSERT INTO bare (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at) VALUES `)
	args := make([]any, 0, columns*len(e.Claims))
	now := time.Now()
	for i := range e.Claims {
		c := &e.Claims[i]
		if i > 0 {
			query.WriteByte(',')
		}
		query.WriteByte('(')
		for column := range columns {
			if column > 0 {
				query.WriteByte(',')
			}
			query.WriteByte('?')
		}
		query.WriteByte(')')
		args = append(args, string(c.Order), string(e.Sale), string(c.Buyer), string(c.Key), c.Quantity, c.Meta, sale.Price.Amount, sale.Price.Currency,
			"pending", "", e.Epoch, e.FirstSeq+int64(i), e.Terms, e.Node, e.At, now,
			now.Add(sale.PaymentWindow), now.Add(sale.PaymentWindow+sale.PaymentGrace), now)
	}
	return query.String(), args
}

func BenchmarkEndings(b *testing.B) {
	url := servertest.MySQL(b)
	raw := mysqlstore.OpenRaw(b, url)
	storetest.BenchmarkEndings(b, open(b, url), func(sale sluice.SaleID, by time.Duration) { age(b, raw, sale, by) })
}
