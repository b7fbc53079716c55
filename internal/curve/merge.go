package curve

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicehq/sluice/internal/port"
)

// Curve is what happened to a sale, in steps of the same length.
type Curve struct {
	From   time.Time
	Step   time.Duration // whole seconds
	Points []Point
}

// Point is one step: sums over all servers, and of InFlight the mean of its seconds.
type Point struct {
	Second
	// Missing is how many servers should have told of it, and have not: what they counted is not known.
	Missing int
}

// MaxPoints is how many points a curve has at most; a longer time has longer steps.
const MaxPoints = 1200

// late is how long after its end a second of a living server may be missing in the store.
const late = FlushEvery + 3*time.Second

// told is a stretch that has been read.
type told struct {
	*port.Stretch
	seconds []Second
}

func (t *told) end() time.Time { return t.From.Add(time.Duration(len(t.seconds)) * time.Second) }

// Merge puts the stretches of all servers together. One that cannot be read is left out, and is the error beside the
// rest.
func Merge(stretches []port.Stretch, now time.Time) (c Curve, err error) {
	var all []told
	for i := range stretches {
		seconds, damaged := decode(stretches[i].Figures)
		if err = cmp.Or(err, damaged); damaged == nil && len(seconds) > 0 {
			all = append(all, told{&stretches[i], seconds})
		}
	}
	if len(all) == 0 {
		return Curve{Step: time.Second}, err
	}
	slices.SortFunc(all, func(a, b told) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.From.Compare(b.From)) })
	from, end := all[0].From, all[0].end()
	for i := range all {
		if all[i].From.Before(from) {
			from = all[i].From
		}
		if all[i].end().After(end) {
			end = all[i].end()
		}
	}
	seconds := int64(end.Sub(from) / time.Second)
	step := (seconds + MaxPoints - 1) / MaxPoints
	c = Curve{From: from, Step: time.Duration(step) * time.Second, Points: make([]Point, (seconds+step-1)/step)}
	for i := range all {
		s := &all[i]
		for j := range s.seconds {
			c.at(s.From.Add(time.Duration(j) * time.Second)).add(&s.seconds[j])
		}
		until := end // of the silence after it
		if i+1 < len(all) && all[i+1].Node == s.Node {
			until = all[i+1].From
		} else if now.Sub(s.end()) < late {
			continue // it may still tell
		}
		for t := s.end(); !s.Ended && t.Before(until); t = t.Add(c.Step) {
			c.at(t).Missing++
		}
	}
	for i := range c.Points {
		c.Points[i].InFlight /= step
	}
	return c, err
}

// ByServer returns how many answers of each kind each server has given since a moment. What cannot be read is left out.
func ByServer(stretches []port.Stretch, since time.Time) map[string][Kinds]int64 {
	sums := map[string][Kinds]int64{}
	for i := range stretches {
		s := &stretches[i]
		seconds, _ := decode(s.Figures)
		sum := sums[s.Node]
		for j := range seconds {
			if s.From.Add(time.Duration(j) * time.Second).Before(since) {
				continue
			}
			for kind, n := range seconds[j].Answers {
				sum[kind] += n
			}
		}
		sums[s.Node] = sum
	}
	return sums
}

func (c *Curve) at(t time.Time) *Point { return &c.Points[t.Sub(c.From)/c.Step] }

// add adds what another server, or another second, has counted.
func (p *Point) add(s *Second) {
	for i := range fields {
		*p.field(i) += *s.field(i)
	}
}

// Within returns how long the fastest share of the answers took at most, by the bound of its class; 0: there were none.
func (s *Second) Within(share float64) time.Duration {
	all, count := int64(0), int64(0)
	for _, n := range s.Took {
		all += n
	}
	for i, n := range s.Took {
		if count += n; n > 0 && float64(count) >= share*float64(all) {
			return Bound(i)
		}
	}
	return 0
}
