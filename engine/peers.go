package engine

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/port"
)

// peers compares this server with the others of its store: what all must have in common, and one that
// differs refuses what the others accept.
type peers struct {
	self port.Server
	log  *slog.Logger
	now  atomic.Pointer[[]port.Difference]

	mu   sync.Mutex
	last map[string]seenServer // by name
}

// seenServer is a server, and when it was heard of last.
type seenServer struct {
	port.Server
	at time.Time
}

// shared returns the fingerprints of the settings that the servers of a shop share, as they
// are in force here; of a secret that is being replaced, that of the one before comes second.
func (e *Engine) shared() map[string]string {
	jwks := e.cfg.BuyerJWKS
	if !strings.Contains(jwks, "://") { // the path of a file, which says nothing of what is in it
		jwks = ""
	}
	all := map[string]string{}
	for name, value := range map[string]string{
		"admin_key":      e.adminKey,
		"admin_keys":     strings.Join(e.who.admins.Named(), "\n"),
		"buyer_secret":   e.secret,
		"ticket_secret":  e.ticketSecret,
		"webhook_key":    e.cfg.WebhookKey,
		"buyer_jwks":     jwks,
		"buyer_issuer":   e.cfg.BuyerIssuer,
		"buyer_audience": e.cfg.BuyerAudience,
		"buyer_id":       cmp.Or(e.cfg.BuyerID, auth.ExactID),
	} {
		all[name] = fingerprint(name, value)
	}
	if e.cfg.Tracer != nil { // else it has none
		all["trace_ratio"] = fingerprint("trace_ratio", fmt.Sprint(cmp.Or(e.cfg.TraceRatio, defaultTraceRatio)))
	}
	for name, previous := range map[string]string{
		"buyer_secret": e.cfg.BuyerSecretPrevious, "ticket_secret": e.previousTicketSecret(),
	} {
		if previous != "" {
			all[name] += " " + fingerprint(name, previous)
		}
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
	p.note(live, time.Now())
	var differ []port.Difference
	for i := range live {
		if names := p.differs(&live[i]); len(names) > 0 && !live[i].Left {
			differ = append(differ, port.Difference{Node: live[i].Node, Admin: live[i].Admin, Settings: names})
		}
	}
	before := p.now.Swap(&differ)
	switch {
	case before != nil && slices.EqualFunc(*before, differ, port.Difference.Equal):
	case len(differ) > 0:
		texts := make([]string, len(differ))
		for i := range differ {
			texts[i] = differ[i].String()
		}
		p.log.Error("this server's settings are not those of others: all need the same, or one refuses what others accept",
			"differ", strings.Join(texts, "; "), "want", "the same on every server")
	case before != nil:
		p.log.Info("all servers have the same settings again")
	}
}

// remembered is how long a server that says nothing is spoken of.
const remembered = time.Hour

// note remembers who lives. A server that starts again under another name is another one.
func (p *peers) note(live []port.Server, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[string]seenServer{}
	}
	for i := range live {
		if s := live[i]; s.Left {
			delete(p.last, s.Node)
		} else {
			p.last[s.Node] = seenServer{s, now}
		}
	}
	maps.DeleteFunc(p.last, func(_ string, s seenServer) bool { return now.Sub(s.at) > remembered })
}

// known returns the servers that the store has told of, by name. While it does not answer, they stay as they were.
func (p *peers) known() []httpapi.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	var newest time.Time
	for _, s := range p.last {
		newest = later(newest, s.at)
	}
	all := make([]httpapi.Peer, 0, len(p.last))
	for _, name := range slices.Sorted(maps.Keys(p.last)) {
		s := p.last[name]
		all = append(all, httpapi.Peer{
			Server: s.Server, Seen: s.at, Silent: s.at.Before(newest), Differs: p.differs(&s.Server),
		})
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// differs names the settings in which a server differs from this one.
func (p *peers) differs(other *port.Server) (names []string) {
	for name, own := range p.self.Shared {
		if theirs, told := other.Shared[name]; told && !agree(own, theirs) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// agree reports whether one of two servers accepts what the other one has now: the same, or the one before.
func agree(own, theirs string) bool {
	ours, others := strings.Fields(own), strings.Fields(theirs)
	return slices.Contains(others, ours[0]) || slices.Contains(ours, others[0])
}

// differences returns what differs from other servers that live.
func (p *peers) differences() []port.Difference {
	if now := p.now.Load(); now != nil {
		return *now
	}
	return nil
}
