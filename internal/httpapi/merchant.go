package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
)

// createSale adds a sale and loads it: when the answer comes, it can be bought.
func (s *Server) createSale(r *http.Request, message *api.CreateSale) (any, error) {
	sale, err := message.Domain(s.NewSaleID)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	if err := s.checkHosts(&sale.Showcase); err != nil {
		return nil, err
	}
	if now := s.Board.LedgerTime(s.Now()); !sale.ClosesAt.IsZero() && !sale.ClosesAt.After(now) {
		// It would be archived at once, and its id burnt for a mistyped year.
		return nil, badRequest("closes_at: %s is already past", api.At(sale.ClosesAt))
	}
	if sale, err = s.Control.Create(r.Context(), sale); err != nil {
		return nil, err
	}
	noteSale(r, sale.ID)
	return done{http.StatusCreated, s.saleNow(r, &sale)}, nil
}

// patchSale changes what may be changed of a sale.
//
// An operator may change how much traffic is let through, nothing else.
func (s *Server) patchSale(r *http.Request, message *api.PatchSale) (any, error) {
	if who := admin(r); !who.Role.May(sluice.Owner) && !message.TrafficOnly() {
		return nil, faultOf(api.CodeForbidden,
			"the key %s has the role %s, which may change rates and the admission ratio only", who.Name, who.Role)
	}
	return s.changed(r, func(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
		return s.Control.Patch(ctx, id, func(sale *sluice.Sale) error {
			if err := message.Apply(sale); err != nil {
				return badRequest("%v", err)
			}
			if message.Pictures.Set {
				return s.checkHosts(&sale.Showcase)
			}
			return nil
		})
	})
}

// deleteSale deletes a sale that has not opened.
func (s *Server) deleteSale(r *http.Request) (any, error) {
	id := saleOf(r)
	if err := s.Control.Delete(r.Context(), id); err != nil {
		return nil, err
	}
	s.Board.Forget(id)
	return api.SaleDeleted{Deleted: id}, nil
}

// changeSale is open, pause, resume and close.
func (s *Server) changeSale(
	change func(sluice.Control, context.Context, sluice.SaleID) (sluice.Sale, error),
) handler {
	return bare(func(r *http.Request) (any, error) {
		return s.changed(r, func(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
			return change(s.Control, ctx, id)
		})
	})
}

// changed changes the sale of the path, and answers with it.
func (s *Server) changed(
	r *http.Request, change func(context.Context, sluice.SaleID) (sluice.Sale, error),
) (any, error) {
	sale, err := change(r.Context(), saleOf(r))
	if err != nil {
		return nil, err
	}
	return s.saleNow(r, &sale), nil
}

// saleOf is the sale of an admin's path.
func saleOf(r *http.Request) sluice.SaleID { return sluice.SaleID(r.PathValue("sale")) }

// saleNow is a sale that was changed, as this server's board has it now.
func (s *Server) saleNow(r *http.Request, sale *sluice.Sale) api.AdminSale {
	if view, err := s.Board.Reload(r.Context(), sale.ID); err == nil {
		return s.AdminSale(view)
	}
	return s.AdminSale(unread(sale))
}

// unread is a sale of which the ledger has told this server nothing.
func unread(sale *sluice.Sale) *admission.View {
	return &admission.View{Sale: *sale, Reading: port.Reading{Sale: sale.ID}}
}

// adminListSales lists all sales, closed and archived ones too: the store's,
// with what the board knows of those that are not archived.
func (s *Server) adminListSales(r *http.Request) (any, error) {
	var filter port.SaleFilter
	after := parameter{"cursor", func(value string) error {
		if filter.After = sluice.SaleID(value); filter.After.Validate() != nil {
			return errors.New(wrongCursor)
		}
		return nil
	}}
	size := pageSize(&filter.Limit)
	filter.Limit = sluice.MaxPage
	if err := readQuery(r, after, size); err != nil {
		return nil, err
	}
	sales, err := s.Sales(r.Context(), filter)
	list := api.AdminSaleList{Sales: sales}
	if len(sales) == filter.Limit {
		list.NextCursor = string(sales[len(sales)-1].ID)
	}
	return list, err
}

// Sales returns a page of the store's sales, with what the board knows of them.
func (s *Server) Sales(ctx context.Context, filter port.SaleFilter) ([]api.AdminSale, error) {
	sales, err := s.Store.SelectSales(ctx, filter)
	return each(sales, func(sale *sluice.Sale) api.AdminSale {
		if view := s.Board.View(sale.ID); view != nil {
			return s.AdminSale(view)
		}
		return s.AdminSale(unread(sale))
	}), err
}

// each returns the views of a list, never null.
func each[T, View any](list []T, view func(*T) View) []View {
	views := make([]View, len(list))
	for i := range list {
		views[i] = view(&list[i])
	}
	return views
}

// adminShowSale shows a sale as ledger and store have it this moment, or as the ledger had
// it when it last answered.
func (s *Server) adminShowSale(r *http.Request) (any, error) {
	view, err := s.Board.Reload(r.Context(), saleOf(r))
	if err != nil {
		return nil, err
	}
	message := s.AdminSale(view)
	message.Claims, message.Orders = s.claimCounts(view.Sale.ID), s.orders.of(s, view.Sale.ID)
	return message, nil
}

func (s *Server) auditSale(r *http.Request) (any, error) { return s.Audit(r.Context(), saleOf(r)) }

// restockSale changes the total by a delta, once per id.
func (s *Server) restockSale(r *http.Request, message *api.Restock) (any, error) {
	if err := checkWords("id", message.ID); err != nil {
		return nil, err
	}
	if message.Delta == 0 || message.Delta > sluice.MaxUnits || message.Delta < -sluice.MaxUnits {
		return nil, badRequest("delta: want a whole number of units, not 0; negative to take units back")
	}
	return s.changed(r, func(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
		return s.Control.Restock(ctx, id, message.ID, message.Delta)
	})
}

// recoverSale says what a recovery does, and does it if it is asked to.
func (s *Server) recoverSale(w http.ResponseWriter, r *http.Request) (any, error) {
	var message api.Recover
	if r.ContentLength != 0 {
		if err := readBody(w, r, maxBody, &message, false); err != nil {
			return nil, err
		}
	}
	// Both sides of a large sale take a while to read. A recovery that has begun goes on when
	// the client is gone: if each call began anew, a large sale might never be recovered.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(recoverAtMost))
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if message.Apply {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), recoverAtMost)
	}
	defer cancel()
	report, err := s.Recover(ctx, saleOf(r), message.Apply)
	report.Payments = append([]sluice.RecoveredOrders{}, report.Payments...) // never null
	lists := []*sluice.RecoveredOrders{&report.Stored, &report.StoredEnded, &report.Ended}
	for i := range report.Payments {
		lists = append(lists, &report.Payments[i])
	}
	for _, of := range lists {
		of.Orders = append([]sluice.OrderID{}, of.Orders...)
	}
	return report, err
}

// recoverAtMost is how long a recovery may take.
const recoverAtMost = time.Hour

// reconcileSale compares ledger and store now, and repairs if it is asked to.
func (s *Server) reconcileSale(w http.ResponseWriter, r *http.Request) (any, error) {
	var message api.Reconcile
	if r.ContentLength != 0 {
		if err := readBody(w, r, maxBody, &message, false); err != nil {
			return nil, err
		}
	}
	report, err := s.Reconcile(r.Context(), saleOf(r), message.Apply)
	return api.ReconcileReport{
		SaleID: report.Sale, At: api.AtOrNull(report.At), Applied: report.Applied, Skipped: report.Skipped,
		Remaining: report.Remaining(),
		Differences: each(report.Differences, func(d *sluice.Difference) sluice.Difference { // without null lists
			with := *d
			with.Orders, with.Details = append([]sluice.OrderID{}, d.Orders...), append([]string{}, d.Details...)
			return with
		}),
	}, err
}

// AdminSale is a sale as its merchant sees it now.
func (s *Server) AdminSale(v *admission.View) api.AdminSale {
	return adminSaleMessage(v, s.Board.LedgerTime(s.Now()))
}

// adminSaleMessage is SaleMessage with everything a merchant may know, at now by the ledger's clock.
func adminSaleMessage(of *admission.View, now time.Time) api.AdminSale {
	s, r := &of.Sale, &of.Reading
	v := api.AdminSale{
		Sale:              SaleMessage(s, r),
		MaxOrdersPerBuyer: limited(s.MaxOrders),
		MaxUnpaidPerBuyer: unlessZero(s.MaxUnpaid), Limits: limitsMessage(s.Rules.Limits),
		PaymentWindowS: int64(s.PaymentWindow / time.Second),
		PaymentGraceS:  int64(s.PaymentGrace / time.Second),
		Paused:         s.Paused, TermsVersion: s.Version,
		Loaded: r.Loaded, Epoch: s.Epoch, StoredTaken: s.Taken, Fence: s.Fence,
		CreatedAt: api.At(s.CreatedAt), UpdatedAt: api.At(s.UpdatedAt), ArchivedAt: api.AtOrNull(s.ArchivedAt),
		Rules: rulesMessage(&s.Rules),
	}
	if s.Remains != nil {
		v.DeletedOrders = &api.DeletedOrders{
			At: api.AtOrNull(s.Remains.At), Sums: append([]sluice.Sum{}, s.Remains.Sums...),
			Unreadable: s.Remains.Err != nil,
		}
	}
	v.State, v.ServerTime = stateOf(of, v.State), api.At(now)
	if !of.Archived() {
		v.AsOf = api.AtOrNull(r.Now)
	}
	if r.Loaded {
		v.Seq, v.Taken, v.Backlog, v.Paused = r.Seq, r.Taken, r.Backlog, r.Terms.Paused
		if r.Fence != "" {
			v.Fence = r.Fence
		}
	}
	return v
}

// rulesMessage returns the rules as the wire has them.
func rulesMessage(r *sluice.Rules) api.Rules {
	return api.Rules{
		BuyerRate: unlessZero(r.BuyerRate), AddressRate: unlessZero(r.AddressRate),
		AdmissionRatio: unlessZero(r.AdmissionRatio), Ticket: unlessZero(r.Ticket),
		Challenge: unlessZero(r.Challenge), Risk: unlessZero(r.Risk),
		Eligibility: unlessZero(r.Eligibility),
		Visibility:  cmp.Or(r.Visibility, api.Listed), Availability: cmp.Or(r.Availability, api.Exact),
	}
}

func limitsMessage(limits sluice.Limits) []sluice.Limit {
	list := []sluice.Limit{}
	for _, limit := range limits {
		if limit != (sluice.Limit{}) {
			list = append(list, limit)
		}
	}
	return list
}

// listDeadLetters lists the journal entries that could not be stored and are
// not resolved.
func (s *Server) listDeadLetters(r *http.Request) (any, error) {
	var sale sluice.SaleID
	var after int64
	var limit int
	if err := readQuery(r, ofSale(&sale), numberCursor(&after), pageSize(&limit)); err != nil {
		return nil, err
	}
	letters, err := s.Store.DeadLettersAfter(r.Context(), sale, after, limit)
	list := api.DeadLetterList{DeadLetters: each(letters, letterMessage)}
	if len(letters) == limit {
		list.NextCursor = strconv.FormatInt(letters[limit-1].ID, 10)
	}
	return list, err
}

// showDeadLetter shows one, also when it has been dealt with.
func (s *Server) showDeadLetter(r *http.Request) (any, error) {
	letter, err := s.Store.DeadLetter(r.Context(), letterID(r))
	return letterMessage(&letter), err
}

// replayDeadLetter stores the entry, or claims its units again.
func (s *Server) replayDeadLetter(r *http.Request) (any, error) {
	replayed, err := s.Replay(r.Context(), letterID(r))
	if conflict, ok := errors.AsType[*port.ConflictError](err); ok {
		err = faultOf(api.CodeSaleState, "it still cannot be stored: %v", conflict)
	}
	return api.Replayed{ // without null lists
		Saved: append([]sluice.OrderID{}, replayed.Saved...), Lost: append([]sluice.OrderID{}, replayed.Lost...),
		Waiting: append([]sluice.OrderID{}, replayed.Later...),
	}, err
}

// letterID reads the id of the path; what is no number matches none.
func letterID(r *http.Request) int64 {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// letterMessage is a dead letter as the merchant sees it.
func letterMessage(d *port.DeadLetter) api.DeadLetter {
	return api.DeadLetter{
		ID: d.ID, SaleID: d.Sale, EntryID: d.EntryID, Reason: d.Reason, Claims: d.Claims,
		Epoch: d.Epoch, FirstSeq: d.FirstSeq, Node: d.Node, At: api.AtOrNull(d.At), CreatedAt: api.At(d.CreatedAt),
		ResolvedAt: api.AtOrNull(d.Resolved), Resolution: d.Resolution,
	}
}

// erasing bounds one request, so that it is answered before its client gives up; the
// next one goes on.
const erasing = 10 * time.Second

// eraseBuyer erases a buyer from what is archived.
func (s *Server) eraseBuyer(r *http.Request, message *api.EraseBuyer) (any, error) {
	buyer, err := s.Buyers.BuyerID(message.BuyerID)
	if err != nil {
		return nil, badRequest("buyer_id: %v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), erasing)
	defer cancel()
	erased, err := s.Store.EraseBuyer(ctx, buyer)
	if err == nil && buyer != message.BuyerID && message.BuyerID.Validate() == nil {
		// Orders from before buyer_id was set have the spelling of their time.
		var before sluice.Erased
		before, err = s.Store.EraseBuyer(ctx, message.BuyerID)
		erased.Orders += before.Orders
		erased.DeadLetters += before.DeadLetters
		erased.Actions += before.Actions
		erased.Waits = append(erased.Waits, before.Waits...)
	}
	if errors.Is(err, sluice.ErrNoErasureKey) {
		err = badRequest("%v", sluice.ErrNoErasureKey)
	}
	if err != nil {
		return nil, err
	}
	erased.Waits = append([]sluice.ErasureWait{}, erased.Waits...) // never null
	return erased, nil
}
