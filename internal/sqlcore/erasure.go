package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Orders of archived sales no longer change but for refunds, and no ledger holds
// their claims. So their buyers can be replaced row by row: what counts (units,
// places, statuses, times) stays, and the same buyer becomes the same pseudonym.
// Events need nothing of their own: they are read from these rows.

var (
	// SaleOfBuyer is the next sale in which a buyer has an order.
	sqlSaleOfBuyer = newStatement("Erase.SaleOfBuyer", `SELECT sale_id FROM orders FORCE INDEX (orders_claim)
		WHERE buyer_id = ? AND sale_id > ? ORDER BY sale_id LIMIT 1`)
	// LockOrdersOfBuyer and LockOrdersOfSale hold their rows until the transaction ends.
	sqlLockOrdersOfBuyer = newStatement("Erase.LockOrdersOfBuyer", `SELECT `+OrderColumns+` FROM orders
		FORCE INDEX (orders_claim) WHERE buyer_id = ? AND sale_id = ? AND claim_key > ? ORDER BY claim_key
		LIMIT ? FOR NO KEY UPDATE`)
	sqlLockOrdersOfSale = newStatement("Erase.LockOrdersOfSale", `SELECT `+OrderColumns+` FROM orders
		FORCE INDEX (orders_of_sale) WHERE sale_id = ? AND position > ? ORDER BY position
		LIMIT ? FOR NO KEY UPDATE`)
	sqlPaymentsOf = newStatement("Erase.PaymentsOf", `SELECT c.order_id, c.from_status, c.payment_id, c.refused
		FROM order_changes c WHERE c.order_id = ANY (?::text[]) AND (c.payment_id <> '' OR c.refused <> '')`)
	sqlEraseOrder = newStatement("Erase.Order",
		update("orders", "buyer_id, claim_key, meta, counters, payment_id")+` WHERE order_id = ?`)
	sqlErasePayment = newStatement("Erase.Payment", update("order_changes", "payment_id, refused")+`
		WHERE order_id = ? AND from_status = ? AND refused = ?`)
	sqlForgetPayment = newStatement("Erase.ForgetPayment", `DELETE FROM payments WHERE order_id = ?`)

	sqlIsListed = newStatement("Erase.IsListed",
		`SELECT count(*) FROM sale_buyers WHERE sale_id = ? AND kind = ? AND generation = ? AND buyer_id = ?`)

	sqlFirstAction  = newStatement("Erase.FirstAction", `SELECT coalesce(min(id), 0) FROM admin_actions`)
	sqlLastAction   = newStatement("Erase.LastAction", `SELECT coalesce(max(id), 0) FROM admin_actions`)
	sqlEraseActions = newStatement("Erase.Actions",
		update("admin_actions", "actor, address, path, request_id")+` WHERE id >= ? AND id < ? AND actor = ?`)
	sqlDeleteActions = newStatement("Erase.DeleteActions",
		`DELETE FROM admin_actions WHERE id >= ? AND id < ? AND acted_at < ?`)

	// ToErase is the next sale, by id, that was archived before a time and whose buyers
	// are not erased.
	sqlToErase = newStatement("Erase.ToErase", `SELECT id FROM sales FORCE INDEX (sales_to_erase)
		WHERE erased_at IS NULL AND archived_at < ? AND id > ? ORDER BY id LIMIT 1`)
	sqlSetErased = newStatement("Erase.SetErased", update("sales", "erased_at")+` WHERE id = ?`)
)

// Sizes of one transaction: orders, dead letters (of which each may hold hundreds
// of claims), and numbers of admin actions. And the orders of one turn of a sale.
const (
	eraseOrders  = 100
	eraseTurn    = 10 * eraseOrders
	eraseLetters = 5
	eraseActions = 5000
)

// EraseBuyer erases one buyer.
func (s *Store) EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (done sluice.Erased, err error) {
	defer s.wrap(&err, "erase a buyer") // which one is not for the log
	if err := s.mayErase(buyer.Validate()); err != nil {
		return done, err
	}
	e := s.newEraser(&done)
	defer e.finish()
	// Lists first: they are not needed for the rest. Then also the pseudonym: a server
	// without the key may have written a payment after the buyer was erased.
	if err := e.lists(ctx, buyer); err != nil {
		return done, err
	}
	for _, id := range []sluice.BuyerID{buyer, s.masks.buyer(buyer)} {
		if err := e.ordersOfBuyer(ctx, id); err != nil {
			return done, err
		}
	}
	if err := e.letters(ctx, "", buyer); err != nil {
		return done, err
	}
	return done, e.actions(ctx, func(tx *conn, from, to int64) int64 {
		actor := "buyer:" + string(buyer)
		return tx.count(sqlEraseActions, "buyer:"+string(s.masks.buyer(buyer)), "", "", "", from, to, actor)
	})
}

// EraseOlder erases the buyers of sales that were archived long ago.
func (s *Store) EraseOlder(ctx context.Context, age time.Duration) (done sluice.Erased, err error) {
	defer s.wrap(&err, "erase what is older than %v", age)
	if err := s.mayErase(nil); err != nil {
		return done, err
	}
	before, err := s.ago(ctx, age)
	if err != nil {
		return done, err
	}
	e := s.newEraser(&done)
	defer e.finish()
	// The actions first: they do not wait for the sales. A sale that fails keeps no
	// other from its turn; the first error is returned.
	failed := e.actions(ctx, func(tx *conn, from, to int64) int64 {
		n := tx.count(sqlDeleteActions, from, to, before)
		if n == 0 { // they are in the order of their times
			tx.fail(errEnough)
		}
		return n
	})
	// Turn by turn, so that a huge sale keeps no other from its own.
	for left := true; left; {
		left = false
		for sale := sluice.SaleID(""); ; {
			sale, err = only[sluice.SaleID](s.reads(ctx).row(sqlToErase, before, sale))
			if errors.Is(err, sql.ErrNoRows) {
				break
			}
			if err != nil {
				return done, cmp.Or(failed, err)
			}
			more, err := e.sale(ctx, sale)
			if err != nil {
				failed = cmp.Or(failed, fmt.Errorf("sale %s: %w", sale, err))
			}
			left = left || more
		}
	}
	return done, failed
}

func (s *Store) mayErase(err error) error {
	if err == nil && s.masks == nil {
		err = sluice.ErrNoErasureKey
	}
	return err
}

// eraser is one call of EraseBuyer or EraseOlder.
type eraser struct {
	s        *Store
	done     *sluice.Erased
	archived map[sluice.SaleID]bool // as far as it was asked for
	waits    map[sluice.ErasureWait]bool
	upto     map[sluice.SaleID]int64 // positions of orders that were visited; atEnd: all were, or one cannot be
}

const atEnd = math.MaxInt64

func (s *Store) newEraser(done *sluice.Erased) *eraser {
	return &eraser{
		s: s, done: done,
		archived: map[sluice.SaleID]bool{}, waits: map[sluice.ErasureWait]bool{}, upto: map[sluice.SaleID]int64{},
	}
}

func (e *eraser) wait(sale sluice.SaleID, why sluice.ErasureReason) {
	e.waits[sluice.ErasureWait{Sale: sale, Why: why}] = true
}

func (e *eraser) finish() {
	e.done.Waits = slices.SortedFunc(maps.Keys(e.waits), func(a, b sluice.ErasureWait) int {
		return strings.Compare(string(a.Sale)+"\x00"+string(a.Why), string(b.Sale)+"\x00"+string(b.Why))
	})
}

// isArchived reports whether a sale is archived. One that is not there has nothing
// to wait for.
func (e *eraser) isArchived(ctx context.Context, id sluice.SaleID) (bool, error) {
	is, known := e.archived[id]
	if known {
		return is, nil
	}
	sale, err := e.s.Sale(ctx, id)
	if err != nil && !errors.Is(err, sluice.ErrSaleNotFound) {
		return false, err
	}
	e.archived[id] = err != nil || !sale.ArchivedAt.IsZero()
	return e.archived[id], nil
}

// lists deletes the lists of archived sales, and looks the buyer up in the others.
func (e *eraser) lists(ctx context.Context, buyer sluice.BuyerID) error {
	if err := e.s.dropArchivedLists(ctx); err != nil {
		return err
	}
	lists, err := e.s.Lists(ctx)
	if err != nil {
		return err
	}
	for _, l := range lists {
		n, err := only[int64](e.s.reads(ctx).row(sqlIsListed, l.Sale, l.Kind, l.Generation, buyer))
		if err != nil {
			return err
		}
		if n > 0 {
			e.wait(l.Sale, sluice.OnList)
		}
	}
	return nil
}

// ordersOfBuyer erases the orders of a buyer, sale by sale.
func (e *eraser) ordersOfBuyer(ctx context.Context, buyer sluice.BuyerID) error {
	for after := sluice.SaleID(""); ; {
		sale, err := only[sluice.SaleID](e.s.reads(ctx).row(sqlSaleOfBuyer, buyer, after))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		after = sale
		archived, err := e.isArchived(ctx, sale)
		if err != nil {
			return err
		}
		if !archived {
			e.wait(sale, sluice.NotArchived)
			continue
		}
		key := sluice.Key("")
		err = e.orders(ctx, func(tx *conn) ([]sluice.Order, error) {
			return all(tx, sqlLockOrdersOfBuyer, scanOrder, buyer, sale, key, eraseOrders)
		}, func(last *sluice.Order) bool {
			key = last.Key
			return true
		})
		if err != nil {
			return err
		}
	}
}

// sale erases the buyers of an archived sale, a number of orders at a turn, and
// notes when all are. A sale that owes a refund is looked at again by the next
// EraseOlder, with the orders that were erased: a server without the key may have
// left something on them. A failure ends its turns.
func (e *eraser) sale(ctx context.Context, id sluice.SaleID) (more bool, err error) {
	after := e.upto[id]
	if after == atEnd {
		return false, nil
	}
	e.upto[id] = atEnd
	upto, visited := after, 0
	err = e.orders(ctx, func(tx *conn) (page []sluice.Order, err error) {
		upto = after
		err = tx.each(sqlLockOrdersOfSale, []any{id, after, eraseOrders}, func(r row) error {
			order, position, err := scanOrderAt(r)
			page, upto = append(page, order), position
			return err
		})
		return page, err
	}, func(*sluice.Order) bool {
		after, visited = upto, visited+eraseOrders
		return visited < eraseTurn
	})
	if err == nil && visited >= eraseTurn {
		e.upto[id] = after
		return true, nil
	}
	if err == nil {
		err = e.letters(ctx, id, "")
	}
	if err != nil || e.waits[sluice.ErasureWait{Sale: id, Why: sluice.OwedRefund}] {
		return false, err
	}
	return false, e.s.change(ctx, func(tx *conn) error { return tx.set(sqlSetErased, storeNow, id) })
}

// eraseAgain erases what a change has left on an order whose buyer is erased, in the
// same transaction: EraseOlder may not come to its sale again. Without the key it lets
// the EraseOlder of a server that has it come. A payment that is to be refunded stays
// until it is.
func (q *conn) eraseAgain(o *sluice.Order) {
	switch {
	case !isErased(o) || o.Status == sluice.RefundDue:
	case q.s.masks == nil:
		q.set(sqlSetErased, nil, o.Sale)
	default:
		payments, _ := q.paymentsOf([]sluice.Order{*o})
		q.eraseOrder(o, payments[o.ID])
	}
}

func isErased(o *sluice.Order) bool { return masked.MatchString(string(o.Buyer)) }

// orders erases pages of orders, each in a transaction, until one is not full. A
// transaction may be tried twice; next is called with the last order of a page that
// is committed, and returns whether to go on.
func (e *eraser) orders(
	ctx context.Context, lock func(*conn) ([]sluice.Order, error), next func(last *sluice.Order) bool,
) error {
	for {
		var page []sluice.Order
		var erased int64
		var owed map[sluice.SaleID]bool
		err := e.s.change(ctx, func(tx *conn) (err error) {
			erased, owed = 0, map[sluice.SaleID]bool{}
			if page, err = lock(tx); err != nil {
				return err
			}
			payments, err := tx.paymentsOf(page)
			for i := range page {
				if o := &page[i]; o.Status == sluice.RefundDue {
					owed[o.Sale] = true
				} else if tx.eraseOrder(o, payments[o.ID]) {
					erased++
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		e.done.Orders += erased
		for sale := range owed {
			e.wait(sale, sluice.OwedRefund)
		}
		if len(page) < eraseOrders || !next(&page[len(page)-1]) {
			return nil
		}
	}
}

// payment is one of an order's history: from which status, and what of a payment it
// names.
type payment struct{ from, recorded, refused string }

// paymentsOf reads the payments of orders.
func (q *conn) paymentsOf(orders []sluice.Order) (map[sluice.OrderID][]payment, error) {
	ids, found := make([]string, len(orders)), map[sluice.OrderID][]payment{}
	for i := range orders {
		ids[i] = string(orders[i].ID)
	}
	return found, q.each(sqlPaymentsOf, []any{ids}, func(r row) error {
		id, p := sluice.OrderID(""), payment{}
		err := r.Scan(&id, &p.from, &p.recorded, &p.refused)
		if strings.HasPrefix(p.refused, deadlineMark) {
			return err
		}
		found[id] = append(found[id], p)
		return err
	})
}

// eraseOrder erases an order, whose row is locked, and its history.
func (q *conn) eraseOrder(o *sluice.Order, history []payment) (changed bool) {
	m := q.s.masks
	buyer := m.buyer(o.Buyer)
	key, meta := m.key(o.ID, o.Key), m.meta(o.ID, o.Meta)
	payment := m.ofOrder(o.ID, maskPayment, o.PaymentID)
	if buyer != o.Buyer || key != o.Key || meta != o.Meta || payment != o.PaymentID || o.Counters != "" {
		changed = true
		q.set(sqlEraseOrder, buyer, key, meta, "", payment, o.ID)
		q.exec(sqlForgetPayment, o.ID)
	}
	for _, p := range history {
		payment, refused := m.ofOrder(o.ID, maskPayment, p.recorded), m.ofOrder(o.ID, maskPayment, p.refused)
		if payment == p.recorded && refused == p.refused {
			continue
		}
		// The history may have that pseudonym: of the same payment, refused before it
		// was refused by a server without the key. One status refuses a payment once.
		for kind := maskPayment; refused != p.refused && isRefused(history, p.from, refused); {
			kind += " again"
			refused = m.ofOrder(o.ID, kind, p.refused)
		}
		changed = true
		q.set(sqlErasePayment, payment, refused, o.ID, p.from, p.refused)
	}
	return changed
}

func isRefused(history []payment, from, refused string) bool {
	return slices.ContainsFunc(history, func(p payment) bool { return p.from == from && p.refused == refused })
}

// actions calls do with ranges of the numbers of admin actions, each in a
// transaction, from the first action to the last one of now. It stops where do
// fails with errEnough.
func (e *eraser) actions(ctx context.Context, do func(tx *conn, from, to int64) int64) error {
	first, err := only[int64](e.s.reads(ctx).row(sqlFirstAction))
	if err != nil {
		return err
	}
	last, err := only[int64](e.s.reads(ctx).row(sqlLastAction))
	if err != nil {
		return err
	}
	for from := first; from <= last; from += eraseActions {
		var n int64
		if err := e.s.change(ctx, func(tx *conn) error {
			n = do(tx, from, from+eraseActions)
			return nil
		}); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return fmt.Errorf("admin actions from %d: %w", from, err)
		}
		e.done.Actions += n
	}
	return nil
}
