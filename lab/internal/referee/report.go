package referee

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Report is the verdicts on one shop, one for each round.
type Report struct {
	Name   string  `json:"name"`
	About  string  `json:"about,omitempty"`
	Rounds []Round `json:"rounds"`
}

// Round has a verdict, or the reason why there is none.
type Round struct {
	Seed      uint64   `json:"seed"`
	Verdict   *Verdict `json:"verdict"`
	NotJudged string   `json:"not_judged,omitempty"`
}

// Words for a whole report.
const (
	Clean     = "clean"
	Broken    = "broken"
	NotJudged = "not judged"
)

// Outcome is the worst of the rounds: what is proved weighs more than what could
// not be judged.
func (r *Report) Outcome() string {
	outcome := Clean
	for _, round := range r.Rounds {
		switch {
		case round.Verdict == nil && outcome == Clean:
			outcome = NotJudged
		case round.Verdict != nil && !round.Verdict.Clean():
			outcome = Broken
		}
	}
	if len(r.Rounds) == 0 {
		return NotJudged
	}
	return outcome
}

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Markdown is the report for people.
func (r *Report) Markdown() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s\n\n", r.Name, r.Outcome())
	if r.About != "" {
		fmt.Fprintf(&b, "%s\n\n", r.About)
	}
	head := []string{"seed", "buyers", "units", "promised", "sold out", "refused", "undecided", "orders"}
	for _, f := range new(Verdict).Findings() {
		head = append(head, f.Name)
	}
	head = append(head, "faults")
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, round := range r.Rounds {
		v := round.Verdict
		if v == nil {
			fmt.Fprintf(&b, "| %d |%s\n", round.Seed, strings.Repeat(" ? |", len(head)-1))
			continue
		}
		fmt.Fprintf(&b, "| %d |", v.Seed)
		for _, n := range []int{v.Buyers, v.Units, v.Promised, v.SoldOut, v.Refused, v.Undecided, v.Orders} {
			fmt.Fprintf(&b, " %d |", n)
		}
		for _, f := range v.Findings() {
			fmt.Fprintf(&b, " %s |", strong(f.Count))
		}
		fmt.Fprintf(&b, " %d |\n", len(v.Faults))
	}
	for _, round := range r.Rounds {
		round.details(&b)
	}
	return []byte(b.String())
}

func strong(n int) string {
	if n > 0 {
		return fmt.Sprintf("**%d**", n)
	}
	return "0"
}

// details is what the table has no room for.
func (round *Round) details(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Seed %d\n\n", round.Seed)
	v := round.Verdict
	if v == nil {
		fmt.Fprintf(b, "Not judged: %s\n", round.NotJudged)
		return
	}
	fmt.Fprintf(b, "The rush took %.1f s, and the shop settled within %.1f s.\n", v.Rush, v.Settled)
	for _, f := range v.Findings() {
		if f.Count > 0 {
			fmt.Fprintf(b, "\n%d x %s:\n\n", f.Count, f.Name)
			list(b, f.Evidence, f.Count)
		}
	}
	if len(v.Faults) > 0 {
		b.WriteString("\nBroken meanwhile:\n\n")
		for _, h := range v.Faults {
			fmt.Fprintf(b, "- %s after %d promises, mended after %.2f s\n", h.Fault, h.After, h.Down)
		}
	}
	b.WriteString("\nAnswers:\n\n")
	for _, said := range mostFirst(v.Answers) {
		fmt.Fprintf(b, "- %d x %s\n", v.Answers[said], said)
	}
	for _, note := range v.Notes {
		fmt.Fprintf(b, "\nNote: %s\n", note)
	}
}

func list(b *strings.Builder, lines []string, of int) {
	for _, line := range lines {
		fmt.Fprintf(b, "- %s\n", line)
	}
	if of > len(lines) {
		fmt.Fprintf(b, "- and %d more\n", of-len(lines))
	}
}
