package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// words are codes as a person says them.
var words = map[sluice.Code]string{
	sluice.Accepted:     "got one",
	sluice.SoldOut:      "sold out",
	sluice.BuyerLimit:   "had theirs already",
	sluice.Insufficient: "wanted more than there were",
	sluice.RateLimited:  "asked too often",
	sluice.NotOpen:      "came too early",
	sluice.Closed:       "came too late",
	sluice.Paused:       "met a pause",
	sluice.KeyReused:    "reused a key",
	sluice.SaleNotFound: "found no sale",
	loadgen.Forbidden:   "were not let in",
}

// printRush prints what the crowd met.
func (a *app) printRush(r *loadgen.Result) {
	var rows [][]string
	for _, code := range loadgen.Codes() {
		always := code == sluice.Accepted || code == sluice.SoldOut
		if n := r.Decisions[code]; n > 0 || always {
			rows = append(rows, []string{words[code], figures.Thousands(n), loadgen.CodeName(code)})
		}
	}
	rows = append(rows, []string{"never got an answer", figures.Thousands(r.Errors), "errors"})
	_ = a.printTable(nil, []string{"TRIES", ">", "CODE"}, rows)
	a.printReasons(r.ForbiddenReasons)
	a.printReasons(r.ErrorReasons)
	fields := [][2]string{
		{"requests", fmt.Sprintf("%s in %s, %s a second", figures.Thousands(r.Requests), figures.Seconds(r.DurationS),
			figures.Thousands(int64(r.RequestsPerS)))},
		{"answered in", latency(&r.LatencyMS)},
	}
	if r.Tickets != nil {
		fields = append(fields, ticketFields(r.Tickets)...)
	}
	if r.OrdersStored != nil {
		fields = append(fields, [2]string{"orders stored", fmt.Sprintf("%s from %s, the last one %s after the last answer",
			figures.Thousands(*r.OrdersStored), figures.Plural(*r.DistinctBuyers, "buyer", "different buyers"),
			figures.Seconds(*r.StoredAfterS))})
	}
	if r.Replayed > 0 {
		fields = append(fields, [2]string{"replayed", figures.Thousands(r.Replayed) +
			" had been accepted by an earlier request with their key"})
	}
	fields = append(fields, [2]string{"seed", fmt.Sprint(r.Seed)})
	a.printFields(fields)
}

func (a *app) printReasons(reasons map[string]int64) {
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(a.stdout, "  %s: %s\n", figures.Thousands(reasons[reason]), reason)
	}
}

// ticketFields say what it took to get tickets, apart from the claims.
func ticketFields(t *loadgen.Tickets) [][2]string {
	got := fmt.Sprintf("%s handed out", figures.Thousands(t.HandedOut))
	for _, reason := range slices.Sorted(maps.Keys(t.Refused)) {
		got += fmt.Sprintf(", %s refused: %s", figures.Thousands(t.Refused[reason]), reason)
	}
	if t.Errors > 0 {
		got += fmt.Sprintf(", %s without an answer", figures.Thousands(t.Errors))
	}
	fields := [][2]string{
		{"tickets", fmt.Sprintf("%s; %s in %s", got, figures.Plural(t.Requests, "request", "requests"),
			figures.Seconds(t.DurationS))},
	}
	if t.HandedOut > 0 {
		fields = append(fields, [2]string{"handed out in", latency(&t.LatencyMS)})
	}
	if work := t.WorkMS; t.Solved > 0 {
		fields = append(fields, [2]string{"proofs of work", fmt.Sprintf("%s, p50 %s, p95 %s, at most %s each",
			figures.Thousands(t.Solved), figures.Milliseconds(work.P50), figures.Milliseconds(work.P95),
			figures.Milliseconds(work.Max))})
	}
	return fields
}

func latency(l *loadgen.Latency) string {
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s, at most %s", figures.Milliseconds(l.P50), figures.Milliseconds(l.P95),
		figures.Milliseconds(l.P99), figures.Milliseconds(l.Max))
}

// printLives prints what became of the orders.
func (a *app) printLives(l *loadgen.Lifecycle) {
	fmt.Fprintln(a.stdout)
	rows := [][]string{
		{"paid", figures.Thousands(l.Paid), string(sluice.Paid)},
		{"given back by the buyer", figures.Thousands(l.Cancelled), string(sluice.Cancelled)},
		{"never paid", figures.Thousands(l.Expired), string(sluice.Expired)},
	}
	if l.Refunded > 0 {
		rows = append(rows, []string{"paid too late, money back", figures.Thousands(l.Refunded), string(sluice.Refunded)})
	}
	_ = a.printTable(nil, []string{"ORDERS", ">", "STATUS"}, rows)
	back := fmt.Sprintf("%s with the key they had, %s", figures.Plural(l.CameBack.Buyers, "buyer", "buyers"),
		figures.Plural(l.CameBack.Requests, "request", "requests"))
	if l.CameBack.Requests == 0 {
		back = "no buyers: returned units went to buyers later in the rush"
	}
	a.printFields([][2]string{
		{"returned", fmt.Sprintf("%s; %s sold again, %s available", figures.Plural(l.Returned, "unit", "units"),
			figures.Thousands(l.SoldAgain), figures.Thousands(l.Available))},
		{"came back", fmt.Sprintf("%s; %s away with nothing", back,
			figures.Plural(l.CameBack.Left, "buyer went", "buyers went"))},
		{"settled", figures.Seconds(l.SettledAfterS) + " after the last answer of the rush"},
	})
}
