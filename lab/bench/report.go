package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/lab/internal/table"
)

// report is what a run prints.
type report struct {
	Machine   machine.Machine  `json:"machine"`
	Versions  machine.Versions `json:"versions"`
	Seed      uint64           `json:"seed"`
	Rounds    int              `json:"rounds"`
	WarmS     float64          `json:"warm_s"`
	MeasuredS float64          `json:"measured_s"` // of each round
	Started   time.Time        `json:"started"`
	TookS     float64          `json:"took_s"`
	Sides     []result         `json:"sides"`
	Goals     []verdict        `json:"goals"`
	OK        bool             `json:"ok"` // every goal that was measured is met
}

// result is what the rounds of one side came to, in units a second.
type result struct {
	Name   string             `json:"name"`
	Does   string             `json:"does"`
	Own    bool               `json:"sluice"`
	Median float64            `json:"median"`
	Min    float64            `json:"min"`
	Max    float64            `json:"max"`
	Rounds []float64          `json:"rounds"`
	Also   map[string]float64 `json:"also,omitempty"` // medians

	also map[string][]float64
}

func (r *result) add(f figure) {
	r.Rounds = append(r.Rounds, f.perSecond)
	if r.also == nil {
		r.also = map[string][]float64{}
	}
	for name, value := range f.also {
		r.also[name] = append(r.also[name], value)
	}
}

func (r *result) settle() {
	r.Median, r.Min, r.Max = median(r.Rounds), slices.Min(r.Rounds), slices.Max(r.Rounds)
	for name, values := range r.also {
		if r.Also == nil {
			r.Also = map[string]float64{}
		}
		r.Also[name] = median(values)
	}
}

func (r *report) side(name string) *result {
	for i := range r.Sides {
		if r.Sides[i].Name == name {
			return &r.Sides[i]
		}
	}
	return nil
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// write prints the report for people.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	m, v := &r.Machine, &r.Versions
	fmt.Fprintf(&b, "machine   %s, %d cores, %.0f GB memory, %s\n", m.CPU, m.Cores, m.MemoryGB, m.OS)
	fmt.Fprintf(&b, "disk      %s, write and fsync of 4 KB: %.2f ms\n", unknown(m.Filesystem), m.FsyncMS)
	fmt.Fprintf(&b, "versions  %s, Redis %s, PostgreSQL %s, wrk %s, commit %s\n",
		v.Go, unknown(v.Redis), unknown(v.Postgres), unknown(v.Wrk), unknown(v.Commit))
	fmt.Fprintf(&b, "run       %s, seed %d, %d rounds in turns, each mostly %.1f s of warm-up and %.1f s measured; "+
		"load before: %.2f\n",
		r.Started.Format(time.RFC3339), r.Seed, r.Rounds, r.WarmS, r.MeasuredS, m.Load)
	if m.Filesystem == "tmpfs" {
		fmt.Fprintf(&b, "WARNING   the files were kept in memory, where an fsync costs nothing; give a folder on a disk "+
			"with --dir\n")
	}

	rows := [][]string{{"side", ">median /s", ">min", ">max", "also"}}
	for i := range r.Sides {
		s := &r.Sides[i]
		rows = append(rows, []string{s.Name, rate(s.Median), rate(s.Min), rate(s.Max), alsoText(s.Also)})
	}
	b.WriteByte('\n')
	table.Write(&b, rows)

	b.WriteByte('\n')
	for i := range r.Sides {
		fmt.Fprintf(&b, "%s: %s.\n", r.Sides[i].Name, r.Sides[i].Does)
	}
	b.WriteByte('\n')

	rows = [][]string{{"goal", ">figure", ">min", ">max", ">wanted", ""}}
	missed := 0
	for _, g := range r.Goals {
		state := "met"
		if !g.Met {
			state = "MISSED"
			missed++
		}
		sign := ">= "
		if g.AtMost {
			sign = "<= "
		}
		rows = append(rows, []string{g.Name, g.text(g.Ratio), g.text(g.Min), g.text(g.Max), sign + g.text(g.Goal), state})
	}
	table.Write(&b, rows)
	fmt.Fprintf(&b, "\n%d of %d goals met.", len(r.Goals)-missed, len(r.Goals))
	fmt.Fprintf(&b, " Every count of every round was right. %.0f s.\n", r.TookS)
	_, err := io.WriteString(w, b.String())
	return err
}

// rate is empty of a side that has none.
func rate(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return figures.Whole(perSecond)
}

func unknown(text string) string { return cmp.Or(text, "unknown") }

// text writes a ratio with its sign.
func (v *verdict) text(n float64) string {
	if v.Against == "" {
		return figures.Short(n)
	}
	return strconv.FormatFloat(n, 'f', 2, 64) + "x"
}

func alsoText(also map[string]float64) string {
	var parts []string
	for name := range also {
		parts = append(parts, fmt.Sprintf("%s %.4g", strings.ReplaceAll(name, "_", " "), also[name]))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
