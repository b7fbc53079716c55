package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// Plans is an adapter whose statements are run beside a big sale.
type Plans struct {
	Store   port.Store
	DB      *sql.DB // of that store
	Dialect sqlcore.Dialect
	Analyze string // makes the database's statistics
	// Rows runs a statement in a transaction that is rolled back, and returns how
	// many rows of tables and indexes the database has looked at, and how.
	Rows func(t *testing.T, tx *sql.Tx, query string, args []any) (rows int, plan string)
}

// What is stored for it: a sale of many orders, half of them ended, and a small one.
const (
	manyOrders, fewOrders = 20_000, 60
	// fewRows is what a statement may look at that is about the small sale, one
	// buyer, one order, a page, or what waits.
	fewRows = 2000
)

// arguments of each statement, in order. Those that only insert the rows given
// have none here: they read nothing.
var arguments = map[string]string{
	"LiveSales": "", "Digest": "", "FencedSales": "", "NamedSales": "orders", "PageOfSales": "text page",
	"SelectSale": "sale", "LockSale": "sale", "TryLockSale": "sale", "SelectSales": "", "SelectTerms": "sale",
	"UpdateSale": "text text one cny null null no one one rules rules one null null null null now null no null now sale",
	"FenceSale":  "text now sale one", "RaiseEpoch": "two text now sale", "ConfirmLoad": "text one now sale",
	"LastSeq": "sale one", "Take": "zero sale zero", "SelectOrder": "order", "OrdersOfSale": "sale zero page",
	"LockOrder": "order", "ChangeOrder": "expired text text now no order pending now yes", "LowerTaken": "zero sale",
	"FenceOf": "sale",
	"History": "order", "AnyDue": "now", "FindDue": "now none page", "SelectDue": "now none page",
	"ExpireOrders": "now orders now", "AddExpired": "text orders", "AddReleases": "orders",
	"NextReleasing": "text", "SelectReleases": "sale page",
	"DeleteReleases": "orders", "PendingReleases": "sale", "CountOrders": "sale", "ReleaseOf": "order",
	"LiveUnits": "sale", "SetTaken": "zero now sale", "PageOfDeadLetters": "zero page", "EndingsOfSale": "sale",
	"ReturningOfSale": "sale", "DeadLettersOfSale": "sale", "SelectDeadLetter": "one",
	"ResolveDeadLetter": "now text one", "SelectRestock": "sale text", "DeleteLowering": "sale sale one",
	"SetCap": "null now sale", "SelectClaim": "buyer sale key", "Unsettled": "sale sale sale",
	"ArchiveSale": "now now sale", "ArchivedOf": "orders", "LockLease": "text", "SetLease": "text zero zero now text",
	"EndLease": "text text", "Beat": "now text text text", "ForgetNodes": "now", "LiveServers": "now now",
	"PageOfDeadLettersOfSale": "sale zero page",
	"Gathered":                "sale one", "GatheredLast": "sale", "Version": "", "PaidOrder": "order",
	"FenceOlder": "text now sale one", "SetFence": "text now sale", "KeepLonger": "now sale now",
	"PayLater": "now sale now",
	"TakeSale": "text now sale", "GatherAll": "sale",
	"PaymentOf":   "order",
	"HaveLedger":  "text text now now",
	"ExtendOrder": "now now now order now",

	"Lists.LockBuyerList": "sale allow", "Lists.SetLastGeneration": "one sale allow",
	"Lists.PublishBuyerList": "one one now sale allow", "Lists.SelectBuyerLists": "",
	"Lists.AddListed": "sale allow one orders", "Lists.SelectListed": "sale allow one buyer page",
	"Lists.DeleteListed": "sale allow one buyer", "Lists.OldestGeneration": "sale allow two",

	"Delete.AnyLetter": "sale", "Delete.Listed": "sale", "Delete.Buyers": "sale", "Delete.Lists": "sale",
	"Delete.Pictures": "sale", "Pictures.Select": "sale text one", "Pictures.Count": "sale text",
	"Pictures.Delete": "sale text",
	"Delete.Restocks": "sale", "Delete.Gathered": "sale", "Delete.Terms": "sale", "Delete.Sale": "text",

	"Admin.SelectAdminActions": "max page",

	"Curves.Select": "sale now page", "Delete.Stretches": "sale",

	"Erase.SaleOfBuyer": "buyer text", "Erase.LockOrdersOfBuyer": "buyer sale text page",
	"Erase.LockOrdersOfSale": "sale zero page", "Erase.PaymentsOf": "orders",
	"Erase.Order":   "buyer key text text text order",
	"Erase.Payment": "text text order pending text", "Erase.LettersAfter": "zero page", "Erase.Letter": "text text one",
	"Erase.LockLetter": "one",
	"Erase.IsListed":   "sale allow one buyer", "Erase.FirstAction": "", "Erase.LastAction": "",
	"Erase.Actions": "text text text text one two text", "Erase.DeleteActions": "one two now", "Erase.ToErase": "now text",
	"Erase.SetErased": "now sale", "Erase.ForgetPayment": "order",

	"Purge.Feed": "", "Purge.LockCut": "", "Purge.SetFirst": "one", "Purge.Behind": "text",
	"Purge.ForgetFailed": "text one", "Purge.FirstRange": "", "Purge.DeleteRanges": "one two",
	"Purge.FirstSaleEvent": "", "Purge.DeleteSaleEvents": "one two", "Purge.ToPurge": "now text",
	"Purge.LastRange": "sale", "Purge.NewestOrder": "", "Purge.HaveEvents": "orders one",
	"Purge.DeleteChanges": "orders", "Purge.DeletePayments": "orders", "Purge.DeleteOrders": "orders",
	"Purge.SetRemains":  "one rules sale",
	"Purge.OldestOrder": "sale", "Purge.DeleteLetters": "sale", "Purge.SetPurged": "now sale",

	"Backlog.DeadLetters": "", "Backlog.Releases": "", "Backlog.Overdue": "now",

	"Events.LockFeed": "", "Events.SetFeed": "max", "Events.LastEvent": "", "Events.Unnumbered": "",
	"Events.AddStored": "sale zero sale one now", "Events.New": "page page page", "Events.NumberOrders": "pairs",
	"Events.NumberChanges": "pairs", "Events.NumberSaleEvents": "pairs", "Events.OrderEvents": "after upto upto",
	"Events.ChangeEvents": "after upto", "Events.SaleEvents": "after upto", "Events.FirstStatus": "order",

	"Tidy.ArchivedList": "", "Tidy.DeleteList": "sale allow", "Tidy.DeleteGathered": "now", "Tidy.DeleteLeases": "now",

	"Webhooks.Select": "text", "Webhooks.Lock": "text", "Webhooks.All": "", "Webhooks.Delete": "text",
	"Webhooks.DeleteAllOf": "text", "Webhooks.SetSecret": "text text", "Webhooks.SetEnabled": "now text zero now now text",
	"Webhooks.SetProgress": "zero zero zero now now now text text", "Webhooks.SetCursor": "zero text",
	"Webhooks.Change": "pending one now one text now text one", "Webhooks.Forget": "text one",
	"Webhooks.ForgetFrom": "text one", "Webhooks.AllDue": "now text", "Webhooks.Due": "text now page",
	"Webhooks.Held": "text orders", "Webhooks.List": "text zero pending pending page",
	"Webhooks.Count": "text pending", "Webhooks.Unfail": "now now text", "Webhooks.HasEvent": "text one",
}

// whole are the statements that read all of a sale: its orders, or its releases
// that wait. None of them is on the way of a request or runs all the time. The buyers
// of a sale that is deleted are few (Delete.Listed). A recovery, which a person asks for,
// gives all pending orders of a sale more time (KeepLonger, PayLater). Who looks at a sale has its
// orders counted (CountOrders), for a small share of the time.
var whole = map[string]bool{
	"LiveUnits": true, "EndingsOfSale": true, "Unsettled": true, "Lists.DeleteListed": true, "Delete.Buyers": true,
	"KeepLonger": true, "PayLater": true, "CountOrders": true,
}

// Run runs every statement of the product beside a big sale, and refuses those
// that look at more than they are about.
func (p *Plans) Run(t *testing.T) {
	inFull(t)
	few := loadForPlans(t, p)
	order := few[10]
	last := must.Get(p.Store.LastEvent(t.Context()))(t)
	// Whole milliseconds: MariaDB compares a time with more digits otherwise.
	now := p.Dialect.Time(time.Now().UTC().Truncate(time.Millisecond))
	value := map[string]any{
		"sale": "few", "buyer": string(order.Buyer), "order": string(order.ID), "key": string(order.Key),
		"orders": p.Dialect.List([]string{string(order.ID), string(few[11].ID)}), "none": p.Dialect.List(nil),
		"now": now, "null": nil, "no": false, "yes": true, "rules": "{}", "cny": "CNY", "text": "x",
		"pending": "pending", "expired": "expired", "allow": "allow",
		"zero": 0, "one": 1, "two": 2, "page": 100, "max": int64(math.MaxInt64), "after": last - 100, "upto": last,
	}
	run := func(name, query string, args []any) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tx := must.Get(p.DB.BeginTx(ctx, nil))(t)
		defer tx.Rollback()
		if rows, plan := p.Rows(t, tx, query, args); rows > fewRows {
			t.Errorf("%s looks at %d rows, want at most %d:\n%s\n%s", name, rows, fewRows, query, plan)
		}
	}
	all := maps.Collect(sqlcore.Statements(p.Dialect))
	for name := range p.Dialect.Own() {
		if all[name] == "" {
			t.Errorf("the dialect has its own words for %s, and there is no such statement", name)
		}
	}
	for name, query := range all {
		words, known := arguments[name]
		if strings.HasPrefix(query, "INSERT") && strings.Contains(query, "VALUES (") || name == "FindDue" && query == "" {
			continue
		}
		if !known {
			t.Errorf("%s: storetest knows no arguments for this statement", name)
			continue
		}
		if name == "SelectDue" && all["FindDue"] != "" {
			words = "orders now page"
		}
		var args []any
		ofSale := -1
		for i, word := range strings.Fields(words) {
			v, known := value[word]
			switch {
			case word == "pairs":
				args = append(args, p.Dialect.Pairs([]sqlcore.Pair{{Position: 1, Event: 1}, {Position: 2, Event: 2}})...)
			case !known:
				t.Fatalf("%s: %s", name, word)
			default:
				args = append(args, v)
			}
			if word == "sale" {
				ofSale = i
			}
		}
		run(name, query, args)
		if ofSale >= 0 && !whole[name] {
			for i, v := range args {
				if v == value["sale"] {
					args[i] = "many"
				}
			}
			run(name+" of the big sale", query, args)
		}
	}
	// Pages of orders, of the big sale as well: a buyer there asks for a few.
	buyer := sluice.BuyerID("buyer-1-9000")
	for _, filter := range []sluice.OrderFilter{
		{},
		{Sale: "many"},
		{Sale: "few"},
		{Buyer: buyer},
		{Sale: "many", Buyer: buyer},
		{Sale: "many", Buyer: "stranger"},
		{Sale: "many", Buyer: buyer, Status: sluice.Paid},
		{Buyer: buyer, Status: sluice.Pending},
		{Sale: "few", Status: sluice.Paid},
		{Sale: "many", Status: sluice.Expired},
	} {
		filter.Limit = 100
		query, args := sqlcore.PageQuery(&filter, 0)
		run(fmt.Sprintf("Orders %+v", filter), p.Dialect.SQL(query), args)
	}
}

// loadForPlans stores the two sales, numbers what happened, and returns the
// orders of the small one.
func loadForPlans(t *testing.T, p *Plans) []sluice.Order {
	t.Helper()
	s := p.Store
	for _, of := range []struct {
		sale   sluice.SaleID
		orders int
	}{{"many", manyOrders}, {"few", fewOrders}} {
		create(t, s, aSale(of.sale, sluice.Unlimited))
		src := source{sale: of.sale, epoch: 1}
		for left := of.orders; left > 0; left -= 2000 {
			n := min(left, 2000)
			src.store(t, s, n)
		}
	}
	tx := must.Get(p.DB.BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	// As an ending does it, but for time: half of the orders have expired.
	var ids []string
	rows, err := tx.QueryContext(t.Context(), "SELECT order_id FROM orders WHERE sale_id = 'many' AND position % 2 = 0")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		must.Succeed(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must.Succeed(t, errors.Join(rows.Err(), rows.Close()))
	sql := maps.Collect(sqlcore.Statements(p.Dialect))
	for i := 0; i < len(ids); i += 2000 {
		list := p.Dialect.List(ids[i:min(i+2000, len(ids))])
		for _, run := range []struct {
			query string
			args  []any
		}{
			{sql["AddExpired"], []any{"expiry", list}},
			{sql["AddReleases"], []any{list}},
			{sql["Lists.AddListed"], []any{"many", "allow", 1, list}},
		} {
			if _, err := tx.ExecContext(t.Context(), run.query, run.args...); err != nil {
				t.Fatalf("%s: %v", run.query, err)
			}
		}
	}
	for _, query := range []string{
		"UPDATE orders SET status = 'expired' WHERE sale_id = 'many' AND position % 2 = 0",
		"UPDATE orders SET status = 'paid' WHERE sale_id = 'many' AND position % 2 = 1",
		"INSERT INTO payments (payment_id, order_id) SELECT order_id, order_id FROM orders WHERE status = 'paid'",
		fmt.Sprintf("UPDATE sales SET taken = taken - %d WHERE id = 'many'", len(ids)),
	} {
		if _, err := tx.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	must.Succeed(t, tx.Commit())
	for {
		n := must.Get(s.NumberEvents(t.Context(), 5000))(t)
		if n == 0 {
			break
		}
	}
	// Nearly all releases have been given.
	for _, query := range []string{"DELETE FROM releases WHERE position % 200 <> 0", p.Analyze} {
		if _, err := p.DB.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	return look(t, s, "few").Orders
}
