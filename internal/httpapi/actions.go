package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/port"
)

// acting is who asks for an admin's route, and what of it the record wants to
// know that only the handler does. It travels in the request's context.
type acting struct {
	auth.Admin
	sale sluice.SaleID // of a sale that was created
}

type actingKey struct{}

// admin returns who asks for an admin's route.
func admin(r *http.Request) auth.Admin {
	if a, ok := r.Context().Value(actingKey{}).(*acting); ok {
		return a.Admin
	}
	return auth.Admin{}
}

// noteSale notes in the record which sale the request is about, where its path
// does not say so.
func noteSale(r *http.Request, sale sluice.SaleID) {
	if a, ok := r.Context().Value(actingKey{}).(*acting); ok {
		a.sale = sale
	}
}

// recordPatience is how long a request waits for its record to be written.
const recordPatience = 5 * time.Second

// asked answers an admin who may ask. A change is recorded before it is
// answered: its answer waits in memory until the record is stored. If that
// fails, the change has happened all the same, so it is answered as it is; the
// log has the record then, and a metric says that one is missing in the store.
func (s *Server) asked(route Route, who auth.Admin, next http.HandlerFunc, w http.ResponseWriter, r *http.Request) {
	a := &acting{Admin: who}
	r = r.WithContext(context.WithValue(r.Context(), actingKey{}, a))
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		next(w, r)
		return
	}
	action := s.action(route, r, who.Name)
	w.Header()["X-Request-Id"] = []string{action.Request}
	held := &heldAnswer{to: w}
	defer func() {
		p := recover()
		if p != nil {
			action.Status, action.Code = http.StatusServiceUnavailable, api.CodeOutcomeUnknown
		} else {
			action.Status, action.Code = held.outcome()
		}
		if a.sale != "" {
			action.Sale = a.sale
		}
		s.record(r.Context(), action)
		if p != nil {
			panic(p)
		}
		held.send()
	}()
	next(held, r)
}

// refused records a request that was forbidden; a flood of them is only
// counted.
func (s *Server) refused(route Route, r *http.Request, by string) {
	s.AdminDecided.Count("forbidden")
	if !s.refusals.admit(s.Now()) {
		return
	}
	action := s.action(route, r, by)
	action.Status, action.Code = http.StatusForbidden, api.CodeForbidden
	s.record(r.Context(), action)
}

// action is what is known of a request before it is answered.
func (s *Server) action(route Route, r *http.Request, by string) port.AdminAction {
	a := port.AdminAction{
		By: by, Route: route.Pattern, Path: r.URL.Path, Request: requestID(r), Address: s.address(r), Node: s.Kinds.Node,
		Sale: sluice.SaleID(r.PathValue("sale")), Order: sluice.OrderID(r.PathValue("order")),
	}
	if sale, ok := a.Order.Sale(); ok {
		a.Sale = sale
	}
	return a
}

// record writes it, also when the client is gone.
func (s *Server) record(ctx context.Context, a port.AdminAction) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	if err := s.Store.RecordAdminAction(ctx, a); err != nil {
		s.AdminDecided.Count("unrecorded")
		s.Log.Error("an admin's action could not be recorded in the store; this line is its record", "by", a.By, "route",
			a.Route, "path", a.Path,
			"sale", a.Sale, "order", a.Order, "status", a.Status, "code", a.Code, "request", a.Request, "address", a.Address,
			"error", err)
		return
	}
	s.AdminDecided.Count("recorded")
}

// requestID is the one that a proxy or the client gave, if it is sane, or a new
// one.
func requestID(r *http.Request) string {
	const most = 64
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > most || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return rand.Text()[:16]
	}
	return id
}

// address is where a request comes from, by the proxies that are trusted.
func (s *Server) address(r *http.Request) string {
	if client := s.Proxies.client(r); client.IsValid() {
		return client.String()
	}
	return r.RemoteAddr
}

// heldAnswer keeps an answer until its request is recorded. The header is the
// real one.
type heldAnswer struct {
	to     http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) Header() http.Header { return h.to.Header() }

// Unwrap lets handlers put off the deadlines of their connections.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.to }

// Flush does nothing: the answer is not to be sent yet.
func (h *heldAnswer) Flush() {}

func (h *heldAnswer) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *heldAnswer) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

// outcome is the answer's status, and the code if it is a problem.
func (h *heldAnswer) outcome() (status int, code string) {
	h.WriteHeader(http.StatusOK)
	if h.status >= 400 {
		var p struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal(h.body.Bytes(), &p)
		code = p.Code
	}
	return h.status, code
}

func (h *heldAnswer) send() {
	h.to.WriteHeader(h.status)
	_, _ = h.to.Write(h.body.Bytes())
}

// burst admits some at once, and then one per period.
type burst struct {
	mu   sync.Mutex
	paid int64 // as sluice.Meter has it
}

// So many forbidden requests are recorded at once, and then one
// per period, on each server.
const (
	refusalBurst  = 30
	refusalPeriod = 10 * time.Second
)

var refusalMeter = sluice.Meter{
	Interval: refusalPeriod.Microseconds(), Full: refusalBurst * refusalPeriod.Microseconds(),
}

func (b *burst) admit(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	after, wait := refusalMeter.Try(b.paid, now.UnixMicro())
	b.paid = after
	return wait == 0
}

// listActions lists what admins did, the newest first.
func (s *Server) listActions(r *http.Request) (any, error) {
	var limit int
	var after string
	if err := readQuery(r, pageSize(&limit), cursor(&after)); err != nil {
		return nil, err
	}
	actions, next, err := s.Store.AdminActions(r.Context(), limit, after)
	return api.AdminActionPage{Actions: each(actions, actionMessage), NextCursor: next}, err
}

// actionMessage is an action on the wire.
func actionMessage(a *port.AdminAction) api.AdminAction {
	return api.AdminAction{
		ID: a.ID, At: api.At(a.At), By: a.By, Route: a.Route, Path: a.Path, SaleID: a.Sale, OrderID: a.Order,
		Status: a.Status, Code: a.Code, RequestID: a.Request, Address: a.Address, Node: a.Node,
	}
}
