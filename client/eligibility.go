package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/tickets"
)

// Challenge asks for the proof of work that a sale wants before a ticket.
func (c *Client) Challenge(ctx context.Context, sale sluice.SaleID) (api.Challenge, error) {
	var challenge api.Challenge
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: salePath(sale) + "/challenge", bearer: c.token,
		into: &challenge,
	})
	return challenge, err
}

// AskTicket asks once for a purchase ticket of the buyer of the client's token.
func (c *Client) AskTicket(ctx context.Context, sale sluice.SaleID, ask api.AskTicket) (api.Ticket, error) {
	var ticket api.Ticket
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: salePath(sale) + "/ticket", bearer: c.token, body: ask,
		into: &ticket,
	})
	return ticket, err
}

// Ticket gets a purchase ticket: it does the proof of work if the sale asks for
// one, which takes as long as it takes, until ctx ends. RiskToken is what a page
// would hand on from the merchant's captcha; it may be empty.
//
// Before tickets are handed out the error has the code not_open; of a sale that
// asks for no tickets, sale_state.
func (c *Client) Ticket(ctx context.Context, sale sluice.SaleID, riskToken string) (api.Ticket, error) {
	ask := api.AskTicket{Token: riskToken}
	ticket, err := c.AskTicket(ctx, sale, ask)
	if ReasonOf(err) != "challenge_missing" {
		return ticket, err
	}
	challenge, err := c.Challenge(ctx, sale)
	if err != nil {
		return api.Ticket{}, err
	}
	ask.Challenge = challenge.Challenge
	if ask.Nonce, err = tickets.Solve(ctx, challenge.Challenge, int(challenge.Difficulty)); err != nil {
		return api.Ticket{}, err
	}
	return c.AskTicket(ctx, sale, ask)
}

// CheckSale asks one server whether a sale is ready to be sold.
func (c *Client) CheckSale(ctx context.Context, sale sluice.SaleID) (api.SaleCheck, error) {
	var check api.SaleCheck
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: adminSalePath(sale) + "/check", bearer: c.adminKey,
		into: &check,
	})
	return check, err
}

// ReplaceBuyers makes the buyers that body holds, an id a line, the sale's
// list; none makes an empty one. It takes as long as it takes, until ctx ends.
func (c *Client) ReplaceBuyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind,
	body io.Reader,
) (api.BuyerList, error) {
	var list api.BuyerList
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, c.base+listPath(sale, kind), body)
	if err != nil {
		return list, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("Authorization", "Bearer "+c.adminKey)
	long := *c.http
	long.Timeout = 0
	res, err := long.Do(req)
	if err != nil {
		return list, &NetworkError{URL: c.base, Err: unwrapURL(err)}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return list, &NetworkError{URL: c.base, Err: err}
	case res.StatusCode >= 400:
		return list, parseError(res, data)
	}
	if err := json.Unmarshal(data, &list); err != nil || res.StatusCode != http.StatusOK {
		return list, &NetworkError{URL: c.base, Err: fmt.Errorf("unexpected answer %s; is this a Sluice server?", res.Status)}
	}
	return list, nil
}

// ClearBuyers empties a list.
func (c *Client) ClearBuyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind) (api.BuyerList, error) {
	var list api.BuyerList
	_, err := c.do(ctx, request{method: http.MethodDelete, path: listPath(sale, kind), bearer: c.adminKey, into: &list})
	return list, err
}

// Buyers returns a page of a list, in the order of their bytes. The cursor is
// that of the page before, empty for the first; limit is 1 to sluice.MaxPage.
func (c *Client) Buyers(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, limit int,
	cursor string,
) (api.BuyerPage, error) {
	var page api.BuyerPage
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: listPath(sale, kind) + "?" + query.Encode(),
		bearer: c.adminKey, into: &page,
	})
	return page, err
}

func listPath(sale sluice.SaleID, kind sluice.ListKind) string {
	return adminSalePath(sale) + "/lists/" + url.PathEscape(string(kind))
}
