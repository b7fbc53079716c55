package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/lab/internal/plot"
)

// figure is what one turn measured, by name.
type figure map[string]float64

func newFigure(claims int, took time.Duration, times []time.Duration, u use) figure {
	n := float64(claims)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / n }
	return figure{
		"claims_per_second": n / took.Seconds(),
		"p50_ms":            ms(times[len(times)/2]), "p99_ms": ms(times[len(times)*99/100]),
		"redis_commands": u.commands / n, "redis_reads": u.reads / n, "redis_bytes": u.bytes / n,
		"redis_cpu_us": us(u.redis), "database_cpu_us": us(u.database), "program_cpu_us": us(u.own),
		"all_cpu_us": us(u.redis + u.database + u.own),
	}
}

// result is what the turns of one method with one crowd came to.
type result struct {
	Method string    `json:"method"`
	Title  string    `json:"title"`
	Own    bool      `json:"sluice"`
	Rush   rush      `json:"rush"`
	Median figure    `json:"median"`
	Rates  []float64 `json:"claims_per_second_of_each_round"`

	turns []figure
}

func (r *result) add(f figure) { r.turns = append(r.turns, f) }

func (r *result) settle() {
	r.Median = figure{}
	for name := range r.turns[0] {
		var all []float64
		for _, f := range r.turns {
			all = append(all, f[name])
		}
		if name == "claims_per_second" {
			r.Rates = slices.Clone(all)
		}
		slices.Sort(all)
		r.Median[name] = all[(len(all)-1)/2]
	}
}

type methodText struct {
	Title string `json:"title"`
	Does  string `json:"does"`
}

// report is what a run writes.
type report struct {
	Machine  machine.Machine  `json:"machine"`
	Versions machine.Versions `json:"versions"`
	Command  string           `json:"command"`
	Seed     uint64           `json:"seed"`
	Rounds   int              `json:"rounds"`
	Callers  int              `json:"callers"`
	Short    bool             `json:"short,omitempty"`
	Started  time.Time        `json:"started"`
	TookS    float64          `json:"took_s"`
	Rushes   []rush           `json:"rushes"`
	Methods  []methodText     `json:"methods"`
	Results  []result         `json:"results"`
}

// write writes the report in all its forms, and returns the files' names.
func (r *report) write(dir string) ([]string, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"articles-results.md":         r.markdown(),
		"articles-results.json":       string(data) + "\n",
		"images/articles-rate.svg":    r.rates(),
		"images/articles-waiting.svg": r.waiting(),
		"images/articles-cpu.svg":     r.processors(),
	}
	return writeFiles(dir, files)
}

func writeFiles(dir string, files map[string]string) (written []string, err error) {
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return written, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return written, err
		}
		written = append(written, path)
	}
	return written, nil
}

// head says where figures come from.
func head(b *strings.Builder, m machine.Machine, v machine.Versions, started time.Time, command, how, ifBusy string) {
	fmt.Fprintf(b, "```\nmachine   %s, %d cores, %.0f GB memory, %s\n", m.CPU, m.Cores, m.MemoryGB, m.OS)
	fmt.Fprintf(b, "disk      %s, write and fsync of 4 KB: %.2f ms\n", m.Filesystem, m.FsyncMS)
	fmt.Fprintf(b, "versions  %s, Redis %s, PostgreSQL %s, commit %s\n", v.Go, v.Redis, v.Postgres, v.Commit)
	fmt.Fprintf(b, "run       %s, %s; %s\n", command, started.Format(time.RFC3339), how)
	fmt.Fprintf(b, "load      %.2f when it began", m.Load)
	if m.Load > float64(m.Cores)/2 {
		b.WriteString(": OTHER PROGRAMS WERE AT WORK" + ifBusy)
	}
	b.WriteString("\n```\n")
}

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# The articles' methods and Sluice: the rushes\n\nWritten by `make articles`. ")
	b.WriteString("[articles.md](articles.md) says what each method is and how to read this.\n\n")
	command := r.Command
	if r.Short {
		command += ": SMALL CROWDS, ONE ROUND, NOT A RESULT"
	}
	head(&b, r.Machine, r.Versions, r.Started, command, fmt.Sprintf(
		"seed %d, %d rounds in turns, medians; %d buyers wait at a time; %.0f s", r.Seed, r.Rounds, r.Callers, r.TookS),
		", so these figures are not a result")
	for _, image := range []string{"rate", "waiting", "cpu"} {
		fmt.Fprintf(&b, "\n![%s](images/articles-%s.svg)\n", titles[image], image)
	}
	for _, crowd := range r.Rushes {
		fmt.Fprintf(&b, "\n## %s\n\n", crowd)
		b.WriteString("| method | claims a second | lowest to highest | p50 ms | p99 ms | Redis commands | network reads " +
			"of Redis | bytes | processor time us: Redis | database | program | all | sold | sent away unserved | " +
			"last order stored after ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, res := range r.Results {
			if res.Rush != crowd {
				continue
			}
			f := res.Median
			title := res.Title
			if res.Own {
				title = "**" + title + "**"
			}
			cells := []string{
				title, figures.Whole(f["claims_per_second"]),
				figures.Whole(slices.Min(res.Rates)) + " to " + figures.Whole(slices.Max(res.Rates)),
			}
			for _, name := range []string{
				"p50_ms", "p99_ms", "redis_commands", "redis_reads", "redis_bytes", "redis_cpu_us", "database_cpu_us",
				"program_cpu_us", "all_cpu_us", "accepted", "busy", "drained_ms",
			} {
				cells = append(cells, figures.Short(f[name]))
			}
			b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	b.WriteString(`
Redis commands, network reads, bytes and processor time are per claim. Commands include those that scripts call.
"Program" is the method and its buyers, in one process. Buyers who were sent away unserved, since another had the lock,
count as answered, although units were left for them.

`)
	for _, m := range r.Methods {
		b.WriteString(wrap(fmt.Sprintf("- **%s**: %s.", m.Title, m.Does)))
	}
	return b.String()
}

// wrap breaks an item of a list into lines.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && column+1+len(word) > 116:
			b.WriteString("\n  ")
			column = 2
		case i > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

var titles = map[string]string{
	"rate":    "Claims answered in a second",
	"waiting": "How long the slowest hundredth of buyers waits, in milliseconds",
	"cpu":     "Processor time of everything for one claim, in microseconds",
}

func (r *report) rates() string {
	return r.bars("rate", "claims_per_second", ". Of the locks, most answers are: try again")
}
func (r *report) waiting() string { return r.bars("waiting", "p99_ms", "") }

// bars is a picture with a bar per method and crowd.
func (r *report) bars(image, name, note string) string {
	c := plot.Bars{Title: titles[image], Below: r.below() + note}
	for _, crowd := range r.Rushes {
		c.Series = append(c.Series, crowd.String())
	}
	for _, res := range r.Results {
		i := slices.IndexFunc(c.Rows, func(row plot.Row) bool { return row.Label == res.Title })
		if i < 0 {
			i = len(c.Rows)
			c.Rows = append(c.Rows, plot.Row{Label: res.Title, Own: res.Own})
		}
		c.Rows[i].Bars = append(c.Rows[i].Bars, []float64{res.Median[name]})
	}
	return c.SVG()
}

// processors is a picture of what a claim of the first crowd costs, and whom.
func (r *report) processors() string {
	c := plot.Bars{
		Title: titles["cpu"] + " (" + r.Rushes[0].String() + ")", Below: r.below(),
		Series: []string{"Redis", "database", "program"}, Stacked: true,
	}
	for _, res := range r.Results {
		if res.Rush == r.Rushes[0] {
			f := res.Median
			c.Rows = append(c.Rows, plot.Row{
				Label: res.Title, Own: res.Own,
				Bars: [][]float64{{f["redis_cpu_us"], f["database_cpu_us"], f["program_cpu_us"]}},
			})
		}
	}
	return c.SVG()
}

func (r *report) below() string {
	return fmt.Sprintf("%s, %d cores, clients and servers on it; seed %d; %s", r.Machine.CPU, r.Machine.Cores, r.Seed,
		r.Started.Format(time.DateOnly))
}
