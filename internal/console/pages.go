package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// perPage is how many rows a page of a table has.
const perPage = 50

// states are the groups of the list of sales, in its order.
var states = []struct {
	State sluice.State
	Title text
}{
	{sluice.StateUnavailable, text{"Not available", "不可用"}},
	{sluice.StateOpen, text{"Open", "进行中"}},
	{sluice.StatePaused, text{"Paused", "已暂停"}},
	{sluice.StateSoldOut, text{"Sold out", "已售罄"}},
	{sluice.StateUpcoming, text{"Upcoming", "即将开始"}},
	{sluice.StateClosed, text{"Closed", "已结束"}},
}

// State is a state in the visitor's language.
func (v *visit) State(s sluice.State) string {
	for _, group := range states {
		if group.State == s {
			return v.Say(group.Title)
		}
	}
	return string(s)
}

var statuses = map[sluice.Status]text{
	sluice.Queued:    {"queued", "排队中"},
	sluice.Pending:   {"waits for payment", "待付款"},
	sluice.Paid:      {"paid", "已付款"},
	sluice.Cancelled: {"cancelled", "已取消"},
	sluice.Expired:   {"expired", "已过期"},
	sluice.Refunded:  {"refunded", "已退款"},
	sluice.Rejected:  {"rejected", "已拒绝"},
	sluice.RefundDue: {"refund due", "待退款"},
}

// Status is an order's status in the visitor's language.
func (v *visit) Status(s sluice.Status) string {
	if said, ok := statuses[s]; ok {
		return v.Say(said)
	}
	return string(s)
}

// List is the name of a list of buyers in the visitor's language.
func (v *visit) List(k sluice.ListKind) string {
	if k == sluice.DenyList {
		return v.T("Deny list", "黑名单")
	}
	return v.T("Allow list", "白名单")
}

// Statuses are all that an order can have.
func (v *visit) Statuses() []sluice.Status { return sluice.Statuses() }

type group struct {
	State sluice.State
	Title string
	Sales []api.AdminSale
}

// sales is the list of all sales, by state.
func sales(v *visit) (string, any, error) {
	all, err := v.c.client.AdminSales(v.ctx)
	if err != nil {
		return "", nil, err
	}
	slices.SortStableFunc(all, func(a, b api.AdminSale) int {
		return cmp.Or(b.OpensAt.Compare(a.OpensAt.Time), cmp.Compare(a.ID, b.ID))
	})
	var groups []group
	for _, state := range states {
		g := group{State: state.State, Title: v.Say(state.Title)}
		for i := range all {
			if all[i].State == state.State {
				g.Sales = append(g.Sales, all[i])
			}
		}
		if len(g.Sales) > 0 {
			groups = append(groups, g)
		}
	}
	return "sales.html", groups, nil
}

// oneSale is what the page of a sale shows.
type oneSale struct {
	*api.AdminSale
	Sold    int64 // percent; -1: it has no total
	Left    int64
	Stale   bool // the ledger does not answer
	Buttons []Button
	Curve   *curvePart // nil: it is not known now
	Until   *api.Time  // what the countdown counts to; nil: nothing
}

// staleAfter is how old a reading is before the page says that it is.
const staleAfter = 5 * time.Second

func sale(v *visit) (string, any, error) {
	id := v.r.PathValue("id")
	s, err := v.c.client.AdminSale(v.ctx, sluice.SaleID(id))
	if err != nil {
		return "", nil, err
	}
	one := oneSale{AdminSale: &s, Sold: -1, Buttons: v.Buttons(saleKind, id, &s)}
	if s.Total != nil && *s.Total > 0 {
		one.Sold, one.Left = s.Taken*100 / *s.Total, *s.Total-s.Taken
	}
	one.Stale = s.ArchivedAt == nil && (s.AsOf == nil || s.ServerTime.Sub(s.AsOf.Time) > staleAfter)
	one.Curve = v.curve(&s, "now")
	switch now := s.ServerTime.Time; {
	case s.OpensAt.After(now):
		one.Until = &s.OpensAt
	case s.ClosesAt != nil && s.ClosesAt.After(now):
		one.Until = s.ClosesAt
	}
	return "sale.html", one, nil
}

func saleAudit(v *visit) (string, any, error) {
	report, err := v.c.client.Audit(v.ctx, sluice.SaleID(v.r.PathValue("id")))
	return "audit.html", report, err
}

// orderList is what the page of orders shows.
type orderList struct {
	Orders []api.Order
	Filter sluice.OrderFilter
	Next   string // address of the next page; empty: it is the last
	Export string // address of all of them as a table; empty: they are not worth one
}

// orders finds orders by their id, or lists those of a sale, a buyer, a status.
func orders(v *visit) (string, any, error) {
	f := v.filter()
	f.Cursor, f.Limit = v.Query("cursor"), perPage
	if id := strings.TrimSpace(v.Query("id")); id != "" {
		o, err := v.c.client.AdminOrder(v.ctx, sluice.OrderID(id))
		if problem := (*client.Error)(nil); errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			return "orders.html", orderList{Filter: f}, nil
		}
		if err != nil {
			return "", nil, err
		}
		return "orders.html", orderList{Orders: []api.Order{o}, Filter: f}, nil
	}
	page, err := v.c.client.AdminOrders(v.ctx, f)
	list := orderList{Orders: page.Orders, Filter: f}
	if page.NextCursor != "" {
		list.Next = v.next(page.NextCursor)
	}
	if len(page.Orders) > 0 {
		query := v.r.URL.Query()
		query.Del("cursor")
		list.Export = v.Path("orders.csv") + "?" + query.Encode()
	}
	return "orders.html", list, err
}

// filter is which orders the address asks for.
func (v *visit) filter() sluice.OrderFilter {
	return sluice.OrderFilter{
		Sale: sluice.SaleID(v.Query("sale")), Buyer: sluice.BuyerID(v.Query("buyer")),
		Status: sluice.Status(v.Query("status")), Payment: strings.TrimSpace(v.Query("payment")),
	}
}

// next is the address of the next page of this list.
func (v *visit) next(cursor string) string {
	query := v.r.URL.Query()
	query.Set("cursor", cursor)
	return v.c.Base + v.r.URL.Path + "?" + query.Encode()
}

type oneOrder struct {
	*api.Order
	Changes []api.OrderChange
	Buttons []Button
}

func order(v *visit) (string, any, error) {
	id := v.r.PathValue("id")
	o, err := v.c.client.AdminOrder(v.ctx, sluice.OrderID(id))
	if err != nil {
		return "", nil, err
	}
	one := oneOrder{Order: &o, Buttons: v.Buttons(orderKind, id, &o)}
	if o.Status != sluice.Queued { // of which the store knows nothing yet
		history, err := v.c.client.OrderHistory(v.ctx, o.OrderID)
		if err != nil {
			return "", nil, err
		}
		one.Changes = history.Changes
	}
	return "order.html", one, nil
}

// row is a subject of a list, with what can be done to it.
type row[T any] struct {
	It      T
	Buttons []Button
}

// letterPage is a page of dead letters.
type letterPage struct {
	Letters []row[api.DeadLetter]
	Next    string // address of the next page; empty: it is the last
}

func letters(v *visit) (string, any, error) {
	found, err := v.c.client.DeadLetterPage(v.ctx, sluice.SaleID(v.Query("sale")), v.Query("cursor"))
	var page letterPage
	for i := range found.DeadLetters {
		l := &found.DeadLetters[i]
		buttons := v.Buttons(letterKind, strconv.FormatInt(l.ID, 10), l)
		page.Letters = append(page.Letters, row[api.DeadLetter]{*l, buttons})
	}
	if found.NextCursor != "" {
		page.Next = v.next(found.NextCursor)
	}
	return "letters.html", page, err
}

func webhooks(v *visit) (string, any, error) {
	all, err := v.c.client.Webhooks(v.ctx)
	var rows []row[api.Webhook]
	for i := range all {
		rows = append(rows, row[api.Webhook]{all[i], v.Buttons(webhookKind, url.PathEscape(string(all[i].ID)), &all[i])})
	}
	return "webhooks.html", rows, err
}

// logPage is who did what.
type logPage struct {
	Actions []api.AdminAction
	Next    string
}

func log(v *visit) (string, any, error) {
	page, err := v.c.client.AdminActions(v.ctx, perPage, v.Query("cursor"))
	list := logPage{Actions: page.Actions}
	if page.NextCursor != "" {
		list.Next = v.next(page.NextCursor)
	}
	return "log.html", list, err
}
