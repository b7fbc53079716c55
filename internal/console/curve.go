package console

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// answerNames are what becomes of claims, in the order of the chart.
var answerNames = []struct {
	name string
	text text
}{
	{"accepted", text{"accepted", "成功"}},
	{"sold_out", text{"sold out", "售罄"}},
	{"limited", text{"over a limit", "超过限购"}},
	{"not_now", text{"not open", "未开放"}},
	{"too_often", text{"too often", "太频繁"}},
	{"refused", text{"refused", "被拒绝"}},
	{"failed", text{"not decided", "未处理"}},
}

// curvePart is the part of a page that shows the curve of a sale.
type curvePart struct {
	*api.Curve           // what the chart shows
	Whole      api.Curve // what is summed
	Names      []string  // of the chart's lines
	Rows       []answerRow
	Missing    int64 // steps that some server has not told of
	Archived   bool
	Shows      []curveShow // parts that one can choose; none: the whole curve has steps of a second
}

// answerRow is how many claims were answered so, and how many in the fullest step of what is shown.
type answerRow struct {
	Name    string
	N, Peak int64
}

// curveShow is a part of a long curve.
type curveShow struct {
	Name string // in the address
	Text text
	Now  bool // it is shown
}

// fine is the time that a curve has steps of a second of.
const fine = 20 * time.Minute

// curve asks for the curve of a sale, of which a page shows a part if it is long: the part that the address names, or
// another one. Without a curve there is no such part of the page.
func (v *visit) curve(s *api.AdminSale, otherwise string) *curvePart {
	whole, err := v.c.client.Curve(v.ctx, s.ID, time.Time{}, time.Time{})
	if err != nil {
		return nil
	}
	part := &curvePart{Curve: &whole, Whole: whole, Archived: s.ArchivedAt != nil}
	if whole.StepS > 1 {
		windows := map[string][2]time.Time{
			"now":     {whole.From.Add(time.Duration(whole.StepS*int64(len(whole.Missing)))*time.Second - fine)},
			"opening": {s.OpensAt.Add(-time.Minute), s.OpensAt.Add(fine - time.Minute)},
		}
		shown := v.Query("show")
		if _, ok := windows[shown]; !ok && shown != "all" {
			shown = otherwise
		}
		for _, name := range []struct {
			name string
			text text
		}{
			{"now", text{"The last 20 minutes", "最后 20 分钟"}},
			{"opening", text{"The opening", "开售"}},
			{"all", text{"All", "全部"}},
		} {
			part.Shows = append(part.Shows, curveShow{name.name, name.text, name.name == shown})
		}
		if w, ok := windows[shown]; ok {
			if c, err := v.c.client.Curve(v.ctx, s.ID, w[0], w[1]); err == nil && c.From != nil {
				part.Curve = &c
			}
		}
	}
	for _, kind := range answerNames {
		row := answerRow{Name: v.Say(kind.text)}
		for _, n := range whole.Answers[kind.name] {
			row.N += n
		}
		for _, n := range part.Answers[kind.name] {
			row.Peak = max(row.Peak, n)
		}
		part.Names = append(part.Names, row.Name)
		if row.N > 0 {
			part.Rows = append(part.Rows, row)
		}
	}
	part.Names = append(part.Names, "p99", v.T("a server was silent", "有服务器没有消息"))
	for _, n := range whole.Missing {
		part.Missing += n
	}
	return part
}

// saleReport is what a sale has been, for print.
type saleReport struct {
	*api.AdminSale
	Curve   *curvePart
	Audit   *sluice.AuditReport
	Trouble string // why there is no audit
	Actions []api.AdminAction
	Cut     bool // there may be older actions
}

// mostActions is how many of the newest actions of admins are looked through for those of a sale.
const mostActions = 2000

func report(v *visit) (string, any, error) {
	id := sluice.SaleID(v.r.PathValue("id"))
	s, err := v.c.client.AdminSale(v.ctx, id)
	if err != nil {
		return "", nil, err
	}
	shows := saleReport{AdminSale: &s, Curve: v.curve(&s, "opening"), Cut: true}
	if audit, err := v.c.client.Audit(v.ctx, id); err == nil {
		shows.Audit = &audit
	} else {
		shows.Trouble = err.Error()
	}
	cursor := ""
	for seen := 0; seen < mostActions; {
		page, err := v.c.client.AdminActions(v.ctx, sluice.MaxPage, cursor)
		if err != nil {
			return "", nil, err
		}
		for _, a := range page.Actions {
			if a.SaleID == id {
				shows.Actions = append(shows.Actions, a)
			}
		}
		seen += len(page.Actions)
		if cursor = page.NextCursor; cursor == "" {
			shows.Cut = false
			break
		}
	}
	slices.Reverse(shows.Actions) // as it happened
	return "report.html", shows, nil
}

// curveCSV is the curve of a sale as a table.
func (c *Console) curveCSV(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	if !v.signedIn() {
		return
	}
	curve, err := c.client.Curve(v.ctx, sluice.SaleID(r.PathValue("id")), time.Time{}, time.Time{})
	if err != nil {
		v.fail(err)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", r.PathValue("id")+"-curve.csv"))
	writeCurve(csv.NewWriter(w), &curve)
}

func writeCurve(to *csv.Writer, c *api.Curve) {
	head := []string{"from", "seconds"}
	for _, kind := range answerNames {
		head = append(head, kind.name)
	}
	_ = to.Write(append(head, "in_flight", "p50_ms", "p99_ms", "servers_missing"))
	for i := range c.InFlight {
		at := c.From.Add(time.Duration(int64(i)*c.StepS) * time.Second)
		row := []string{at.UTC().Format(time.RFC3339), strconv.FormatInt(c.StepS, 10)}
		for _, kind := range answerNames {
			row = append(row, strconv.FormatInt(c.Answers[kind.name][i], 10))
		}
		_ = to.Write(append(row, strconv.FormatInt(c.InFlight[i], 10), fmt.Sprint(c.P50Ms[i]), fmt.Sprint(c.P99Ms[i]),
			strconv.FormatInt(c.Missing[i], 10)))
	}
	to.Flush()
}
