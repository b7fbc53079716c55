package metrics

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

var update = flag.Bool("update", false, "write the tables, the rules and the dashboard again")

const (
	runbook   = "../../docs/operating.md"
	chinese   = "../../docs/operating.zh-CN.md"
	rulesFile = "../../deploy/prometheus/rules.yaml"
	dashboard = "../../deploy/prometheus/dashboard.json"
	runbookAt = "https://github.com/sluicehq/sluice/blob/main/docs/operating.md#"
)

// The tables of docs/operating.md, the rules and the dashboard are those of the list:
// go test ./internal/metrics -update writes them.
func TestGenerated(t *testing.T) {
	english := func(_, text string) string { return text }
	translated := func(name, _ string) string {
		if chineseOf[name] == "" {
			t.Errorf("%s has no Chinese text in chinese_test.go", name)
		}
		return chineseOf[name]
	}
	tables := func(page, metric, alert string, in language) string {
		return withTable(t, withTable(t, read(t, page), metric, metricRows(in)), alert, alertRows(in))
	}
	files := map[string]string{
		runbook:   tables(runbook, "| metric |", "| alert |", english),
		chinese:   tables(chinese, "| 指标 |", "| 告警 |", translated),
		rulesFile: rulesText(t), dashboard: dashboardText(t),
	}
	for file, want := range files {
		if *update {
			must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
		} else if read(t, file) != want {
			t.Errorf("%s is not current: go test ./internal/metrics -update", file)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	return string(text)
}

// withTable replaces the rows of the table whose head begins so.
func withTable(t *testing.T, text, head string, rows []string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, "\n"+head)
	if !ok || strings.Contains(rest, "\n"+head) && head == "| metric |" {
		t.Fatalf("%d tables %q, want 1", strings.Count(text, "\n"+head), head)
	}
	top, rest, _ := strings.Cut(rest, "\n") // the head's, and the rule below it
	rule, rest, _ := strings.Cut(rest, "\n")
	_, after, _ := strings.Cut(rest, "\n\n")
	return before + "\n" + head + top + "\n" + rule + "\n" + strings.Join(rows, "\n") + "\n\n" + after
}

// language returns what a page says of a name of the list, or of a section, whose English
// text is given.
type language func(name, english string) string

func metricRows(in language) (rows []string) {
	for _, d := range list {
		name := d.name
		if d.labels != "" {
			name += "{" + strings.Join(d.names(), ",") + "}"
		}
		var of []string
		for _, a := range alerts {
			if a.of == d.name {
				of = append(of, "`"+a.name+"`")
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, d.kind, in(d.name, d.meaning),
			strings.Join(of, ", ")))
	}
	return append(rows, "| `go_*`, `process_*` | | "+in("process", "memory, files, processor")+" | |")
}

func alertRows(in language) (rows []string) {
	for _, a := range alerts {
		section := in(a.section, strings.ReplaceAll(a.section, "-", " "))
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | [%s](#%s) |", a.name, in(a.name, a.summary), a.after,
			a.severity, section, strings.ReplaceAll(section, " ", "-")))
	}
	return rows
}

// The files of Prometheus.
type (
	rule struct {
		Record      string            `yaml:"record,omitempty"`
		Alert       string            `yaml:"alert,omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	groups struct {
		Groups []group `yaml:"groups"`
	}
)

func (a *alert) annotations() map[string]string {
	return map[string]string{"summary": a.summary, "runbook_url": runbookAt + a.section}
}

func rulesText(t *testing.T) string {
	var recorded, alerting []rule
	for _, r := range recordings {
		recorded = append(recorded, rule{Record: r.name, Expr: r.expr})
	}
	for _, a := range alerts {
		alerting = append(alerting, rule{
			Alert: a.name, Expr: a.expr, For: a.after, Labels: map[string]string{"severity": a.severity},
			Annotations: a.annotations(),
		})
	}
	return "# Made from internal/metrics: go test ./internal/metrics -update\n" +
		yamlText(t, groups{[]group{{"sluice recordings", recorded}, {"sluice alerts", alerting}}})
}

func yamlText(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	must.Succeed(t, encoder.Encode(v))
	return b.String()
}

func dashboardText(t *testing.T) string {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${source}"}
	const statsWide, statsHigh = 4, 4
	all, stats := make([]object, 0, len(panels)), 0
	for i, p := range panels {
		var targets []object
		for j, q := range p.queries {
			targets = append(targets, object{
				"refId": string(rune('A' + j)), "expr": q.expr, "legendFormat": q.legend, "datasource": source,
			})
		}
		kind, n := "timeseries", i-stats
		place := object{"x": n % 2 * 12, "y": statsHigh + n/2*8, "w": 12, "h": 8}
		if p.stat {
			kind, place = "stat", object{"x": stats * statsWide, "y": 0, "w": statsWide, "h": statsHigh}
			stats++
		}
		all = append(all, object{
			"id": i + 1, "type": kind, "title": p.title, "description": p.description, "datasource": source,
			"targets": targets, "gridPos": place,
			"fieldConfig": object{"defaults": object{"unit": p.unit}, "overrides": []object{}},
		})
	}
	variable := func(name, kind string, more object) object {
		maps.Copy(more, object{"name": name, "type": kind})
		return more
	}
	text := must.Get(json.MarshalIndent(object{
		"title": "Sluice", "uid": "sluice", "schemaVersion": 38, "refresh": "10s", "panels": all,
		"time": object{"from": "now-30m", "to": "now"},
		"templating": object{"list": []object{
			variable("source", "datasource", object{"label": "Prometheus", "query": "prometheus"}),
			variable("sale", "query", object{
				"label": "Sale", "datasource": source, "query": "label_values(sluice_sale_taken_units, sale)",
				"refresh": 2, "includeAll": true, "multi": true, "allValue": ".*",
			}),
		}},
	}, "", "  "))(t)
	return string(text) + "\n"
}

// What is made of the list asks for nothing that is not in it: metrics, labels,
// recordings, and sections of the runbook.
func TestRulesKnowTheList(t *testing.T) {
	docs := read(t, runbook)
	labels := map[string][]string{"process_resident_memory_bytes": nil}
	for _, d := range list {
		labels[d.name] = d.names()
		if d.kind == aHistogram {
			labels[d.name+"_bucket"] = append(d.names(), "le")
			labels[d.name+"_sum"], labels[d.name+"_count"] = d.names(), d.names()
		}
	}
	for _, r := range recordings {
		labels[r.name] = []string{"sale", "code", "route", "stage", "reason", "result"}
	}
	selector := regexp.MustCompile(`(sluice[_:][a-z_:0-9]+)(\{[^}]*\}+|\{.*?\}")?`)
	label := regexp.MustCompile(`([a-z_]+)\s*(?:=~|!=|!~|=)`)
	check := func(where, expr string) {
		t.Helper()
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			have, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s: there is no %s", where, m[1])
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(have, l[1]) {
					t.Errorf("%s: %s has no label %s", where, m[1], l[1])
				}
			}
		}
	}
	for _, r := range recordings {
		check(r.name, r.expr)
		if h := regexp.MustCompile(`(\w+_seconds)_(bucket|count)\[`).FindStringSubmatch(r.expr); h != nil &&
			!strings.Contains(r.expr, h[1]+"[") {
			t.Errorf("%s: is empty where native histograms are read", r.name)
		}
	}
	for _, a := range alerts {
		check(a.name, a.expr)
		if _, ok := labels[a.of]; !ok {
			t.Errorf("%s: there is no %s", a.name, a.of)
		}
		heading := regexp.MustCompile("(?mi)^#+ " + strings.ReplaceAll(a.section, "-", "[ -]") + "$")
		if !heading.MatchString(docs) {
			t.Errorf("%s: docs/operating.md has no section %s", a.name, a.section)
		}
	}
	for _, p := range panels {
		for _, q := range p.queries {
			check(p.title, q.expr)
		}
	}
	// The code uses the whole list, and documents name nothing else.
	var code, documents strings.Builder
	for pattern, to := range map[string]*strings.Builder{"*.go": &code, "../../docs/*.md": &documents} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && file != "list.go" {
				to.WriteString(read(t, file))
			}
		}
	}
	for _, d := range list {
		if !strings.Contains(code.String(), `("`+d.name+`"`) {
			t.Errorf("nothing counts %s", d.name)
		}
	}
	for _, m := range regexp.MustCompile("`(sluice_[a-z_]+)(\\{[^`]*)?`").FindAllStringSubmatch(documents.String(), -1) {
		others := regexp.MustCompile(`^sluice_(schema|sales?|state|token|order|event|report|pay|login|guest)$`)
		if _, ok := labels[m[1]]; !ok && !others.MatchString(m[1]) {
			t.Errorf("a document has the metric %s, which does not exist", m[1])
		}
	}
}

// Prometheus takes the rules; each alert is raised by what it is for, and by nothing
// when all is well.
func TestPromtool(t *testing.T) {
	promtool := servertest.Program(t, "prometheus", "promtool")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Fatalf("promtool %v: %v\n%s", args, err, out)
		}
	}
	rules := must.Get(filepath.Abs(rulesFile))(t)
	run("check", "rules", rules)
	type object = map[string]any
	var cases []object
	well := []object{}
	for _, a := range alerts {
		var inputs []object
		for _, s := range a.by {
			inputs = append(inputs, object{"series": s.name, "values": s.values})
		}
		labels := map[string]string{"severity": a.severity}
		maps.Copy(labels, a.labels)
		cases = append(cases, object{"interval": "1m", "input_series": inputs, "alert_rule_test": []object{{
			"eval_time": "30m", "alertname": a.name,
			"exp_alerts": []object{{"exp_labels": labels, "exp_annotations": a.annotations()}},
		}}})
		well = append(well, object{"eval_time": "30m", "alertname": a.name, "exp_alerts": []object{}})
	}
	// All is well: everything is there, and counts on without trouble.
	inputs := []object{}
	for name, values := range map[string]string{
		`sluice_build_info{version="v1"}`: "1x60", `sluice_store_up`: "1x60", `sluice_ledger_replica_up`: "1x60",
		`sluice_claims_total{code="accepted",sale="s"}`:     "0+100x60",
		`sluice_claims_total{code="overloaded",sale="s"}`:   "0+1x60",
		`sluice_claims_total{code="unavailable",sale="s"}`:  "0x60",
		`sluice_claims_refused_total{reason="r",sale="s"}`:  "0+100x60",
		`sluice_sale_backlog_entries{sale="s"}`:             "90-1x60",
		`sluice_reconciliations_total`:                      "0+1x60",
		`sluice_sale_taken_units{sale="s"}`:                 "7x60",
		`sluice_claims_refused_total{sale="other"}`:         "0+1000x60",
		`sluice_reconcile_differences{class="in_flight"}`:   "5x60",
		`sluice_clock_ahead_seconds{clock="store"}`:         "-1x60",
		`sluice_orders_stored_total{result="stored"}`:       "0+100x60",
		`sluice_token_keys_read_timestamp_seconds`:          "0+60x60",
		`sluice_admin_actions_total{result="recorded"}`:     "0+1x60",
		`sluice_order_overdue_oldest_seconds`:               "1x60",
		`sluice_ledger_call_seconds_bucket{le="0.5"}`:       "0+9x60",
		`sluice_ledger_call_seconds_bucket{le="+Inf"}`:      "0+9x60",
		`sluice_accepted_to_stored_seconds_bucket{le="8"}`:  "0+9x60",
		`sluice_accepted_to_stored_seconds_bucket{le="32"}`: "0+9x60",
	} {
		inputs = append(inputs, object{"series": name, "values": values})
	}
	cases = append(cases, object{"interval": "1m", "input_series": inputs, "alert_rule_test": well})
	file := filepath.Join(t.TempDir(), "test.yaml")
	text := yamlText(t, object{
		"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": cases,
		"group_eval_order": []string{"sluice recordings", "sluice alerts"},
	})
	must.Succeed(t, os.WriteFile(file, []byte(text), 0o600))
	run("test", "rules", file)
}
