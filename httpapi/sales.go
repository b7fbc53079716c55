package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/admission"
	"github.com/sluicehq/sluice/httpapi/wire"
)

// saleBody is a sale's public answer, encoded when its view is made.
type saleBody struct {
	json   []byte
	header http.Header // shared and never written to
	etag   string
}

// EncodeSale makes the body of a view; it is admission.BoardOptions.Encode.
// The ETag names the content without its server_time: a sale that has not
// changed keeps its tag, and a 304 tells the reader so.
func EncodeSale(v, _ *admission.View) any {
	public := publicSale(v)
	stamped, err := json.Marshal(public)
	if err != nil {
		panic(err)
	}
	public.ServerTime = wire.Time{}
	plain, err := json.Marshal(public)
	if err != nil {
		panic(err)
	}
	hash := fnv.New64a()
	_, _ = hash.Write(plain)
	etag := `W/"` + strconv.FormatUint(hash.Sum64(), 36) + `"`
	stamped = append(stamped, '\n')
	return &saleBody{json: stamped, etag: etag, header: http.Header{
		"Content-Type": jsonType, "Cache-Control": {"public, max-age=1"}, "Etag": {etag},
		"Content-Length": {strconv.Itoa(len(stamped))},
	}}
}

func publicSale(v *admission.View) wire.Sale {
	sale := wire.NewSale(&v.Sale, &v.Reading)
	sale.State = v.State(v.Told)
	if sale.State == sluice.StateUnavailable {
		sale.Available = nil
	}
	return sale
}

// showSale answers from memory: one map lookup and one write.
func (s *Server) showSale(w http.ResponseWriter, r *http.Request) {
	view, ok := s.view(w, r)
	if !ok {
		return
	}
	body := view.Body.(*saleBody)
	h := w.Header()
	for name, values := range body.header {
		h[name] = values
	}
	if match := r.Header["If-None-Match"]; len(match) > 0 && matches(match, body.etag) {
		delete(h, "Content-Length")
		delete(h, "Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body.json)
}

// matches compares ETags weakly, as RFC 9110 wants it for If-None-Match.
func matches(header []string, etag string) bool {
	for _, line := range header {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}

// view finds the sale of the path on the board, or in the store, or answers.
func (s *Server) view(w http.ResponseWriter, r *http.Request) (*admission.View, bool) {
	id := sluice.SaleID(r.PathValue("sale"))
	if view := s.Board.View(id); view != nil {
		return view, true
	}
	view, err := s.Board.Lookup(r.Context(), id)
	switch {
	case err == nil:
		return view, true
	case errors.Is(err, sluice.ErrSaleNotFound):
		problem(w, sluice.SaleNotFound.String(), "")
	default:
		s.unavailable(w, r, err)
	}
	return nil, false
}

// listSales lists the sales that are or will be open, by opening time.
func (s *Server) listSales(w http.ResponseWriter, _ *http.Request) {
	list := wire.SaleList{Sales: []wire.Sale{}}
	for _, view := range s.sortedViews() {
		if sale := publicSale(view); sale.State != sluice.StateClosed {
			list.Sales = append(list.Sales, sale)
		}
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = []string{"public, max-age=1"}
	_, _ = w.Write(append(body, '\n'))
}

func (s *Server) sortedViews() []*admission.View {
	board := s.Board.Views()
	views := make([]*admission.View, 0, len(board))
	for _, v := range board {
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b *admission.View) int {
		return cmp.Or(a.Sale.OpensAt.Compare(b.Sale.OpensAt), cmp.Compare(a.Sale.ID, b.Sale.ID))
	})
	return views
}

// time tells the server's clock, for countdowns.
func (s *Server) time(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, wire.ServerTime{ServerTime: wire.At(s.Now())})
}

// unavailable answers 503 for a backend that does not answer; why is in the
// log, since it may name hosts.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.Log.Warn("a request could not be answered", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	problem(w, sluice.Unavailable.String(), "a database does not answer; try again")
}

// patience is how long a request waits for one answer of a database.
const patience = 2 * time.Second

// health says that the process lives; ready that it can decide claims.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if _, err := s.Ledger.Read(ctx, []sluice.SaleID{"readyz"}); err != nil { // any id will do
		s.unavailable(w, r, err)
		return
	}
	status := s.Kinds
	status.Status, status.StoreState = "ready", "ok"
	if err := s.Store.Ping(ctx); err != nil {
		status.StoreState = "down; accepted orders wait in the journal"
	}
	writeJSON(w, http.StatusOK, status)
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.Metrics == nil {
		s.notFound(w, r)
		return
	}
	s.Metrics.ServeHTTP(w, r)
}
