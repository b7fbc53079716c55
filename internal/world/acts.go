package world

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// act does what a plan says.
func (w *world) act(ctx context.Context, a *Act) {
	w.wait(-1, "act %d", a.Number)
	switch a.Do {
	case "claim":
		w.claim(a)
	case "watch":
		w.watch(a)
	case "pay", "cancel", "reject", "refund", "extend":
		if order := w.claims.last(a); order != "" {
			w.settleOrder(ctx, a, order)
		}
	case "buyer cancels", "buyer looks":
		if order := w.claims.last(a); order != "" {
			w.look(a, order)
		}
	case "recover":
		w.recover(ctx, a)
	case "kill before", "kill after", "cut", "twice", "late", "unstorable":
		f := fault{kind: a.Do, server: a.Server, to: a.To, op: a.Op, skip: a.Skip, count: max(a.N, 1)}
		if a.Do == "unstorable" {
			w.claims.setAside()
		}
		w.tell("%s from now on: %+v", a.Do, f)
		w.faults.add(f)
	case "down", "slow", "full", "busy":
		f := fault{
			kind: a.Do, server: a.Server, to: a.To, op: a.Op, sale: a.Of,
			until: time.Now().Add(time.Duration(a.N) * time.Millisecond),
		}
		w.tell("the %s is %s for %d ms, for server %d, of sale %q, at %q", a.To, a.Do, a.N, a.Server, a.Of, a.Op)
		w.faults.add(f)
	case "poison":
		w.claims.setAside()
		w.tell("no order of %s of %s can be stored", a.buyer(), w.id(a))
		w.faults.add(fault{kind: a.Do, server: -1, sale: w.id(a), buyer: a.buyer()})
	case "freeze":
		w.tell("server %d is frozen for %d ms", a.Server, a.N)
		w.all()[a.Server].frozen.Store(&freeze{time.Now(), time.Now().Add(time.Duration(a.N) * time.Millisecond)})
	case "restart":
		w.restart(a.Server, a.N > 0)
	case "clock":
		c := &w.storeClock
		if a.To == "ledger" {
			c = w.shared.clock
		}
		c.ahead.Add(a.N * int64(time.Millisecond))
		w.tell("the %s's clock steps by %d ms", a.To, a.N)
	case "ledger copied", "ledger older", "ledger lost", "ledger lost a sale":
		err := w.loseLedger(ctx, a)
		w.tell("%s, sale %d: %v", a.Do, a.Sale, err)
	case "store copied", "store older":
		w.tell("%s: %v", a.Do, w.ageStore(ctx, a.Do))
	default:
		w.operate(ctx, a)
	}
}

// id returns the sale of an act.
func (w *world) id(a *Act) sluice.SaleID { return w.plan.Sales[a.Sale].ID }

// buyer returns the buyer of an act.
func (a *Act) buyer() sluice.BuyerID { return sluice.BuyerID(fmt.Sprint("buyer-", a.Buyer)) }

// restart starts a server that is dead, or another one in its place, with another name and an empty folder.
func (w *world) restart(n int, another bool) {
	w.starts <- struct{}{}
	defer func() { <-w.starts }()
	w.mu.Lock()
	s := w.servers[n]
	w.mu.Unlock()
	if s == nil || !s.dead.Load() {
		return
	}
	<-s.closed
	if another {
		w.mu.Lock()
		w.lives[n]++
		w.mu.Unlock()
	}
	err := w.start(n)
	if w.tell("server %d starts again: %v", n, err); err != nil && w.healed.Load() {
		w.claims.complain("after the last fault server %d does not start: %v", n, err)
	}
}

// loseLedger copies the ledger, or puts something in its place: an older copy, one without a sale, or nothing.
func (w *world) loseLedger(ctx context.Context, a *Act) error {
	l := w.shared
	l.mu.Lock()
	defer l.mu.Unlock()
	marked, next := filepath.Join(w.dir, "ledger.copy"), fmt.Sprintf("%s/ledger-%d.db", w.dir, l.life+1)
	memo := newMemo()
	var err error
	switch {
	case a.Do == "ledger copied":
		l.marked = l.memo.clone()
		w.claims.mark()
		return copyFile(l.path, marked)
	case a.Do == "ledger older" && l.marked == nil:
		return errors.New("there is no copy")
	case a.Do == "ledger older":
		memo, l.marked = *l.marked, nil
		err = copyFile(marked, next)
	case a.Do == "ledger lost a sale":
		memo = *l.memo.without(w.id(a))
		err = errors.Join(copyFile(l.path, next), forgetSale(ctx, next, w.id(a)))
	}
	if err != nil {
		return err
	}
	old := l.inner
	l.life++
	l.memo = memo
	if err := l.open(ctx, w.dir); err != nil {
		return err
	}
	if a.Do == "ledger lost a sale" {
		w.claims.forget(true, a.Sale)
	} else {
		w.claims.forget(a.Do == "ledger lost", -1)
	}
	return old.Close()
}

// forgetSale takes a sale out of a ledger's file.
func forgetSale(ctx context.Context, path string, id sluice.SaleID) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `DELETE FROM log WHERE sale = ?`, string(id))
	return errors.Join(err, db.Close())
}

// ageStore copies the store, or restores that copy as a person should: while all servers are stopped.
func (w *world) ageStore(ctx context.Context, how string) error {
	backup := filepath.Join(w.dir, "store.copy")
	w.starts <- struct{}{} // no server starts meanwhile
	if how == "store copied" {
		defer func() { <-w.starts }()
		w.storeCopied = true
		return copyFile(w.storePath, backup)
	}
	if !w.storeCopied {
		<-w.starts
		return errors.New("there is no copy")
	}
	for _, s := range w.all() {
		w.kill(s, "the middle of something, for a restore")
		<-s.closed
	}
	w.storeLives++
	w.storePath = filepath.Join(w.dir, fmt.Sprintf("store-%d.db", w.storeLives))
	err := copyFile(backup, w.storePath)
	<-w.starts
	if err != nil {
		return err
	}
	w.claims.restore()
	for n := range w.plan.Servers {
		w.restart(n, false)
	}
	return nil
}

// recover recovers the sale, if its store is older than its ledger, and has the shop send again what the
// store may have forgotten of payments.
func (w *world) recover(ctx context.Context, a *Act) {
	s := w.live(a.Server)
	if s == nil {
		return
	}
	r, err := s.admin.RecoverSale(ctx, w.id(a), true)
	w.tell("an operator recovers %s at server %d: %q, applied %v, %v", w.id(a), s.n, r.Why, r.Applied, err)
	if err == nil && r.Applied {
		w.claims.recovered(a.Sale, r.NoExpiryBefore)
	} else if err != nil && !problem(err) { // it may be, without an answer
		w.claims.recovered(a.Sale, time.Now().Add(2*time.Hour))
	}
	if !w.claims.old() {
		return
	}
	for range 60 { // the command waits as long, for the rebuild: before that no payment is taken
		sale, err := s.admin.AdminSale(ctx, w.id(a))
		if err == nil && sale.Fence == "" {
			break
		}
		time.Sleep(time.Second)
	}
	for _, order := range w.claims.payments() {
		if saleOf(order) == w.id(a) {
			w.settleOrder(ctx, &Act{Do: "pay", Server: a.Server}, order)
		}
	}
}

// claim claims as a buyer does, until there is an answer. It reports whether there was one.
func (w *world) claim(a *Act) bool {
	name := a.buyer()
	key := fmt.Sprint("attempt-", a.Key)
	body := fmt.Sprintf(`{"quantity":%d}`, a.N)
	for try := range 6 {
		s := w.live(a.Server + try)
		if s == nil {
			time.Sleep(time.Second)
			continue
		}
		asked := time.Now()
		w.claims.asks(name, a)
		status, reply := w.ask(s, http.MethodPost, "/v1/sales/"+string(w.id(a))+"/orders", name, key, body)
		var said struct {
			OrderID sluice.OrderID `json:"order_id"`
			Code    string         `json:"code"`
		}
		_ = json.Unmarshal([]byte(reply), &said)
		w.tell("buyer %d asks server %d for %d %s with key %d: %d %s%s", a.Buyer, s.n, a.N, w.id(a), a.Key, status,
			said.Code, said.OrderID)
		w.claims.answer(&answer{name, a, s, asked, status, said.Code, said.OrderID})
		if status == 202 || refused(status) {
			return true
		}
		time.Sleep(time.Duration(200<<try) * time.Millisecond)
	}
	return false
}

// look has a buyer look at an order, or cancel it.
func (w *world) look(a *Act, order sluice.OrderID) {
	s := w.live(a.Server)
	if s == nil {
		return
	}
	method, path := http.MethodGet, "/v1/orders/"+string(order)
	if a.Do == "buyer cancels" {
		method, path = http.MethodPost, path+"/cancel"
	}
	status, reply := w.ask(s, method, path, a.buyer(), "", "")
	var said struct {
		Status sluice.Status `json:"status"`
		Code   string        `json:"code"`
	}
	_ = json.Unmarshal([]byte(reply), &said)
	w.tell("%s %d at server %d: %s is %d %s%s", a.Do, a.Buyer, s.n, order, status, said.Status, said.Code)
	if w.claims.saw(a.buyer(), order, status, said.Status); status == http.StatusOK && a.Do == "buyer cancels" {
		w.claims.settled(order, "cancel", "", said.Status)
	}
}

// watch follows the stream of a sale, as a visitor of its page does, until the request times out.
func (w *world) watch(a *Act) {
	s := w.live(a.Server)
	if s == nil {
		return
	}
	_, reply := w.ask(s, http.MethodGet, "/v1/sales/"+string(w.id(a))+"/events", "watcher", "", "")
	messages := 0
	for line := range strings.Lines(reply) {
		data, is := strings.CutPrefix(line, "data: ")
		var sale api.Sale
		if !is || json.Unmarshal([]byte(data), &sale) != nil || sale.Available == nil {
			continue
		}
		messages++
		w.claims.about(a.Sale, func(of *bounds) {
			if *sale.Available < 0 || *sale.Available > of.highest {
				w.claims.wrong = append(w.claims.wrong, fmt.Sprintf("a stream says that %d of at most %d units are available",
					*sale.Available, of.highest))
			}
		})
	}
	w.tell("a visitor has watched %s at server %d: %d messages", w.id(a), s.n, messages)
}

// settleOrder does something about an order.
func (w *world) settleOrder(ctx context.Context, a *Act, order sluice.OrderID) {
	payment := cmp.Or(w.claims.payment(order), fmt.Sprint("payment-", order))
	switch others := w.claims.payments(); {
	case a.N == payAgain:
		payment += "-again"
	case a.N == payWithAnothers && len(others) > 0 && !w.claims.old(): // a restored store may have forgotten it
		payment = w.claims.payment(others[a.Number%len(others)])
	}
	for try := range 4 {
		s := w.live(a.Server + try)
		if s == nil {
			time.Sleep(time.Second)
			continue
		}
		var got api.Order
		var err error
		switch a.Do {
		case "pay":
			if a.N != payTooMuch {
				got, err = s.admin.PayOrder(ctx, order, payment)
				break
			}
			got, err = s.admin.PayOrderAmount(ctx, order, payment, sluice.Money{Amount: 12345, Currency: "CNY"})
			if err == nil {
				w.claims.complain("%s is paid with an amount that it does not have", order)
			}
		case "cancel":
			got, err = s.admin.AdminCancelOrder(ctx, order)
		case "reject":
			got, err = s.admin.RejectOrder(ctx, order, "test")
		case "refund":
			w.claims.refunds(order)
			got, err = s.admin.RefundOrder(ctx, order)
		case "extend":
			got, err = s.admin.ExtendOrder(ctx, order, time.Now().Add(w.plan.Sales[a.Sale].Window))
		}
		w.tell("the shop would %s %s at server %d: %s %v", a.Do, order, s.n, got.Status, err)
		if err == nil {
			w.claims.settled(order, a.Do, payment, got.Status)
		}
		if err == nil || client.IsDecision(err) || problem(err) {
			return
		}
		time.Sleep(time.Duration(500<<try) * time.Millisecond)
	}
}

// problem reports whether a server has answered, and another try is in vain.
func problem(err error) bool {
	var p *client.Error
	return errors.As(err, &p) && p.Status < 500 && p.Status != 429
}

// operate does what an operator does.
func (w *world) operate(ctx context.Context, a *Act) {
	s := w.live(a.Server)
	if s == nil {
		return
	}
	var err error
	said := ""
	id := w.id(a)
	about := func(note func(*bounds)) { w.claims.about(a.Sale, note) }
	switch a.Do {
	case "create":
		about(func(of *bounds) { of.opens, of.pausedAt, of.closedAt = of.first, time.Time{}, time.Time{} })
		err = w.createSale(ctx, s, a.Sale)
	case "delete":
		about(func(of *bounds) { of.deleted = true })
		_, err = s.admin.DeleteSale(ctx, id)
		about(func(of *bounds) {
			of.half = of.half || err != nil && (!problem(err) || strings.Contains(err.Error(), "stays paused"))
		})
	case "postpone":
		at := w.plan.Sales[a.Sale].Opens + time.Duration(a.N)*time.Second
		about(func(of *bounds) { of.late = max(of.late, at) })
		_, err = s.admin.PatchSale(ctx, id, api.PatchSale{OpensAt: api.Some(api.At(w.begins.Add(at)))})
		if said = fmt.Sprint("to ", at); err == nil {
			about(func(of *bounds) { of.opens, of.postponed = at, time.Now() })
		}
	case "pause":
		var resumed int
		about(func(of *bounds) { resumed, of.pauses = of.resumed, of.pauses+1 })
		_, err = s.admin.PauseSale(ctx, id)
		about(func(of *bounds) {
			if err == nil {
				of.answered++
			}
			if err == nil && of.resumed == resumed && of.resuming == 0 { // else they were under way together
				of.pausedAt = time.Now()
			}
		})
	case "resume":
		var pauses int
		about(func(of *bounds) {
			of.pausedAt, of.resumed, of.resuming, pauses = time.Time{}, of.resumed+1, of.resuming+1, of.answered
		})
		_, err = s.admin.ResumeSale(ctx, id)
		about(func(of *bounds) {
			if err == nil || problem(err) { // else it may still come
				of.resuming--
			}
			if err == nil {
				of.ended = max(of.ended, pauses)
			}
		})
	case "restock":
		var sale api.AdminSale
		about(func(of *bounds) { of.highest, of.lowest = of.highest+max(a.N, 0), of.lowest+min(a.N, 0) })
		sale, err = s.admin.RestockSale(ctx, id, fmt.Sprint("restock-", a.Number), a.N)
		switch {
		case err == nil:
			said = fmt.Sprintf("by %d to %d", a.N, *sale.Total)
			about(func(of *bounds) { of.restocked += a.N })
		case !problem(err):
			about(func(of *bounds) { of.unsure = append(of.unsure, a.N) })
		}
	case "audit":
		var report sluice.AuditReport
		if report, err = s.admin.Audit(ctx, id); err == nil {
			said = fmt.Sprint("ok ", report.OK)
			if report.Violated() && !w.claims.lacking() {
				w.claims.complain("an audit while selling: %+v", report.Checks)
			}
		}
	case "replay":
		var letters []api.DeadLetter
		if letters, err = s.admin.DeadLetters(ctx, id); err == nil {
			for i := range letters {
				replayed, err := s.admin.ReplayDeadLetter(ctx, letters[i].ID)
				said += fmt.Sprintf("%d: %+v, %v; ", letters[i].ID, replayed, err)
			}
		}
	case "reconcile":
		var report api.ReconcileReport
		if report, err = s.admin.ReconcileSale(ctx, id, true); err == nil {
			said = cmp.Or(report.Skipped, w.claims.differ(&report))
		}
	case "rate":
		var rules api.PatchRules
		rules.AdmissionRatio = api.Value(float64(1 + a.N))
		_, err = s.admin.PatchSale(ctx, id, api.PatchSale{PatchRules: rules})
	case "title":
		_, err = s.admin.PatchSale(ctx, id, api.PatchSale{Title: api.Some(fmt.Sprint("Title ", a.N))})
	case "close":
		about(func(of *bounds) { of.closing = true })
		if _, err = s.admin.CloseSale(ctx, id); err == nil {
			about(func(of *bounds) { of.closedAt = time.Now() })
		}
	case "limit":
		about(func(of *bounds) { of.limit = max(of.limit, a.N) })
		_, err = s.admin.PatchSale(ctx, id, api.PatchSale{MaxPerBuyer: api.Value(a.N)})
	case "erase":
		w.claims.estranges(a.buyer())
		var erased sluice.Erased
		erased, err = s.admin.EraseBuyer(ctx, a.buyer())
		said = fmt.Sprintf("buyer %d: %+v", a.Buyer, erased)
	default:
		panic("world: no act is called " + a.Do)
	}
	w.tell("an operator does %s of %s at server %d: %s %v", a.Do, id, s.n, said, err)
}
