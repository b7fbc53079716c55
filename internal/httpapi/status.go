package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/port"
)

// Peer is a server of the shop, as another one knows it.
type Peer struct {
	port.Server
	Seen    time.Time // when it was heard of last
	Silent  bool      // longer ago than others
	Differs []string  // settings that are not the other one's
}

// Answer says whether ledger and store answer, as readiness does. It takes a second at most.
func (s *Server) Answer(ctx context.Context) (ledger, store error) {
	l := s.readiness.ask(s.Now, s.askBoth)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-l.done:
		return l.ledger, l.store
	case <-ctx.Done():
		return ctx.Err(), nil
	}
}

// Unready is the first finding by which a sale could not be bought if it were open; empty: there is none.
func (s *Server) Unready(ctx context.Context, sale sluice.SaleID) string {
	found, err := s.check(ctx, sale)
	if err != nil {
		return "" // that the databases do not answer is known by other ways
	}
	for _, c := range found.Checks {
		if c.Status == fail {
			return c.Name + ": " + c.Detail
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
	if s.Standing != nil {
		for _, c := range s.Standing(r.Context()) {
			status.Conditions = append(status.Conditions, api.Condition{
				Name: c.Name, Urgency: string(c.Urgency), SaleID: c.Sale, Since: api.At(c.Since), What: c.What.EN,
				Cost: c.Cost.EN, Do: c.Do.EN, Detail: c.Detail, Section: c.Section,
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
