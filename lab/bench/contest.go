package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/machine"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// A side is one way of doing the work. It takes turns with the other sides of its group,
// so that whatever else the machine does meanwhile happens to all of them.
type side struct {
	name string // unique
	does string // in one sentence, for who reads the table
	own  bool   // Sluice, not what it is compared with

	// run does one round: set up from nothing, warm up, measure, check that
	// every count is right, take down. A wrong count is an error.
	run func(ctx context.Context, r *round) (figure, error)
	// begin is there instead where a round is too long to be compared with that of another
	// side: it sets up and warms up what is then measured several times, in turns with the
	// others, if they all begin, and else once.
	begin func(ctx context.Context, r *round) (*running, error)
}

// running is a side that has begun.
type running struct {
	measure func(ctx context.Context, turn int) (figure, error) // turn is warming, or below turnsOfRound
	check   func(ctx context.Context) error                     // whether every count is right
	stop    func()
}

const (
	// warming is a turn that does not count.
	warming = -1
	// turnsOfRound is how often a side that has begun is measured in a round.
	turnsOfRound = 4
)

// A group is sides that are compared with each other.
type group struct {
	name  string
	needs []string // programs
	// rounds is how many rounds it has at most, where they are long; 0: as many as asked for.
	rounds int
	// open prepares what the rounds share.
	open func(ctx context.Context, o *options) (sides []side, done func(), err error)
}

// groups in the order in which they run.
var groups = []group{
	{name: "redis", needs: []string{"redis-server"}, open: openRedisGroup},
	{name: "http", needs: []string{"wrk"}, rounds: 3, open: openHTTPGroup},
	{name: "console", needs: []string{"wrk"}, rounds: 3, open: openConsoleGroup},
	{name: "durable", needs: []string{"wrk", "redis-server", postgres}, rounds: 3, open: openDurableGroup},
	{name: "latency", needs: []string{"redis-server", postgres}, rounds: 3, open: openLatencyGroup},
	{name: "read", needs: []string{"wrk"}, rounds: 3, open: openReadGroup},
	{name: "drain", needs: []string{"redis-server", postgres}, rounds: 3, open: openDrainGroup},
	{name: "growth", needs: []string{"redis-server", postgres}, rounds: 1, open: openGrowthGroup},
	{name: "idle", needs: []string{"redis-server", postgres}, rounds: 1, open: openIdleGroup},
}

func groupNames() (all []string) {
	for _, g := range groups {
		all = append(all, g.name)
	}
	return all
}

// A round is one turn of one side.
type round struct {
	options
	dir   string // empty, for this round alone
	crowd crowd.Crowd
}

// settling is how long a server answers without a pause before it is measured for the first
// time, where that is to be a server that has been in use. Those that collect garbage as Sluice
// does use the memory for it for the first time meanwhile: a cost of the first seconds of a
// rush.
func (r *round) settling() time.Duration { return 6 * r.warm }

// A figure is what a round measured.
type figure struct {
	perSecond float64
	// also is what else is worth knowing, by a name with its unit.
	also map[string]float64
}

// measure runs the groups that the options ask for.
func measure(ctx context.Context, o options, p *progress) (*report, error) {
	chosen := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return !slices.Contains(o.only, g.name) })
	for _, g := range chosen { // before anything runs
		if program := g.lack(); program != "" {
			return nil, fmt.Errorf("%s is not installed; `make bench` installs it, or leave out %s with --only", program, g.name)
		}
	}
	top, err := os.MkdirTemp(o.dir, "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(top)
	o.dir = top
	rep := &report{
		Seed: o.seed, Rounds: o.rounds, WarmS: o.warm.Seconds(), MeasuredS: o.long.Seconds(),
		Started: time.Now().UTC(),
	}
	rep.Machine, rep.Versions = machine.Describe(ctx, top), machine.DescribeVersions(ctx)
	for _, g := range chosen {
		if err := g.measure(ctx, &o, p, rep); err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
	}
	p.end()
	rep.judge()
	rep.TookS = time.Since(rep.Started).Seconds()
	return rep, nil
}

// measure runs the group's sides in turns: A B C A B C.
func (g *group) measure(ctx context.Context, o *options, p *progress, rep *report) error {
	p.say("%s: preparing", g.name)
	sides, done, err := g.open(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	results := make([]result, len(sides))
	for i, s := range sides {
		results[i] = result{Name: s.name, Does: s.does, Own: s.own}
	}
	rounds := o.rounds
	if g.rounds > 0 {
		rounds = min(rounds, g.rounds)
	}
	for n := range rounds {
		say := func(s *side) { p.say("%s: round %d of %d, %s", g.name, n+1, rounds, s.name) }
		if !slices.ContainsFunc(sides, func(s side) bool { return s.begin == nil }) {
			if err := inTurns(ctx, o, n, sides, results, say); err != nil {
				return err
			}
			continue
		}
		for i := range sides {
			say(&sides[i])
			f, err := sides[i].turn(ctx, o, n)
			if err != nil {
				return err
			}
			results[i].add(f)
		}
	}
	for i := range results {
		results[i].settle()
	}
	rep.Sides = append(rep.Sides, results...)
	return nil
}

// inTurns is a round of sides that begin: all of them first, then A B C A B C.
func inTurns(ctx context.Context, o *options, n int, sides []side, results []result, say func(*side)) error {
	all := make([]*running, len(sides))
	for i := range sides {
		say(&sides[i])
		r, done, err := o.newRound(n)
		if err != nil {
			return err
		}
		defer done()
		if all[i], err = sides[i].begin(ctx, r); err != nil {
			return sides[i].wrong(ctx, n, err)
		}
		defer all[i].stop()
	}
	for turn := warming; turn < turnsOfRound; turn++ {
		for i := range sides {
			say(&sides[i])
			f, err := all[i].measure(ctx, turn)
			if err != nil {
				return sides[i].wrong(ctx, n, err)
			}
			if turn != warming {
				results[i].add(f)
			}
		}
	}
	for i := range sides {
		if err := sides[i].wrong(ctx, n, all[i].check(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// turn runs one round of the side alone.
func (s *side) turn(ctx context.Context, o *options, n int) (f figure, err error) {
	r, done, err := o.newRound(n)
	if err != nil {
		return f, err
	}
	defer done()
	if s.begin == nil {
		f, err = s.run(ctx, r)
		return f, s.wrong(ctx, n, err)
	}
	begun, err := s.begin(ctx, r)
	if err == nil {
		defer begun.stop()
		f, err = begun.measure(ctx, 0)
	}
	if err == nil {
		err = begun.check(ctx)
	}
	return f, s.wrong(ctx, n, err)
}

// wrong is what has gone wrong in a side's round, if anything has.
func (s *side) wrong(ctx context.Context, n int, err error) error {
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return fmt.Errorf("%s, round %d: %w", s.name, n+1, err)
	}
	return nil
}

// newRound returns a round with a folder of its own, which done removes.
func (o *options) newRound(n int) (r *round, done func(), err error) {
	dir, err := os.MkdirTemp(o.dir, "round-")
	if err != nil {
		return nil, nil, err
	}
	r = &round{options: *o, dir: dir, crowd: crowd.New(o.seed + uint64(n))}
	return r, func() { os.RemoveAll(dir) }, nil
}

// median of a list that is not empty.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// postgres is a need that is looked for beyond the PATH, where Debian hides it.
const postgres = "postgres"

// lack returns a program that the group needs and the machine lacks, or nothing.
func (g *group) lack() string {
	for _, program := range g.needs {
		_, err := exec.LookPath(program)
		if program == postgres {
			_, err = servertest.PostgresPrograms()
		}
		if err != nil {
			return program
		}
	}
	return ""
}
