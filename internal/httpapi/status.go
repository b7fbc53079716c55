package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/condition"
	"github.com/sluicehq/sluice/internal/curve"
	"github.com/sluicehq/sluice/internal/port"
)

// Peer is a server of the shop, as another one knows it.
type Peer struct {
	port.Server
	Seen    time.Time // when it was heard of last
	Silent  bool      // longer ago than others
	Differs []string  // settings that are not the other one's
}

// AskLedger is an error if the ledger does not decide now: an ErrRefusesWrites, or why it does not answer.
func (s *Server) AskLedger(ctx context.Context) error { return s.askLedger(ctx) }

// Unready is why a sale that opens soon could not be bought, as far as the sale itself is the reason; empty: it could.
func (s *Server) Unready(ctx context.Context, view *admission.View) string {
	c := &saleCheck{server: s, view: view}
	c.loaded()
	c.units()
	c.lists(ctx)
	for i := range c.answer.Checks {
		if found := &c.answer.Checks[i]; found.Status == fail && ctx.Err() == nil {
			return found.Name + ": " + found.Detail
		}
	}
	return ""
}

// showStatus says what is wrong now, and which servers there are.
func (s *Server) showStatus(r *http.Request) (any, error) {
	status := api.Status{
		Node: s.Kinds.Node, Ledger: s.Kinds.Ledger, Store: s.Kinds.Store, ServerTime: api.At(s.Now()),
		Conditions: []api.Condition{}, Servers: []api.Peer{},
	}
	var sale sluice.SaleID
	if err := readQuery(r, ofSale(&sale)); err != nil {
		return nil, err
	}
	if s.Standing != nil {
		standing := s.Standing()
		if sale != "" {
			standing = condition.Of(standing, sale)
		}
		for _, c := range condition.Cut(standing) {
			status.Conditions = append(status.Conditions, api.Condition{
				Name: c.Name, Urgency: string(c.Urgency), SaleID: c.Sale, Since: api.At(c.Since), What: c.What.EN,
				Cost: c.Cost.EN, Do: c.Do.EN, Detail: c.Detail, Section: c.Section, More: int64(c.More),
			})
		}
	}
	if s.Peers != nil {
		for _, p := range s.Peers() {
			status.Servers = append(status.Servers, api.Peer{
				Node: p.Node, Version: p.Version, Admin: p.Admin, SeenAt: api.At(p.Seen), Silent: p.Silent,
				Differs: append([]string{}, p.Differs...),
			})
		}
	}
	return status, nil
}

// showCurve returns what happened to a sale.
func (s *Server) showCurve(r *http.Request) (any, error) {
	var w curve.Window
	if err := readQuery(r, moment("from", &w.From), moment("until", &w.Until)); err != nil {
		return nil, err
	}
	sale, err := s.Store.Sale(r.Context(), saleOf(r))
	if err != nil {
		return nil, err
	}
	return s.curves.of(r.Context(), sale.ID, w, s.Now, func() (api.Curve, error) {
		since := w.From
		if !since.IsZero() {
			since = since.Add(-curve.Longest) // one that began before may go on
		}
		stretches, err := s.Store.Stretches(r.Context(), sale.ID, since)
		if err != nil {
			return api.Curve{}, err
		}
		c, damaged := curve.Merge(stretches, w, s.Now())
		if damaged != nil {
			s.Log.Warn("what was counted of a sale cannot be read", "sale", sale.ID, "error", damaged)
		}
		return curveMessage(sale.ID, &c, s.Now()), nil
	})
}

func moment(name string, at *time.Time) parameter {
	return parameter{name, func(value string) (err error) {
		if *at, err = time.Parse(time.RFC3339, value); err != nil {
			return fmt.Errorf("%q: want a time like 2026-11-11T12:00:00Z", value)
		}
		return nil
	}}
}

// curves keeps what was made of whole sales for a moment: many pages may ask for the same. The zero value is ready.
type curves struct {
	mu   sync.Mutex
	kept map[sluice.SaleID]*keptCurve
}

// keptCurve is the curve of one sale. Who makes it keeps those waiting who ask for the same.
type keptCurve struct {
	turn  chan struct{}
	curve api.Curve
	at    time.Time
}

// curveFor is how long a whole curve is kept, and mostCurves how many of them.
const (
	curveFor   = 2 * time.Second
	mostCurves = 20
)

// of returns the curve of a sale, which is read if none is kept. Only whole ones are.
func (c *curves) of(ctx context.Context, sale sluice.SaleID, w curve.Window, now func() time.Time,
	read func() (api.Curve, error),
) (api.Curve, error) {
	if w != (curve.Window{}) {
		return read()
	}
	c.mu.Lock()
	kept := c.kept[sale]
	if kept == nil {
		if c.kept == nil || len(c.kept) >= mostCurves {
			c.kept = map[sluice.SaleID]*keptCurve{}
		}
		kept = &keptCurve{turn: make(chan struct{}, 1)}
		c.kept[sale] = kept
	}
	c.mu.Unlock()
	select {
	case kept.turn <- struct{}{}:
		defer func() { <-kept.turn }()
	case <-ctx.Done():
		return api.Curve{}, ctx.Err()
	}
	if age := now().Sub(kept.at); age >= 0 && age < curveFor {
		return kept.curve, nil
	}
	made, err := read()
	if err == nil {
		kept.curve, kept.at = made, now()
	}
	return made, err
}

func curveMessage(sale sluice.SaleID, c *curve.Curve, now time.Time) api.Curve {
	m := api.Curve{
		SaleID: sale, ServerTime: api.At(now), StepS: int64(c.Step / time.Second), Answers: map[string][]int64{},
		InFlight: []int64{}, P50Ms: []float64{}, P99Ms: []float64{}, Missing: []int64{},
	}
	for _, name := range curve.Names {
		m.Answers[name] = []int64{}
	}
	if len(c.Points) > 0 {
		from := api.At(c.From)
		m.From = &from
	}
	for i := range c.Points {
		p := &c.Points[i]
		for kind, name := range curve.Names {
			m.Answers[name] = append(m.Answers[name], p.Answers[kind])
		}
		m.InFlight = append(m.InFlight, p.InFlight)
		m.P50Ms = append(m.P50Ms, p.Within(0.5).Seconds()*1000)
		m.P99Ms = append(m.P99Ms, p.Within(0.99).Seconds()*1000)
		m.Missing = append(m.Missing, int64(p.Missing))
	}
	return m
}
