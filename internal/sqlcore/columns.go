package sqlcore

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Columns, in the order in which all statements here insert and select them. Dialects that insert
// orders in words of their own give the values by hand.
const (
	saleColumns = `id, ` + editableColumns + `, terms_version, ` + limitColumns +
		`, epoch, loaded_epoch, fence, taken, cap, created_at, updated_at, archived_at, purged_at, remains, ledger`
	// editableColumns are the descriptive fields of a sale.
	editableColumns = `sku, title, price_amount, price_currency, list_price_amount, list_price_currency, free,
		payment_window_ms, payment_grace_ms, rules, showcase`
	// termsColumns selects one version of the terms.
	termsColumns = `version, ` + limitColumns
	limitColumns = `total, max_per_buyer, max_orders, max_unpaid, opens_at, closes_at, paused`

	OrderColumns = `position, order_id, sale_id, buyer_id, claim_key, quantity, meta, counters,
		price_amount, currency, status, reason, epoch, seq, terms, accepted_at, stored_at, expires_at, keep_until,
		updated_at, payment_id, unpaid`

	// NewOrderColumns names the columns of NewOrder.Values, for an INSERT.
	NewOrderColumns = `order_id, sale_id, buyer_id, claim_key, quantity, meta, counters, price_amount, currency,
		status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at`

	changeColumns = `order_id, changed_at, from_status, to_status, action, changed_by, reason, payment_id, refused`
	// historyColumns selects an order and one of its changes, NULL without one.
	historyColumns = `orders.node, orders.stored_at, orders.status, orders.reason,
		c.changed_at, c.from_status, c.to_status, c.action, c.changed_by, c.reason, c.payment_id, c.refused`
	ReleaseColumns = `order_id, sale_id, buyer_id, claim_key, quantity, epoch, unpaid`

	newLetterColumns  = `sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, accepted_at, created_at`
	deadLetterColumns = `id, ` + newLetterColumns + `, resolved_at, resolution`
)

// row is what scanning needs of *sql.Row and *sql.Rows.
type row interface{ Scan(dest ...any) error }

// limit scans a column in which NULL means no limit.
type limit struct{ to *int64 }

func (l limit) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*l.to = sluice.Unlimited
	case int64:
		*l.to = v
	default:
		return fmt.Errorf("a limit is stored as %T", src)
	}
	return nil
}

// orZero scans a limit of which NULL, no limit, is 0 in the domain.
type orZero struct{ to *int64 }

func (l orZero) Scan(src any) error {
	if src == nil {
		*l.to = 0
		return nil
	}
	return limit(l).Scan(src)
}

// limitArg is the inverse of limit.
func limitArg(v int64) any {
	if v == sluice.Unlimited {
		return nil
	}
	return v
}

// moment scans a time column, which holds milliseconds since 1970 where the
// database has no type for times. NULL is the zero time.
type moment struct{ to *time.Time }

func (m moment) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*m.to = time.Time{}
	case int64:
		*m.to = time.UnixMilli(v).UTC()
	case time.Time:
		*m.to = WholeMillis(v)
	default:
		return fmt.Errorf("a time is stored as %T", src)
	}
	return nil
}

// Moment returns a destination for a time column.
func Moment(to *time.Time) sql.Scanner { return moment{to} }

// WholeMillis is t in UTC, cut to the precision that everything here has. A
// zero time stays one.
func WholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// millis scans a duration in milliseconds.
type millis struct{ to *time.Duration }

func (m millis) Scan(src any) error {
	v, ok := src.(int64)
	if !ok {
		return fmt.Errorf("a duration is stored as %T", src)
	}
	*m.to = time.Duration(v) * time.Millisecond
	return nil
}

// rules scans the column that holds a sale's rules as one JSON object. Rules
// that this program does not know were written by a newer one, and are skipped: that one
// alone asks for them. A text that is no rules at all is damage.
type rules struct {
	to     *sluice.Rules
	damage *error
}

func (r rules) Scan(src any) error {
	var text []byte
	switch v := src.(type) {
	case []byte:
		text = v
	case string:
		text = []byte(v)
	default:
		return fmt.Errorf("rules are stored as %T", src)
	}
	*r.to = sluice.Rules{}
	if err := json.Unmarshal(text, r.to); err != nil {
		*r.to = sluice.Rules{Eligibility: sluice.EligibleList} // also as this server remembers them: no buyer passes
		*r.damage = fmt.Errorf("the rules of the sale cannot be read: %w", err)
	}
	return nil
}

// jsonArg is rules or a showcase as its column has it. A string, not bytes: MySQL takes those for
// binary, which is no JSON.
func jsonArg(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and finite numbers: Validate has seen them
	}
	return string(text)
}

// scanSale scans a sale; what is damaged in it is an error.
func scanSale(r row) (sluice.Sale, error) {
	s, damage, err := scanDamaged(r)
	return s, cmp.Or(err, damage)
}

// scanListed scans a sale of a list, which one damaged row must not hide: the damage is
// noted in the sale.
func scanListed(r row) (sluice.Sale, error) {
	s, _, err := scanDamaged(r)
	return s, err
}

// scanDamaged scans a sale of which a text may be damaged. With its rules unknown it is
// fenced, so that no claim passes without them.
func scanDamaged(r row) (s sluice.Sale, damage, err error) {
	var listAmount sql.NullInt64
	var listCurrency, remains sql.NullString
	var showcase string
	var purgedAt time.Time
	err = r.Scan(slices.Concat([]any{
		&s.ID, &s.SKU, &s.Title, &s.Price.Amount, &s.Price.Currency, &listAmount, &listCurrency, &s.Free,
		millis{&s.PaymentWindow},
		millis{&s.PaymentGrace},
		rules{&s.Rules, &damage},
		&showcase,
	}, termsInto(&s.Terms), []any{
		&s.Epoch, &s.LoadedEpoch, &s.Fence, &s.Taken,
		limit{&s.Cap},
		moment{&s.CreatedAt},
		moment{&s.UpdatedAt},
		moment{&s.ArchivedAt},
		moment{&purgedAt},
		&remains,
		&s.Ledger,
	})...)
	if damage != nil {
		s.Fence = damage.Error()
	}
	if err == nil && remains.Valid {
		s.Remains = &sluice.Remains{}
		if bad := json.Unmarshal([]byte(remains.String), s.Remains); bad != nil {
			damage = fmt.Errorf("what remains of deleted orders cannot be read: %w", bad)
			s.Remains = &sluice.Remains{Err: damage}
		}
		s.Remains.At = purgedAt
	}
	if bad := json.Unmarshal([]byte(showcase), &s.Showcase); err == nil && bad != nil {
		s.Showcase = sluice.Showcase{} // it sells without its pictures
	}
	s.ListPrice = sluice.Money{Amount: listAmount.Int64, Currency: listCurrency.String}
	return s, damage, err
}

// editableArgs are the values of editableColumns.
func editableArgs(s *sluice.Sale) []any {
	list := []any{nil, nil}
	if s.ListPrice != (sluice.Money{}) {
		list = []any{s.ListPrice.Amount, s.ListPrice.Currency}
	}
	return []any{
		s.SKU, s.Title, s.Price.Amount, s.Price.Currency, list[0], list[1], s.Free,
		s.PaymentWindow.Milliseconds(), s.PaymentGrace.Milliseconds(), jsonArg(&s.Rules), jsonArg(&s.Showcase),
	}
}

// termsArgs are the values of termsColumns.
func termsArgs(t *sluice.Terms) []any {
	return []any{
		t.Version, limitArg(t.Total), limitArg(t.MaxPerBuyer), limitArg(t.MaxOrders),
		sql.NullInt64{Int64: t.MaxUnpaid, Valid: t.MaxUnpaid != 0},
		t.OpensAt, t.ClosesAt, t.Paused,
	}
}

// termsInto is where termsColumns are scanned to.
func termsInto(t *sluice.Terms) []any {
	return []any{
		&t.Version,
		limit{&t.Total},
		limit{&t.MaxPerBuyer},
		limit{&t.MaxOrders},
		orZero{&t.MaxUnpaid},
		moment{&t.OpensAt},
		moment{&t.ClosesAt},
		&t.Paused,
	}
}

func scanTerms(r row) (t sluice.Terms, err error) {
	err = r.Scan(termsInto(&t)...)
	return t, err
}

func scanOrder(r row) (o sluice.Order, err error) {
	o, _, err = scanOrderAt(r)
	return o, err
}

// scanOrderAt reads a row of OrderColumns, and the position that it has.
func scanOrderAt(r row) (o sluice.Order, position int64, err error) {
	err = r.Scan(&position, &o.ID, &o.Sale, &o.Buyer, &o.Key, &o.Quantity, &o.Meta, &o.Counters,
		&o.Price.Amount, &o.Price.Currency, &o.Status, &o.Reason, &o.Epoch, &o.Seq, &o.Terms, moment{&o.AcceptedAt},
		moment{&o.StoredAt}, moment{&o.ExpiresAt}, moment{&o.KeepUntil}, moment{&o.UpdatedAt}, &o.PaymentID, &o.Unpaid)
	return o, position, err
}

// AppendValues appends those of NewOrderColumns.
func (o *NewOrder) AppendValues(values []any, d Dialect) []any {
	return append(values,
		string(o.ID), string(o.Sale), string(o.Buyer), string(o.Key), o.Quantity, o.Meta, string(o.Counters),
		o.Price.Amount, o.Price.Currency, string(o.Status), o.Reason, o.Epoch, o.Seq, o.Terms, o.Node,
		d.Time(o.AcceptedAt), d.Time(o.StoredAt), d.Time(o.ExpiresAt), d.Time(o.KeepUntil), d.Time(o.UpdatedAt))
}

func scanDeadLetter(r row) (port.DeadLetter, error) {
	var l port.DeadLetter
	var claims []byte
	err := r.Scan(&l.ID, &l.Sale, &l.Epoch, &l.EntryID, &l.Reason, &claims, &l.FirstSeq, &l.Terms, &l.Node,
		moment{&l.At}, moment{&l.CreatedAt}, moment{&l.Resolved}, &l.Resolution)
	l.Claims = string(claims)
	return l, err
}
