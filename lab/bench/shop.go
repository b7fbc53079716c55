package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/loadgen"
)

// What the benchmark does with a server besides measuring it: over HTTP, like
// any merchant and buyer.

const shopSale = "singles-day-phone"

const ordersPath = "/v1/sales/" + shopSale + "/orders"

// request returns status and body. The merchant's or a buyer's token, an
// Idempotency-Key and a body are sent if they are not empty.
func request(ctx context.Context, method, url, token, key, body string) (int, string, error) {
	answer, err := send(ctx, method, url, token, key, body)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func send(ctx context.Context, method, url, token, key, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Content-Type", "application/json")
	}
	return http.DefaultClient.Do(r)
}

// longOpen is when a sale opened that is open.
var longOpen = time.Date(2024, 11, 11, 0, 0, 0, 0, time.UTC)

// createSale creates the sale of the benchmark with a number of units, one per
// buyer.
func (p *process) createSale(ctx context.Context, total int64, opens time.Time) error {
	return p.createNamed(ctx, shopSale, total, opens)
}

func (p *process) createNamed(ctx context.Context, id string, total int64, opens time.Time) error {
	status, body, err := request(ctx, http.MethodPost, p.URL+"/v1/admin/sales", p.key, "", fmt.Sprintf(
		`{"id":%q,"sku":"PHONE-1","title":"A phone","price":{"amount":99900,"currency":"CNY"},
		"total":%d,"max_per_buyer":1,"opens_at":%q,"closes_at":null}`, id, total, opens.UTC().Format(time.RFC3339Nano)))
	if err != nil {
		return err
	}
	if status != http.StatusCreated {
		return fmt.Errorf("create the sale: %d %s", status, body)
	}
	return nil
}

// order has the n-th buyer of a crowd order one unit.
func (p *process) order(ctx context.Context, secret string, buyers crowd, n int64) (*constant, error) {
	buyer, key := buyers.attempt(n)
	token, err := loadgen.Mint([]byte(secret), buyer, time.Now(), tokenLife)
	if err != nil {
		return nil, err
	}
	answer, err := send(ctx, http.MethodPost, p.URL+ordersPath, token, string(key), `{"quantity":1}`)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return newConstant(answer, body), err
}

// sell sells units to as many buyers, from the given one on.
func (p *process) sell(ctx context.Context, secret string, buyers crowd, from, units int64) error {
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
	status, body, err := request(ctx, http.MethodGet, p.URL+"/metrics", "", "", "")
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
func (p *process) awaitRefusals(ctx context.Context, secret string, buyers crowd, from int64) error {
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

// saleState is how far a sale has come.
type saleState struct {
	Taken, Backlog int64
	StoredTaken    int64 `json:"stored_taken"`
}

func (p *process) sale(ctx context.Context) (s saleState, err error) {
	status, body, err := request(ctx, http.MethodGet, p.URL+"/v1/admin/sales/"+shopSale, p.key, "", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	if err != nil {
		return s, fmt.Errorf("the sale: %w", err)
	}
	return s, nil
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
	status, body, err := request(ctx, http.MethodGet, p.URL+"/v1/admin/sales/"+shopSale+"/audit", p.key, "", "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("audit: status %d: %w", status, err)
	}
	var report struct {
		OK       bool
		InFlight int64 `json:"in_flight"`
		Figures  struct {
			Ledger struct{ Claims int64 }
			Store  struct{ Orders int64 }
		}
	}
	if err := json.Unmarshal([]byte(body), &report); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	orders := report.Figures.Store.Orders
	if !report.OK || report.InFlight != 0 || report.Figures.Ledger.Claims != orders || orders < least || orders > most {
		return fmt.Errorf("audit: want ok with %d to %d orders: %s", least, most, body)
	}
	return nil
}
