package loadgen

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// Result is what `sluice load --json` and `sluice demo --json` print: other
// programs read it, so fields are added at the end and never change. The
// pointers are set by the demo only.
type Result struct {
	SaleID       sluice.SaleID `json:"sale_id"`
	Ledger       string        `json:"ledger"` // demo: its URL; load: its kind, as the server says
	Store        string        `json:"store"`
	Buyers       int           `json:"buyers"`
	Stock        *int64        `json:"stock"` // the sale's total; null when it has none
	Seed         uint64        `json:"seed"`
	DurationS    float64       `json:"duration_s"`
	Requests     int64         `json:"requests"` // sent, repeats too
	RequestsPerS float64       `json:"requests_per_s"`
	Decisions    Decisions     `json:"decisions"`
	Errors       int64         `json:"errors"` // tries without a decision after retries
	LatencyMS    Latency       `json:"latency_ms"`

	OrdersStored   *int64              `json:"orders_stored,omitempty"`
	DistinctBuyers *int64              `json:"distinct_buyers,omitempty"` // of the stored orders
	StoredAfterS   *float64            `json:"stored_after_s,omitempty"`  // from the last answer to the last order stored
	Audit          *sluice.AuditReport `json:"audit,omitempty"`

	// of accepted: decided by an earlier request with the key
	Replayed     int64            `json:"replayed,omitempty"`
	ErrorReasons map[string]int64 `json:"error_reasons,omitempty"` // why tries were not decided

	Lifecycle *Lifecycle `json:"lifecycle,omitempty"` // of the demo with --lifecycle

	Tickets          *Tickets         `json:"tickets,omitempty"`           // when buyers asked for some
	ForbiddenReasons map[string]int64 `json:"forbidden_reasons,omitempty"` // of the decisions with code forbidden
}

// Lifecycle is what became of the orders after the rush, once all is settled.
// An order is one unit. The other figures of the result describe the rush.
type Lifecycle struct {
	PaymentWindowS float64 `json:"payment_window_s"`
	PaymentGraceS  float64 `json:"payment_grace_s"`

	Accepted  int64 `json:"accepted"` // claims, those for returned units too
	Paid      int64 `json:"paid"`     // orders, as the store has them in the end
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
	Refunded  int64 `json:"refunded"` // paid too late

	Returned  int64 `json:"units_returned"`
	SoldAgain int64 `json:"units_sold_again"`
	Available int64 `json:"available"` // in the end: total = available + paid

	CameBack      *Comeback `json:"came_back"`       // those who had heard sold_out
	SettledAfterS float64   `json:"settled_after_s"` // from the last answer of the rush to the end
}

// Latency of tries from their (intended) start to their decision, in
// milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Forbidden represents api.CodeForbidden in Decisions, which is none of the
// ledger's: the buyer is not let in, for a reason of its own.
const Forbidden = sluice.Code(math.MaxUint8)

// Codes lists what may be in Decisions: every code, and Forbidden.
func Codes() []sluice.Code { return append(sluice.Codes(), Forbidden) }

// CodeName is a code as the API writes it.
func CodeName(c sluice.Code) string {
	if c == Forbidden {
		return api.CodeForbidden
	}
	return c.String()
}

// parseCode is the inverse of CodeName.
func parseCode(name string) (sluice.Code, error) {
	if name == api.CodeForbidden {
		return Forbidden, nil
	}
	return sluice.ParseCode(name)
}

// Decisions counts tries by code.
type Decisions map[sluice.Code]int64

// MarshalJSON writes accepted, sold_out and
// buyer_limit first and always, the others when there are any.
func (d Decisions) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	add := func(code sluice.Code) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, strconv.Quote(CodeName(code))+":"...)
		b = strconv.AppendInt(b, d[code], 10)
	}
	always := []sluice.Code{sluice.Accepted, sluice.SoldOut, sluice.BuyerLimit}
	for _, code := range always {
		add(code)
	}
	for _, code := range Codes() {
		if d[code] > 0 && !slices.Contains(always, code) {
			add(code)
		}
	}
	return append(b, '}'), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (d *Decisions) UnmarshalJSON(data []byte) error {
	var named map[string]int64
	if err := json.Unmarshal(data, &named); err != nil {
		return err
	}
	*d = Decisions{}
	for name, n := range named {
		code, err := parseCode(name)
		if err != nil {
			return err
		}
		if n != 0 {
			(*d)[code] = n
		}
	}
	return nil
}

// Outcome is the result, and what the answers promised.
type Outcome struct {
	Result
	Promises []Promise
}

func (c *Crowd) outcome(took time.Duration) *Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &Outcome{Promises: c.promises, Result: Result{
		SaleID: c.o.Sale, Buyers: c.o.Buyers, Seed: c.o.Seed,
		DurationS: Round(took.Seconds()), Requests: c.requests.Load(),
		Decisions: Decisions{}, Errors: c.codes[0], Replayed: c.replayed, ErrorReasons: c.reasons,
		LatencyMS: latencyOf(c.latency), Tickets: c.wallet.report(), ForbiddenReasons: c.barred,
	}}
	if took > 0 {
		out.RequestsPerS = Round(float64(out.Requests) / took.Seconds())
	}
	for _, code := range Codes() {
		if n := c.codes[code]; n > 0 {
			out.Decisions[code] = n
		}
	}
	return out
}

// newHistogram counts microseconds, up to an hour.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

func observe(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(took.Microseconds(), 1), h.HighestTrackableValue()))
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(q float64) float64 { return Round(float64(h.ValueAtQuantile(q)) / 1000) }
	return Latency{P50: at(50), P95: at(95), P99: at(99), Max: Round(float64(h.Max()) / 1000)}
}

// Round keeps three decimals, so that figures read well.
func Round(v float64) float64 { return math.Round(v*1000) / 1000 }
