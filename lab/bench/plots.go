package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/lab/internal/plot"
)

// The marks in benchmarks.md between which a run is written.
const runBegins, runEnds = "<!-- run -->\n", "<!-- end of run -->\n"

// document writes the run into benchmarks.md of a folder, and its plots beside it.
func (r *report) document(dir string) error {
	path := filepath.Join(dir, "benchmarks.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(runBegins))
	_, after, ended := bytes.Cut(rest, []byte(runEnds))
	if !found || !ended {
		return errors.New(path + " lacks the marks between which a run is written")
	}
	var run bytes.Buffer
	run.Write(before)
	run.WriteString(runBegins + "\n```\n")
	if err := r.write(&run, false); err != nil {
		return err
	}
	run.WriteString("```\n")
	for _, p := range r.plots() {
		name := "images/bench-" + p.file + ".svg"
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(p.svg), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&run, "\n![%s](%s)\n", p.title, name)
	}
	run.WriteString("\n" + runEnds)
	run.Write(after)
	return os.WriteFile(path, run.Bytes(), 0o644)
}

type picture struct{ file, title, svg string }

// plots draws what was measured.
func (r *report) plots() (all []picture) {
	below := fmt.Sprintf("%s, %d cores, clients and servers on it; seed %d; %s", r.Machine.CPU, r.Machine.Cores, r.Seed,
		r.Started.Format(time.DateOnly))
	rates := plot.Bars{
		Title: "Claims decided in a second, beside one script call for each", Below: below,
		Series: []string{"every claim new", fmt.Sprintf("%d%% repeats", someRepeats)},
	}
	costs := plot.Bars{
		Title: "Processor time of a claim, in microseconds", Below: below, Series: []string{"Redis", "client"}, Stacked: true,
	}
	for _, fsync := range []string{"no", "always"} {
		for _, row := range []struct {
			label string
			own   bool
			name  func(string, int) string
		}{
			{"S2 per request", false, eachName},
			{"S2 pipelined", false, pipelinedName},
			{"Sluice on Redis", true, batchedName},
		} {
			fresh, again := r.side(row.name(fsync, 0)), r.side(row.name(fsync, someRepeats))
			if fresh == nil || again == nil {
				continue
			}
			if fsync != "no" {
				row.label += ", fsync"
			}
			rates.Rows = append(rates.Rows, plot.Row{
				Label: row.label, Own: row.own, Bars: [][]float64{{fresh.Median}, {again.Median}},
			})
			costs.Rows = append(costs.Rows, plot.Row{
				Label: row.label, Own: row.own, Bars: [][]float64{{fresh.Also["redis_cpu_us"], fresh.Also["client_cpu_us"]}},
			})
		}
	}
	if len(rates.Rows) > 0 {
		all = append(all, picture{"rate", rates.Title, rates.SVG()}, picture{"cpu", costs.Title, costs.SVG()})
	}

	latency := plot.Lines{
		Title: "How long the slowest hundredth of accepted claims takes", Below: below, X: "claims a second", Y: "ms",
		LogX: true, LogY: true,
	}
	if bare := r.side(bareLatencyName); bare != nil {
		latency.Lines = append(latency.Lines, plot.Line{Name: "bare handler", Points: bare.Series["p99"]})
		for _, b := range backends {
			latency.Lines = append(latency.Lines, plot.Line{
				Name: b.name, Own: true, Points: r.side(latencyName(b.name)).Series["p99"],
			})
		}
		all = append(all, picture{"latency", latency.Title, latency.SVG()})
	}

	if opening := r.side(openingName); opening != nil {
		answers := plot.Lines{
			Title: "Answers after a sale opened", Below: below, X: "ms after the opening", Y: "a second",
		}
		for _, name := range []string{"accepted", "sold out", "other"} {
			if name != "other" || opening.Also["other_answers"] > 0 {
				answers.Lines = append(answers.Lines, plot.Line{Name: name, Own: name == "accepted", Points: opening.Series[name]})
			}
		}
		waits := plot.Lines{
			Title: "How long they took, by the moment at which they were due", Below: below, X: "ms after the opening", Y: "ms",
			Lines: []plot.Line{
				{Name: "half", Own: true, Points: opening.Series["p50"]},
				{Name: "all but a hundredth", Own: true, Points: opening.Series["p99"]},
			},
		}
		all = append(all, picture{"opening", answers.Title, answers.SVG()}, picture{"waiting", waits.Title, waits.SVG()})
	}
	return all
}
