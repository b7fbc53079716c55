// Command referee tries a shop, Sluice or any other, with a crowd of buyers and
// with faults, and says what the shop did wrong. A file says how the shop is
// started and asked; docs/referee.md explains it.
//
//	go run -C lab ./referee examples/faulty/referee.json
//
// Exit codes: 0 the shop is clean, 1 it is broken, 2 it could not be judged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sluicehq/sluice/lab/internal/referee"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const (
	clean     = 0
	broken    = 1
	notJudged = 2
)

// options are what the flags say.
type options struct {
	seed          uint64
	rounds        int
	buyers, units int
	set           map[string]string
	noFaults      bool
	check, json   bool
	out, dir      string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{set: map[string]string{}}
	flags := flag.NewFlagSet("referee", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: go run -C lab ./referee [flags] ADAPTER.json")
		flags.PrintDefaults()
	}
	flags.Uint64Var(&o.seed, "seed", 1, "of the first round; each further round has the next one")
	flags.IntVar(&o.rounds, "rounds", 1, "how often the shop is tried")
	flags.IntVar(&o.buyers, "buyers", 0, "instead of the adapter's")
	flags.IntVar(&o.units, "units", 0, "instead of the adapter's")
	setOne := func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want NAME=VALUE")
		}
		o.set[name] = value
		return nil
	}
	flags.Func("set", "`NAME=VALUE` instead of the value in the adapter's \"set\"; may be repeated", setOne)
	flags.BoolVar(&o.noFaults, "no-faults", false, "break nothing")
	flags.BoolVar(&o.check, "check", false, "only read the adapter and say what is wrong with it")
	flags.BoolVar(&o.json, "json", false, "print JSON instead of Markdown")
	flags.StringVar(&o.out, "out", "", "also write referee.md and referee.json into this `folder`")
	flags.StringVar(&o.dir, "dir", "", "`folder` for the shop's files and logs, which are kept; otherwise a temporary one")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return clean
	} else if err != nil {
		return notJudged
	}
	var err error
	var report *referee.Report
	switch {
	case flags.NArg() != 1:
		flags.Usage()
		return notJudged
	case o.rounds < 1 || o.buyers < 0 || o.units < 0:
		err = errors.New("-rounds, -buyers and -units: want 1 or more")
	default:
		report, err = try(ctx, flags.Arg(0), o, stderr)
	}
	if err == nil && report != nil {
		err = write(report, o, stdout)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "referee:", err)
		return notJudged
	case report == nil: // only checked
		return clean
	}
	return map[string]int{referee.Clean: clean, referee.Broken: broken, referee.NotJudged: notJudged}[report.Outcome()]
}

// try judges the shop of an adapter, round by round.
func try(ctx context.Context, file string, o options, stderr io.Writer) (*referee.Report, error) {
	adapter, err := referee.ReadAdapter(file, o.set)
	if err != nil || o.check {
		return nil, err
	}
	if o.buyers > 0 {
		adapter.Crowd.Buyers = o.buyers
	}
	if o.units > 0 {
		adapter.Crowd.Units = o.units
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "referee-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	if o.out != "" { // found now, not when all is done
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return nil, err
		}
	}
	progress := newProgress(stderr)
	defer progress.end()
	progress.show("build", 0, 0)
	made := filepath.Join(dir, "build")
	if err := os.MkdirAll(made, 0o700); err != nil {
		return nil, err
	}
	if err := adapter.Make(ctx, made); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	report := &referee.Report{Name: adapter.Name, About: adapter.About}
	for i := range o.rounds {
		round := referee.Round{Seed: o.seed + uint64(i)}
		progress.round = fmt.Sprintf("round %d of %d", i+1, o.rounds)
		round.Verdict, err = tryOnce(ctx, adapter, dir, round.Seed, o, progress)
		if err != nil {
			round.NotJudged = err.Error()
		}
		report.Rounds = append(report.Rounds, round)
		if ctx.Err() != nil {
			break
		}
	}
	return report, nil
}

func tryOnce(
	ctx context.Context, a *referee.Adapter, dir string, seed uint64, o options, p *progress,
) (*referee.Verdict, error) {
	dir, err := os.MkdirTemp(dir, fmt.Sprintf("seed-%d-", seed))
	if err != nil {
		return nil, err
	}
	shop, err := a.Shop(dir, seed)
	if err != nil {
		return nil, err
	}
	trial := a.Trial(seed)
	trial.Progress = p.show
	if !o.noFaults {
		trial.Faults = shop.Faults()
	}
	return referee.Judge(ctx, shop, trial)
}

// write prints the report, and writes it into files.
func write(r *referee.Report, o options, stdout io.Writer) error {
	data, err := r.JSON()
	if err != nil {
		return err
	}
	text := r.Markdown()
	shown := text
	if o.json {
		shown = data
	}
	if _, err := stdout.Write(shown); err != nil || o.out == "" {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(o.out, "referee.md"), text, 0o644),
		os.WriteFile(filepath.Join(o.out, "referee.json"), data, 0o644))
}

// progress is a line that changes, if it is shown on a terminal.
type progress struct {
	screen io.Writer // nil: none
	round  string
}

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{screen: w}
		}
	}
	return &progress{}
}

func (p *progress) show(stage string, done, of int) {
	if p.screen == nil {
		return
	}
	fmt.Fprintf(p.screen, "\r\x1b[K%s: %s", p.round, stage)
	if of > 0 {
		fmt.Fprintf(p.screen, " %d of %d", done, of)
	}
}

func (p *progress) end() {
	if p.screen != nil {
		fmt.Fprint(p.screen, "\r\x1b[K")
	}
}
