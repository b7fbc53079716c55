package main

import (
	"fmt"
	"slices"

	"github.com/sluicehq/sluice"
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
			rows = append(rows, []string{words[code], thousands(n), loadgen.CodeName(code)})
		}
	}
	rows = append(rows, []string{"never got an answer", thousands(r.Errors), "errors"})
	a.printTable([]string{"TRIES", ">", "CODE"}, rows)
	a.printReasons(r.ForbiddenReasons)
	a.printReasons(r.ErrorReasons)
	l := r.LatencyMS
	fields := [][2]string{
		{"requests", fmt.Sprintf("%s in %s, %s a second", thousands(r.Requests), seconds(r.DurationS),
			thousands(int64(r.RequestsPerS)))},
		{"answered in", fmt.Sprintf("p50 %s, p95 %s, p99 %s, at most %s", milliseconds(l.P50), milliseconds(l.P95),
			milliseconds(l.P99), milliseconds(l.Max))},
	}
	if r.Tickets != nil {
		fields = append(fields, ticketFields(r.Tickets)...)
	}
	if r.OrdersStored != nil {
		fields = append(fields, [2]string{"orders stored", fmt.Sprintf("%s from %s, the last one %s after the last answer",
			thousands(*r.OrdersStored), plural(*r.DistinctBuyers, "buyer", "different buyers"), seconds(*r.StoredAfterS))})
	}
	if r.Replayed > 0 {
		fields = append(fields, [2]string{"replayed", thousands(r.Replayed) +
			" had been accepted by an earlier request with their key"})
	}
	fields = append(fields, [2]string{"seed", fmt.Sprint(r.Seed)})
	a.printFields(fields)
}

func (a *app) printReasons(reasons map[string]int64) {
	for _, reason := range slices.Sorted(mapKeys(reasons)) {
		fmt.Fprintf(a.stdout, "  %s: %s\n", thousands(reasons[reason]), reason)
	}
}

// ticketFields say what it took to get tickets, apart from the claims.
func ticketFields(t *loadgen.Tickets) [][2]string {
	got := fmt.Sprintf("%s handed out", thousands(t.HandedOut))
	for _, reason := range slices.Sorted(mapKeys(t.Refused)) {
		got += fmt.Sprintf(", %s refused: %s", thousands(t.Refused[reason]), reason)
	}
	if t.Errors > 0 {
		got += fmt.Sprintf(", %s without an answer", thousands(t.Errors))
	}
	l, work := t.LatencyMS, t.WorkMS
	fields := [][2]string{
		{"tickets", fmt.Sprintf("%s; %s in %s", got, plural(t.Requests, "request", "requests"), seconds(t.DurationS))},
	}
	if t.HandedOut > 0 {
		fields = append(fields, [2]string{
			"handed out in",
			fmt.Sprintf("p50 %s, p95 %s, p99 %s, at most %s", milliseconds(l.P50), milliseconds(l.P95), milliseconds(l.P99),
				milliseconds(l.Max)),
		})
	}
	if t.Solved > 0 {
		fields = append(fields, [2]string{
			"proofs of work",
			fmt.Sprintf("%s, p50 %s, p95 %s, at most %s each", thousands(t.Solved), milliseconds(work.P50),
				milliseconds(work.P95), milliseconds(work.Max)),
		})
	}
	return fields
}

func mapKeys(m map[string]int64) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// printLives prints what became of the orders.
func (a *app) printLives(l *loadgen.Lifecycle) {
	fmt.Fprintln(a.stdout)
	rows := [][]string{
		{"paid", thousands(l.Paid), string(sluice.Paid)},
		{"given back by the buyer", thousands(l.Cancelled), string(sluice.Cancelled)},
		{"never paid", thousands(l.Expired), string(sluice.Expired)},
	}
	if l.Refunded > 0 {
		rows = append(rows, []string{"paid too late, money back", thousands(l.Refunded), string(sluice.Refunded)})
	}
	a.printTable([]string{"ORDERS", ">", "STATUS"}, rows)
	back := fmt.Sprintf("%s with the key they had, %s", plural(int64(l.CameBack.Buyers), "buyer", "buyers"),
		plural(l.CameBack.Requests, "request", "requests"))
	if l.CameBack.Requests == 0 {
		back = "no buyers: returned units went to buyers later in the rush"
	}
	a.printFields([][2]string{
		{"returned", fmt.Sprintf("%s; %s sold again, %s available", plural(l.Returned, "unit", "units"),
			thousands(l.SoldAgain), thousands(l.Available))},
		{"came back", fmt.Sprintf("%s; %s away with nothing", back,
			plural(int64(l.CameBack.Left), "buyer went", "buyers went"))},
		{"settled", seconds(l.SettledAfterS) + " after the last answer of the rush"},
	})
}
