// Command articles runs the ways of selling that five articles on flash sales
// describe, and Sluice, side by side, and writes what it measured into files.
//
//	make articles                         the rushes: some six minutes; writes into docs/
//	go run -C lab ./articles --short --out DIR   the same with small crowds: a first look
//	make articles-faults                  each method with each fault: some twenty minutes; writes into docs/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/lab/internal/method"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "articles:", err)
		os.Exit(1)
	}
}

// options are what the flags say.
type options struct {
	seed    uint64
	rounds  int
	callers int
	short   bool
	out     string
	dir     string
	command string // by which the run can be repeated
	methods []method.Method
	crowds  []rush
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == childCommand {
		return runChild(ctx, args[1], os.Stdin, os.Stdout)
	}
	o := options{}
	broken := false
	only := ""
	flags := flag.NewFlagSet("articles", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "the order in which buyers come is made from this `number`")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each method sells")
	flags.IntVar(&o.callers, "callers", 500, "how many buyers wait for their answer at a time")
	flags.BoolVar(&broken, "faults", false, "break parts of each method, and have a referee judge it")
	flags.BoolVar(&o.short, "short", false, "small crowds, one round: a first look, not a result")
	flags.StringVar(&o.out, "out", "../docs", "the `folder` that the results are written into")
	flags.StringVar(&o.dir, "dir", "/var/tmp", "`folder` for temporary files; on the disk whose fsync is to be measured")
	flags.StringVar(&only, "only", "", "run only these `methods`, separated by commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.rounds < 1 || o.callers < 1:
		return errors.New("--rounds and --callers: want 1 or more")
	case broken && o.short:
		return errors.New("--short is for the rushes alone; --only makes a run with --faults shorter")
	}
	o.crowds = []rush{{100_000, 1000}, {50_000, 10}}
	if o.short {
		o.rounds, o.crowds = 1, []rush{{5_000, 100}, {2_500, 10}}
	}
	o.methods = method.Methods
	if only != "" {
		o.methods = nil
		for name := range strings.SplitSeq(only, ",") {
			m, err := method.Find(name)
			if err != nil {
				return fmt.Errorf("--only: %w", err)
			}
			o.methods = append(o.methods, m)
		}
	}
	switch o.command = strings.Join(append([]string{"go run -C lab ./articles"}, args...), " "); {
	case len(args) == 0:
		o.command = "make articles"
	case len(args) == 1 && broken:
		o.command = "make articles-faults"
	}
	if broken {
		return o.breakAll(ctx)
	}
	return o.rushes(ctx)
}

// rush is a crowd that comes at once.
type rush struct {
	Buyers int   `json:"buyers"`
	Units  int64 `json:"units"`
}

func (r rush) String() string {
	return fmt.Sprintf("%s buyers, %s units", figures.Whole(float64(r.Buyers)), figures.Whole(float64(r.Units)))
}

// prepare makes a folder, and the servers that all methods share. Where the results
// cannot be written is found now, not when all is measured.
func (o *options) prepare(ctx context.Context) (top string, s *stage, err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return "", nil, err
	}
	probe, err := os.CreateTemp(o.out, "writable-")
	if err != nil {
		return "", nil, err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return "", nil, err
	}
	if top, err = os.MkdirTemp(o.dir, "sluice-articles-"); err != nil {
		return "", nil, err
	}
	if err = os.Chmod(top, 0o755); err == nil { // for the user postgres
		s, err = newStage(ctx, top)
	}
	if err != nil {
		_ = os.RemoveAll(top)
	}
	return top, s, err
}

// rushes has every method sell to the same crowds, in turns, and writes the results.
func (o *options) rushes(ctx context.Context) error {
	top, s, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(top)
	defer s.close()
	rep := &report{
		Command: o.command,
		Seed:    o.seed, Rounds: o.rounds, Callers: o.callers, Short: o.short, Started: time.Now().UTC(), Rushes: o.crowds,
		Machine: machine.Describe(ctx, top), Versions: machine.DescribeVersions(ctx),
	}
	for _, crowd := range o.crowds {
		results := make([]result, len(o.methods))
		for round := range o.rounds {
			buyers := names(crowd.Buyers, o.seed+uint64(round))
			for i, m := range o.methods {
				fmt.Fprintf(os.Stderr, "%s: round %d of %d: %s\n", crowd, round+1, o.rounds, m.Title)
				f, err := s.measure(ctx, m, crowd, buyers, o.callers)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", m.Title, crowd, err)
				}
				results[i].add(f)
			}
		}
		for i, m := range o.methods {
			results[i].Method, results[i].Title, results[i].Own, results[i].Rush = m.Name, m.Title, m.Own, crowd
			results[i].settle()
		}
		rep.Results = append(rep.Results, results...)
	}
	for _, m := range o.methods {
		rep.Methods = append(rep.Methods, methodText{m.Title, m.Does})
	}
	rep.TookS = time.Since(rep.Started).Seconds()
	files, err := rep.write(o.out)
	for _, name := range slices.Sorted(slices.Values(files)) {
		fmt.Println("wrote", name)
	}
	return err
}
