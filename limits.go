package sluice

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Limit bounds how many live units of a sale the buyers have together of whom the
// shop signs the same: those of a household, say. It is a counter of each claim.
type Limit struct {
	By  string `json:"by,omitzero" wire:"required"`  // what the shop signs: a claim of the token, like "household"
	Max int64  `json:"max,omitzero" wire:"required"` // live units, 1 to MaxUnits
}

// Limits are those of a sale, the zero Limit in the places that are left over.
type Limits [MaxCounters]Limit

// claimsOfTokens mean something else than what a limit is by.
var claimsOfTokens = []string{"sub", "exp", "nbf", "iat", "iss", "jti", "aud", "sluice_sales"}

// MaxSigned is how long a value that the shop signs may be, in bytes.
const MaxSigned = 256

// Limitable reports whether a limit may be by this claim of a token.
func Limitable(name string) bool {
	return len(name) >= 1 && len(name) <= 32 && name[0] >= 'a' && name[0] <= 'z' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == "" && !slices.Contains(claimsOfTokens, name)
}

func (l *Limits) validate() error {
	for i, limit := range l {
		switch {
		case limit == Limit{}:
		case !Limitable(limit.By):
			return fmt.Errorf("limits: by %q: want the name of a claim that the shop adds to tokens, like household: "+
				"1 to 32 small letters, digits and _", shorten(limit.By))
		case limit.Max < 1 || limit.Max > MaxUnits:
			return fmt.Errorf("limits: max %d of %s: want 1 to %d", limit.Max, limit.By, int64(MaxUnits))
		case slices.ContainsFunc(l[:i], func(other Limit) bool { return other.By == limit.By }):
			return fmt.Errorf("limits: %s is named twice", limit.By)
		case slices.Contains(l[:i], Limit{}):
			return fmt.Errorf("limits: want nothing left out before %s", limit.By)
		}
	}
	return nil
}

// Exceeded reports whether so many units alone are beyond one of the limits.
func (l *Limits) Exceeded(quantity int64) bool {
	return slices.ContainsFunc(l[:], func(limit Limit) bool { return limit.By != "" && quantity > limit.Max })
}

// Cover reports whether counters are those of a claim under these limits.
func (l *Limits) Cover(counters []Counter) bool {
	for i, limit := range l {
		if limit.By != "" && (i >= len(counters) || counters[i].Max != limit.Max || LimitedBy(counters[i].Name) != limit.By) {
			return false
		}
	}
	return true
}

// Counters returns the counters of a claim of a buyer of whom the shop signs these
// values, and the name of the first that is missing, if one is. The values are hashed
// with the sale's salt: who reads orders or the ledger sees that two share a value, in
// this sale, and not which.
func (r *Rules) Counters(signed map[string]string) (counters Counters, missing string) {
	for _, limit := range r.Limits {
		if limit == (Limit{}) {
			break
		}
		value := signed[limit.By]
		if value == "" || len(value) > MaxSigned {
			return "", limit.By
		}
		h := hmac.New(sha256.New, []byte(r.LimitSalt))
		h.Write([]byte(limit.By + "\x00" + value))
		hash := base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
		counters = counters.With(Counter{limit.By + ":" + hash, limit.Max})
	}
	return counters, ""
}

// LimitedBy returns what a limit is by whose counter has this name.
func LimitedBy(counter string) string {
	by, _, _ := strings.Cut(counter, ":")
	return by
}
