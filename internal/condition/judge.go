package condition

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/figures"
)

// Seen is what one server sees at a moment. What is nil or empty is well.
type Seen struct {
	Now      time.Time
	Ledger   error // it does not answer
	Refuses  error // it answers, and takes no writes
	Replicas error // too few of the ledger's are connected
	Store    error // the database does not answer, or is full
	Risk     error // a risk service has failed within the last moments
	Settings []string
	Differ   []string // servers with other settings
	Silent   []string // servers that were there some minutes ago
	Clocks   []string // those that are wrong, and by how much
	Webhooks []string // those that fail, and why
	Disks    []string // those that are nearly full

	Overdue      Lateness // of orders that should have ended, or of units that should be back
	ExpiryBehind Lateness

	Sales []Sale // that are not over
}

// Lateness is how late something is, and when that begins to be wrong.
type Lateness struct{ By, Wrong time.Duration }

// Sale is what the server sees of one.
type Sale struct {
	ID       sluice.SaleID
	Fence    string // why its claims are refused; empty: they are not
	Outdated bool   // it waits for a person who recovers it
	Down     string // why the ledger does not answer for this sale, though it does for others; empty: it does
	Paused   bool
	OpenFor  time.Duration // since it can be bought; 0: it cannot
	Total    int64         // or sluice.Unlimited
	Left     int64         // or sluice.Unlimited
	Backlog  int64         // journal entries that are not stored

	DeadLetters int64
	NotReady    string           // it opens soon, and what the check of it has found; empty: nothing
	Counts      map[string]int64 // answers to claims here by code, and refusals by reason, since the start

	lately *lately // nil: for less than half a minute
}

// stopped reports whether something worse is known of it.
func (s *Sale) stopped() bool { return s.Fence != "" || s.Down != "" }

// lately is what has changed of a sale within half a minute to a minute.
type lately struct {
	counts map[string]int64
	least  int64 // the smallest backlog
}

func ofSales(holds func(*Sale) (detail string, holds bool)) func(*Seen) []found {
	return func(s *Seen) (all []found) {
		for i := range s.Sales {
			if detail, yes := holds(&s.Sales[i]); yes {
				all = append(all, found{sale: string(s.Sales[i].ID), detail: detail})
			}
		}
		return all
	}
}

func ifError(of func(*Seen) error) func(*Seen) []found {
	return func(s *Seen) []found {
		if err := of(s); err != nil {
			return []found{{detail: err.Error()}}
		}
		return nil
	}
}

func each(of func(*Seen) []string) func(*Seen) []found {
	return func(s *Seen) (all []found) {
		for _, detail := range of(s) {
			all = append(all, found{detail: detail})
		}
		return all
	}
}

func ifLonger(of func(*Seen) Lateness) func(*Seen) []found {
	return func(s *Seen) []found {
		if late := of(s); late.By > late.Wrong {
			return []found{{detail: late.By.Round(time.Second).String()}}
		}
		return nil
	}
}

// either holds where one of two holds.
func either(one, other func(*Seen) []found) func(*Seen) []found {
	return func(s *Seen) []found { return append(one(s), other(s)...) }
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// crowd is from how many claims on a share of them says something.
const crowd = 20

// ownFault are answers that say nothing about the shop: the sale is as it should be.
var ownFault = []sluice.Code{
	sluice.SoldOut, sluice.Insufficient, sluice.BuyerLimit, sluice.Closed, sluice.Paused, sluice.NotOpen,
}

// everybodyRefused: of the claims of the last moments none was accepted, and most were refused for
// who or what sent them.
func everybodyRefused(s *Sale) (string, bool) {
	if s.lately == nil || s.OpenFor == 0 || s.stopped() {
		return "", false
	}
	all, fair, top := int64(0), s.lately.counts[sluice.Accepted.String()], ""
	for reason, n := range s.lately.counts {
		if all += n; n > s.lately.counts[top] || n == s.lately.counts[top] && reason < top {
			top = reason
		}
	}
	for _, code := range ownFault {
		fair += s.lately.counts[code.String()]
	}
	if all < crowd || s.lately.counts[sluice.Accepted.String()] > 0 || 2*fair > all {
		return "", false
	}
	return fmt.Sprintf("%s: %s of the last %s claims", top, figures.Thousands(s.lately.counts[top]),
		figures.Thousands(all)), true
}

// nobodyComes: a sale that can be bought has met no claim here.
func nobodyComes(s *Sale) (string, bool) {
	if s.lately == nil || s.OpenFor < time.Minute || s.Left == 0 || s.stopped() {
		return "", false
	}
	for _, n := range s.lately.counts {
		if n > 0 {
			return "", false
		}
	}
	return "", true
}

// lagGrows: what waits to be stored has not become less.
func lagGrows(s *Sale) (string, bool) {
	waits := s.lately != nil && s.lately.least > 0 && s.Backlog >= s.lately.least
	return figures.Thousands(s.Backlog), waits
}

// nearlyGone: one unit in twenty is left, or fewer.
func nearlyGone(s *Sale) (string, bool) {
	few := s.OpenFor > 0 && s.Total != sluice.Unlimited && s.Left > 0 && 20*s.Left <= s.Total
	return figures.Thousands(s.Left), few
}
