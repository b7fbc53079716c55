package console

import (
	"net/url"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/condition"
)

// runbook is where the sections are that conditions name.
const runbook = "https://github.com/sluicehq/sluice/blob/main/docs/operating.md#"

// alarm is a condition as a page says it, with the button that helps.
type alarm struct {
	*api.Condition
	What, Cost, Do string // in the visitor's language
	Kind           string // of the notice
	Runbook        string
	Besides        int     // how many others there are that this page does not say
	Button         *Button // nil: there is none, or the visitor may not press it
}

// remedy is what the console can do about a condition: an action of a sale, or a page that has the action.
type remedy struct {
	action, page string
	label        text
}

var remedies = map[string]remedy{
	"store_older":       {action: "recover"},
	"paused":            {action: "resume"},
	"units_nearly_gone": {action: "restock"},
	"dead_letters":      {page: "dead-letters", label: text{"See them", "查看"}},
	"webhook_fails":     {page: "webhooks", label: text{"See the webhooks", "查看 Webhook"}},
	"servers_differ":    {page: "status", label: text{"See the servers", "查看服务器"}},
	"server_silent":     {page: "status", label: text{"See the servers", "查看服务器"}},
}

// asked is what the server says of itself, asked once a visit; nil: it cannot say now.
func (v *visit) asked() *api.Status {
	if v.told == nil && v.Admin.Role != 0 {
		if told, err := v.c.client.Status(v.ctx, v.ofSale()); err == nil {
			v.told = &told
		}
	}
	return v.told
}

// ofSale is the sale that the page shows; empty: it shows none.
func (v *visit) ofSale() sluice.SaleID {
	if v.At("sales") {
		return sluice.SaleID(v.r.PathValue("id"))
	}
	return ""
}

// Renews reports whether a page takes what the server makes of it anew, with script: pages that are looked at for long,
// and cost little.
func (v *visit) Renews() bool {
	switch v.r.Pattern {
	case "GET /admin", "GET /admin/{$}", "GET /admin/sales", "GET /admin/sales/{id}", "GET /admin/status":
		return true
	}
	return false
}

// Alarms are the conditions that hold, the worst first.
func (v *visit) Alarms() (all []alarm) {
	told := v.asked()
	if told == nil {
		return nil
	}
	for i := range told.Conditions {
		all = append(all, v.alarm(&told.Conditions[i]))
	}
	return all
}

// Bar is what stands on top of a page: on that of a sale all that concerns it, else the worst, with how many there are
// besides.
func (v *visit) Bar() (shown []alarm) {
	if v.At("status") {
		return nil
	}
	for _, a := range v.Alarms() {
		switch {
		case v.ofSale() != "":
			shown = append(shown, a)
		case a.Urgency == string(condition.Note):
		case len(shown) == 0:
			shown = []alarm{a}
		default:
			shown[0].Besides++
		}
	}
	return shown
}

func (v *visit) alarm(c *api.Condition) alarm {
	a := alarm{Condition: c, What: c.What, Cost: c.Cost, Do: c.Do, Kind: "warn", Runbook: runbook + c.Section}
	switch c.Urgency {
	case string(condition.Page):
		a.Kind = "bad"
	case string(condition.Note):
		a.Kind = ""
	}
	if known := condition.Find(c.Name); known != nil && v.Lang != "en" { // a newer server may know more
		a.What, a.Cost, a.Do = known.What.ZH, known.Cost.ZH, known.Do.ZH
	}
	switch r := remedies[c.Name]; {
	case r.action != "":
		for i := range saleKind.actions {
			if do := &saleKind.actions[i]; do.Name == r.action && v.May(do.Role) {
				a.Button = &Button{
					Path: v.Path("sales", url.PathEscape(string(c.SaleID)), do.Name), Label: v.Say(do.Label), Danger: do.Danger,
				}
			}
		}
	case r.page != "" && !v.At(r.page):
		a.Button = &Button{Path: v.Path(r.page), Label: v.Say(r.label)}
	}
	return a
}

// status is the page of what is wrong, and of the servers.
func status(v *visit) (string, any, error) {
	told, err := v.c.client.Status(v.ctx, "")
	v.told = &told
	return "status.html", &told, err
}
