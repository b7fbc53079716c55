package console

import (
	"bufio"
	"context"
	"io"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// listKind is a sale's lists of buyers. The id of one is the sale's, a point, and its name: phone.deny.
var listKind = &kind{
	path: "lists",
	load: func(ctx context.Context, c *client.Client, id string) (any, error) {
		sale, list := listOf(id)
		page, err := c.Buyers(ctx, sale, list, sluice.MaxPage, "")
		return &page, err
	},
	actions: []action{
		{
			Name: "replace", Role: sluice.Operator, Danger: true, Upload: true, Label: text{"Replace the list", "替换名单"},
			What: text{
				"What you send here becomes the whole list. All servers go by it within two seconds. Orders that exist stay.",
				"提交的内容成为完整的名单，所有服务器两秒之内生效。已有的订单不变。",
			},
			Undo: saveFirst,
			Did:  text{"The list is replaced.", "名单已替换。"},
			Fields: []field{
				asItWas,
				{
					Name: "buyers", Type: "textarea", Label: text{"Ids of buyers, one per line", "买家 id，每行一个"},
					Hint: text{
						"Exactly as in your tokens, without quotes or columns. A list of more than 1,000, or with quotes, commas or " +
							"tabs in its ids, is not shown here.",
						"与令牌中的写法完全一致，不带引号，不分列。超过 1,000 人，或 id 含引号、逗号、制表符的名单不在这里显示。",
					},
					Value: asLines,
				},
				{
					Name: "file", Type: "file", Label: text{"Or upload a file", "或者上传文件"},
					Hint: text{
						"If you choose a file, the text above is ignored. At most 15 MB; for more: sluice sale allow (or deny) " +
							"SALE --file",
						"选择文件后，忽略上面的文字。最大 15 MB；更大的请用 sluice sale allow（或 deny）SALE --file",
					},
				},
			},
			do: replaceBuyers,
		},
		{
			Name: "clear", Role: sluice.Operator, Danger: true, Label: text{"Empty it", "清空"},
			What: text{
				"All buyers leave the list, on all servers within two seconds. With an empty deny list every buyer may buy; a " +
					"sale that asks for its allow list sells nothing while that is empty.",
				"两秒之内名单变为空。黑名单为空时不限制任何人；活动要求白名单时，白名单为空则没有人能购买。",
			},
			Undo:   saveFirst,
			Did:    text{"The list is empty.", "名单已清空。"},
			Fields: []field{asItWas},
			when:   func(subject any) bool { return subject.(*api.BuyerPage).Size > 0 },
			do: func(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
				err := unchanged(ctx, c, id, sent)
				if err == nil {
					sale, list := listOf(id)
					_, err = c.ClearBuyers(ctx, sale, list)
				}
				return nil, err
			},
		},
	},
}

// saveFirst is how to undo what is done to a list.
var saveFirst = text{
	"The old list is not kept: save it first with sluice sale allow (or deny) SALE --export.",
	"旧名单不保留：需要时请先用 sluice sale allow（或 deny）SALE --export 保存。",
}

// listOf is the list that has this id.
func listOf(id string) (sluice.SaleID, sluice.ListKind) {
	sale, list, _ := strings.Cut(id, ".")
	return sluice.SaleID(sale), sluice.ListKind(list)
}

// changedAt tells lists apart that were uploaded at different times.
func changedAt(l *api.BuyerList) string {
	if l.UpdatedAt == nil {
		return ""
	}
	return l.UpdatedAt.String()
}

// asItWas says which list a form was loaded with.
var asItWas = field{Name: "was", Type: "hidden", Value: func(subject any) string {
	return changedAt(&subject.(*api.BuyerPage).BuyerList)
}}

// unchanged fails if another has changed the list since the form was loaded. Of two who send their lists at the same
// moment it stops neither: the list of the later one stays.
func unchanged(ctx context.Context, c *client.Client, id string, sent form) error {
	sale, list := listOf(id)
	now, err := c.Buyers(ctx, sale, list, 1, "")
	if err == nil && sent.Get("was") != changedAt(&now.BuyerList) {
		err = errForm{text{
			"another upload has changed the list since you opened this form: go back, and open it again",
			"打开表单之后，名单已被另一次上传修改：请返回并重新打开",
		}}
	}
	return err
}

// asLines is a list as it may be typed; empty if it is long, or has ids that cannot be typed.
func asLines(subject any) string {
	page := subject.(*api.BuyerPage)
	var lines strings.Builder
	for _, buyer := range page.Buyers {
		lines.WriteString(string(buyer) + "\n")
	}
	if text := lines.String(); page.NextCursor == "" && !strings.ContainsAny(text, "\",;\t'") {
		return text
	}
	return ""
}

// replaceBuyers makes a list of what was sent.
func replaceBuyers(ctx context.Context, c *client.Client, id string, sent form) ([]text, error) {
	if err := unchanged(ctx, c, id, sent); err != nil {
		return nil, err
	}
	all := sent.file
	if all == nil {
		all = strings.NewReader(sent.Get("buyers"))
	}
	if blank(all) {
		return nil, errForm{text{
			"there is no buyer: to have an empty list, go back, and empty it",
			"没有买家：要清空名单，请返回后使用“清空”",
		}}
	}
	sale, list := listOf(id)
	_, err := c.ReplaceBuyers(ctx, sale, list, all)
	return nil, err
}

// blank reports whether a list names no buyer, and goes back to its beginning.
func blank(list io.ReadSeeker) bool {
	in := bufio.NewReader(list)
	for {
		r, _, err := in.ReadRune()
		if err == nil && (r == '\ufeff' || unicode.IsSpace(r)) {
			continue
		}
		_, failed := list.Seek(0, io.SeekStart)
		return err != nil || failed != nil
	}
}

// oneList is what the page of a list shows.
type oneList struct {
	api.BuyerPage
	Asked   bool // the sale is for those on its allow list
	Buttons []Button
	Next    string // address of the next page; empty: it is the last
}

func buyers(v *visit) (string, any, error) {
	id := v.r.PathValue("id")
	sale, list := listOf(id)
	page, err := v.c.client.Buyers(v.ctx, sale, list, perPage, v.Query("cursor"))
	if err != nil {
		return "", nil, err
	}
	s, err := v.c.client.AdminSale(v.ctx, sale)
	one := oneList{BuyerPage: page, Buttons: v.Buttons(listKind, id, &page)}
	one.Asked = s.Eligibility != nil && *s.Eligibility == sluice.EligibleList
	if page.NextCursor != "" {
		one.Next = v.next(page.NextCursor)
	}
	return "list.html", one, err
}
