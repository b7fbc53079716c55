package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/lab/internal/method"
	"github.com/sluicehq/sluice/lab/internal/plot"
	"github.com/sluicehq/sluice/lab/internal/referee"
)

// tried is what the referee found in one method with one fault.
type tried struct {
	Method string           `json:"method"`
	Title  string           `json:"title"`
	Own    bool             `json:"sluice"`
	Fault  string           `json:"fault"`
	Found  *referee.Verdict `json:"verdict,omitempty"`
	Error  string           `json:"error,omitempty"` // why it could not be judged
}

// faultReport is what a run of the faults writes.
type faultReport struct {
	Machine  machine.Machine  `json:"machine"`
	Versions machine.Versions `json:"versions"`
	Command  string           `json:"command"`
	Seed     uint64           `json:"seed"`
	Started  time.Time        `json:"started"`
	TookS    float64          `json:"took_s"`
	Buyers   int              `json:"buyers"`
	Units    int              `json:"units"`
	Trials   []tried          `json:"trials"`
}

// breakAll tries every method with every fault that it can have.
func (o *options) breakAll(ctx context.Context) error {
	top, s, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	defer s.close()
	rep := &faultReport{
		Machine: machine.Describe(ctx, top), Versions: machine.DescribeVersions(ctx), Command: o.command,
		Seed: o.seed, Started: time.Now().UTC(), Buyers: 5000, Units: 200,
	}
	for _, m := range o.methods {
		for _, f := range faults {
			if !f.fits(m) || m.Fsync {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s: %s: ", m.Title, f.Name)
			t := s.try(ctx, m, f, referee.Trial{
				Buyers: rep.Buyers, Units: rep.Units, Seed: o.seed, Settle: 10 * time.Second, RetryFor: time.Minute,
			})
			fmt.Fprintln(os.Stderr, t.text())
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rep.Trials = append(rep.Trials, t)
		}
	}
	rep.TookS = time.Since(rep.Started).Seconds()
	data, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	files, err := writeFiles(o.out, map[string]string{
		"articles-faults.md": rep.markdown(), "articles-faults.json": string(data) + "\n",
		"images/articles-faults.svg": rep.picture(),
	})
	for _, name := range slices.Sorted(slices.Values(files)) {
		fmt.Println("wrote", filepath.ToSlash(name))
	}
	if err == nil && slices.ContainsFunc(rep.Trials, func(t tried) bool { return t.Own && t.text() != "nothing" }) {
		err = errors.New("one of Sluice's methods did something wrong: see the results")
	}
	return err
}

// try has the referee judge a method with a fault.
func (s *stage) try(ctx context.Context, m method.Method, f fault, trial referee.Trial) tried {
	sys := &shop{stage: s, m: m, fsync: f.fsync}
	trial.Name, trial.Lost, trial.Down = m.Title, f.lost, time.Second
	trial.Faults = f.make(sys)
	t := tried{Method: m.Name, Title: m.Title, Own: m.Own, Fault: f.Name}
	v, err := referee.Judge(ctx, sys, trial)
	if t.Found = v; err != nil {
		t.Error = err.Error()
	}
	return t
}

// harms are what the articles' methods are compared by.
var harms = []string{"oversold", "undersold", "promises lost", "buyers served twice"}

func (t *tried) counts() (all []int) {
	for range harms {
		all = append(all, 0)
	}
	if t.Found != nil {
		all = []int{t.Found.Oversold.Count, t.Found.Undersold.Count, t.Found.Lost.Count, t.Found.Twice.Count}
	}
	return all
}

// text is what was found, in words.
func (t *tried) text() string {
	if t.Error != "" {
		return "not judged: " + t.Error
	}
	var all []string
	for i, n := range t.counts() {
		if n > 0 {
			all = append(all, fmt.Sprintf("%s %d", harms[i], n))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func (r *faultReport) markdown() string {
	var b strings.Builder
	b.WriteString("# The articles' methods and Sluice: broken on purpose\n\nWritten by `make articles-faults`. " +
		"[articles.md](articles.md) says what each method is.\n\n")
	head(&b, r.Machine, r.Versions, r.Started, r.Command, fmt.Sprintf(
		"seed %d, %d buyers for %d units; %.0f s", r.Seed, r.Buyers, r.Units, r.TookS), "")
	b.WriteString("\n![" + faultTitle + "](images/articles-faults.svg)\n\n| fault |")
	var titles []string
	for _, t := range r.Trials {
		if !slices.Contains(titles, t.Title) {
			titles = append(titles, t.Title)
		}
	}
	for _, title := range titles {
		b.WriteString(" " + title + " |")
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(titles)) + "|\n")
	for _, f := range faults {
		b.WriteString("| " + f.Name + " |")
		for _, title := range titles {
			cell := "-"
			for _, t := range r.Trials {
				if t.Title == title && t.Fault == f.Name {
					cell = strings.ReplaceAll(t.text(), "|", "/")
				}
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString(`
"Nothing" means that nothing wrong was found; "-" that the method has no such part. Each cell is one crowd of buyers who
repeat a request that was not answered. The part breaks once, at a moment of the seed, for up to a second.

- **oversold**: orders beyond the units. **Undersold**: units left, while buyers are told that all are sold.
- **Promises lost**: buyers who were told "accepted" and have no order. **Buyers served twice** have two.
- **Power cut** is the worst that a setting of appendfsync allows: with "no" all that was written since the sale began
  is gone, with "everysec" the last second, with "always" nothing.
- **Failover**: the replica has not seen the last 0.2 s. Servers and worker live on.
- A buyer whom a lock sends away tries again, for up to a minute.
`)
	return b.String()
}

const faultTitle = "What went wrong over all faults, in buyers and units: 0 is best"

// picture has a bar for each method: all that went wrong.
func (r *faultReport) picture() string {
	c := plot.Bars{
		Title: faultTitle, Series: harms, Stacked: true,
		Below: fmt.Sprintf("seed %d; %d buyers for %d units, for each fault; %s", r.Seed, r.Buyers, r.Units,
			r.Started.Format(time.DateOnly)),
	}
	for _, t := range r.Trials {
		i := slices.IndexFunc(c.Rows, func(row plot.Row) bool { return row.Label == t.Title })
		if i < 0 {
			i = len(c.Rows)
			c.Rows = append(c.Rows, plot.Row{Label: t.Title, Own: t.Own, Bars: [][]float64{make([]float64, len(harms))}})
		}
		for j, n := range t.counts() {
			c.Rows[i].Bars[0][j] += float64(n)
		}
	}
	return c.SVG()
}
