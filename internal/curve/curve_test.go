package curve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// server is one that counts claims of a sale, and keeps them in a store of its own.
type server struct {
	*Recorder
	totals Totals
	stored map[time.Time]port.Stretch
	fails  bool
	ticks  int
}

func newServer(node string) *server {
	s := &server{stored: map[time.Time]port.Stretch{}}
	s.totals.Answers = map[sluice.SaleID][Kinds]int64{}
	s.Recorder = NewRecorder(node, s.keep)
	return s
}

func (s *server) keep(_ context.Context, all []port.Stretch) error {
	if s.fails {
		return errors.New("the store is down")
	}
	for _, one := range all {
		s.stored[one.From] = one
	}
	return nil
}

// second answers some claims of a sale within one second.
func (s *server) second(t *testing.T, at time.Time, accepted, refused int64) {
	t.Helper()
	answers := map[sluice.SaleID][Kinds]int64{}
	for id, n := range s.totals.Answers {
		answers[id] = n
	}
	n := answers["phone"]
	n[Accepted] += accepted
	n[SoldOut] += refused
	answers["phone"] = n
	s.totals.Answers, s.totals.InFlight = answers, accepted
	s.totals.Took[3] += accepted + refused
	totals := s.totals
	s.Tick(at, &totals)
	if s.ticks++; s.ticks%2 == 0 {
		if err := s.Flush(t.Context()); err != nil && !s.fails {
			t.Fatal(err)
		}
	}
}

func (s *server) all() (all []port.Stretch) {
	for _, one := range s.stored {
		all = append(all, one)
	}
	return all
}

func merged(t *testing.T, now time.Time, servers ...*server) Curve {
	t.Helper()
	var all []port.Stretch
	for _, s := range servers {
		all = append(all, s.all()...)
	}
	return must.Get(Merge(all, Window{}, now))(t)
}

// column is one kind over time.
func (c *Curve) column(kind Kind) (all []int64) {
	for i := range c.Points {
		all = append(all, c.Points[i].Answers[kind])
	}
	return all
}

func (c *Curve) missing() (all []int) {
	for i := range c.Points {
		all = append(all, c.Points[i].Missing)
	}
	return all
}

var noon = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// Two servers sell; one dies, and its silence is a gap and no zero, until it is back. What ended quietly is no gap.
func TestCurve(t *testing.T) {
	a, b := newServer("a"), newServer("b")
	second := func(i int, of *server, accepted int64) {
		of.second(t, noon.Add(time.Duration(i)*time.Second+300*time.Millisecond), accepted, 1)
	}
	a.second(t, noon.Add(-time.Second), 0, 0)
	b.second(t, noon.Add(-time.Second), 0, 0)
	for i := range 4 {
		second(i, a, 10)
		if i < 2 {
			second(i, b, 5)
		}
	}
	b.Recorder = newServer("b").Recorder // killed before it has stored all, and started again
	b.totals = Totals{Answers: map[sluice.SaleID][Kinds]int64{}}
	b.Recorder.store = b.keep
	b.second(t, noon.Add(3*time.Second), 0, 0)
	for i := 4; i < 6; i++ {
		second(i, a, 10)
		second(i, b, 5)
	}
	for i := 6; i < 6+cold+1; i++ { // nobody comes any more
		at := noon.Add(time.Duration(i) * time.Second)
		a.second(t, at, 0, 0)
		b.second(t, at, 0, 0)
	}
	c := merged(t, noon.Add(time.Hour), a, b)
	if c.From != noon || c.Step != time.Second || len(c.Points) < 6 {
		t.Fatalf("from %s by %s, %d points", c.From, c.Step, len(c.Points))
	}
	if got, want := c.column(Accepted)[:7], []int64{15, 10, 10, 10, 15, 15, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("accepted %v, want %v", got, want)
	}
	if got, want := c.missing()[:7], []int{0, 1, 1, 1, 0, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
	if p := c.Points[0]; p.InFlight != 15 || p.Within(0.99) != bound(3) || p.Answers[SoldOut] != 2 {
		t.Errorf("the first second: %+v", p)
	}
	if p := c.Points[6]; p.Within(0.5) != 0 {
		t.Errorf("nobody was answered within %s", p.Within(0.5))
	}
}

// What the store does not take is kept for it, up to a bound. A long sale has full stretches, and a curve of as many
// points as a short one.
func TestALongCurve(t *testing.T) {
	s := newServer("a")
	s.second(t, noon.Add(-time.Second), 0, 0)
	const hours = 2
	for i := range hours * 3600 {
		s.fails = i > 600 && i < 900
		s.second(t, noon.Add(time.Duration(i)*time.Second), 3, 0)
	}
	s.End()
	if err := s.Flush(t.Context()); err != nil || len(s.unsent) > 0 {
		t.Fatal(err)
	}
	c := merged(t, noon.Add(hours*time.Hour), s)
	sum := int64(0)
	for _, n := range c.column(Accepted) {
		sum += n
	}
	if sum != 3*hours*3600 || c.Step != 6*time.Second || len(c.Points) != hours*600 || c.Points[7].InFlight != 3 {
		t.Errorf("%d claims in %d steps of %s, in flight %d", sum, len(c.Points), c.Step, c.Points[7].InFlight)
	}
	for from, one := range s.stored {
		if seconds, err := decode(one.Figures, func(int, *Second) {}); err != nil || seconds != longest ||
			len(one.Figures) > longest*10 {
			t.Errorf("%s: %d seconds in %d bytes, %v", from, seconds, len(one.Figures), err)
		}
	}
	s.fails = true
	for i := range 2 * waiting * longest {
		s.add("phone", noon.Add(time.Duration(hours*3600+i)*time.Second), &Second{Answers: [Kinds]int64{1}})
	}
	_ = s.Flush(t.Context())
	if len(s.unsent) > waiting || s.kept["phone"] > most {
		t.Errorf("%d stretches wait, %d are kept", len(s.unsent), s.kept["phone"])
	}
}

// A server that is killed is missed for a minute; a lull at the end of a stretch is no silence; a stranger now and then
// begins no curve, and neither does one make the time long that is asked for.
func TestGaps(t *testing.T) {
	a, b := newServer("a"), newServer("b")
	for i := range 300 {
		at, n := noon.Add(time.Duration(i)*time.Second), int64(1)
		if i >= 55 && i < 62 { // a lull in which a stretch is full
			n = 0
		}
		a.second(t, at, n, 0)
		if i < 20 {
			b.second(t, at, 1, 0)
		}
	}
	c := merged(t, noon.Add(time.Hour), a, b)
	for i, missing := range c.missing() {
		if want := i >= 20 && i < 80; missing != 0 != want {
			t.Fatalf("second %d: %d servers are missing", i, missing)
		}
	}
	w := Window{noon.Add(30 * time.Second), noon.Add(70 * time.Second)}
	window, err := Merge(append(a.all(), b.all()...), w, noon)
	if err != nil || window.From != w.From || len(window.Points) != 40 || window.Points[39].Answers[Accepted] != 1 {
		t.Errorf("a window: %s, %d points, %v", window.From, len(window.Points), err)
	}
	stranger := newServer("c")
	for i := range 600 {
		stranger.totals.Answers["phone"] = [Kinds]int64{Refused: int64(i), NotNow: int64(i)}
		stranger.second(t, noon.Add(time.Duration(i)*time.Second), 0, 0)
	}
	stranger.End()
	if _ = stranger.Flush(t.Context()); len(stranger.stored) > 0 {
		t.Errorf("strangers alone have %d stretches", len(stranger.stored))
	}
}

// Any second comes back as it was; damage is found.
func TestStoredSeconds(t *testing.T) {
	full := Second{InFlight: math.MaxInt64}
	for i := range fields {
		*full.field(i) = int64(1) << (2 * i)
	}
	want := []Second{{}, full, {Answers: [Kinds]int64{1}}, {}}
	var b []byte
	for i := range want {
		b = want[i].encode(b)
	}
	var got []Second
	if n, err := decode(b, func(_ int, s *Second) { got = append(got, *s) }); err != nil || n != len(want) ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("%d: %v, %v; want %v", n, got, err, want)
	}
	for i, damaged := range [][]byte{{1}, {1, byte(fields), 1}, {1, 0}, {1, 0, 0xff}, make([]byte, longest+1)} {
		if _, err := decode(damaged, func(int, *Second) {}); err == nil {
			t.Errorf("%d: no error", i)
		}
		good := port.Stretch{Node: "b", From: noon, Figures: b, Ended: true}
		c, err := Merge([]port.Stretch{{Node: "a", From: noon, Figures: damaged}, good}, Window{}, noon)
		if err == nil || len(c.Points) != len(want) {
			t.Errorf("%d: %d points, %v; want the good stretch, and the error", i, len(c.Points), err)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, code := range sluice.Codes() {
		if kind := KindOf(code.String()); Names[kind] == "" || kind == Refused && code != sluice.KeyReused &&
			code != sluice.SaleNotFound {
			t.Errorf("%s is of the kind %s", code, fmt.Sprint(Names[kind]))
		}
	}
}
