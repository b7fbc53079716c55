package condition

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/figures"
)

// Seen is what one server sees at a moment. What is false or empty is well.
type Seen struct {
	Now             time.Time
	InStore         bool // the ledger is in the store: what is said of the one is said of the other
	LedgerDown      bool // it does not answer
	LedgerRefuses   bool // it answers, and takes no writes
	ReplicasMissing bool // too few of the ledger's are connected
	StoreDown       bool // the database does not answer, or is full

	Risk     []Named // services that did not answer their last questions
	Evicts   []Named // settings by which the ledger throws keys away
	Settings []Named // other settings that can lose something
	Differ   []Named // servers with other settings
	Refusers []Named // servers that refuse far more than others
	Silent   []Named // servers that were there, and did not say that they stop
	Clocks   []Named // those that are wrong
	Webhooks []Named
	Disks    []Named // that are nearly full

	ExpiryBehind time.Duration

	Sales []Sale // those that something could be wrong with
}

// Named is one of several of a kind: what it is, and what is wrong with it.
type Named struct{ Name, Detail string }

// Sale is what the server sees of one.
type Sale struct {
	ID          sluice.SaleID
	Fence       string // why its claims are refused; empty: they are not
	Outdated    bool   // it waits for a person who recovers it
	Letter      bool   // it is loaded again for a dead letter: nothing is lost, and nobody could buy
	Down        bool   // the ledger does not answer for this sale, though it does for others
	Off         string // how the ledger holds another state of it than the database; empty: it does not
	Paused      bool
	OpenFor     time.Duration // since it can be bought; 0: it cannot
	Total, Left int64         // or sluice.Unlimited
	Taken       int64
	Epoch       int64
	Backlog     int64 // journal entries that are not stored
	Oldest      int64 // the sequence of the first claim in the oldest of them; 0: there is none
	DeadLetters int64
	Overdue     time.Duration // how late endings, or units that come back, are
	NotReady    string        // it opens soon, and could not be bought as it is; empty: it could

	// Answers to claims by code, and why claims were refused, both of this server since its start; nil: not known.
	Codes, Reasons map[string]int64

	past *past
}

// stopped reports whether something worse is known of it.
func (s *Sale) stopped() bool { return s.Fence != "" || s.Down || s.Off != "" }

func ofSales(holds func(*Sale) (holds bool, detail string)) func(*Seen) []found {
	return func(s *Seen) (all []found) {
		for i := range s.Sales {
			if yes, detail := holds(&s.Sales[i]); yes {
				all = append(all, found{sale: s.Sales[i].ID, detail: detail})
			}
		}
		return all
	}
}

func ifTrue(of func(*Seen) bool) func(*Seen) []found {
	return func(s *Seen) []found {
		if of(s) {
			return []found{{}}
		}
		return nil
	}
}

func each(of func(*Seen) []Named) func(*Seen) []found {
	return func(s *Seen) (all []found) {
		for _, one := range of(s) {
			all = append(all, found{key: one.Name, detail: one.Name + ": " + one.Detail})
		}
		return all
	}
}

// either holds where one of two holds.
func either(one, other func(*Seen) []found) func(*Seen) []found {
	return func(s *Seen) []found {
		if all := one(s); len(all) > 0 {
			return all
		}
		return other(s)
	}
}

func number(n int64, of string) string {
	if n != 1 {
		of += "s"
	}
	return figures.Thousands(n) + " " + of
}

const (
	// crowd is from how many claims on a share of them says something.
	crowd = 20
	// justNow is the time in which a crowd shows that all are refused, and aMinute that in which nobody comes.
	justNow, aMinute = 5 * time.Second, time.Minute
	// rush is for how long after its opening a sale should have claims in every minute.
	rush = 30 * time.Minute
	// stuck is how long the oldest entry of a journal may wait.
	stuck = 30 * time.Second
	// wrongLate is how late endings may be.
	wrongLate = 10 * time.Second
)

// everybodyRefused: claims were refused for who or what sent them, and none was accepted, here or elsewhere. A moment
// shows it where many were accepted until then, or where a big crowd comes; else it takes a minute: a robot may be
// alone.
func everybodyRefused(s *Sale) (bool, string) {
	age := aMinute
	if _, now, _ := s.since(justNow); s.past.pace >= crowd || sum(now) >= 10*crowd {
		age = justNow
	}
	codes, reasons, known := s.since(age)
	if !known || s.OpenFor == 0 || s.Left == 0 || s.stopped() || codes[sluice.Accepted.String()] > 0 ||
		s.past.at(age).taken != s.Taken {
		return false, ""
	}
	refused := sum(reasons)
	if refused < crowd || 2*refused < sum(codes) {
		return false, ""
	}
	why, n := most(reasons)
	return true, fmt.Sprintf("%s of the last %s: %s", figures.Thousands(n), number(refused, "claim"), why)
}

func sum(counts map[string]int64) (n int64) {
	for _, one := range counts {
		n += one
	}
	return n
}

// most returns what was counted most often.
func most(counts map[string]int64) (name string, n int64) {
	for other, m := range counts {
		if m > n || m == n && other < name {
			name, n = other, m
		}
	}
	return name, n
}

// nobodyComes: a sale that has opened a while ago meets no claim here, and sells nothing anywhere.
func nobodyComes(s *Sale) (bool, string) {
	codes, _, known := s.since(aMinute)
	if !known || s.OpenFor < aMinute || s.OpenFor > rush || s.Left == 0 || s.stopped() {
		return false, ""
	}
	return len(codes) == 0 && s.past.at(aMinute).taken == s.Taken, ""
}

// journalStuck: the oldest entry of the journal waits for long.
func journalStuck(s *Sale) (bool, string) {
	return s.Oldest > 0 && !s.stopped() && s.past.waits >= stuck, figures.Thousands(s.Backlog) + " in the journal"
}

// nearlyGone: one unit in twenty is left, or fewer.
func nearlyGone(s *Sale) (bool, string) {
	few := s.OpenFor > 0 && s.Total != sluice.Unlimited && s.Left > 0 && 20*s.Left <= s.Total
	if !few {
		return false, ""
	}
	return true, number(s.Left, "unit") + " left"
}
