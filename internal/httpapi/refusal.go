package httpapi

import (
	"encoding/json"
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

// refusals are the answers to refused claims that carry nothing but their code,
// encoded once: most of a rush gets one of these.
var refusals = encodeRefusals()

// refusal is an encoded answer. Its length is left to net/http, which says it
// cheaper than we can.
type refusal struct {
	status int
	after  []string // Retry-After unless the answer has its own; nil: none
	body   []byte
}

// tooOften is the detail of rate_limited.
const tooOften = "this buyer or address asks too often; the same request may be sent again after Retry-After, " +
	"a claim with the same key"

func encodeRefusals() map[sluice.Code]*refusal {
	all := map[sluice.Code]*refusal{}
	for _, code := range sluice.Codes() {
		all[code] = encodeRefusal(api.Problem{Code: code.String()})
	}
	all[sluice.RateLimited] = encodeRefusal(api.Problem{Code: sluice.RateLimited.String(), Detail: tooOften})
	return all
}

// encodeRefusal fills in title and status from the code.
func encodeRefusal(p api.Problem) *refusal {
	p.Title, p.Status = codes[p.Code].title, codes[p.Code].status
	body, err := json.Marshal(p)
	if err != nil { // strings and times cannot fail
		panic(err)
	}
	body = append(body, '\n')
	r := &refusal{status: p.Status, body: body}
	if after, ok := retryAfter[p.Code]; ok {
		r.after = []string{after}
	}
	return r
}

// limitOf says which limit, or one of which, a buyer who holds the orders
// reached by a claim of the quantity, as far as this server knows the sale; it
// makes no request.
func (s *Server) limitOf(sale sluice.SaleID, quantity int64, orders []sluice.OrderID) string {
	view := s.Board.View(sale)
	if view == nil {
		return ""
	}
	if !view.Reading.Loaded {
		return ""
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
	h["Content-Type"], h["Cache-Control"] = problemType, noStore
	if after == nil {
		after = r.after
	}
	if after != nil {
		h["Retry-After"] = after
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
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

func (n *notOpens) of(opensAt time.Time) *refusal {
	key := opensAt.UnixMilli()
	known := n.all.Load()
	if known != nil {
		if r := (*known)[key]; r != nil {
			return r
		}
	}
	r := encodeRefusal(api.Problem{Code: sluice.NotOpen.String(), OpensAt: api.AtOrNull(opensAt)})
	more := map[int64]*refusal{key: r}
	if known != nil && len(*known) < maxNotOpens {
		maps.Copy(more, *known)
	}
	n.all.CompareAndSwap(known, &more) // or another goroutine was faster; it is only a cache
	return r
}
