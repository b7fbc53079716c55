package engine

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
)

// Span is one stage on the way of an order, from the claim to the store. An order has one
// trace, over all servers: the 32 hex digits of its id are the trace's id. Nothing is
// carried from server to server, since each knows the id.
type Span struct {
	Order sluice.OrderID
	// Stage is "claim", the root, from the gate to the decision; or a part of it,
	// "admission", "wait" and "ledger" as in sluice_claim_stage_seconds; or what comes
	// after the decision: "journal", until the transaction begins, and "store", the
	// transaction. Where the ledger is in the store, "ledger" is that transaction.
	Stage      string
	Begin, End time.Time // by the clock of the server
	Node       string    // the server
	Claims     int       // decided or stored together with this one; 0 for the other stages
	Err        error     // the outcome is unknown
}

// Tracer takes the spans of sampled orders. It must not block.
type Tracer interface {
	Trace(span Span)
	// Dropped is how many spans it could not keep or send so far.
	Dropped() int64
}

// defaultTraceRatio is the part of the orders that is traced, unless it is set.
const defaultTraceRatio = 0.01

// tracing makes the spans of sampled orders, afterwards, from times that are taken for
// every claim: a claim that is not sampled costs a comparison.
type tracing struct {
	to         Tracer
	node       string
	least      uint64 // of the random part of an order's id, to be sampled
	ledgerTime func(now time.Time) time.Time
}

// random is how many bits of a trace's id are random: the last ones, as
// OpenTelemetry's own samplers take them.
const random = 56

// newTracing returns nil without a tracer.
func newTracing(c *Config, node string, ledgerTime func(time.Time) time.Time) (*tracing, error) {
	if c.Tracer == nil {
		return nil, nil
	}
	ratio := cmp.Or(c.TraceRatio, defaultTraceRatio)
	if !(ratio > 0 && ratio <= 1) { // NaN as well
		return nil, fmt.Errorf("trace_ratio %v: want a number above 0, at most 1", c.TraceRatio)
	}
	return &tracing{
		to: c.Tracer, node: node, ledgerTime: ledgerTime, least: uint64((1 - ratio) * (1 << random)),
	}, nil
}

// sampled reports whether an order is traced: by its id, so that all servers agree.
func (t *tracing) sampled(order sluice.OrderID) bool {
	digits := len(order) - random/4
	if digits < 0 {
		return false
	}
	at, err := strconv.ParseUint(string(order[digits:]), 16, 64)
	return err == nil && at >= t.least
}

// decided makes the spans of a claim that made an order, or may have.
func (t *tracing) decided(way admission.Way) {
	if !t.sampled(way.Order) {
		return
	}
	span := Span{Order: way.Order, Node: t.node, Err: way.Err}
	stage := func(name string, begin, end time.Time, claims int) {
		span.Stage, span.Begin, span.End, span.Claims = name, begin, end, claims
		t.to.Trace(span)
	}
	began := way.Began
	if began.IsZero() { // it came without the gate
		began = way.Queued
	}
	stage("claim", began, way.Ended, 0)
	stage("ledger", way.Left, way.Ended, way.Claims)
	span.Err = nil
	stage("admission", began, way.Queued, 0)
	stage("wait", way.Queued, way.Left, 0)
}

// stored makes the spans of a transaction that is committed. Of claims that came again it
// is not known when they were stored.
func (t *tracing) stored(entries []port.Entry, result *port.Stored, took time.Duration, err error) {
	if err != nil || result.Redelivered > 0 {
		return
	}
	ended := time.Now()
	begun, ahead := ended.Add(-took), t.ledgerTime(ended).Sub(ended)
	claims := 0
	for i := range entries {
		claims += len(entries[i].Claims)
	}
	for i := range entries {
		for j := range entries[i].Claims {
			order := entries[i].Claims[j].Order
			if !t.sampled(order) {
				continue
			}
			written := entries[i].At.Add(-ahead) // by this server's clock
			if written.After(begun) {
				written = begun
			}
			t.to.Trace(Span{Order: order, Stage: "journal", Begin: written, End: begun, Node: t.node})
			t.to.Trace(Span{Order: order, Stage: "store", Begin: begun, End: ended, Node: t.node, Claims: claims})
		}
	}
}
