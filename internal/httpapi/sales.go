package httpapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/content"
	"github.com/sluicehq/sluice/internal/port"
)

// saleForm is the form of answers about one sale and of the list of sales.
var saleForm = content.Form{Type: jsonType[0], Cache: "public, max-age=1, stale-while-revalidate=2"}

// saleBody is a sale's public answer, encoded when its view is made.
type saleBody struct {
	sale   api.Sale
	json   []byte // of sale without its descriptions, and without a line feed: for lists and streams
	answer *content.Answer
}

// EncodeSale makes the body of a view; it is admission.BoardOptions.Encode. As
// long as nothing but the clock has changed, the view gets the body that it had
// before: its server_time is the moment of the snapshot in which the sale first
// looked like this, and the ETag stays.
func EncodeSale(v, before *admission.View) any {
	public := PublicSale(v)
	if before != nil {
		if old, ok := before.Body.(*saleBody); ok && sameSale(old.sale, public) {
			return old
		}
	}
	brief := public
	brief.Description, brief.Descriptions = "", sluice.Texts{}
	body := &saleBody{sale: public, json: encoded(&brief)}
	whole := body.json
	if public != brief { // encoded once where that is all, for each change of a sale in a rush
		whole = encoded(&public)
	}
	body.answer = content.New(saleForm, append(slices.Clip(whole), '\n'))
	return body
}

func encoded(sale *api.Sale) []byte {
	text, err := json.Marshal(sale)
	if err != nil {
		panic(err)
	}
	return text
}

// sameSale compares all but server_time: for each idle sale once a second, so without reflection.
func sameSale(a, b api.Sale) bool {
	a.ServerTime = b.ServerTime
	return shared(&a.ListPrice, b.ListPrice) && shared(&a.Total, b.Total) && shared(&a.Available, b.Available) &&
		shared(&a.MaxPerBuyer, b.MaxPerBuyer) && shared(&a.ClosesAt, b.ClosesAt) && shared(&a.TicketsFrom, b.TicketsFrom) &&
		a == b
}

// shared reports whether two pointers are nil or point to equal values, and has *p be q if so.
func shared[T comparable](p **T, q *T) bool {
	if *p != nil && q != nil && **p == *q {
		*p = q
	}
	return *p == q
}

// PublicSale is a sale as buyers read it. A change of what its rules hide changes no
// byte of it: neither its ETag nor its stream shows that something has been sold.
func PublicSale(v *admission.View) api.Sale {
	sale := SaleMessage(&v.Sale, v.Shown())
	sale.State = stateOf(v, sale.State)
	if sale.State == sluice.StateUnavailable {
		sale.Available = nil
	}
	if shows := v.Sale.Rules.Availability; shows != sluice.Exact {
		sale.Shows, sale.Total, sale.Available = shows, nil, nil
		if shows != sluice.Some && sale.State == sluice.StateSoldOut {
			sale.State = sluice.StateOpen
		}
	}
	return sale
}

// stateOf is the state of a sale, which is this one by a reading of the ledger.
func stateOf(v *admission.View, reading sluice.State) sluice.State {
	if !v.Archived() && (v.Down || !v.InStep()) {
		return sluice.StateUnavailable
	}
	return reading
}

// showSale answers from memory: one map lookup and one write.
func (s *Server) showSale(w http.ResponseWriter, r *http.Request) {
	view, err := s.view(r)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	view.Body.(*saleBody).answer.ServeHTTP(w, r)
}

// view finds the sale of the path on the board, or in the store, for buyers.
func (s *Server) view(r *http.Request) (*admission.View, error) {
	view, err := s.Board.Public(r.Context(), pathSale(r))
	if err == nil {
		view.Watch()
	}
	return view, err
}

// saleList is the answer to GET /v1/sales, made once per change.
type saleList struct {
	version uint64      // of the board that it is of
	bodies  []*saleBody // of the sales listed, in order
	answer  *content.Answer
}

// listSales lists the sales that are or will be open, by opening time.
func (s *Server) listSales(w http.ResponseWriter, r *http.Request) {
	list := s.list.Load()
	if list == nil || list.version != s.Board.Version() {
		list = s.makeList()
	}
	list.answer.ServeHTTP(w, r)
}

// makeList joins what is encoded already. One request does it per refresh of
// the board, those that come meanwhile wait for it.
func (s *Server) makeList() *saleList {
	s.listing.Lock()
	defer s.listing.Unlock()
	old, now := s.list.Load(), s.Board.Version()
	if old != nil && old.version == now {
		return old
	}
	list := &saleList{version: now}
	for _, view := range sortedViews(s.Board.Views()) {
		if body := view.Body.(*saleBody); body.sale.State != sluice.StateClosed && view.Listed() {
			list.bodies = append(list.bodies, body)
		}
	}
	if old != nil && slices.Equal(list.bodies, old.bodies) {
		list.answer = old.answer
	} else {
		text := []byte(`{"sales":[`)
		for i, body := range list.bodies {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, body.json...)
		}
		list.answer = content.New(saleForm, append(text, "]}\n"...))
	}
	s.list.Store(list)
	return list
}

func sortedViews(board map[sluice.SaleID]*admission.View) []*admission.View {
	return slices.SortedFunc(maps.Values(board), func(a, b *admission.View) int {
		return cmp.Or(a.Sale.OpensAt.Compare(b.Sale.OpensAt), cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
}

// time returns the clock that opens and closes sales, for countdowns: this
// server's own may be off.
func (s *Server) time(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, api.ServerTime{ServerTime: api.At(s.Board.LedgerTime(s.Now()))})
}

// patience is how long a request waits for one answer of a database.
const patience = 2 * time.Second

// SaleMessage joins the store's description and the ledger's reading. It has the
// terms that decide: the ledger's, when it holds the sale.
func SaleMessage(s *sluice.Sale, r *port.Reading) api.Sale {
	terms := &s.Terms
	if r.Loaded {
		terms = &r.Terms
	}
	v := api.Sale{
		ID: s.ID, SKU: s.SKU, Title: s.Title, Price: s.Price, ListPrice: unlessZero(s.ListPrice), Free: s.Free,
		Total: limited(terms.Total), MaxPerBuyer: limited(terms.MaxPerBuyer),
		OpensAt: api.At(terms.OpensAt), ClosesAt: api.AtOrNull(terms.ClosesAt),
		State: r.State(r.Now), ServerTime: api.At(r.Now), Showcase: s.Showcase,
	}
	if before := s.Rules.Ticket.BeforeS; before > 0 {
		v.TicketsFrom = api.AtOrNull(terms.OpensAt.Add(-time.Duration(before) * time.Second))
	}
	if r.Loaded {
		v.Available = limited(terms.Available(r.Taken))
	}
	if !s.ArchivedAt.IsZero() {
		v.State = sluice.StateClosed // the ledger has forgotten it; the store answers
	}
	return v
}

// limited is null on the wire for an absent limit.
func limited(v int64) *int64 {
	if v == sluice.Unlimited {
		return nil
	}
	return &v
}

// unlessZero is null on the wire for what is off or absent.
func unlessZero[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
