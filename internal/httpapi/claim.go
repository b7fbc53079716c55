package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
)

// maxClaimBody bounds a claim's body, in bytes: meta is at most 512.
const maxClaimBody = 4 << 10

var bodies = sync.Pool{New: func() any { return new(body) }}

// body is a message being read or written, used again and again.
type body struct {
	bytes.Buffer
	limit io.LimitedReader
}

// read reads what comes, and no more than limit.
func (b *body) read(from io.Reader, limit int64) error {
	b.Reset()
	b.limit = io.LimitedReader{R: from, N: limit}
	_, err := b.ReadFrom(&b.limit)
	b.limit.R = nil
	return err
}

// placeOrder is the hot path: one claim of one buyer.
func (s *Server) placeOrder(w http.ResponseWriter, r *http.Request, token auth.Token) {
	sale := pathSale(r)
	if sale.Validate() != nil {
		s.refuse(w, sale, sluice.Decision{Code: sluice.SaleNotFound})
		return
	}
	claim, err := readClaim(r, token.Buyer)
	if err != nil {
		s.refusedUnread(r, err)
		s.failed(w, r, err)
		return
	}
	decision, err := s.Gate.Claim(r.Context(), sale, claim, s.caller(r, sale, token))
	switch {
	case err == nil && decision.Code == sluice.Accepted:
		s.Claims.Decided(sale, decision.Code)
		s.writePlaced(w, sale, decision)
	case err == nil && decision.Code == sluice.BuyerLimit:
		s.Claims.Decided(sale, decision.Code)
		s.writeProblem(w, api.Problem{
			Code: decision.Code.String(), OrderIDs: decision.Orders,
			Detail: s.limitOf(sale, claim.Quantity, &decision), Limit: sluice.LimitedBy(decision.Counter),
		})
	case err == nil:
		s.refuse(w, sale, decision)
	default:
		s.notDecided(w, r, sale, err)
	}
}

// notDecided answers a claim that the gate has an error for.
func (s *Server) notDecided(w http.ResponseWriter, r *http.Request, sale sluice.SaleID, err error) {
	var refused *sluice.RefusedError
	switch {
	case errors.As(err, &refused):
		s.refusedClaim(r, api.CodeForbidden, string(refused.Reason), refused.Detail)
		s.writeProblem(w, notLetIn(refused))
	case errors.Is(err, admission.ErrOverloaded), errors.Is(err, sluice.ErrClosed): // it was never sent
		s.refuse(w, sale, sluice.Decision{Code: sluice.Overloaded})
	case errors.Is(err, admission.ErrUnanswered):
		s.Claims.Decided(sale, sluice.Unavailable)
		s.problem(w, sluice.Unavailable.String(), s.ledgerName()+" does not answer; this request decided nothing")
	case errors.Is(err, admission.ErrRefusesWrites):
		s.Claims.Decided(sale, sluice.Unavailable)
		s.problem(w, sluice.Unavailable.String(), "the ledger refuses to write; this request decided nothing")
	default:
		s.Claims.Count(sale, api.CodeOutcomeUnknown)
		s.problem(w, api.CodeOutcomeUnknown, "the claim may have been accepted; the same key will tell")
	}
}

// readClaim reads key and body. The batcher makes the order id.
func readClaim(r *http.Request, buyer sluice.BuyerID) (claim sluice.Claim, err error) {
	keys := r.Header["Idempotency-Key"]
	if len(keys) != 1 {
		return claim, badKey(
			"want the header Idempotency-Key, once: a name for this attempt, the same when it is tried again")
	}
	key := sluice.Key(keys[0])
	if err := key.Validate(); err != nil {
		return claim, badKey("Idempotency-Key: %v", err)
	}
	body := bodies.Get().(*body)
	defer bodies.Put(body)
	if r.ContentLength > maxClaimBody {
		return claim, bodyTooLarge(maxClaimBody)
	}
	if err := body.read(r.Body, maxClaimBody+1); err != nil {
		return claim, badRequest("the body cannot be read: %v", err)
	}
	if body.Len() > maxClaimBody {
		return claim, bodyTooLarge(maxClaimBody)
	}
	order, err := parsePlaceOrder(body.Bytes())
	if err != nil {
		return claim, badRequest("%v", err)
	}
	return sluice.Claim{Buyer: buyer, Key: key, Quantity: order.Quantity, Meta: string(order.Meta)}, nil
}

var replayed = []string{"true"}

func (s *Server) writePlaced(w http.ResponseWriter, sale sluice.SaleID, d sluice.Decision) {
	body := bodies.Get().(*body)
	defer bodies.Put(body)
	body.Reset()
	body.Write(appendPlaced(body.AvailableBuffer(), sale, d.Order, d.Quantity))
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(body.Len())}
	h["Location"] = []string{s.Base + "/v1/orders/" + string(d.Order)}
	if d.Replayed {
		h["Idempotent-Replayed"] = replayed
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body.Bytes())
}

// refuse writes a refusal; most carry nothing but their code.
func (s *Server) refuse(w http.ResponseWriter, sale sluice.SaleID, d sluice.Decision) {
	s.Claims.Decided(sale, d.Code)
	if d.Code == sluice.NotOpen {
		s.notOpen.of(d.OpensAt, &s.problems).write(w, nil)
		return
	}
	s.encoded[d.Code].write(w, retryIn(d.RetryAfter))
}

// plainOrder is the message that nearly every buyer sends.
var plainOrder = []byte(`{"quantity":1}`)

// parsePlaceOrder reads a claim's body; Meta comes back as compact JSON, empty
// when there is none. It says what is wrong with quantity and meta.
func parsePlaceOrder(body []byte) (order api.PlaceOrder, err error) {
	if bytes.Equal(body, plainOrder) {
		return api.PlaceOrder{Quantity: 1}, nil
	}
	var m struct {
		Quantity json.RawMessage `json:"quantity"`
		Meta     json.RawMessage `json:"meta"`
	}
	if err = api.Decode(body, &m); err == nil {
		order.Quantity, err = parseQuantity(m.Quantity)
	}
	if err == nil {
		order.Meta, err = compactMeta(m.Meta)
	}
	return order, err
}

func parseQuantity(raw []byte) (int64, error) {
	if raw == nil {
		return 0, fmt.Errorf("quantity: is missing; want a whole number, 1 to %d", sluice.MaxQuantity)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > sluice.MaxQuantity {
		have := string(raw)
		if len(have) > 40 {
			have = have[:40] + "…"
		}
		return 0, fmt.Errorf("quantity: want a whole number, 1 to %d, have %s", sluice.MaxQuantity, have)
	}
	return n, nil
}

func compactMeta(raw []byte) (json.RawMessage, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("meta: want a JSON object")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	if b.Len() > sluice.MaxMeta {
		return nil, fmt.Errorf("meta: %d bytes of compact JSON: want at most %d", b.Len(), sluice.MaxMeta)
	}
	if !utf8.Valid(b.Bytes()) {
		return nil, errors.New("meta: want valid UTF-8")
	}
	return b.Bytes(), nil
}

// appendPlaced appends the answer to an accepted claim, as Placed encodes, with
// a line feed. Ids of a sale and an order need no escaping.
func appendPlaced(dst []byte, sale sluice.SaleID, order sluice.OrderID, quantity int64) []byte {
	dst = append(dst, `{"order_id":"`...)
	dst = append(dst, order...)
	dst = append(dst, `","sale_id":"`...)
	dst = append(dst, sale...)
	dst = append(dst, `","quantity":`...)
	dst = strconv.AppendInt(dst, quantity, 10)
	return append(dst, `,"status":"queued"}`+"\n"...)
}
