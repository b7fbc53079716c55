package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// statuses is the only place where codes become HTTP statuses.
var statuses = map[string]int{
	sluice.Accepted.String():     http.StatusAccepted,
	sluice.KeyReused.String():    http.StatusUnprocessableEntity,
	sluice.SaleNotFound.String(): http.StatusNotFound,
	sluice.Unavailable.String():  http.StatusServiceUnavailable,
	sluice.NotOpen.String():      http.StatusConflict,
	sluice.Closed.String():       http.StatusConflict,
	sluice.Paused.String():       http.StatusConflict,
	sluice.BuyerLimit.String():   http.StatusConflict,
	sluice.SoldOut.String():      http.StatusConflict,
	sluice.Insufficient.String(): http.StatusConflict,
	sluice.RateLimited.String():  http.StatusTooManyRequests,
	sluice.Overloaded.String():   http.StatusServiceUnavailable,

	api.CodeOutcomeUnknown:     http.StatusServiceUnavailable,
	api.CodeBadRequest:         http.StatusBadRequest,
	api.CodeUnauthenticated:    http.StatusUnauthorized,
	api.CodeForbidden:          http.StatusForbidden,
	api.CodeOrderNotFound:      http.StatusNotFound,
	api.CodeTooLarge:           http.StatusRequestEntityTooLarge,
	api.CodeOrderEnded:         http.StatusConflict,
	api.CodeOrderQueued:        http.StatusConflict,
	api.CodeSaleState:          http.StatusConflict,
	api.CodePaymentConflict:    http.StatusConflict,
	api.CodeBelowTaken:         http.StatusConflict,
	api.CodeDeadLetterNotFound: http.StatusNotFound,
	api.CodeStaleCursor:        http.StatusConflict,
	api.CodeWebhookNotFound:    http.StatusNotFound,
	api.CodeEventNotFound:      http.StatusNotFound,
	api.CodeNotFound:           http.StatusNotFound,
	api.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
}

// retryAfter is the seconds a client should wait before it tries again.
var retryAfter = map[string]string{
	sluice.RateLimited.String(): "1",
	sluice.Overloaded.String():  "1",
	sluice.Unavailable.String(): "1",
	api.CodeOutcomeUnknown:      "1",
}

var (
	problemType = []string{"application/problem+json"}
	jsonType    = []string{"application/json"}
	noStore     = []string{"no-store"}
)

// problem writes an error.
func problem(w http.ResponseWriter, code, detail string) {
	writeProblem(w, api.Problem{Code: code, Detail: detail})
}

// writeProblem fills in title and status from the code.
func writeProblem(w http.ResponseWriter, p api.Problem) {
	p.Title, p.Status = api.Title(p.Code), statuses[p.Code]
	body, err := json.Marshal(p)
	if err != nil { // strings and times cannot fail
		panic(err)
	}
	writeBody(w, p.Code, p.Status, append(body, '\n'))
}

func writeBody(w http.ResponseWriter, code string, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if after, ok := retryAfter[code]; ok && h["Retry-After"] == nil {
		h["Retry-After"] = []string{after}
	}
	if status == http.StatusUnauthorized {
		h["Www-Authenticate"] = []string{"Bearer"}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
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
