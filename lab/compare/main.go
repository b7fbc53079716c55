// Command compare runs the benchmarks of two versions in turns, A B B A A B, each with one round of
// a group at a time, and says which figures differ by more than chance.
//
// Both halves of a pair are measured within minutes, so a pair is one ratio B/A. The
// interval of the ratios' median comes from the sign test: of n pairs, the median lies
// between the k-th smallest and the k-th largest ratio with a probability that is known
// exactly, whatever the ratios' distribution is. It is 99% or more, since many figures
// are compared: of a hundred that do not differ, one is expected to seem so.
//
//	go run -C lab ./compare [--pairs N] [--only GROUPS] A B
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/lab/internal/table"
)

const (
	certainty   = 0.99
	fewestPairs = 8 // that can be so certain
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := compare(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// compare says on progress what it does, and writes the comparison to stdout.
func compare(ctx context.Context, args []string, stdout, progress io.Writer) error {
	pairs, only := 0, ""
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.IntVar(&pairs, "pairs", 10, "how often each group is measured, of each version")
	flags.StringVar(&only, "only", "redis,http", "the `groups` to compare, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 || pairs < fewestPairs {
		return fmt.Errorf("usage: compare [--pairs N] [--only GROUPS] A B; A and B are commits or programs "+
			"that go build ./bench made, and N is %d or more", fewestPairs)
	}
	top, err := os.MkdirTemp("", "sluice-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	var programs [2]program
	for i, version := range flags.Args() {
		fmt.Fprintf(progress, "building %s\n", version)
		if programs[i], err = programOf(ctx, version, filepath.Join(top, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	all := map[figureName]*[2][]float64{}
	var notes []string
	for group := range strings.SplitSeq(only, ",") {
	measuring:
		for n := range pairs {
			for turn := range 2 {
				i := (turn + n) % 2 // a trend harms both
				fmt.Fprintf(progress, "%s: pair %d of %d, %s\n", group, n+1, pairs, "AB"[i:i+1])
				rep, err := programs[i].measure(ctx, "--only", group, "--seed", strconv.Itoa(n+1))
				if err != nil {
					if n > 0 {
						return fmt.Errorf("%s: %s: %w", "AB"[i:i+1], group, err)
					}
					notes = append(notes, fmt.Sprintf("%s cannot run %s: %v", "AB"[i:i+1], group, err))
					break measuring
				}
				rep.collect(all, i, n)
			}
		}
	}
	_, err = io.WriteString(stdout, comparison(all, notes))
	return err
}

// program is a benchmark, and the folder that it runs in: of the commit that it is of,
// since it builds Sluice from the module that it finds there.
type program struct{ path, dir string }

// buildBench unpacks a commit and builds its benchmark, which stood at the module's
// root before it was a module's own.
const buildBench = `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2" && cd "$2" &&
	{ [ ! -d lab/bench ] || cd lab; } && go build -buildvcs=false -o "$2/program" ./bench && pwd`

// programOf builds the benchmark of a commit, or takes a program as it is.
func programOf(ctx context.Context, version, dir string) (program, error) {
	if info, err := os.Stat(version); err == nil && !info.IsDir() {
		path, err := filepath.Abs(version)
		return program{path: path}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return program{}, err
	}
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", buildBench, "build", version, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	folder, err := cmd.Output()
	if err != nil {
		return program{}, fmt.Errorf("build %s: %w\n%s", version, err, &stderr)
	}
	return program{filepath.Join(dir, "program"), strings.TrimSpace(string(folder))}, nil
}

// report is what is compared of a benchmark's JSON.
type report struct{ Sides []side }

// side is a way of doing the work, and its figures.
type side struct {
	Name   string
	Median float64 // units a second; 0: it has no rate
	Also   map[string]float64
}

// measure runs one round of some groups.
func (p program) measure(ctx context.Context, args ...string) (*report, error) {
	cmd := exec.CommandContext(ctx, p.path, append([]string{"--json", "--rounds", "1"}, args...)...)
	cmd.Dir = p.dir
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var rep report
	return &rep, json.Unmarshal(out.Bytes(), &rep)
}

type figureName struct{ side, of string }

// collect adds the report's figures to those of A or B, as those of the n-th pair.
func (r *report) collect(all map[figureName]*[2][]float64, i, n int) {
	add := func(of string, side *side, value float64) {
		name := figureName{side.Name, of}
		if all[name] == nil {
			all[name] = &[2][]float64{}
		}
		missing := make([]float64, max(n-len(all[name][i]), 0))
		all[name][i] = append(append(all[name][i], missing...), value)
	}
	for s := range r.Sides {
		side := &r.Sides[s]
		if side.Median > 0 {
			add("per_s", side, side.Median)
		}
		for of, value := range side.Also {
			add(of, side, value)
		}
	}
}

// comparison writes all figures that A and B both have, and names the others.
func comparison(all map[figureName]*[2][]float64, notes []string) string {
	names := make([]figureName, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b figureName) int {
		return cmp.Or(cmp.Compare(a.side, b.side), cmp.Compare(a.of, b.of))
	})
	rows := [][]string{{"side", "figure", ">A", ">B", ">B/A", ">from", ">to", ""}}
	for _, name := range names {
		a, b := all[name][0], all[name][1]
		if len(a) == 0 || len(b) == 0 {
			notes = append(notes, fmt.Sprintf("only %s has %s, %s", map[bool]string{true: "A", false: "B"}[len(a) > 0],
				name.side, name.of))
			continue
		}
		var ratios, ofA, ofB []float64
		for i := range min(len(a), len(b)) {
			if a[i] > 0 && b[i] > 0 {
				ratios, ofA, ofB = append(ratios, b[i]/a[i]), append(ofA, a[i]), append(ofB, b[i])
			}
		}
		middle, from, to, err := interval(ratios)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s, %s: %v", name.side, name.of, err))
			continue
		}
		ratio := func(n float64) string { return strconv.FormatFloat(n, 'f', 3, 64) }
		rows = append(rows, []string{
			name.side, strings.ReplaceAll(name.of, "_", " "), figures.Short(median(ofA)), figures.Short(median(ofB)),
			ratio(middle), ratio(from), ratio(to), judgement(name.of, from, to),
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "B/A is the median of the pairs' ratios; from and to bound it with %.0f%% certainty.\n\n",
		100*certainty)
	table.Write(&b, rows)
	for _, note := range notes {
		fmt.Fprintf(&b, "\n%s", note)
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// judgement is what an interval says of B.
func judgement(of string, from, to float64) string {
	higher := from > 1
	switch {
	case from <= 1 && to >= 1:
		return "no difference"
	case of == "per_s" || of == "answered_per_s":
		return map[bool]string{true: "faster", false: "slower"}[higher]
	case strings.HasSuffix(of, "_us") || strings.HasSuffix(of, "ms") || strings.HasPrefix(of, "p99_ms"),
		strings.HasPrefix(of, "cpu_us"):
		return map[bool]string{true: "slower", false: "faster"}[higher]
	}
	return map[bool]string{true: "more", false: "less"}[higher]
}

// interval returns the ratios' median, and its interval by the sign test.
func interval(ratios []float64) (middle, from, to float64, err error) {
	n := len(ratios)
	if n < fewestPairs {
		return 0, 0, 0, errors.New("too few pairs with figures above 0: " + strconv.Itoa(n))
	}
	// The median is outside of the k-th smallest and k-th largest when fewer than k of n
	// fall on one side of it, as coins do.
	outside, k := 2*math.Pow(0.5, float64(n)), 1
	for term := outside; ; k++ {
		term *= float64(n-k+1) / float64(k)
		if outside+term > 1-certainty {
			break
		}
		outside += term
	}
	sorted := slices.Sorted(slices.Values(ratios))
	return median(ratios), sorted[k-1], sorted[n-k], nil
}

// median of a list that is not empty.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
