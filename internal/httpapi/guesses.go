package httpapi

import (
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/meters"
)

// guesses bounds how often one address may try keys of admins. Only wrong keys
// count. An address beyond its rate is answered like one with a wrong key, and
// its key is not looked at, so that trying on finds nothing.
//
// Requests from this machine are counted and logged but never held back: a proxy
// here that is not among the trusted ones makes all of the public one address,
// and then strangers could keep the shop's own backend from its payments.
type guesses struct {
	wrong  *meters.Table
	meter  sluice.Meter
	quiet  bucket // of log lines
	count  Counter
	log    *slog.Logger
	admins *auth.Admins
}

// guessRate is how many wrong keys an address may try.
var guessRate = sluice.AddressRate{Requests: 20, PerS: 60}

// maxGuessers bounds the memory: some 3 MB.
const maxGuessers = 1 << 16

func newGuesses(o *Options) *guesses {
	return &guesses{
		wrong: meters.New(maxGuessers), meter: guessRate.Meter(), count: o.AdminDecided, log: o.Log,
		admins: o.Admins,
	}
}

// find returns whose key this is. Held: it was not looked at, since its address
// has tried too many.
func (g *guesses) find(key string, from netip.Addr, now time.Time) (admin auth.Admin, ok, held bool) {
	who := meters.Key(g.wrong, admission.OriginOf(from))
	wait := g.wrong.Try(g.meter, who, now.UnixMicro())
	held = wait > 0 && !from.IsLoopback()
	if !held {
		if admin, ok = g.admins.Find(key); ok {
			if wait == 0 {
				g.wrong.Undo(g.meter, who)
			}
			return admin, true, false
		}
	}
	g.count.Count("wrong_key")
	if wait > 0 && g.quiet.admit(now) {
		g.log.Warn("an address tries keys of admins; its requests are refused unread for a while, "+
			"unless it is this machine's", "address", from)
	}
	return auth.Admin{}, false, held
}

// looksLikeToken reports whether a text has the three parts of a JWT: then it is
// no try of a key.
func looksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }
