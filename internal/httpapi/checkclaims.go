package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// addresses finds a proxy that is not named: all buyers behind it count as one address.
func (c *saleCheck) addresses() {
	s, rate := c.server, c.view.Sale.Rules.AddressRate
	if rate == (sluice.AddressRate{}) {
		return
	}
	most := fmt.Sprintf("at most %d claims in %d s from one address", rate.Requests, rate.PerS)
	answers, _, unnamed, _ := s.Claims.Recent(c.view.Sale.ID)
	switch peer := s.unnamed.last.Load(); {
	case peer != nil && unnamed > 0:
		status := fail
		came := sum(answers)
		if unnamed <= came/2 || answers[sluice.RateLimited.String()] == 0 { // any client may send the header
			status = warn
		}
		c.find(status, "addresses", "trusted_proxies",
			"if that address is your proxy's, it or its network: all buyers behind it count as one; if not, nothing",
			"%s; %d of the last %d claims came with %s, one of them through %s, which is not named", most, unnamed,
			max(came, unnamed), s.Proxies.header(), peer)
	case len(s.Proxies.Trusted) == 0:
		c.find(warn, "addresses", "trusted_proxies",
			"the address of your proxy, if buyers come through one; nothing if they connect to this server",
			"%s, and no proxy is named", most)
	default:
		c.ok("addresses", "%s, as the proxies that are named say", most)
	}
}

// claims reports what has become of the claims that came to this server.
func (c *saleCheck) claims() {
	all := c.server.claimCounts(c.view.Sale.ID)
	if all == nil {
		return // not counted apart
	}
	answers, refused, _, since := c.server.Claims.Recent(c.view.Sale.ID)
	if since.IsZero() {
		since = all.Since.Time
	}
	top := reasonNoToken // the most frequent reason
	for reason, n := range refused {
		if n > refused[top] || n == refused[top] && reason < top {
			top = reason
		}
	}
	limited := answers[sluice.RateLimited.String()]
	decided := -limited
	for _, code := range sluice.Codes() {
		decided += answers[code.String()]
	}
	status, fix, text := api.CheckOK, fix{}, countsText(answers, refused, since)
	switch opened := c.hasOpened() && !c.view.Archived(); {
	case len(all.Answers)+len(all.Refused) == 0 && opened:
		status, fix = warn, noneCame
		text = "no claim has come to this server since " + all.Since.String()
	case refused[top] > decided:
		status, fix = fail, refusalFixes[top]
	case limited > decided:
		status, fix = fail, limitedFix
	case all.Answers[sluice.Accepted.String()] == 0 && opened:
		status, fix = warn, noneAccepted
		text = countsText(all.Answers, all.Refused, all.Since.Time)
	}
	if status == fail && answers[sluice.Accepted.String()] > 0 {
		status = warn // it can be bought, however many others are sent away
	}
	c.find(status, "claims", fix.where, fix.right, "%s", text)
}

// countsText lists answers and reasons.
func countsText(answers, refused map[string]int64, since time.Time) string {
	var parts []string
	for _, counts := range []map[string]int64{answers, refused} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprint(counts[name], " ", name))
		}
	}
	if parts == nil {
		parts = []string{"none have come"}
	}
	return strings.Join(parts, ", ") + " since " + api.At(since).String()
}

func sum(counts map[string]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// fix is where something is to be changed, and what would be right.
type fix struct{ where, right string }

var (
	noneCame = fix{
		"what stands before this server: pages, DNS, load balancer, proxy",
		"a claim arrives: POST /v1/sales/SALE/orders at this server's listen address",
	}
	noneAccepted = fix{"the answers in the detail", "docs/codes.md says what each means"}
	limitedFix   = fix{
		"buyer_rate and address_rate of the sale, and trusted_proxies",
		"rates that buyers keep to; behind a proxy, trusted_proxies names it",
	}
)

// refusalFixes are for claims that are refused for who or what sends them, by reason; docs/operating.md
// has the same table.
var refusalFixes = map[string]fix{
	reasonSignature: {"buyer_secret, or buyer_jwks", "the same in the shop and on every server (SLUICE_BUYER_SECRET)"},
	reasonTime:      {"the clocks of the login and of this server", "NTP on both; tokens that live longer than a visit"},
	reasonNoToken:   {"the page, or the proxy", "the header Authorization: Bearer TOKEN reaches this server"},
	reasonToken:     {"the login, and this server's settings buyer_...", "a token as docs/identity.md has it"},
	reasonNoKeys:    {"buyer_jwks", "the keys of the login can be read from this server"},
	reasonAdminKey:  {"the shop", "a token of the buyer; the admin's key is the merchant's alone"},
	reasonKey:       {"the page", "the header Idempotency-Key: 8 to 64 letters, digits, _ and -, one per attempt"},
	reasonBody:      {"the page, or the shop", `the body {"quantity":1}, with meta if wanted`},
	reasonTooLarge:  {"meta of the claims", "at most 512 bytes"},
	reasonOrigin:    {"cors_origins", "the origin of the page, exactly as in the address bar"},

	string(sluice.NotEligible):   {"the allow list of the sale", "the buyers are on it, or their token names the sale"},
	string(sluice.Denied):        {"the deny list of the sale", "only those who may not buy are on it"},
	string(sluice.TicketMissing): {"the page", "it asks for a ticket first: docs/tickets.md"},
	string(sluice.TicketInvalid): {"ticket_secret", "the same on every server"},
	string(sluice.LimitMissing):  {"the login", "it adds what the sale's limits are by to the tokens"},
	string(sluice.TicketExpired): {"the page", "it asks for another ticket when one has expired"},
}
