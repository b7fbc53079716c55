package condition

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// open is a sale that sells: each look finds more claims.
func open(look int, change func(*Sale)) Seen {
	n := int64(10 * look)
	s := Sale{
		ID: "phone", OpenFor: 5 * time.Minute, Total: 1000, Left: 500, Taken: 500, Epoch: 1,
		Codes: map[string]int64{"accepted": n, "sold_out": n}, Reasons: map[string]int64{},
	}
	change(&s)
	return Seen{Sales: []Sale{s}}
}

func one(look int) []Named { return []Named{{"b", fmt.Sprint("detail ", look)}} }

// planted are the faults: what a server sees, look by look, while each lasts.
var planted = map[string]func(look int) Seen{
	"store_older":    func(i int) Seen { return open(i, func(s *Sale) { s.Fence, s.Outdated = "older: x", true }) },
	"ledger_refuses": func(int) Seen { return Seen{LedgerRefuses: true} },
	"ledger_down":    func(int) Seen { return Seen{LedgerDown: true} },
	"ledger_lost":    func(i int) Seen { return open(i, func(s *Sale) { s.Fence = "lost: x" }) },
	"not_loaded":     func(i int) Seen { return open(i, func(s *Sale) { s.Off = "another ledger decides" }) },
	"ledger_evicts":  func(i int) Seen { return Seen{Evicts: one(i)} },

	"replicas_missing": func(int) Seen { return Seen{ReplicasMissing: true} },
	"servers_differ":   func(i int) Seen { return Seen{Differ: one(i)} },
	"one_refuses":      func(i int) Seen { return Seen{Refusers: one(i)} },
	"everybody_refused": func(i int) Seen {
		return open(i, func(s *Sale) {
			n := int64(40 * i)
			s.Codes = map[string]int64{"unauthenticated": n}
			s.Reasons = map[string]int64{"token_time": n - 5, "token_missing": 5}
			s.Codes["accepted"] = 190 // until a moment ago
		})
	},
	"not_ready":     func(i int) Seen { return open(i, func(s *Sale) { s.NotReady, s.OpenFor = "units: none", 0 }) },
	"store_down":    func(int) Seen { return Seen{StoreDown: true} },
	"journal_stuck": func(i int) Seen { return open(i, func(s *Sale) { s.Oldest, s.Backlog = 7, int64(100-i) }) },
	"dead_letters":  func(i int) Seen { return open(i, func(s *Sale) { s.DeadLetters = 1 }) },
	"expiry_late": func(i int) Seen {
		return open(i, func(s *Sale) { s.Overdue = time.Duration(11+i) * time.Second })
	},
	"nobody_comes":  func(int) Seen { return open(3, func(*Sale) {}) },
	"expiry_behind": func(i int) Seen { return Seen{ExpiryBehind: time.Duration(i+1) * time.Second} },
	"clocks_apart":  func(i int) Seen { return Seen{Clocks: one(i)} },
	"risk_fails":    func(i int) Seen { return Seen{Risk: one(i)} },
	"webhook_fails": func(i int) Seen { return Seen{Webhooks: one(i)} },
	"server_silent": func(i int) Seen { return Seen{Silent: one(i)} },

	"disk_full_soon":    func(i int) Seen { return Seen{Disks: one(i)} },
	"settings_risk":     func(i int) Seen { return Seen{Settings: one(i)} },
	"paused":            func(i int) Seen { return open(i, func(s *Sale) { s.Paused, s.OpenFor = true, 0 }) },
	"units_nearly_gone": func(i int) Seen { return open(i, func(s *Sale) { s.Left, s.Taken = 50, 950 }) },
}

// looks are five seconds apart.
type looks struct {
	Watch
	now time.Time
}

func (l *looks) look(s Seen) (names []string, since map[string]time.Time) {
	if l.now.IsZero() {
		l.now = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	}
	l.now = l.now.Add(5 * time.Second)
	s.Now, since = l.now, map[string]time.Time{}
	for _, standing := range l.Look(&s) {
		names = append(names, standing.Name)
		since[standing.Name] = standing.Since
	}
	return names, since
}

// Each condition is said within ten seconds, or a minute where it has to compare, since when it holds, whatever its
// detail is by now; nothing else is said, and it is gone as soon after.
func TestConditions(t *testing.T) {
	for name, fault := range planted {
		t.Run(name, func(t *testing.T) {
			var l looks
			for i := range 20 {
				if names, _ := l.look(open(i, func(*Sale) {})); len(names) > 0 {
					t.Fatalf("%v although all is well", names)
				}
			}
			within, begun := 2, l.now.Add(5*time.Second)
			switch name {
			case "nobody_comes", "journal_stuck":
				within = 14
			case "expiry_late", "server_silent":
				within = 6
			}
			said := 0
			for i := range 30 {
				names, since := l.look(fault(i + 20))
				switch {
				case len(names) > 1 || len(names) == 1 && names[0] != name:
					t.Fatalf("look %d: %v, want %s alone", i, names, name)
				case len(names) == 0 && (said > 0 || i >= within):
					t.Fatalf("look %d: it is not said", i)
				case len(names) == 1:
					said++
					if since[name].Before(begun) || since[name].After(begun.Add(time.Duration(within*5)*time.Second)) {
						t.Fatalf("since %s, begun at %s", since[name], begun)
					}
				}
			}
			for i := range 4 {
				names, _ := l.look(open(1000+10*i, func(*Sale) {}))
				if i >= 2 && len(names) > 0 {
					t.Errorf("%v although it is over", names)
				}
			}
		})
	}
	if names := slices.Sorted(maps.Keys(planted)); len(names) != len(table) {
		t.Errorf("%d faults are planted for %d conditions", len(names), len(table))
	}
}

// What is no fault: each lasts for minutes, and nothing is said.
func TestFalseAlarms(t *testing.T) {
	for name, seen := range map[string]func(look int) Seen{
		"a rush whose journal moves": func(i int) Seen {
			return open(i, func(s *Sale) { s.Backlog, s.Oldest = 900, int64(1000*i+1) })
		},
		"a robot comes to a quiet sale": func(i int) Seen {
			return open(1, func(s *Sale) {
				s.Codes["accepted"], s.OpenFor = int64(10+i/10), 50*time.Hour
				s.Codes["unauthenticated"], s.Reasons["token_missing"] = int64(20*i), int64(20*i)
			})
		},
		"this server alone is wrong": func(i int) Seen {
			return open(1, func(s *Sale) {
				s.Taken = int64(i)
				s.Codes["unauthenticated"], s.Reasons["token_time"] = int64(50*i), int64(50*i)
			})
		},
		"sold out, and robots are left": func(i int) Seen {
			return open(1, func(s *Sale) {
				s.Left, s.Taken = 0, 1000
				s.Codes["unauthenticated"], s.Reasons["token_missing"] = int64(50*i), int64(50*i)
			})
		},
		"a crowd that finds nothing left": func(i int) Seen {
			return open(1, func(s *Sale) { s.Codes["sold_out"], s.Codes["forbidden"] = int64(900*i), int64(30*i) })
		},
		"a quiet night of a long sale": func(int) Seen { return open(1, func(s *Sale) { s.OpenFor = 50 * time.Hour }) },
		"another server sells":         func(i int) Seen { return open(1, func(s *Sale) { s.Taken = int64(i) }) },
		"claims are not counted":       func(int) Seen { return open(1, func(s *Sale) { s.Codes, s.Reasons = nil, nil }) },
		"a sale is loaded again for a letter": func(i int) Seen {
			return open(i, func(s *Sale) { s.Fence, s.Letter, s.OpenFor = "late: x", true, 0 })
		},
		"a load that takes a moment": func(i int) Seen {
			return open(i, func(s *Sale) {
				if i%10 == 0 {
					s.Off = "epoch 1, where the store has 2"
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l looks
			for i := range 60 {
				if names, _ := l.look(seen(i)); len(names) > 0 {
					t.Fatalf("look %d: %v", i, names)
				}
			}
		})
	}
}

// The worse comes first: no row is more urgent than one above it. What is in the store is said once, and many sales do
// not make a long list.
func TestTheWorseFirst(t *testing.T) {
	order := []Urgency{Page, Warning, Note}
	for i := range table {
		if i > 0 && slices.Index(order, table[i].Urgency) < slices.Index(order, table[i-1].Urgency) {
			t.Errorf("%s is more urgent than %s above it", table[i].Name, table[i-1].Name)
		}
		if Find(table[i].Name) != &table[i] {
			t.Errorf("%s stands twice", table[i].Name)
		}
	}
	var l looks
	if names, _ := l.look(Seen{StoreDown: true, LedgerDown: true, InStore: true, Webhooks: one(0)}); !slices.Equal(names,
		[]string{"ledger_down", "webhook_fails"}) {
		t.Errorf("%v", names)
	}
	many := Seen{Now: l.now.Add(time.Second)}
	for i := range 10_000 {
		many.Sales = append(many.Sales, Sale{ID: sluice.SaleID(fmt.Sprint("sale-", i)), Paused: true})
	}
	many.Evicts = one(0)
	all := l.Look(&many)
	if cut := Cut(all); len(cut) != shown+1 || cut[shown].More != 10_000-shown {
		t.Errorf("%d conditions, the last with %d more", len(cut), cut[len(cut)-1].More)
	}
	if of := Of(all, "sale-77"); len(of) != 2 || of[1].Sale != "sale-77" || of[0].Name != "ledger_evicts" {
		t.Errorf("of one sale: %+v", of)
	}
}
