package console

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
)

// The form of a sale is made of the fields of the API's messages: an input is named like its field, with a point
// before a part of one ("buyer_rate.per_s"). What is wrong with a value that can be written down, the API says.

// shape is how a field is written in the API's messages.
type shape int

const (
	words   shape = iota // text
	choice               // one of Options
	whole                // a number
	decimal              // a number with a fraction
	moment               // a time
	amount               // money, in the currency of the form
	flag                 // yes or no
	limited              // limits: NAME=MAX, separated by commas
	names                // texts, separated by spaces
)

// input is one field of the form.
type input struct {
	Name    string
	Label   text
	Hint    text
	Shape   shape
	Long    bool // several lines
	Null    bool // empty is null: no such limit
	New     bool // said when the sale is created, and never changed
	Needed  bool
	Options []string
}

// section is a part of the form.
type section struct {
	Title   text
	Role    sluice.Role // who may change it
	Inputs  []input
	Opening bool // it is open when the page is loaded
}

var sections = []section{
	{Title: text{"What is sold", "卖什么"}, Role: sluice.Owner, Opening: true, Inputs: []input{
		{Name: "id", Label: text{"Id", "编号"}, New: true, Hint: text{
			"in addresses, like phone-15; empty: one is made", "用在网址里，例如 phone-15；不填则自动生成",
		}},
		{Name: "title", Label: text{"Title", "标题"}, Needed: true},
		{Name: "sku", Label: text{"SKU", "SKU"}, Needed: true},
		{Name: "price", Label: text{"Price", "价格"}, Shape: amount, Needed: true},
		{
			Name: "currency", Label: text{"Currency", "币种"},
			Needed: true, Hint: text{"three letters, like CNY", "三个字母，例如 CNY"},
		},
		{Name: "list_price", Label: text{"Former price", "原价"}, Shape: amount, Null: true},
		{Name: "free", Label: text{"There is nothing to pay", "无需付款"}, Shape: flag},
	}},
	{Title: text{"How many, and when", "数量和时间"}, Role: sluice.Owner, Opening: true, Inputs: []input{
		{
			Name: "total", Label: text{"Units", "总量"},
			Shape: whole, Null: true, Hint: text{"empty: no limit", "不填则不限"},
		},
		{Name: "max_per_buyer", Label: text{"Units of one buyer", "每人限购"}, Shape: whole, Null: true, Hint: text{
			"empty: no limit", "不填则不限",
		}},
		{Name: "opens_at", Label: text{"Opens (UTC)", "开始（UTC）"}, Shape: moment, Needed: true},
		{Name: "closes_at", Label: text{"Ends (UTC)", "结束（UTC）"}, Shape: moment, Null: true, Hint: text{
			"empty: when it is closed", "不填则手动结束",
		}},
		{Name: "payment_window_s", Label: text{"Seconds to pay", "付款时间（秒）"}, Shape: whole},
		{
			Name: "payment_grace_s", Label: text{"Seconds more for the payment to arrive", "付款宽限（秒）"},
			Shape: whole,
		},
	}},
	{Title: text{"Traffic", "流量"}, Role: sluice.Operator, Inputs: []input{
		{Name: "buyer_rate.requests", Label: text{"Tries of one buyer", "每个买家的请求数"}, Shape: whole, Null: true},
		{Name: "buyer_rate.per_s", Label: text{"in so many seconds", "每多少秒"}, Shape: whole, Null: true},
		{Name: "buyer_rate.shared", Label: text{"counted over all servers", "所有服务器合计"}, Shape: flag},
		{
			Name: "address_rate.requests", Label: text{"Tries from one address", "每个地址的请求数"},
			Shape: whole, Null: true,
		},
		{Name: "address_rate.per_s", Label: text{"in so many seconds", "每多少秒"}, Shape: whole, Null: true},
		{Name: "address_rate.shared", Label: text{"counted over all servers", "所有服务器合计"}, Shape: flag},
		{
			Name: "admission_ratio", Label: text{"Claims under way for each unit left", "每件剩余商品的在途请求"},
			Shape: decimal, Null: true,
		},
	}},
	{Title: text{"Who may buy", "谁能买"}, Role: sluice.Owner, Inputs: []input{
		{Name: "max_orders_per_buyer", Label: text{"Orders of one buyer", "每人订单数"}, Shape: whole, Null: true},
		{
			Name: "max_unpaid_per_buyer", Label: text{"Orders that one buyer may leave unpaid", "每人可不付款的次数"},
			Shape: whole, Null: true,
		},
		{
			Name: "limits", Label: text{"Units for each value that your shop signs", "按商城签名字段限购"},
			Shape: limited, New: true, Hint: text{
				"household=2, school=5", "household=2, school=5",
			},
		},
		{
			Name: "eligibility", Label: text{"For whom", "面向"},
			Shape: choice, Null: true, Options: []string{"", "token", "list"},
		},
		{
			Name: "ticket.before_s", Label: text{"Tickets, so many seconds before the opening", "开始前多少秒发放入场券"},
			Shape: whole, Null: true,
		},
		{
			Name: "challenge.difficulty", Label: text{"Proof of work, in bits", "工作量证明（位）"},
			Shape: whole, Null: true,
		},
		{Name: "risk.url", Label: text{"Risk service", "风控服务"}, Null: true},
		{
			Name: "risk.timeout_ms", Label: text{"and its time to answer, in ms", "风控超时（毫秒）"},
			Shape: whole, Null: true,
		},
		{
			Name: "risk.on_failure", Label: text{"if it does not answer", "风控不应答时"},
			Shape: choice, Null: true, Options: []string{
				"", "deny", "allow",
			},
		},
	}},
	{Title: text{"What buyers see", "买家看到什么"}, Role: sluice.Owner, Inputs: []input{
		{
			Name: "visibility", Label: text{"Found", "可见性"},
			Shape: choice, Options: []string{"listed", "unlisted", "hidden"},
		},
		{
			Name: "availability", Label: text{"Units left", "剩余数量"},
			Shape: choice, Options: []string{"exact", "some", "none"},
		},
		{Name: "badge", Label: text{"Badge", "角标"}},
		{Name: "pictures", Label: text{"Pictures", "图片"}, Shape: names, Hint: text{
			"in their order, separated by spaces: leave one out to take it away", "按显示顺序，用空格分隔；去掉一个即移除该图片",
		}},
		{Name: "titles.en", Label: text{"Title in English", "英文标题"}},
		{Name: "titles.zh", Label: text{"Title in Chinese", "中文标题"}},
		{Name: "description", Label: text{"Description, in Markdown", "介绍（Markdown）"}, Long: true},
		{Name: "descriptions.en", Label: text{"Description in English", "英文介绍"}, Long: true},
		{Name: "descriptions.zh", Label: text{"Description in Chinese", "中文介绍"}, Long: true},
	}},
}

// Type is that of the HTML input.
func (i *input) Type() string {
	switch i.Shape {
	case whole:
		return "number"
	case moment:
		return "datetime-local"
	case flag:
		return "checkbox"
	}
	return "text"
}

// values are what the form's inputs hold.
type values map[string]string

// formTime is how an input writes a time of the API.
const formTime = "2006-01-02T15:04:05"

// valuesOf fills the form with a sale.
func valuesOf(s *api.AdminSale) (values, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var message map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&message); err != nil {
		return nil, err
	}
	all := values{"currency": s.Price.Currency}
	for _, part := range sections {
		for _, in := range part.Inputs {
			if in.Name == "currency" {
				continue
			}
			group, name, nested := strings.Cut(in.Name, ".")
			value := message[group]
			if nested {
				of, _ := value.(map[string]any)
				value = of[name]
			}
			all[in.Name] = in.write(value)
		}
	}
	return all, nil
}

// write is a value of the API as the input has it.
func (i *input) write(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "on"
		}
		return ""
	case string:
		if i.Shape == moment {
			if at, err := time.Parse(time.RFC3339, v); err == nil {
				return at.UTC().Format(formTime)
			}
		}
		return v
	case map[string]any: // money
		minor, _ := v["amount"].(json.Number)
		n, _ := minor.Int64()
		currency, _ := v["currency"].(string)
		return strings.TrimSuffix(figures.Money(n, currency), " "+currency)
	case []any:
		var all []string
		for _, one := range v {
			if limit, ok := one.(map[string]any); ok {
				one = fmt.Sprintf("%v=%v", limit["by"], limit["max"])
			}
			all = append(all, fmt.Sprint(one))
		}
		if i.Shape == names {
			return strings.Join(all, " ")
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(value)
}

// read is a value of the form as the API has it; nil for null.
func (i *input) read(said, currency string) (any, error) {
	if said = strings.TrimSpace(said); said == "" && (i.Null || i.Shape != words && i.Shape != flag && i.Shape != names) {
		return nil, nil
	}
	switch i.Shape {
	case whole:
		n, err := strconv.ParseInt(said, 10, 64)
		return n, wrong(err, i, "a whole number", "一个整数")
	case decimal:
		n, err := strconv.ParseFloat(said, 64)
		if err == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
			err = strconv.ErrRange
		}
		return n, wrong(err, i, "a number", "一个数")
	case moment:
		for _, layout := range []string{formTime, localTime} {
			if at, err := time.Parse(layout, said); err == nil {
				return at.Format(time.RFC3339), nil
			}
		}
		return nil, wrong(strconv.ErrSyntax, i, "a date and a time", "日期和时间")
	case amount:
		n, err := minor(said, figures.Digits(currency))
		like := strings.TrimSuffix(figures.Money(199*int64(math.Pow10(figures.Digits(currency))), currency), " "+currency)
		err = wrong(err, i, "an amount like "+like, "金额，例如 "+like)
		return map[string]any{"amount": n, "currency": currency}, err
	case flag:
		return said == "on", nil
	case limited:
		limits := []any{}
		for part := range strings.SplitSeq(said, ",") {
			by, most, _ := strings.Cut(strings.TrimSpace(part), "=")
			n, err := strconv.ParseInt(most, 10, 64)
			if err != nil {
				return nil, wrong(err, i, "NAME=MAX, separated by commas", "名称=上限，用逗号分隔")
			}
			limits = append(limits, map[string]any{"by": by, "max": n})
		}
		return limits, nil
	case names:
		return append([]string{}, strings.Fields(said)...), nil
	case words, choice:
	}
	return said, nil
}

var decimals = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// minor reads an amount as people write it, in the minor units of a currency with so many digits behind its point.
func minor(said string, digits int) (int64, error) {
	major, rest, _ := strings.Cut(said, ".")
	if !decimals.MatchString(said) || len(rest) > digits {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(major+rest+strings.Repeat("0", digits-len(rest)), 10, 64)
}

// wrong says what an input wants, if there is an error.
func wrong(err error, i *input, en, zh string) error {
	if err == nil {
		return nil
	}
	return errForm{text{i.Label.EN + ": want " + en, i.Label.ZH + "：请填" + zh}}
}

// same reports whether two texts of the input mean the same: browsers write a time without seconds that are zero.
func (i *input) same(a, b string) bool {
	if i.Shape == moment {
		at, err := i.read(a, "")
		other, otherErr := i.read(b, "")
		return err == nil && otherErr == nil && at == other
	}
	return strings.TrimSpace(lines(a)) == strings.TrimSpace(lines(b))
}

// lines ends the lines of a text as the API does: browsers end them in another way.
func lines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// errOverwrites: a form changes what another admin has changed since it was loaded.
type errOverwrites struct {
	text
	input, now string
}

func (e errOverwrites) Error() string { return e.EN }

// overwrites is an errOverwrites if the form does so with this input, which has the value now.
func (i *input) overwrites(form url.Values, now string) error {
	said, was := form.Get(i.Name), form.Get("was:"+i.Name)
	if !form.Has("was:"+i.Name) || i.same(was, now) || i.same(said, now) {
		return nil
	}
	return errOverwrites{text{
		fmt.Sprintf("%s: another admin has changed it to %q; save again to overwrite that", i.Label.EN, now),
		fmt.Sprintf("%s：已被另一位管理员改为“%s”，再次保存将覆盖它", i.Label.ZH, now),
	}, i.Name, now}
}

// message is what of a form is to be sent: what differs from what the form was loaded with, or, where it does not say
// that, from before. What others have changed meanwhile is left alone, and is an error if the form changes it too. Of a
// group with a part that differs it has all, or null if all are empty.
func message(form url.Values, before values, create bool) (map[string]any, error) {
	said := func(name string) string { return lines(form.Get(name)) }
	currency := strings.TrimSpace(said("currency"))
	changed := map[string]bool{}
	for _, part := range sections {
		for _, in := range part.Inputs {
			group, _, _ := strings.Cut(in.Name, ".")
			if form.Has(in.Name) || in.Shape == flag && form.Has("of:"+in.Name) {
				was := before[in.Name]
				if form.Has("was:" + in.Name) {
					was = said("was:" + in.Name)
				}
				changed[group] = changed[group] || !in.same(said(in.Name), was)
			}
		}
	}
	if changed["currency"] {
		changed["price"] = true
		changed["list_price"] = changed["list_price"] || said("list_price") != ""
	}
	delete(changed, "currency")
	sent := map[string]any{}
	for _, part := range sections {
		for _, in := range part.Inputs {
			group, name, nested := strings.Cut(in.Name, ".")
			if in.Name == "currency" && (changed["price"] || changed["list_price"]) { // what an amount means
				if err := in.overwrites(form, before[in.Name]); err != nil {
					return nil, err
				}
			}
			if !changed[group] || in.New && !create {
				continue
			}
			text := said(in.Name)
			languages := group == "titles" || group == "descriptions"
			if languages && form.Has("was:"+in.Name) && in.same(text, said("was:"+in.Name)) {
				text = before[in.Name] // it is the other language that has changed
			} else if err := in.overwrites(form, before[in.Name]); err != nil {
				return nil, err
			}
			value, err := in.read(text, currency)
			if err != nil {
				return nil, err
			}
			switch {
			case !nested && value == nil && !in.Null && !create:
				return nil, wrong(strconv.ErrSyntax, &in, "a value", "值")
			case !nested:
				if value != nil || in.Null {
					sent[group] = value
				}
			case value != nil && value != "" && value != false:
				of, _ := sent[group].(map[string]any)
				if of == nil {
					of = map[string]any{}
				}
				of[name], sent[group] = value, of
			case sent[group] == nil && in.Null:
				sent[group] = nil
			}
		}
	}
	for _, shown := range []string{"titles", "descriptions"} { // which have no null
		if value, ok := sent[shown]; changed[shown] && (!ok || value == nil) {
			sent[shown] = map[string]any{}
		}
	}
	if create {
		for _, name := range []string{"total", "max_per_buyer"} { // which must be said
			if _, ok := sent[name]; !ok {
				sent[name] = nil
			}
		}
	}
	return sent, nil
}

// decoded is a message of the API.
func decoded[T any](sent map[string]any) (message T, err error) {
	text, err := json.Marshal(sent)
	if err == nil {
		err = api.Decode(text, &message)
	}
	return message, err
}

// Sections are those that the visitor may change.
func (v *visit) Sections(create bool) (all []section) {
	for _, part := range sections {
		if !v.May(part.Role) {
			continue
		}
		part.Inputs = slices.DeleteFunc(slices.Clone(part.Inputs), func(i input) bool { return i.New && !create })
		all = append(all, part)
	}
	return all
}
