package console

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// kind is what actions are taken on: sales, lists of buyers, orders, dead letters, webhooks.
type kind struct {
	path    string
	load    func(ctx context.Context, c *client.Client, id string) (subject any, err error)
	actions []action
}

// action is one change, as the API has it. It is asked about once, on a page that says what will happen.
type action struct {
	Name   string // in the address, as in the API's
	Role   sluice.Role
	Danger bool // it cannot be undone
	Label  text // of the button
	What   text // what will happen
	Undo   text // how to undo it
	Did    text
	Fields []field
	Upload bool // a field is a file

	when    func(subject any) bool                                                           // it makes sense
	preview func(ctx context.Context, c *client.Client, id string) (lines []text, err error) // what it would change
	// do takes the action. What it returns is shown before one goes on: what was not done, or is to be done now.
	do func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error)
}

// form is what was sent.
type form struct {
	url.Values
	file io.ReadSeeker // nil: none
}

// field is what an action wants to know.
type field struct {
	Name  string
	Label text
	Hint  text
	Type  string                   // of the input; textarea and file: it may stay empty
	Value func(subject any) string // nil: empty
}

// The kinds of subjects, with all that can be done to them.
var kinds = []*kind{saleKind, listKind, orderKind, letterKind, webhookKind}

var saleKind = &kind{
	path: "sales",
	load: func(ctx context.Context, c *client.Client, id string) (any, error) {
		s, err := c.AdminSale(ctx, sluice.SaleID(id))
		return &s, err
	},
	actions: []action{
		{
			Name: "open", Role: sluice.Operator, Danger: true, Label: text{"Open now", "立即开售"},
			What: text{
				"The sale opens at this moment, for all buyers. A sale that is open cannot be closed to the time before.",
				"活动立即对所有买家开售。开售之后不能退回到开售之前。",
			},
			Undo: text{"Pause it: buyers wait until you resume it.", "可以暂停：暂停期间没有人能购买。"},
			Did:  text{"The sale is open.", "活动已开售。"},
			when: onSale(sluice.StateUpcoming), do: bare((*client.Client).OpenSale),
		},
		{
			Name: "pause", Role: sluice.Operator, Label: text{"Pause", "暂停"},
			What: text{
				"From now on every buyer hears that the sale is paused. Orders that exist stay, and can be paid.",
				"从现在起所有买家都会看到活动已暂停。已有的订单不变，仍可付款。",
			},
			Undo: text{"Resume it at any time.", "随时可以恢复。"},
			Did:  text{"The sale is paused.", "活动已暂停。"},
			when: onSale(sluice.StateOpen, sluice.StateSoldOut), do: bare((*client.Client).PauseSale),
		},
		{
			Name: "resume", Role: sluice.Operator, Label: text{"Resume", "恢复"},
			What: text{"Buyers can buy again within a second.", "一秒之内买家可以继续购买。"},
			Undo: text{"Pause it again.", "可以再次暂停。"},
			Did:  text{"The sale goes on.", "活动已恢复。"},
			when: func(subject any) bool { s := subject.(*api.AdminSale); return s.Paused && s.ArchivedAt == nil },
			do:   bare((*client.Client).ResumeSale),
		},
		{
			Name: "restock", Role: sluice.Operator, Label: text{"Change the total", "调整总量"},
			What: text{
				"The total changes by this many units, once, however often you press the button. More units are for sale " +
					"within a second; fewer are taken away only if they are not sold.",
				"总量按这个数调整一次，重复点击也只生效一次。增加的商品一秒之内开始出售；减少时只能减未售出的部分。",
			},
			Undo: text{"Change it by the same number with the other sign.", "用相反的数再调整一次。"},
			Did:  text{"The total is changed.", "总量已调整。"},
			Fields: []field{
				{Name: "delta", Type: "text", Label: text{"By how many units", "调整多少件"}, Hint: text{
					"50 puts fifty more on sale, -50 takes fifty back", "50 增加五十件，-50 减少五十件",
				}},
				{Name: "id", Type: "hidden", Value: func(any) string { return "console-" + string(sluice.NewKey()) }},
			},
			when: func(subject any) bool { s := subject.(*api.AdminSale); return s.Total != nil && s.ArchivedAt == nil },
			do: func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
				delta, err := strconv.ParseInt(strings.TrimSpace(sent.Get("delta")), 10, 64)
				if err != nil || delta == 0 {
					return nil, errForm{text{
						"by how many units: want a whole number that is not 0", "调整多少件：请填不为 0 的整数",
					}}
				}
				_, err = c.RestockSale(ctx, sluice.SaleID(id), sent.Get("id"), delta)
				return nil, err
			},
		},
		{
			Name: "close", Role: sluice.Operator, Danger: true, Label: text{"Close", "结束"},
			What: text{
				"No claim is accepted from this moment on. Orders keep their time to pay.",
				"从此刻起不再接受购买。已有订单的付款时间不变。",
			},
			Undo: text{"Change the sale, and move its end.", "修改活动的结束时间即可。"},
			Did:  text{"The sale is closed.", "活动已结束。"},
			when: onSale(sluice.StateOpen, sluice.StateSoldOut, sluice.StatePaused),
			do:   bare((*client.Client).CloseSale),
		},
		{
			Name: "reconcile", Role: sluice.Operator, Label: text{"Reconcile", "核对"},
			What: text{
				"Ledger and database are compared, and what is provably wrong is repaired. It changes nothing that buyers " +
					"were told.",
				"核对账本与数据库，并修复可以证明有误的部分。已经答复买家的结果不会改变。",
			},
			Undo: text{"There is nothing to undo.", "没有需要撤销的。"},
			Did:  text{"Ledger and database are compared.", "账本与数据库已核对。"},
			when: func(subject any) bool { return subject.(*api.AdminSale).ArchivedAt == nil },
			do: func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
				report, err := c.ReconcileSale(ctx, sluice.SaleID(id), true)
				if report.Skipped != "" {
					return []text{{"Nothing was compared: " + report.Skipped, "没有进行核对：" + report.Skipped}}, err
				}
				var found []text
				for _, d := range report.Differences {
					if d.Count > 0 && d.Class != sluice.InFlight {
						found = append(found, text{
							fmt.Sprintf("%s: %d found, %d repaired", d.Class, d.Count, d.Repaired),
							fmt.Sprintf("%s：发现 %d 处，修复 %d 处", d.Class, d.Count, d.Repaired),
						})
					}
				}
				return found, err
			},
		},
		{
			Name: "recover", Role: sluice.Owner, Danger: true, Label: text{"Recover", "恢复数据"},
			What: text{
				"The database is an older copy. What the ledger knows beyond it is stored, and no order expires for the time " +
					"that is said, so that your shop can send its payments again.",
				"数据库是较旧的副本。账本里多出的内容会存入数据库，并在一段时间内不让订单过期，以便商城重新提交付款。",
			},
			Undo: text{"It cannot be undone.", "不能撤销。"},
			Did:  text{"The sale is recovered.", "活动已恢复数据。"},
			when: func(subject any) bool { return strings.HasPrefix(subject.(*api.AdminSale).Fence, "older") },
			preview: func(ctx context.Context, c *client.Client, id string) ([]text, error) {
				r, err := c.RecoverSale(ctx, sluice.SaleID(id), false)
				ended, given := r.StoredEnded.Count+r.Ended.Count, text{}
				if r.Ledger != "" {
					given = text{
						"What that ledger alone has on record will be given up: better recover at a server that has it.",
						"只有那个账本才有的记录将被放弃：最好在使用那个账本的服务器上恢复。",
					}
				}
				return []text{
					{r.Why, r.Why},
					given,
					{r.Terms, r.Terms},
					{fmt.Sprintf("%d orders will be stored", r.Stored.Count), fmt.Sprintf("将存入 %d 个订单", r.Stored.Count)},
					{fmt.Sprintf("%d orders will end", ended), fmt.Sprintf("将结束 %d 个订单", ended)},
				}, err
			},
			do: func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
				r, err := c.RecoverSale(ctx, sluice.SaleID(id), true)
				if err != nil || !r.Applied {
					return nil, err
				}
				until := r.NoExpiryBefore.UTC().Format(time.RFC3339)
				next := []text{{"No order expires before " + until, until + " 之前不会有订单过期"}}
				for _, lost := range r.Payments {
					list := "sluice recover --sale " + id
					next = append(next, text{
						fmt.Sprintf("Send the payments of %d orders again: %s. %s lists them.", lost.Count, lost.Reason, list),
						fmt.Sprintf("请重新提交 %d 个订单的付款：%s。%s 会列出它们。", lost.Count, lost.Reason, list),
					})
				}
				return next, nil
			},
		},
	},
}

// onSale makes sense of a sale in one of these states.
func onSale(states ...sluice.State) func(any) bool {
	return func(subject any) bool {
		s := subject.(*api.AdminSale)
		return slices.Contains(states, s.State) && s.ArchivedAt == nil
	}
}

// bare takes an action that wants to know nothing but its subject.
func bare[ID ~string, T any](do func(*client.Client, context.Context, ID) (T, error),
) func(context.Context, *client.Client, string, form) ([]text, error) {
	return func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
		_, err := do(c, ctx, ID(id))
		return nil, err
	}
}

var orderKind = &kind{
	path: "orders",
	load: func(ctx context.Context, c *client.Client, id string) (any, error) {
		o, err := c.AdminOrder(ctx, sluice.OrderID(id))
		return &o, err
	},
	actions: []action{
		{
			Name: "pay", Role: sluice.Operator, Label: text{"Mark as paid", "标记已付款"},
			What: text{
				"The order becomes paid. Do this only if your payment provider has the money.",
				"订单变为已付款。请确认支付渠道已收到款项。",
			},
			Undo: text{"Refund it.", "可以退款。"},
			Did:  text{"The payment is recorded.", "付款已记录。"},
			Fields: []field{{
				Name: "payment", Type: "text", Label: text{"The provider's id of the payment", "支付渠道的付款编号"},
			}},
			when: onOrder(sluice.Pending),
			do: func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
				_, err := c.PayOrder(ctx, sluice.OrderID(id), sent.Get("payment"))
				return nil, err
			},
		},
		{
			Name: "extend", Role: sluice.Operator, Label: text{"Give more time", "延长付款时间"},
			What: text{"The buyer can pay until this time.", "买家可以付款到这个时间。"},
			Undo: text{"A deadline is never made earlier.", "付款截止时间不能提前。"},
			Did:  text{"The order has more time.", "付款时间已延长。"},
			Fields: []field{{
				Name: "until", Type: "datetime-local", Label: text{"Until (UTC)", "截止（UTC）"},
				Value: func(any) string { return time.Now().UTC().Add(time.Hour).Format(localTime) },
			}},
			when: onOrder(sluice.Pending),
			do: func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
				until, err := time.Parse(localTime, sent.Get("until"))
				if err != nil {
					return nil, errForm{text{"until: want a date and a time", "截止：请填写日期和时间"}}
				}
				o, err := c.ExtendOrder(ctx, sluice.OrderID(id), until)
				if err == nil && o.ExpiresAt != nil && o.ExpiresAt.After(until) {
					return nil, errForm{text{
						"until: the order has more time than that, and keeps it: a deadline is never made earlier",
						"截止：订单原来的截止时间更晚，保持不变；截止时间不能提前",
					}}
				}
				return nil, err
			},
		},
		{
			Name: "cancel", Role: sluice.Operator, Danger: true, Label: text{"Cancel", "取消订单"},
			What: text{"The order ends, and its units are for sale again.", "订单结束，商品重新出售。"},
			Undo: text{"It cannot be undone: somebody else can buy the units at once.", "不能撤销：别人马上可以买走。"},
			Did:  text{"The order is cancelled.", "订单已取消。"},
			when: onOrder(sluice.Pending), do: bare((*client.Client).AdminCancelOrder),
		},
		{
			Name: "reject", Role: sluice.Operator, Danger: true, Label: text{"Reject", "拒绝订单"},
			What: text{
				"The order ends for the reason you give, which the buyer sees, and its units are for sale again.",
				"订单因你填写的原因结束，买家能看到原因，商品重新出售。",
			},
			Undo:   text{"It cannot be undone.", "不能撤销。"},
			Did:    text{"The order is rejected.", "订单已拒绝。"},
			Fields: []field{{Name: "reason", Type: "text", Label: text{"Reason, which the buyer sees", "原因（买家可见）"}}},
			when:   onOrder(sluice.Pending),
			do: func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
				_, err := c.RejectOrder(ctx, sluice.OrderID(id), sent.Get("reason"))
				return nil, err
			},
		},
		{
			Name: "refund", Role: sluice.Operator, Danger: true, Label: text{"Record a refund", "记录退款"},
			What: text{
				"The order is recorded as refunded, and its units are for sale again. Sluice moves no money: give it back at " +
					"your payment provider.",
				"订单记为已退款，商品重新出售。Sluice 不经手资金，请在支付渠道退款。",
			},
			Undo: text{"It cannot be undone.", "不能撤销。"},
			Did:  text{"The refund is recorded.", "退款已记录。"},
			when: onOrder(sluice.Paid, sluice.RefundDue), do: bare((*client.Client).RefundOrder),
		},
	},
}

// localTime is how an input of a date and a time writes them.
const localTime = "2006-01-02T15:04"

// onOrder makes sense of an order with one of these statuses.
func onOrder(statuses ...sluice.Status) func(any) bool {
	return func(subject any) bool { return slices.Contains(statuses, subject.(*api.Order).Status) }
}

var letterKind = &kind{
	path: "dead-letters",
	load: func(ctx context.Context, c *client.Client, id string) (any, error) {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, errNoPage
		}
		l, err := c.DeadLetter(ctx, n)
		return &l, err
	},
	actions: []action{{
		Name: "replay", Role: sluice.Operator, Label: text{"Try again", "重试"},
		What: text{
			"Its claims are stored, or claimed again under their own ids. What cannot be saved stays listed.",
			"重新入库，或以原订单号重新申领。无法保住的仍会列出。",
		},
		Undo: text{"Trying twice does no harm.", "重复重试没有害处。"},
		Did:  text{"The dead letter was tried again.", "死信已重试。"},
		when: func(subject any) bool { return subject.(*api.DeadLetter).ResolvedAt == nil },
		do: func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, errNoPage
			}
			replayed, err := c.ReplayDeadLetter(ctx, n)
			var left []text
			if lost := strings.Trim(fmt.Sprint(replayed.Lost), "[]"); lost != "" {
				left = append(left, text{"These could not be saved: " + lost, "以下订单无法保住：" + lost})
			}
			if waiting := strings.Trim(fmt.Sprint(replayed.Waiting), "[]"); waiting != "" {
				left = append(left, text{
					"The sale takes no claims now, and is loaded again with these, in some seconds: " + waiting,
					"活动现在不接受抢购请求，正在连同以下订单重新载入，几秒后完成：" + waiting,
				})
			}
			return left, err
		},
	}},
}

var webhookKind = &kind{
	path: "webhooks",
	load: func(ctx context.Context, c *client.Client, id string) (any, error) {
		w, err := c.Webhook(ctx, sluice.WebhookID(id))
		return &w, err
	},
	actions: []action{
		{
			Name: "test", Role: sluice.Operator, Label: text{"Send a test", "发送测试"},
			What: text{"A signed message that is no event is sent to it once.", "向它发送一条签名的测试消息（不是事件）。"},
			Undo: text{"There is nothing to undo.", "没有需要撤销的。"},
			Did:  text{"The test was delivered.", "测试消息已送达。"},
			do: func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
				tested, err := c.TestWebhook(ctx, sluice.WebhookID(id))
				if err == nil && tested.Error != "" {
					err = errForm{text{"not delivered: " + tested.Error, "未送达：" + tested.Error}}
				}
				return nil, err
			},
		},
		{
			Name: "replay", Role: sluice.Operator, Label: text{"Send what failed again", "重发失败的事件"},
			What: text{"Events that were given up are sent again.", "重新发送已放弃的事件。"},
			Undo: text{"Receivers know each event by its id.", "接收方可按事件编号去重。"},
			Did:  text{"They will be sent again.", "将重新发送。"},
			when: func(subject any) bool { return subject.(*api.Webhook).Failed > 0 },
			do: func(ctx context.Context, c *client.Client, id string, _ form) ([]text, error) {
				_, err := c.ReplayWebhook(ctx, sluice.WebhookID(id), api.ReplayWebhook{Failed: true})
				return nil, err
			},
		},
		{
			Name: "enable", Role: sluice.Operator, Label: text{"Enable", "启用"},
			What: text{"It receives events again, from where it stopped.", "从停下的地方继续接收事件。"},
			Undo: text{"Disable it.", "可以停用。"},
			Did:  text{"The webhook is enabled.", "已启用。"},
			when: func(subject any) bool { return subject.(*api.Webhook).Status == api.WebhookDisabled },
			do:   bare((*client.Client).EnableWebhook),
		},
		{
			Name: "disable", Role: sluice.Operator, Label: text{"Disable", "停用"},
			What: text{"It receives nothing until it is enabled again; events wait for it.", "停用期间不再接收，事件会等待。"},
			Undo: text{"Enable it.", "可以再启用。"},
			Did:  text{"The webhook is disabled.", "已停用。"},
			when: func(subject any) bool { return subject.(*api.Webhook).Status != api.WebhookDisabled },
			do:   bare((*client.Client).DisableWebhook),
		},
	},
}

// errForm says what is wrong in a form.
type errForm struct{ text }

func (e errForm) Error() string { return e.EN }

// Button is an action that a page offers.
type Button struct {
	Label, Path string
	Danger      bool
}

// Buttons are those actions on a subject that make sense now, and that the visitor may take.
func (v *visit) Buttons(k *kind, id string, subject any) (all []Button) {
	for i := range k.actions {
		if a := &k.actions[i]; v.May(a.Role) && (a.when == nil || a.when(subject)) {
			all = append(all, Button{v.Say(a.Label), v.Path(k.path, url.PathEscape(id), a.Name), a.Danger})
		}
	}
	return all
}

// asked is what the page before an action shows.
type asked struct {
	*action
	ID, Back string
	Preview  []string
	Outcome  []text
	Values   map[string]string
	Wrong    string
}

func (v *visit) asks(k *kind, a *action) *asked {
	id := v.r.PathValue("id")
	return &asked{action: a, ID: id, Back: v.back(k, id), Values: map[string]string{}}
}

// ask is the page before an action: what will happen, and whether it can be undone.
func (v *visit) ask(k *kind, a *action) (string, any, error) {
	q := v.asks(k, a)
	subject, err := k.load(v.ctx, v.c.client, q.ID)
	if err != nil {
		return "", nil, err
	}
	for _, f := range a.Fields {
		if f.Value != nil {
			q.Values[f.Name] = f.Value(subject)
		}
	}
	if a.preview != nil && v.May(a.Role) {
		lines, err := a.preview(v.ctx, v.c.client, q.ID)
		if err != nil {
			return "", nil, err
		}
		for _, line := range lines {
			if line.EN != "" {
				q.Preview = append(q.Preview, v.Say(line))
			}
		}
	}
	return "ask.html", q, nil
}

// back is the page that an action came from.
func (v *visit) back(k *kind, id string) string {
	if k == saleKind || k == listKind || k == orderKind {
		return v.Path(k.path, url.PathEscape(id))
	}
	return v.Path(k.path)
}

// act takes an action, and goes back to its subject; if it fails, the page before says why.
func (c *Console) act(k *kind, a *action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		if !v.signedIn() {
			return
		}
		uploader := sluice.Role(0)
		if a.Upload {
			uploader = a.Role
		}
		end, err := v.ours(uploader)
		defer end()
		if err != nil {
			v.fail(err)
			return
		}
		q, sent := v.asks(k, a), form{Values: r.PostForm}
		if file, _, err := r.FormFile("file"); err == nil {
			defer file.Close()
			sent.file = file
		}
		outcome, err := a.do(v.ctx, c.client, q.ID, sent)
		switch {
		case err == nil && len(outcome) > 0:
			q.Outcome = outcome
			v.render(http.StatusOK, "outcome.html", q)
			return
		case err == nil:
			v.flash(k.path + "-" + a.Name)
			http.Redirect(w, r, q.Back, http.StatusSeeOther)
			return
		}
		q.Wrong = err.Error()
		for _, f := range a.Fields {
			if f.Type != "textarea" || sent.file == nil { // sent again without the file, it would be taken
				q.Values[f.Name] = r.PostForm.Get(f.Name)
			}
		}
		status := statusOf(err)
		if wrong, ok := errors.AsType[errForm](err); ok {
			q.Wrong, status = v.Say(wrong.text), http.StatusUnprocessableEntity
		}
		v.render(status, "ask.html", q)
	}
}
