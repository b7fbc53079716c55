package httpapi

import (
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
)

// finding is one thing that can be wrong with a sale that should be sold: the check
// that finds it, how bad it is, where it is to be changed, and what would be right.
type finding struct {
	name         string
	status       api.CheckStatus
	where, right string
}

func (f finding) check(format string, args ...any) api.Check {
	return api.Check{
		Name: f.name, Status: f.status, Detail: fmt.Sprintf(format, args...), Where: f.where, Right: f.right,
	}
}

const ledgerAnswers = "the ledger answers; look at its server and the network"

const (
	warn = api.CheckWarn
	fail = api.CheckFail
)

// All that the checks of a sale can find. A sale that cannot be bought fails; what only
// may be wrong is a warning.
var (
	ledgerSilent = finding{"ledger clock", fail, "the ledger (--ledger)", ledgerAnswers}
	ledgerClock  = finding{
		"ledger clock", warn, "the clocks of this server and of the ledger's",
		"NTP on both: the sale opens and countdowns run by the ledger's, buyers' tokens are judged by this server's",
	}
	storeSilent = finding{
		"store clock", fail, "the database (--store)",
		"the database answers; until then orders wait in the journal, payments and cancels fail",
	}
	storeClock = finding{
		"store clock", warn, "the clocks of the database and of the ledger",
		"NTP on both: the database's judges payments and expiry, and pages count down to them by the ledger's",
	}

	ledgerEvicts  = finding{"ledger settings", fail, "the settings of Redis", "maxmemory-policy noeviction"}
	ledgerForgets = finding{"ledger settings", warn, "the settings of Redis", "appendonly yes, appendfsync always"}
	ledgerUnknown = finding{
		"ledger settings", warn, "the user of Redis (ACL)",
		"+config|get, or see to appendonly yes, appendfsync always, maxmemory-policy noeviction by hand",
	}
	ledgerFull = finding{"ledger settings", fail, "disk and memory of the ledger", "room: df; INFO memory of Redis"}

	archived   = finding{"loaded", fail, "the sale", "a new sale: an archived one stays as it is"}
	ledgerDown = finding{"loaded", fail, "the ledger (--ledger)", ledgerAnswers}
	fenced     = finding{"loaded", fail, "the ledger", "a rebuild, by itself within seconds; else the log of the servers"}
	termsLate  = finding{"loaded", warn, "the ledger", "a moment later; else the log of the servers"}

	replicasMissing = finding{"replicas", fail, "the ledger's replicas", "as many as wait_replicas are connected"}
	replicasSlow    = finding{"replicas", warn, "the ledger's replicas", "a faster disk or network, fewer wait_replicas"}

	closed   = finding{"opening", fail, "closes_at of the sale", "sluice sale patch SALE --closes-at TIME, or a new sale"}
	paused   = finding{"opening", fail, "the sale", "sluice sale resume SALE"}
	noUnits  = finding{"units", fail, "total of the sale", "sluice sale restock SALE --delta N"}
	noBound  = finding{"units", warn, "total and max_per_buyer of the sale", "limits, unless that is meant"}
	oddLimit = finding{"units", warn, "max_per_buyer of the sale", "fewer than total"}
	allTaken = finding{"units", warn, "total of the sale", "nothing, or sluice sale restock SALE --delta N"}

	notShown = finding{"visibility", fail, "visibility of the sale", "sluice sale patch SALE --visibility listed"}

	proxyUnnamed = finding{
		"addresses", fail, "trusted_proxies",
		"if that address is your proxy's, it or its network: all buyers behind it count as one; if not, nothing",
	}
	proxyNone = finding{
		"addresses", warn, "trusted_proxies",
		"the address of your proxy, if buyers come through one; nothing if they connect to this server",
	}

	tooHard = finding{"tickets", warn, "challenge of the sale", "a difficulty of 16 to 20"}

	listsUnread = finding{"lists", fail, "the database (--store)", "the database answers"}
	listLate    = finding{"lists", fail, "this server", "a moment later; else its log"}
	listEmpty   = finding{
		"eligibility", fail, "the allow list of the sale",
		"sluice sale allow SALE --file buyers.txt, or sluice sale patch SALE --eligibility none",
	}
	listUnused = finding{"eligibility", warn, "eligibility of the sale", "list, if the list is meant"}

	noPayLink   = finding{"pages", warn, "pay_url", "where the shop takes the money: buyers of the pages cannot pay"}
	noLoginLink = finding{"pages", warn, "login_url", "the shop's login: visitors of the pages cannot sign in"}

	noneCame = finding{
		"claims", warn, "what stands before this server: pages, DNS, load balancer, proxy",
		"a claim arrives: POST /v1/sales/SALE/orders at this server's listen address",
	}
	noneAccepted = finding{"claims", warn, "the answers in the detail", "docs/codes.md says what each means"}
	limitedAll   = finding{
		"claims", fail, "buyer_rate and address_rate of the sale, and trusted_proxies",
		"rates that buyers keep to; behind a proxy, trusted_proxies names it",
	}

	riskFails = finding{
		"risk service", fail, "risk of the sale, and the service behind its url",
		`the service answers 200 {"allow": true} in time; until then on_failure decides: deny gives no buyer a ticket`,
	}
	riskOpen = finding{
		"risk service", warn, "risk of the sale, and the service behind its url",
		`the service answers 200 {"allow": true} in time; until then on_failure decides: allow gives every buyer a ticket`,
	}

	noToken = finding{"token", warn, "--token", "a token of your login: this server has no secret to make one with"}

	tokenAhead = finding{
		"token", warn, "the clocks of the shop's login and of this server",
		"NTP on both: tokens last longer than they should, and one with \"nbf\" is refused",
	}

	claimRefused = finding{"claim", fail, "the checks above", "a claim is answered with accepted"}
)

// unread are what is wrong where claims are refused for who or what sends them, by
// reason; docs/operating.md has the same table.
var unread = map[string]finding{
	reasonSignature: {
		"claims", fail, "buyer_secret, or buyer_jwks",
		"the same secret in the shop and on every server (SLUICE_BUYER_SECRET)",
	},
	reasonTime: {
		"claims", fail, "the clocks of the shop's login and of this server, and how long tokens live",
		"NTP on both; tokens that live longer than a visit",
	},
	reasonNoToken: {
		"claims", fail, "the page, or the proxy", "the header Authorization: Bearer TOKEN reaches this server",
	},
	reasonToken: {
		"claims", fail, "the login, buyer_issuer, buyer_audience, buyer_token_life", "a token as docs/identity.md has it",
	},
	reasonNoKeys:   {"claims", fail, "buyer_jwks", "the keys of the login can be read from this server"},
	reasonAdminKey: {"claims", fail, "the shop", "a token of the buyer; the admin's key is the merchant's alone"},
	reasonKey: {
		"claims", fail, "the page, or the shop",
		"the header Idempotency-Key: 8 to 64 letters, digits, _ and -, one per attempt",
	},
	reasonBody:     {"claims", fail, "the page, or the shop", `the body {"quantity":1}, with meta if wanted`},
	reasonTooLarge: {"claims", fail, "meta of the claims", "at most 512 bytes"},
	reasonOrigin:   {"claims", fail, "cors_origins", "the origin of the page, exactly as in the address bar"},

	string(admission.NotEligible): {
		"claims", fail, "eligibility and the allow list of the sale",
		"the buyers are on the list, or named in their token's sluice_sales",
	},
	string(admission.Denied):        {"claims", fail, "the deny list of the sale", "only those who may not buy are on it"},
	string(admission.TicketMissing): {"claims", fail, "the page", "it asks for a ticket first: docs/tickets.md"},
	string(admission.TicketInvalid): {"claims", fail, "ticket_secret", "the same on every server"},
	string(admission.TicketExpired): {"claims", fail, "the page", "it asks for another ticket when one has expired"},
}

// refusedBy are what is wrong where the rehearsal of a claim is refused, by its code.
var refusedBy = map[sluice.Code]finding{
	sluice.SaleNotFound: {"claim", fail, notShown.where, notShown.right},
	sluice.Unavailable:  {"claim", fail, fenced.where, fenced.right},
	sluice.Closed:       {"claim", fail, closed.where, closed.right},
	sluice.Paused:       {"claim", fail, paused.where, paused.right},
	sluice.SoldOut:      {"claim", warn, allTaken.where, allTaken.right},
	sluice.BuyerLimit:   {"claim", fail, "max_per_buyer of the sale", "at least 1"},
}
