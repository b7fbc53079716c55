package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// codes is the only place where codes become HTTP statuses, and titles of problems.
var codes = map[string]struct {
	status int
	title  string
}{
	sluice.Accepted.String():     {http.StatusAccepted, "Accepted"},
	sluice.KeyReused.String():    {http.StatusUnprocessableEntity, "This key was used for other content"},
	sluice.SaleNotFound.String(): {http.StatusNotFound, "No such sale"},
	sluice.Unavailable.String():  {http.StatusServiceUnavailable, "The sale is not available now"},
	sluice.NotOpen.String():      {http.StatusConflict, "The sale is not open yet"},
	sluice.Closed.String():       {http.StatusConflict, "The sale is over"},
	sluice.Paused.String():       {http.StatusConflict, "The sale is paused"},
	sluice.BuyerLimit.String():   {http.StatusConflict, "The limit per buyer is reached"},
	sluice.SoldOut.String():      {http.StatusConflict, "Sold out"},
	sluice.Insufficient.String(): {http.StatusConflict, "Fewer units are available than asked for"},
	sluice.RateLimited.String():  {http.StatusTooManyRequests, "Too many requests"},
	sluice.Overloaded.String():   {http.StatusServiceUnavailable, "Too busy"},

	api.CodeOutcomeUnknown:     {http.StatusServiceUnavailable, "The outcome is unknown; try again with the same key"},
	api.CodeBadRequest:         {http.StatusBadRequest, "The request is not right"},
	api.CodeUnauthenticated:    {http.StatusUnauthorized, "Who is asking?"},
	api.CodeForbidden:          {http.StatusForbidden, "Not allowed"},
	api.CodeOrderNotFound:      {http.StatusNotFound, "No such order"},
	api.CodeTooLarge:           {http.StatusRequestEntityTooLarge, "The request is too large"},
	api.CodeOrderEnded:         {http.StatusConflict, "The order's status does not allow this"},
	api.CodeOrderQueued:        {http.StatusConflict, "The order is still queued"},
	api.CodeSaleState:          {http.StatusConflict, "The sale is not in a state that allows this"},
	api.CodePaymentConflict:    {http.StatusConflict, "The order has another payment, or another order has this one"},
	api.CodePaymentAmount:      {http.StatusConflict, "The payment is not of the amount that is due"},
	api.CodeBelowTaken:         {http.StatusConflict, "Fewer than the units already taken"},
	api.CodeDeadLetterNotFound: {http.StatusNotFound, "No such dead letter"},
	api.CodeStaleCursor:        {http.StatusConflict, "The feed does not know this event"},
	api.CodeGone:               {http.StatusGone, "Deleted after its retention"},
	api.CodeWebhookNotFound:    {http.StatusNotFound, "No such webhook"},
	api.CodeEventNotFound:      {http.StatusNotFound, "No such event"},
	api.CodeNotFound:           {http.StatusNotFound, "No such path"},
	api.CodeMethodNotAllowed:   {http.StatusMethodNotAllowed, "Another method is for this path"},
}

// retryAfter is the seconds a client should wait before it tries again.
var retryAfter = map[string]string{
	sluice.RateLimited.String(): "1",
	sluice.Overloaded.String():  "1",
	sluice.Unavailable.String(): "1",
	api.CodeOutcomeUnknown:      "1",
	api.CodeOrderQueued:         "1",
}

var (
	problemType = []string{"application/problem+json"}
	jsonType    = []string{"application/json"}
	noStore     = []string{"no-store"}
)

// handler answers a request with a JSON message, or with an error that failed
// makes an answer of.
type handler func(w http.ResponseWriter, r *http.Request) (message any, err error)

// get is a handler that looks at no body.
func get(do func(*http.Request) (any, error)) handler {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) { return do(r) }
}

// bare is a handler of requests without a message; an empty JSON object will do.
func bare(do func(*http.Request) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		if err := readBody(w, r, maxBody, &struct{}{}, true); err != nil {
			return nil, err
		}
		return do(r)
	}
}

// with is a handler of requests that carry a message.
func with[M any](do func(*http.Request, *M) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		message := new(M)
		if err := readBody(w, r, maxBody, message, false); err != nil {
			return nil, err
		}
		return do(r, message)
	}
}

// done is a message that is answered with another status than 200.
type done struct {
	status  int
	message any
}

// reply answers with a message, or says what went wrong.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, message any, err error) {
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if d, ok := message.(done); ok {
		writeJSON(w, d.status, d.message)
		return
	}
	writeJSON(w, http.StatusOK, message)
}

// fault is an error that is an answer.
type fault struct {
	api.Problem
	after []string // Retry-After, unless the code's will do
}

func (f *fault) Error() string { return f.Code + ": " + f.Detail }

// faultOf is a fault with a detail.
func faultOf(code, format string, args ...any) error {
	return &fault{Problem: api.Problem{Code: code, Detail: fmt.Sprintf(format, args...)}}
}

// badRequest is the fault of a request that is not right.
func badRequest(format string, args ...any) error {
	return faultOf(api.CodeBadRequest, format, args...)
}

// failed answers a request that was not done, or not completely.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	if known, ok := errors.AsType[*fault](err); ok {
		s.encode(known.Problem).write(w, known.after)
		return
	}
	for _, f := range faults {
		if detail, ok := f.detail(err); ok {
			if f.code == api.CodeOutcomeUnknown {
				s.Log.Warn("a change waits for the ledger", "path", r.URL.Path, "error", err)
			}
			s.problem(w, f.code, detail)
			return
		}
	}
	s.unavailable(w, r, err)
}

// knownFault answers the errors for which detail reports true.
type knownFault struct {
	code   string
	detail func(error) (detail string, ok bool)
}

// typed answers errors of a type.
func typed[E error](code string, detail func(E) string) knownFault {
	return knownFault{code, func(err error) (string, bool) {
		e, ok := errors.AsType[E](err)
		if !ok {
			return "", false
		}
		return detail(e), true
	}}
}

// sentinel answers an error that always says the same.
func sentinel(want error, code, detail string) knownFault {
	return knownFault{code, func(err error) (string, bool) { return detail, errors.Is(err, want) }}
}

// faults are the answers to the domain's errors; the first row that knows an error answers it.
var faults = []knownFault{
	typed(api.CodeSaleState, func(e *sluice.StateError) string { return e.Detail }),
	typed(api.CodeOrderEnded, func(e *sluice.OrderStateError) string {
		instead := ""
		switch {
		case e.Action == sluice.Refund && e.Status == sluice.Pending:
			instead = ": it has no payment; record that first, or cancel the order"
		case e.Status == sluice.Paid:
			instead = "; the shop can refund it"
		}
		return fmt.Sprintf("the order is %s; %s is not possible%s", e.Status, e.Action, instead)
	}),
	typed(api.CodePaymentConflict, func(e *sluice.PaymentConflictError) string {
		if e.Other != "" {
			return fmt.Sprintf("the order %s has this payment; the attempt is in the history of order %s", e.Other, e.Order)
		}
		if e.Have == "" {
			return "the order was free: there is nothing to pay; the payment is in its history"
		}
		return fmt.Sprintf("the order has the payment %q; the other one is in its history", e.Have)
	}),
	typed(api.CodePaymentAmount, func(e *sluice.PaymentAmountError) string {
		return fmt.Sprintf("%s was paid, %s is due (in minor units); the attempt is in the order's history", e.Paid, e.Due)
	}),
	typed(api.CodeBadRequest, func(e *sluice.ExtensionError) string {
		return fmt.Sprintf("expires_at: want %s at the latest, 30 days after the order was stored", api.At(e.Latest))
	}),
	typed(api.CodeGone, (*sluice.OrdersGoneError).Error),
	typed(api.CodeGone, func(e *sluice.EventsGoneError) string {
		return fmt.Sprintf("events up to number %d are deleted, as order_retention says", e.First-1)
	}),
	typed(api.CodeOutcomeUnknown, func(*sluice.PendingError) string {
		return "the change is stored; it takes effect when the ledger answers again" +
			" (a lower total may be taken back then: send the same request again to see)"
	}),
	sentinel(sluice.ErrSaleExists, api.CodeSaleState, "a sale with this id exists"),
	sentinel(sluice.ErrBelowTaken, api.CodeBelowTaken, "the total would be below the units already taken"),
	sentinel(sluice.ErrLoweringWaits, sluice.Unavailable.String(), "the total was not changed: a lower total is on its "+
		"way to the ledger, and until the ledger has decided about it no other can follow; try again"),
	sentinel(sluice.ErrTotalUndecided, sluice.Unavailable.String(), "the total was not changed: lowering it needs a "+
		"ledger that holds the sale and has not fenced it; try again"),
	sentinel(sluice.ErrNoTotal, api.CodeSaleState, "the sale has no total; there is nothing to add to"),
	sentinel(sluice.ErrRestockReused, sluice.KeyReused.String(), "this restock id was used with another delta"),
	sentinel(sluice.ErrArchived, api.CodeSaleState, "the sale is archived; it does not change any more"),
	sentinel(sluice.ErrNoPicture, api.CodeBadRequest, "pictures: "+sluice.ErrNoPicture.Error()+
		"; upload it first, with POST .../pictures"),
	sentinel(sluice.ErrListSuperseded, api.CodeSaleState, sluice.ErrListSuperseded.Error()),
	sentinel(sluice.ErrAuditBusy, sluice.Overloaded.String(), sluice.ErrAuditBusy.Error()+"; try again"),
	sentinel(sluice.ErrSaleNotFound, sluice.SaleNotFound.String(), ""),
	sentinel(sluice.ErrOrderNotFound, api.CodeOrderNotFound, ""),
	sentinel(sluice.ErrOrderQueued, api.CodeOrderQueued, "the order is not stored yet; try again in a moment"),
	sentinel(sluice.ErrStoreOlder, sluice.Unavailable.String(), sluice.ErrStoreOlder.Error()+
		"; nothing was recorded: send the payment, or what else was asked for, again afterwards"),
	sentinel(sluice.ErrDeadLetterNotFound, api.CodeDeadLetterNotFound, ""),
	sentinel(sluice.ErrWebhookNotFound, api.CodeWebhookNotFound, ""),
	sentinel(sluice.ErrEventNotFound, api.CodeEventNotFound,
		"the feed has no such event, or the webhook has yet to get it for the first time"),
	sentinel(sluice.ErrBadCursor, api.CodeBadRequest, "cursor: "+wrongCursor),
}

// unavailable answers 503 for a backend that does not answer; why is in the
// log, since it may name hosts.
func (s *Server) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.Log.Warn("a request could not be answered", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	detail := "a database does not answer; try again"
	if errors.Is(err, sluice.ErrNoAnswer) {
		detail = s.ledgerName() + " does not answer; try again"
	}
	s.problem(w, sluice.Unavailable.String(), detail)
}

// ledgerName is what answers call the ledger.
func (s *Server) ledgerName() string {
	if s.Kinds.Ledger == "redis" {
		return "the ledger (Redis)"
	}
	return "the ledger"
}

// problems are the answers that are no success, of a server: their types are links to its
// reference, under the path where the shop serves it.
type problems struct {
	reference string
	// encoded are the answers to refused claims that carry nothing but their code,
	// encoded once: most of a rush gets one of these.
	encoded map[sluice.Code]*refusal
}

func newProblems(base string) problems {
	p := problems{reference: base + "/docs#", encoded: map[sluice.Code]*refusal{}}
	for _, code := range sluice.Codes() {
		p.encoded[code] = p.encode(api.Problem{Code: code.String()})
	}
	p.encoded[sluice.RateLimited] = p.encode(api.Problem{Code: sluice.RateLimited.String(), Detail: tooOften})
	return p
}

// problem writes an error.
func (p *problems) problem(w http.ResponseWriter, code, detail string) {
	p.writeProblem(w, api.Problem{Code: code, Detail: detail})
}

func (p *problems) writeProblem(w http.ResponseWriter, problem api.Problem) {
	p.encode(problem).write(w, nil)
}

// encode fills in type, title and status from the code.
func (p *problems) encode(problem api.Problem) *refusal {
	known := codes[problem.Code]
	problem.Type, problem.Title, problem.Status = p.reference+problem.Code, known.title, known.status
	body, err := json.Marshal(problem)
	if err != nil { // strings and times cannot fail
		panic(err)
	}
	body = append(body, '\n')
	r := &refusal{status: problem.Status, body: body, length: []string{strconv.Itoa(len(body))}}
	if after, ok := retryAfter[problem.Code]; ok {
		r.after = []string{after}
	}
	return r
}

// writeJSON writes an answer that is not cached.
func writeJSON(w http.ResponseWriter, status int, message any) {
	body, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(body) + 1)}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// refusal is an encoded answer. Its length is left to net/http, which says it
// cheaper than we can.
type refusal struct {
	status int
	after  []string // Retry-After unless the answer has its own; nil: none
	length []string // of body
	body   []byte
}

// tooOften is the detail of rate_limited.
const tooOften = "this buyer or address asks too often; the same request may be sent again after Retry-After, " +
	"a claim with the same key"

// limitOf says which limit, or one of which, a buyer who holds the orders
// reached by a claim of the quantity, as far as this server knows the sale; it
// makes no request.
func (s *Server) limitOf(sale sluice.SaleID, quantity int64, d *sluice.Decision) string {
	view := s.Board.View(sale)
	if view == nil || !view.Reading.Loaded {
		return ""
	}
	orders := d.Orders
	if by := sluice.LimitedBy(d.Counter); by != "" {
		for _, limit := range view.Sale.Rules.Limits {
			if limit.By == by {
				return fmt.Sprintf("at most %d per %s, its other buyers' included", limit.Max, by)
			}
		}
	}
	var limits []string
	terms := &view.Reading.Terms
	if units := terms.MaxPerBuyer; units != sluice.Unlimited && (quantity > units || len(orders) > 0) {
		limits = append(limits, fmt.Sprintf("at most %d per buyer", units))
		if quantity+int64(len(orders)) > units { // an order holds one unit at least
			return limits[0]
		}
	}
	if terms.MaxOrders != sluice.Unlimited {
		limits = append(limits, fmt.Sprintf("orders per buyer, ended ones too: at most %d", terms.MaxOrders))
	}
	if terms.MaxUnpaid != 0 {
		limits = append(limits, fmt.Sprintf("after %d that expired or that the buyer cancelled: none", terms.MaxUnpaid))
	}
	return strings.Join(limits, "; ")
}

// write answers. after, if not nil, is the Retry-After of this answer.
func (r *refusal) write(w http.ResponseWriter, after []string) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["Content-Length"] = problemType, noStore, r.length
	switch {
	case after != nil:
		h["Retry-After"] = after
	case r.after != nil && h["Retry-After"] == nil:
		h["Retry-After"] = r.after
	}
	if r.status == http.StatusUnauthorized {
		h["Www-Authenticate"] = []string{"Bearer"}
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that is gone needs no answer
}

// seconds are the usual values of Retry-After.
var seconds = func() (all [121][]string) {
	for n := range all {
		all[n] = []string{strconv.Itoa(n)}
	}
	return all
}()

// retryIn is a wait as Retry-After says it: whole seconds, never too few. Nil
// for an unknown wait.
func retryIn(wait time.Duration) []string {
	n := int64((wait + time.Second - 1) / time.Second)
	switch {
	case wait <= 0:
		return nil
	case n < int64(len(seconds)):
		return seconds[n]
	}
	return []string{strconv.FormatInt(n, 10)}
}

// notOpens are the answers before openings, by the opening's time: what a whole
// crowd gets that presses too early.
type notOpens struct {
	all atomic.Pointer[map[int64]*refusal]
}

// maxNotOpens bounds them: openings can be moved any number of times.
const maxNotOpens = 256

func (n *notOpens) of(opensAt time.Time, problems *problems) *refusal {
	key := opensAt.UnixMilli()
	known := n.all.Load()
	if known != nil {
		if r := (*known)[key]; r != nil {
			return r
		}
	}
	r := problems.encode(api.Problem{Code: sluice.NotOpen.String(), OpensAt: api.AtOrNull(opensAt)})
	more := map[int64]*refusal{key: r}
	if known != nil && len(*known) < maxNotOpens {
		maps.Copy(more, *known)
	}
	n.all.CompareAndSwap(known, &more) // or another goroutine was faster; it is only a cache
	return r
}
