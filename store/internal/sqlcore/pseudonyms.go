package sqlcore

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/sluicehq/sluice"
)

// masker makes pseudonyms. Nil has no key, and makes none.
type masker []byte

func newMasker(key string) (masker, error) {
	return hkdf.Key(sha256.New, []byte(key), nil, "sluice: pseudonyms of erased buyers", 32)
}

const (
	maskBuyer   = "buyer"
	maskKey     = "key"
	maskPayment = "payment"
)

// masked is what a pseudonym looks like. It is valid as a buyer's id and as a key.
var (
	masked     = regexp.MustCompile(`^erased-[0-9a-f]{32}$`)
	maskedMeta = regexp.MustCompile(`^\{"erased":"erased-[0-9a-f]{32}"\}$`)
)

// of is the pseudonym of a text; an empty text and a pseudonym stay as they are.
func (m masker) of(text string, context ...string) string {
	if m == nil || text == "" || masked.MatchString(text) {
		return text
	}
	h := hmac.New(sha256.New, m)
	h.Write([]byte(strings.Join(append(context, text), "\x00")))
	return "erased-" + hex.EncodeToString(h.Sum(nil)[:16])
}

func (m masker) buyer(id sluice.BuyerID) sluice.BuyerID {
	return sluice.BuyerID(m.of(string(id), maskBuyer))
}

// ofOrder is the pseudonym of a text that belongs to one order. Equal texts of two
// orders differ: a meta of few values could be guessed by how often it occurs.
func (m masker) ofOrder(order sluice.OrderID, kind, text string) string {
	return m.of(text, kind, string(order))
}

// meta is the pseudonym of an order's meta, in the object that readers expect.
func (m masker) meta(order sluice.OrderID, meta string) string {
	if meta == "" || maskedMeta.MatchString(meta) {
		return meta
	}
	return `{"erased":"` + m.ofOrder(order, "meta", meta) + `"}`
}

// letter returns the claims of a dead letter without a buyer, or without any if
// none is given. A damaged letter in which the buyer's id occurs has nothing left.
func (m masker) letter(l *sluice.DeadLetter, buyer sluice.BuyerID) (claims string, changed bool) {
	if !strings.Contains(l.Claims, string(buyer)) {
		return l.Claims, false
	}
	parsed, err := sluice.ParseClaims(l.Claims)
	if err != nil {
		const nothing = "erased"
		return nothing, l.Claims != nothing
	}
	var lines []byte
	for i := range parsed {
		c := &parsed[i]
		if buyer == "" || c.Buyer == buyer {
			c.Buyer = m.buyer(c.Buyer)
			c.Key = sluice.Key(m.ofOrder(c.Order, maskKey, string(c.Key)))
			c.Meta = m.meta(c.Order, c.Meta)
		}
		lines = sluice.AppendClaim(lines, c)
	}
	return string(lines), string(lines) != l.Claims
}
