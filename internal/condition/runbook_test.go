package condition

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

var update = flag.Bool("update", false, "write the tables of docs/operating.md again")

const docs = "../../docs/operating"

// The tables of the runbooks are the table: go test ./internal/condition -update writes them.
func TestRunbook(t *testing.T) {
	for file, page := range map[string]struct {
		head string
		in   func(Text) string
	}{
		docs + ".md":       {"| condition |", func(t Text) string { return t.EN }},
		docs + ".zh-CN.md": {"| 情况 |", func(t Text) string { return t.ZH }},
	} {
		text := string(must.Get(os.ReadFile(file))(t))
		before, rest, ok := strings.Cut(text, "\n"+page.head)
		top, rest, _ := strings.Cut(rest, "\n")
		rule, rest, _ := strings.Cut(rest, "\n")
		_, after, ended := strings.Cut(rest, "\n\n")
		if !ok || !ended {
			t.Fatalf("%s has no table %q", file, page.head)
		}
		var rows []string
		for i := range table {
			c := &table[i]
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |", c.Name, c.Urgency, page.in(c.What),
				page.in(c.Cost), page.in(c.Do), strings.Join(c.also(), ", ")))
		}
		want := before + "\n" + page.head + top + "\n" + rule + "\n" + strings.Join(rows, "\n") + "\n\n" + after
		if *update {
			must.Succeed(t, os.WriteFile(file, []byte(want), 0o644))
		} else if text != want {
			t.Errorf("%s is not current: go test ./internal/condition -update", file)
		}
	}
}

// also names where else the condition is said.
func (c *Condition) also() (names []string) {
	for _, alert := range c.Alerts {
		names = append(names, "`"+alert+"`")
	}
	if c.Ready != "" {
		names = append(names, "`/readyz`: `"+c.Ready+"`")
	}
	if c.Check != "" {
		names = append(names, "`sale check`: "+c.Check)
	}
	return names
}

// What the table names is there: alerts, of the same urgency, sections, fields of /readyz, lines of sale check. No
// text is missing.
func TestTheTableNamesWhatIsThere(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	must.Succeed(t, yaml.Unmarshal(must.Get(os.ReadFile("../../deploy/prometheus/rules.yaml"))(t), &rules))
	urgencies := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			urgencies[r.Alert] = r.Labels["severity"]
		}
	}
	ready := map[string]any{}
	full := api.Ready{StoreRisks: []string{""}, Recover: []sluice.SaleID{""}, Differ: []string{""}}
	must.Succeed(t, json.Unmarshal(must.Get(json.Marshal(full))(t), &ready))
	var checks string
	for _, file := range must.Get(filepath.Glob("../httpapi/check*.go"))(t) {
		checks += string(must.Get(os.ReadFile(file))(t))
	}
	text := string(must.Get(os.ReadFile(docs + ".md"))(t))
	for i := range table {
		c := &table[i]
		for _, alert := range c.Alerts {
			if urgencies[alert] != string(c.Urgency) {
				t.Errorf("%s is urgent as %s, its alert %s as %q", c.Name, c.Urgency, alert, urgencies[alert])
			}
		}
		if c.Ready != "" && ready[c.Ready] == nil {
			t.Errorf("%s: /readyz has no %s, only %v", c.Name, c.Ready, slices.Sorted(maps.Keys(ready)))
		}
		if c.Check != "" && !strings.Contains(checks, `"`+c.Check+`"`) {
			t.Errorf("%s: sale check has no line %q", c.Name, c.Check)
		}
		if !regexp.MustCompile("(?mi)^#+ " + strings.ReplaceAll(c.Section, "-", "[ -]") + "$").MatchString(text) {
			t.Errorf("%s: docs/operating.md has no section %s", c.Name, c.Section)
		}
		for _, said := range []Text{c.What, c.Cost, c.Do} {
			if said.EN == "" || said.ZH == "" {
				t.Errorf("%s: a text is missing: %+v", c.Name, c)
			}
		}
	}
	for alert := range urgencies {
		said := slices.ContainsFunc(table, func(c Condition) bool { return slices.Contains(c.Alerts, alert) })
		if alert != "" && said == (elsewhere[alert] != "") {
			t.Errorf("the alert %s: want it in the table, or here, with the reason", alert)
		}
	}
}

// elsewhere are the alerts that no condition says, and why.
var elsewhere = map[string]string{
	"SluiceDown":       "no server is there to say it",
	"SluiceOverloaded": rates, "SluiceClaimsSlow": rates, "SluiceLedgerSlow": rates, "SluiceStoreSlow": rates,
	"SluiceOrdersLate": rates, "SluiceStreamsRefused": rates, "SluiceConnectionsRefused": rates,
	"SluiceConnectionsScarce": rates, "SluiceAcceptErrors": rates, "SluiceKeysGuessed": rates,
	"SluiceReplicaDown":  "nothing is decided by that replica",
	"SluiceTokenKeysOld": "the keys that are known still work; sale check says it",
	"SluiceNotCovered":   isOver, "SluiceReleasesUnknown": isOver, "SluiceDifferences": isOver,
	"SluiceDifferencesFound": isOver, "SluiceNotReconciled": isOver, "SluiceActionsUnrecorded": isOver,
}

const (
	rates  = "a rate of many minutes"
	isOver = "something that has happened, and is over"
)
