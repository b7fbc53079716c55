// Command bench measures Sluice beside plain ways of doing the same work: in
// one run, on one machine, in turns. docs/benchmarks.md explains
// what it prints.
//
//	make bench                          everything, an hour
//	go run -C lab ./bench --quick       the same with short rounds: a first look
//	go run -C lab ./bench --only http   one group of those that --help lists
//	make bench-compare A=... B=...      two commits, in turns (lab/compare)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 also when a goal is missed (the table says so),
// 1 for a wrong flag, 2 when a run failed, for instance
// because its counts were not right.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case serveCommand:
			return exitCode(stderr, serve(ctx, args[1:], os.Stdin, stdout))
		case rushCommand:
			return exitCode(stderr, runRushers(ctx, args[1:], stdout))
		}
	}
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	report, err := measure(ctx, o, newProgress(stderr))
	if err != nil {
		return exitCode(stderr, err)
	}
	if o.json {
		return exitCode(stderr, report.writeJSON(stdout))
	}
	return exitCode(stderr, report.write(stdout))
}

func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "bench:", err)
	return 2
}

// options are what the flags say.
type options struct {
	json   bool
	only   []string      // groups to run
	rounds int           // of each side
	warm   time.Duration // before each measured part
	long   time.Duration // the measured part of a round
	pool   int           // requests that are prepared for wrk
	seed   uint64
	dir    string // where ledgers and servers keep their files

	durable time.Duration // the measured part of orders that are stored
	buyers  int           // that a large sale has
	idle    time.Duration // the measured part of a server at rest
	aged    bool          // PostgreSQL has been in use
}

const rounds = 5 // unless told otherwise

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{
		rounds: rounds, warm: time.Second, long: 2 * time.Second, pool: 1_000_000, dir: defaultDir(),
		durable: 20 * time.Second, buyers: 10_000_000, idle: time.Minute,
		aged: true,
	}
	quick := false
	only := ""
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.BoolVar(&quick, "quick", false, "3 short rounds: a first look, not a result")
	flags.StringVar(&only, "only", "", "run only these `groups`, separated by commas: "+strings.Join(groupNames(), ", "))
	flags.IntVar(&o.rounds, "rounds", o.rounds, "how often each side is measured")
	flags.IntVar(&o.pool, "pool", o.pool, "how many requests are prepared for wrk; a fast machine needs more")
	flags.Uint64Var(&o.seed, "seed", 1, "the buyers and keys are made from this `number`")
	flags.StringVar(&o.dir, "dir", o.dir, "`folder` for temporary files; on the disk whose fsync is to be measured")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "Usage: go run -C lab ./bench [flags]")
			flags.SetOutput(stderr)
			flags.PrintDefaults()
		}
		return o, err
	}
	if quick {
		o.durable, o.buyers, o.idle, o.aged = 3*time.Second, 200_000, 4*time.Second, false
		o.warm, o.long = 300*time.Millisecond, time.Second
		if o.rounds == rounds {
			o.rounds = 3
		}
	}
	o.only = groupNames()
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(groupNames(), name) {
			return o, fmt.Errorf("--only %q: want some of %s", name, strings.Join(groupNames(), ", "))
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.rounds < 1:
		return o, errors.New("--rounds: want more than 0")
	case o.pool < 1000:
		return o, errors.New("--pool: want 1000 or more")
	}
	return o, nil
}

// defaultDir is a folder for temporary files that is not in memory, where
// there is one: in memory an fsync costs nothing.
func defaultDir() string {
	const onDisk = "/var/tmp"
	if info, err := os.Stat(onDisk); err == nil && info.IsDir() {
		return onDisk
	}
	return os.TempDir()
}

// progress shows on a terminal what is being done; elsewhere nothing.
type progress struct{ screen io.Writer }

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(f.Fd()) {
		return &progress{screen: f}
	}
	return &progress{screen: io.Discard}
}

func (p *progress) say(format string, args ...any) { fmt.Fprintf(p.screen, "\r\x1b[K"+format, args...) }

// end removes the line.
func (p *progress) end() { fmt.Fprint(p.screen, "\r\x1b[K") }
