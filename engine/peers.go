package engine

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/port"
)

// peers compares this server with the others of its store: what all must have in common, and one that
// differs refuses what the others accept.
type peers struct {
	self port.Server
	log  *slog.Logger
	now  atomic.Pointer[[]string] // what differs
}

// shared returns the fingerprints of the settings that the servers of a shop share, as they
// are in force here.
func (e *Engine) shared() map[string]string {
	var keys []string
	for _, k := range e.cfg.AdminKeys {
		keys = append(keys, fmt.Sprint(k.Name, " ", k.Role, " ", k.Key))
	}
	slices.Sort(keys)
	all := map[string]string{}
	for name, value := range map[string]string{
		"admin_key":      e.adminKey,
		"admin_keys":     strings.Join(keys, "\n"),
		"buyer_secret":   e.secret,
		"ticket_secret":  cmp.Or(e.cfg.TicketSecret, e.secret),
		"webhook_key":    e.cfg.WebhookKey,
		"buyer_jwks":     e.cfg.BuyerJWKS,
		"buyer_issuer":   e.cfg.BuyerIssuer,
		"buyer_audience": e.cfg.BuyerAudience,
		"buyer_id":       e.cfg.BuyerID,
	} {
		all[name] = fingerprint(name, value)
	}
	return all
}

// fingerprint tells values of a setting apart, and nothing else of them.
func fingerprint(name, value string) string {
	if value == "" {
		return "none"
	}
	mac := hmac.New(sha256.New, []byte(value))
	_, _ = io.WriteString(mac, "sluice: the fingerprint of "+name)
	return hex.EncodeToString(mac.Sum(nil)[:4])
}

// saw compares this server with those that live, and logs it when what differs has changed.
func (p *peers) saw(live []port.Server) {
	var differ []string
	for i := range live {
		if what := p.differs(&live[i]); what != "" {
			differ = append(differ, what)
		}
	}
	before := p.now.Swap(&differ)
	switch {
	case before != nil && slices.Equal(*before, differ):
	case len(differ) > 0:
		p.log.Error("this server's settings are not those of others: one of them refuses what the others accept",
			"differ", differ, "want", "the same on every server")
	case before != nil:
		p.log.Info("all servers have the same settings again")
	}
}

// differs says in what a server differs from this one; empty: in nothing that is known.
func (p *peers) differs(other *port.Server) string {
	var names []string
	for name, own := range p.self.Shared {
		if theirs, told := other.Shared[name]; told && theirs != own {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return other.Node + at(other.Admin) + " has another " + strings.Join(names, ", ")
}

func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}

// differences returns what differs from other servers that live.
func (p *peers) differences() []string {
	if now := p.now.Load(); now != nil {
		return *now
	}
	return nil
}
