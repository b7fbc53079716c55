package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// goals are what a run of load must reach.
type goals struct {
	p99    time.Duration
	errors int64
	rate   float64
}

func (a *app) loadCommand() *cobra.Command {
	var o loadgen.Options
	var g goals
	var tokens, promises, ca string
	cmd := &cobra.Command{
		Use: "load", Short: "Let a crowd rush a sale over HTTP, and measure",
		Long: "Buys for real: the crowd's orders are orders like any other, and their " +
			"units are gone. Rehearse on a sale of its own, not on the one that you sell.\n\n" +
			"Every buyer tries once, a share of them twice. Without --rate each connection " +
			"sends its next request when the answer has come; with it, tries start at fixed " +
			"moments, and latency counts from when a try should have started.\n\n" +
			"If the sale asks for purchase tickets, buyers do what the pages do: they get " +
			"a ticket as soon as tickets are handed out, with the proof of work, and try when " +
			"the sale opens. Tickets have figures of their own.\n\n" +
			"Buyers' tokens are signed with SLUICE_BUYER_SECRET, or with the secret that a " +
			"server on this machine keeps in --data-dir, or read from --tokens. Exit code 4: " +
			"a --goal was missed.",
		RunE: a.with(func(cmd *cobra.Command, c *config.Config, _ []string) error {
			o.URL = c.URL
			if err := trust(&o, ca); err != nil {
				return usage(err)
			}
			if err := crowdTokens(&o, c, tokens, cmd.Flags().Changed("buyers")); err != nil {
				return usage(err)
			}
			if o.Invited && tokens != "" {
				return usage(errors.New("--invited: is for tokens that are signed here; those of --tokens stay as they are"))
			}
			if !cmd.Flags().Changed("seed") {
				o.Seed = newSeed()
			}
			return a.runLoad(cmd, c, o, g, promises)
		}),
	}
	fl := cmd.Flags()
	oneSale(cmd, &o.Sale, "the `SALE` to rush")
	crowdFlags(cmd, &o, 10_000)
	fl.Float64Var(&o.Rate, "rate", 0, "tries a second, open loop (default: as fast as answers come)")
	fl.DurationVar(&o.Duration, "duration", 0, "how long the crowd rushes, again and again (default: once)")
	fl.BoolVar(&o.Invited, "invited", false,
		"name the sale in the buyers' tokens, for a sale with eligibility token")
	fl.StringVar(&tokens, "tokens", "", "read buyers' tokens from `PATH`, one a line")
	fl.StringVar(&ca, "ca", "", "believe the certificates in `PATH` (PEM) and no others: your own, or a trial's")
	fl.DurationVar(&o.RetryFor, "retry-for", 30*time.Second,
		"how long a try without a decision is repeated with the same key")
	fl.StringVar(&promises, "promises", "", "write the accepted orders to `PATH`, an id a line")
	fl.DurationVar(&g.p99, "goal-p99", 0, "fail with code 4 when the 99th percentile of latency is above")
	fl.Int64Var(&g.errors, "goal-errors", -1, "fail with code 4 when more tries than this stay without a decision")
	fl.Lookup("goal-errors").DefValue = "0" // keeps -1, no goal, out of the help
	fl.Float64Var(&g.rate, "goal-rate", 0, "fail with code 4 when fewer requests a second are answered")
	clientFlags(cmd)
	fl.Lookup("admin-key").Usage = "the merchant's key, which load does not need"
	return cmd
}

// trust has the crowd believe the certificates of a file instead of the system's.
func trust(o *loadgen.Options, path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("--ca %s: there is no certificate in it", path)
	}
	o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return nil
}

// crowdFlags adds the flags that load and demo share.
func crowdFlags(cmd *cobra.Command, o *loadgen.Options, buyers int) {
	fl := cmd.Flags()
	fl.IntVar(&o.Buyers, "buyers", buyers, "how many buyers come")
	fl.Float64Var(&o.Again, "again", 0.05, "share of buyers who try a second time, with a new key")
	fl.IntVar(&o.Connections, "connections", 128, "connections to the server")
	fl.Uint64Var(&o.Seed, "seed", 0, "a number `N` decides who comes when, and the keys (default: random)")
}

func (a *app) runLoad(cmd *cobra.Command, c *config.Config, o loadgen.Options, g goals, promises string) error {
	ctx := cmd.Context()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	cl, err := newClient(c.URL, client.Options{HTTPClient: &http.Client{Transport: transport, Timeout: 15 * time.Second}})
	if err != nil {
		return err
	}
	shown, err := cl.Sale(ctx, o.Sale)
	if err != nil {
		return err
	}
	ready, _ := cl.Ready(ctx) // a crowd may rush a server that is not; its names then stay empty
	if o.Tickets, err = ticketWindow(ctx, cl, &shown); err != nil {
		return err
	}
	if o.Tickets == nil && shown.State == sluice.StateUpcoming {
		// Also with --json: figures of a closed door are easily taken for those of a sale.
		fmt.Fprintf(a.stderr, "sluice: warning: the sale opens at %s; everything until then is refused\n", shown.OpensAt)
	}
	_, out, err := a.rush(ctx, o)
	if out == nil {
		return err
	}
	out.Stock, out.Ledger, out.Store = shown.Total, ready.Ledger, ready.Store
	if promises != "" {
		if err := writePromises(promises, out.Promises); err != nil {
			return err
		}
	}
	if a.json {
		if err := a.printJSON(out.Result); err != nil {
			return err
		}
	} else {
		a.printRush(&out.Result)
	}
	if err != nil {
		return errors.New("interrupted: the figures are those until then")
	}
	return g.missed(&out.Result)
}

// longestWait is how long before the opening a crowd may come and wait for it.
const longestWait = time.Hour

// ticketWindow is nil for a sale that asks for no tickets, or for nothing any more.
func ticketWindow(ctx context.Context, cl *client.Client, sale *api.Sale) (*loadgen.TicketWindow, error) {
	if sale.TicketsFrom == nil || sale.State == sluice.StateClosed {
		return nil, nil
	}
	before := time.Now()
	now, err := cl.Time(ctx)
	if err != nil {
		return nil, err
	}
	if wait := sale.OpensAt.Sub(now); wait > longestWait {
		return nil, fmt.Errorf(
			"a crowd with tickets waits for the opening, and %s opens in %s (%s): start it at most an hour before",
			sale.ID, wait.Round(time.Second), sale.OpensAt)
	}
	return &loadgen.TicketWindow{
		TicketsFrom: sale.TicketsFrom.Time, Opens: sale.OpensAt.Time,
		Ahead: now.Sub(before.Add(time.Since(before) / 2)),
	}, nil
}

// writePromises writes the accepted orders, which must exist for ever, to a
// file for a later check.
func writePromises(path string, promises []loadgen.Promise) error {
	var b strings.Builder
	for _, p := range promises {
		b.WriteString(string(p.Order) + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// missed says which goals were not reached.
func (g *goals) missed(r *loadgen.Result) error {
	var missed []error
	if p99 := time.Duration(r.LatencyMS.P99 * float64(time.Millisecond)); g.p99 > 0 && p99 > g.p99 {
		missed = append(missed, fmt.Errorf("goal missed: p99 is %s, wanted at most %s",
			figures.Milliseconds(r.LatencyMS.P99), g.p99))
	}
	if g.errors >= 0 && r.Errors > g.errors {
		missed = append(missed, fmt.Errorf("goal missed: %s, wanted at most %s",
			figures.Plural(r.Errors, "try without a decision", "tries without a decision"), figures.Thousands(g.errors)))
	}
	if g.rate > 0 && r.RequestsPerS < g.rate {
		missed = append(missed, fmt.Errorf("goal missed: %.0f requests a second, wanted at least %.0f", r.RequestsPerS,
			g.rate))
	}
	if len(missed) == 0 {
		return nil
	}
	return &exitError{exitMissed, errors.Join(missed...)}
}

// crowdTokens finds the buyers' tokens or the secret to sign them with.
func crowdTokens(o *loadgen.Options, c *config.Config, file string, counted bool) error {
	if file == "" {
		secret, err := secretFor(c, c.URL, c.BuyerSecret, buyerSecretFile)
		if err == nil && secret == "" {
			err = fmt.Errorf("no buyers' tokens: set SLUICE_BUYER_SECRET, or give --tokens")
		}
		o.Secret, o.Issuer, o.Audience = []byte(secret), c.BuyerIssuer, c.BuyerAudience
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(strings.TrimPrefix(lines.Text(), bom))
		if token == "" {
			continue
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%s:%d: want one token a line", file, n)
		}
		o.Tokens = append(o.Tokens, token)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(o.Tokens) == 0 {
		return fmt.Errorf("%s: no tokens in it", file)
	}
	if !counted {
		o.Buyers = len(o.Tokens)
	}
	return nil
}

// newSeed is small enough for programs that count in doubles.
func newSeed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) >> 16
}

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
	unanswered := r.Errors
	for reason, n := range r.ErrorReasons {
		if loadgen.Answered(reason) {
			unanswered -= n
		}
	}
	rows = append(rows, []string{"never got an answer", figures.Thousands(unanswered), "errors"})
	if n := r.Errors - unanswered; n > 0 {
		rows = append(rows, []string{"got another answer", figures.Thousands(n), "errors"})
	}
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
