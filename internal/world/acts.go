package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
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
	case "pay", "cancel", "reject", "refund", "extend":
		if order := w.claims.last(sluice.BuyerID(fmt.Sprint("buyer-", a.Buyer))); order != "" {
			w.settleOrder(ctx, a, order)
		}
	case "buyer cancels", "buyer looks":
		if order := w.claims.last(sluice.BuyerID(fmt.Sprint("buyer-", a.Buyer))); order != "" {
			w.look(a, order)
		}
	case "recover":
		w.recover(ctx, a.Server)
	case "kill before", "kill after", "cut", "twice", "late", "unstorable":
		f := fault{kind: a.Do, server: a.Server, to: a.To, op: a.Op, skip: a.Skip, count: max(a.N, 1)}
		w.tell("%s from now on: %+v", a.Do, f)
		w.faults.add(f)
	case "down", "slow", "full", "busy":
		f := fault{kind: a.Do, server: a.Server, to: a.To, until: time.Now().Add(time.Duration(a.N) * time.Millisecond)}
		w.tell("the %s is %s for %d ms, for server %d", a.To, a.Do, a.N, a.Server)
		w.faults.add(f)
	case "freeze":
		if s := w.servers[a.Server]; s != nil {
			until := time.Now().Add(time.Duration(a.N) * time.Millisecond)
			w.tell("server %d is frozen for %d ms", a.Server, a.N)
			s.frozen.Store(&until)
		}
	case "restart":
		w.restart(a.Server)
	case "clock":
		c := &w.storeClock
		if a.To == "ledger" {
			c = w.shared.clock
		}
		c.ahead.Add(a.N * int64(time.Millisecond))
		w.tell("the %s's clock steps by %d ms", a.To, a.N)
	case "ledger copied", "ledger older", "ledger lost":
		w.tell("%s: %v", a.Do, w.loseLedger(ctx, a.Do))
	case "store copied", "store older":
		w.tell("%s: %v", a.Do, w.ageStore(ctx, a.Do))
	default:
		w.operate(ctx, a)
	}
}

// restart starts a server that is dead.
func (w *world) restart(n int) {
	w.mu.Lock()
	s := w.servers[n]
	w.mu.Unlock()
	if s == nil || !s.dead.Load() {
		return
	}
	<-s.closed
	w.tell("server %d starts again: %v", n, w.start(n))
}

// loseLedger copies the ledger, or puts an older copy or an empty one in its place.
func (w *world) loseLedger(ctx context.Context, how string) error {
	l := w.shared
	l.mu.Lock()
	defer l.mu.Unlock()
	marked := l.path + ".copy"
	switch {
	case how == "ledger copied":
		l.marked = l.memo.clone()
		w.claims.mark()
		return copyFile(l.path, marked)
	case how == "ledger older" && l.marked == nil:
		return errors.New("there is no copy")
	}
	old := l.inner
	l.life++
	if how == "ledger older" {
		l.memo = *l.marked
		l.marked = nil
		if err := copyFile(marked, fmt.Sprintf("%s/ledger-%d.db", w.dir, l.life)); err != nil {
			return err
		}
	} else {
		l.memo = newMemo()
	}
	w.claims.forget(how == "ledger lost")
	if err := l.open(ctx, w.dir); err != nil {
		return err
	}
	return old.Close()
}

// ageStore copies the store, or restores that copy as a person should: while all servers are stopped.
func (w *world) ageStore(ctx context.Context, how string) error {
	backup := filepath.Join(w.dir, "store.copy")
	if how == "store copied" {
		w.storeCopied = true
		return copyFile(w.storePath, backup)
	}
	if !w.storeCopied {
		return errors.New("there is no copy")
	}
	for _, s := range w.all() {
		w.kill(s, "the middle of something, for a restore")
		<-s.closed
	}
	w.storeLives++
	w.storePath = filepath.Join(w.dir, fmt.Sprintf("store-%d.db", w.storeLives))
	if err := copyFile(backup, w.storePath); err != nil {
		return err
	}
	w.claims.restore()
	for n := range w.plan.Servers {
		w.restart(n)
	}
	return nil
}

// recover recovers the sale, if its store is older than its ledger, and has the shop send again what the
// store may have forgotten of payments.
func (w *world) recover(ctx context.Context, server int) {
	s := w.live(server)
	if s == nil {
		return
	}
	r, err := s.admin.RecoverSale(ctx, saleID, true)
	w.tell("an operator recovers the sale at server %d: %q, applied %v, %v", s.n, r.Why, r.Applied, err)
	if err == nil && r.Applied {
		w.claims.recovered(r.NoExpiryBefore)
	}
	if !w.claims.old() {
		return
	}
	for _, order := range w.claims.payments() {
		w.settleOrder(ctx, &Act{Do: "pay", Server: server}, order)
	}
}

// claim claims as a buyer does, until there is an answer.
func (w *world) claim(a *Act) {
	name := sluice.BuyerID(fmt.Sprint("buyer-", a.Buyer))
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
		status, reply := w.ask(s, http.MethodPost, "/v1/sales/"+string(saleID)+"/orders", name, key, body)
		var said struct {
			OrderID sluice.OrderID `json:"order_id"`
			Code    string         `json:"code"`
		}
		_ = json.Unmarshal([]byte(reply), &said)
		w.tell("buyer %d asks server %d for %d with key %d: %d %s%s", a.Buyer, s.n, a.N, a.Key, status, said.Code,
			said.OrderID)
		w.claims.answer(&answer{name, a, s, asked, status, said.Code, said.OrderID})
		if status == 202 || status == 409 || status == 422 || status == 403 {
			return
		}
		time.Sleep(time.Duration(200<<try) * time.Millisecond)
	}
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
	status, reply := w.ask(s, method, path, sluice.BuyerID(fmt.Sprint("buyer-", a.Buyer)), "", "")
	var said struct {
		Status sluice.Status `json:"status"`
		Code   string        `json:"code"`
	}
	_ = json.Unmarshal([]byte(reply), &said)
	w.tell("%s %d at server %d: %s is %d %s%s", a.Do, a.Buyer, s.n, order, status, said.Status, said.Code)
	if w.claims.saw(order, status, said.Status); status == http.StatusOK && a.Do == "buyer cancels" {
		w.claims.settled(order, "cancel", "", said.Status)
	}
}

// settleOrder does something about an order.
func (w *world) settleOrder(ctx context.Context, a *Act, order sluice.OrderID) {
	payment := w.claims.payment(order)
	if payment == "" {
		payment = fmt.Sprint("payment-", order)
	}
	if a.N > 0 {
		payment += "-again"
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
			got, err = s.admin.PayOrder(ctx, order, payment)
		case "cancel":
			got, err = s.admin.AdminCancelOrder(ctx, order)
		case "reject":
			got, err = s.admin.RejectOrder(ctx, order, "test")
		case "refund":
			got, err = s.admin.RefundOrder(ctx, order)
		case "extend":
			got, err = s.admin.ExtendOrder(ctx, order, time.Now().Add(w.plan.Window))
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
	switch a.Do {
	case "pause":
		_, err = s.admin.PauseSale(ctx, saleID)
		w.claims.paused(time.Now(), err)
	case "resume":
		w.claims.resumes()
		_, err = s.admin.ResumeSale(ctx, saleID)
	case "restock":
		var sale api.AdminSale
		w.claims.restocks(a.N)
		sale, err = s.admin.RestockSale(ctx, saleID, fmt.Sprint("restock-", a.At), a.N)
		if err == nil {
			said = fmt.Sprintf("by %d to %d", a.N, *sale.Total)
		}
	case "audit":
		var report sluice.AuditReport
		if report, err = s.admin.Audit(ctx, saleID); err == nil {
			said = fmt.Sprint("ok ", report.OK)
			if report.Violated() && !w.claims.old() { // what an older copy lacks, it is right to miss
				w.claims.complain("an audit while selling: %+v", report.Checks)
			}
		}
	case "reconcile":
		var report api.ReconcileReport
		report, err = s.admin.ReconcileSale(ctx, saleID, true)
		said = report.Skipped
	case "rate":
		var rules api.PatchRules
		rules.AdmissionRatio = api.Value(float64(1 + a.N))
		_, err = s.admin.PatchSale(ctx, saleID, api.PatchSale{PatchRules: rules})
	case "title":
		_, err = s.admin.PatchSale(ctx, saleID, api.PatchSale{Title: api.Some(fmt.Sprint("phone ", a.N))})
	case "close":
		_, err = s.admin.CloseSale(ctx, saleID)
	case "limit":
		w.claims.limits(a.N)
		_, err = s.admin.PatchSale(ctx, saleID, api.PatchSale{MaxPerBuyer: api.Value(a.N)})
	default:
		panic("world: no act is called " + a.Do)
	}
	w.tell("an operator does %s at server %d: %s %v", a.Do, s.n, said, err)
}
