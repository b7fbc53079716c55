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

// silentFor is how long a server that has died counts as missing: after that buyers go to the others.
const silentFor = time.Minute

// told is a stretch that can be read.
type told struct {
	*port.Stretch
	seconds int
}

func (t *told) end() time.Time { return t.From.Add(time.Duration(t.seconds) * time.Second) }

// Window is the time that a curve shows; an end that is zero is open.
type Window struct{ From, Until time.Time }

func (w *Window) has(t *told) bool {
	return !t.end().Before(w.From) && (w.Until.IsZero() || t.From.Before(w.Until))
}

// Merge puts the stretches of all servers together, as far as they are in a window. One that cannot be read is left
// out, and is the error beside the rest.
func Merge(stretches []port.Stretch, w Window, now time.Time) (c Curve, err error) {
	var all []told
	from, end := time.Time{}, time.Time{}
	for i := range stretches {
		seconds, damaged := decode(stretches[i].Figures, func(int, *Second) {})
		t := told{&stretches[i], seconds}
		if err = cmp.Or(err, damaged); seconds == 0 || !w.has(&t) {
			continue
		}
		if all = append(all, t); from.IsZero() || t.From.Before(from) {
			from = t.From
		}
		if t.end().After(end) {
			end = t.end()
		}
	}
	if from.Before(w.From) {
		from = w.From.Truncate(time.Second)
	}
	if !w.Until.IsZero() && w.Until.Before(end) {
		end = w.Until.Truncate(time.Second)
	}
	seconds := int64(end.Sub(from) / time.Second)
	if len(all) == 0 || seconds <= 0 {
		return Curve{Step: time.Second}, err
	}
	step := (seconds + MaxPoints - 1) / MaxPoints
	c = Curve{From: from, Step: time.Duration(step) * time.Second, Points: make([]Point, (seconds+step-1)/step)}
	slices.SortFunc(all, func(a, b told) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.From.Compare(b.From)) })
	for i := range all {
		t := &all[i]
		_, _ = decode(t.Figures, func(j int, s *Second) {
			if p := c.at(t.From.Add(time.Duration(j) * time.Second)); p != nil {
				p.add(s)
			}
		})
		until := t.end().Add(silentFor)
		if i+1 < len(all) && all[i+1].Node == t.Node {
			until = all[i+1].From
		} else if now.Sub(t.end()) < late {
			continue // it may still tell
		}
		for at := t.end(); !t.Ended && at.Before(until); at = at.Add(c.Step) {
			if p := c.at(at); p != nil {
				p.Missing++
			}
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
		t := &stretches[i]
		sum := sums[t.Node]
		_, _ = decode(t.Figures, func(j int, s *Second) {
			if t.From.Add(time.Duration(j) * time.Second).Before(since) {
				return
			}
			for kind, n := range s.Answers {
				sum[kind] += n
			}
		})
		sums[t.Node] = sum
	}
	return sums
}

// at returns the point of a moment; nil: it is not in the curve.
func (c *Curve) at(t time.Time) *Point {
	if i := int(t.Sub(c.From) / c.Step); !t.Before(c.From) && i < len(c.Points) {
		return &c.Points[i]
	}
	return nil
}

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
			return bound(i)
		}
	}
	return 0
}
