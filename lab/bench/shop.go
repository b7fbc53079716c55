package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/loadgen"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// What the benchmark does with a server besides measuring it: over HTTP, like
// any merchant and buyer.

const shopSale = "singles-day-phone"

const ordersPath = "/v1/sales/" + shopSale + "/orders"

// get returns the status and the body of what a server answers to anyone.
func (p *process) get(ctx context.Context, path string) (status int, body string, err error) {
	answer, err := ask(ctx, http.MethodGet, p.URL+path, http.Header{}, "")
	if err != nil {
		return 0, "", err
	}
	return answer.Status, answer.Body, nil
}

// ask sends a request and returns the answer.
func ask(ctx context.Context, method, url string, header http.Header, body string) (*constant, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return newConstant(answer, text), err
}

// longOpen is when a sale opened that is open.
var longOpen = time.Date(2024, 11, 11, 0, 0, 0, 0, time.UTC)

// merchant returns the merchant's client.
func (p *process) merchant() (*client.Client, error) {
	return client.New(p.URL, client.Options{AdminKey: p.key, HTTPClient: http.DefaultClient})
}

// createSale creates a sale that is open, with a number of units, one per buyer.
func (p *process) createSale(ctx context.Context, id string, total int64) error {
	c, err := p.merchant()
	if err != nil {
		return err
	}
	_, err = c.CreateSale(ctx, api.CreateSale{
		ID: api.Some(sluice.SaleID(id)), SKU: "PHONE-1", Title: "A phone",
		Price: api.Some(sluice.Money{Amount: 99900, Currency: "CNY"}),
		Total: api.Value(total), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(longOpen)),
	})
	return err
}

// order has the n-th buyer of a crowd order one unit.
func (p *process) order(ctx context.Context, secret string, buyers crowd.Crowd, n int64) (*constant, error) {
	buyer, key := buyers.Attempt(n)
	token, err := loadgen.Mint([]byte(secret), buyer, time.Now(), tokenLife)
	if err != nil {
		return nil, err
	}
	return ask(ctx, http.MethodPost, p.URL+ordersPath, http.Header{
		"Authorization": {"Bearer " + token}, "Idempotency-Key": {string(key)}, "Content-Type": {"application/json"},
	}, `{"quantity":1}`)
}

// sell sells units to as many buyers, from the given one on.
func (p *process) sell(ctx context.Context, secret string, buyers crowd.Crowd, from, units int64) error {
	const hands = 50
	var group sync.WaitGroup
	failed := make(chan error, hands)
	for h := range int64(hands) {
		group.Go(func() {
			for n := h; n < units; n += hands {
				c, err := p.order(ctx, secret, buyers, from+n)
				if err == nil && c.Status != http.StatusAccepted {
					err = fmt.Errorf("sell unit %d: %d %s", n, c.Status, c.Body)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	if len(failed) > 0 {
		return <-failed
	}
	return nil
}

// counts are the server's own, since its start.
type counts struct {
	accepted, soldOut int64 // answers to claims
	claims            int64 // answers to claims, of any code
	decided           int64 // claims that the ledger was asked to decide
	calls             int64 // of the ledger, to decide them
}

// counts returns what the server has counted up to now. It keeps its metrics for
// a second.
func (p *process) counts(ctx context.Context) (counts, error) {
	var c counts
	time.Sleep(1100 * time.Millisecond)
	status, body, err := p.get(ctx, "/metrics")
	if err != nil || status != http.StatusOK {
		return c, fmt.Errorf("metrics: status %d: %w", status, err)
	}
	for line := range strings.Lines(body) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, `sluice_claims_total{code="accepted",`): // one line per sale
			c.accepted += int64(n)
		case strings.HasPrefix(name, `sluice_claims_total{code="sold_out",`):
			c.soldOut += int64(n)
		case name == "sluice_ledger_call_claims_sum":
			c.decided = int64(n)
		case name == "sluice_ledger_call_claims_count":
			c.calls = int64(n)
		}
		if strings.HasPrefix(name, "sluice_claims_total{") {
			c.claims += int64(n)
		}
	}
	return c, nil
}

// awaitRefusals returns when the server refuses a new buyer without asking the
// ledger: when it knows that the sale is sold out, and to whom.
func (p *process) awaitRefusals(ctx context.Context, secret string, buyers crowd.Crowd, from int64) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); from++ {
		before, err := p.counts(ctx)
		if err != nil {
			return err
		}
		c, err := p.order(ctx, secret, buyers, from)
		if err != nil {
			return err
		}
		after, err := p.counts(ctx)
		if err != nil {
			return err
		}
		if c.Status == http.StatusConflict && after.soldOut > before.soldOut && after.decided == before.decided {
			return nil
		}
	}
	return fmt.Errorf("the server does not refuse by itself")
}

// sale returns the sale as the merchant reads it.
func (p *process) sale(ctx context.Context) (api.AdminSale, error) {
	c, err := p.merchant()
	if err != nil {
		return api.AdminSale{}, err
	}
	return c.AdminSale(ctx, shopSale)
}

// awaitStored returns when every accepted claim is a stored order.
func (p *process) awaitStored(ctx context.Context) error {
	last, changed := int64(-1), time.Now()
	for {
		sale, err := p.sale(ctx)
		if err != nil {
			return err
		}
		switch {
		case sale.StoredTaken == sale.Taken && sale.Backlog == 0:
			return nil
		case sale.StoredTaken != last:
			last, changed = sale.StoredTaken, time.Now()
		case time.Since(changed) > 20*time.Second:
			return fmt.Errorf("%d of %d orders are stored, and no more come", sale.StoredTaken, sale.Taken)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// audit asks the server for its proof, which must be whole, and compares the
// number of orders. It is in a range, since the claims that were in flight
// when wrk ended are not counted.
func (p *process) audit(ctx context.Context, least, most int64) error {
	c, err := p.merchant()
	if err != nil {
		return err
	}
	report, err := c.Audit(ctx, shopSale)
	if err != nil || report.Figures == nil {
		return fmt.Errorf("audit: figures %v: %w", report.Figures, err)
	}
	orders := report.Figures.Store.Orders
	if !report.OK || report.InFlight != 0 || report.Figures.Ledger.Claims != orders || orders < least || orders > most {
		return fmt.Errorf("audit: want ok with %d to %d orders: %+v", least, most, report)
	}
	return nil
}
