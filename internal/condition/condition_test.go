package condition

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// Each condition holds when it should, and no longer.
func TestConditions(t *testing.T) {
	failed := errors.New("connection refused")
	open := func(change func(*Sale)) Seen {
		s := Sale{ID: "phone", OpenFor: 5 * time.Minute, Total: 100, Left: 50, Counts: map[string]int64{"accepted": 9}}
		change(&s)
		return Seen{Sales: []Sale{s}}
	}
	late := Lateness{By: 11 * time.Second, Wrong: 10 * time.Second}
	for name, planted := range map[string]struct {
		first, then Seen // half a minute apart; then for as long
	}{
		"store_older":             {then: open(func(s *Sale) { s.Fence, s.Outdated = "older: x", true })},
		"ledger_refuses":          {then: Seen{Refuses: failed}},
		"ledger_down":             {then: Seen{Ledger: failed}},
		"ledger_down of one sale": {then: open(func(s *Sale) { s.Down = "i/o timeout" })},
		"ledger_lost":             {then: open(func(s *Sale) { s.Fence = "lost: x" })},
		"replicas_missing":        {then: Seen{Replicas: failed}},
		"servers_differ":          {then: Seen{Differ: []string{"b has another buyer_secret"}}},
		"everybody_refused": {
			then: open(func(s *Sale) { s.Counts["accepted"], s.Counts["token_expired"] = 7, 40 }),
		},
		"not_ready":    {then: open(func(s *Sale) { s.NotReady, s.OpenFor = "units: the total is 0", 0 })},
		"nobody_comes": {then: open(func(s *Sale) { s.Counts["accepted"] = 7 })},
		"store_down":   {then: Seen{Store: failed}},
		"lag_grows": {
			first: open(func(s *Sale) { s.Backlog, s.Counts["accepted"] = 3, 7 }),
			then:  open(func(s *Sale) { s.Backlog = 4 }),
		},
		"dead_letters":      {then: open(func(s *Sale) { s.DeadLetters = 1 })},
		"expiry_late":       {then: Seen{Overdue: late}},
		"expiry_behind":     {then: Seen{ExpiryBehind: late}},
		"clocks_apart":      {then: Seen{Clocks: []string{"store: 3s ahead"}}},
		"risk_fails":        {then: Seen{Risk: failed}},
		"webhook_fails":     {then: Seen{Webhooks: []string{"wh_1: 503"}}},
		"server_silent":     {then: Seen{Silent: []string{"b"}}},
		"disk_full_soon":    {then: Seen{Disks: []string{"/data: 1% left"}}},
		"settings_risk":     {then: Seen{Settings: []string{"appendonly no"}}},
		"paused":            {then: open(func(s *Sale) { s.Paused, s.OpenFor = true, 0 })},
		"units_nearly_gone": {then: open(func(s *Sale) { s.Left = 5 })},
	} {
		t.Run(name, func(t *testing.T) {
			name, _, _ := strings.Cut(name, " ")
			var w Watch
			now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
			look := func(s Seen, after time.Duration) (names []string, since time.Time) {
				now = now.Add(after)
				s.Now = now
				s.Sales = slices.Clone(s.Sales)
				for _, standing := range w.Look(&s) {
					if names = append(names, standing.Name); standing.Name == name {
						since = standing.Since
					}
				}
				return names, since
			}
			begun := planted.first
			if begun.Sales == nil {
				begun = open(func(s *Sale) { s.Counts["accepted"] = 7 })
			}
			look(begun, 0)
			if names, _ := look(begun, time.Second); len(names) > 0 {
				t.Fatalf("%v although all is well", names)
			}
			look(begun, apart)
			var first time.Time
			for i := range 3 {
				names, since := look(planted.then, 10*time.Second)
				if !slices.Contains(names, name) || len(names) > 1 {
					t.Fatalf("%d: %v, want %s alone", i, names, name)
				}
				if i == 0 {
					first = since
				}
				if since != first || since.IsZero() {
					t.Errorf("since %s, first seen at %s", since, first)
				}
			}
			busy := open(func(s *Sale) { s.Counts["accepted"] = 1000 })
			look(busy, time.Second)
			if names, _ := look(busy, time.Second); len(names) > 0 {
				t.Errorf("%v although it is over", names)
			}
		})
	}
	for i := range table {
		if Find(table[i].Name) != &table[i] {
			t.Errorf("%s stands twice", table[i].Name)
		}
	}
}

// Of two at once the worse comes first, and a crowd that finds nothing left is no fault of the shop's.
func TestTheWorseFirst(t *testing.T) {
	var w Watch
	s := Seen{Now: time.Now(), Store: errors.New("down"), Ledger: errors.New("down"), Webhooks: []string{"x"}}
	var names []string
	for _, standing := range w.Look(&s) {
		names = append(names, standing.Name)
	}
	if want := []string{"ledger_down", "store_down", "webhook_fails"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	counts := map[string]int64{sluice.SoldOut.String(): 900, "no_token": 30}
	sold := Sale{OpenFor: time.Minute, lately: &lately{counts: counts}}
	if detail, holds := everybodyRefused(&sold); holds {
		t.Errorf("a sale that is sold out refuses everybody: %s", detail)
	}
}
