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

// kindNames are what becomes of claims, in the order of the chart.
var kindNames = []struct {
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
	*api.Curve
	Names   []string // of the chart's lines
	Rows    []kindRow
	Missing int64 // server seconds, or steps, that nobody has told of
}

// kindRow is how many claims became of a kind, and in the fullest second, or step.
type kindRow struct {
	Name    string
	N, Peak int64
}

// curve asks for the curve of a sale. Without one the page has none.
func (v *visit) curve(id sluice.SaleID) *curvePart {
	c, err := v.c.client.Curve(v.ctx, id, time.Time{})
	if err != nil {
		return nil
	}
	part := &curvePart{Curve: &c}
	for _, kind := range kindNames {
		row := kindRow{Name: v.Say(kind.text)}
		for _, n := range c.Answers[kind.name] {
			row.N += n
			row.Peak = max(row.Peak, n)
		}
		part.Names = append(part.Names, row.Name)
		if row.N > 0 {
			part.Rows = append(part.Rows, row)
		}
	}
	part.Names = append(part.Names, "p99")
	for _, n := range c.Missing {
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
	shows := saleReport{AdminSale: &s, Curve: v.curve(id), Cut: true}
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
	if v.Admin.Role == 0 {
		v.render(http.StatusUnauthorized, "signin.html", nil)
		return
	}
	curve, err := c.client.Curve(v.ctx, sluice.SaleID(r.PathValue("id")), time.Time{})
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
	for _, kind := range kindNames {
		head = append(head, kind.name)
	}
	_ = to.Write(append(head, "in_flight", "p50_ms", "p99_ms", "servers_missing"))
	for i := range c.InFlight {
		at := c.From.Add(time.Duration(int64(i)*c.StepS) * time.Second)
		row := []string{at.UTC().Format(time.RFC3339), strconv.FormatInt(c.StepS, 10)}
		for _, kind := range kindNames {
			row = append(row, strconv.FormatInt(c.Answers[kind.name][i], 10))
		}
		_ = to.Write(append(row, strconv.FormatInt(c.InFlight[i], 10), fmt.Sprint(c.P50Ms[i]), fmt.Sprint(c.P99Ms[i]),
			strconv.FormatInt(c.Missing[i], 10)))
	}
	to.Flush()
}
