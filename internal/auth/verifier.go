package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/sluicehq/sluice"
)

// maxToken bounds a token's length in bytes: longer ones are refused unread.
const maxToken = 8192

// minSecret is how long an HS256 secret of buyers' tokens should be, in bytes: as
// long as the hash, or it can be guessed from one token. Shorter ones work, and
// are warned of.
const minSecret = 32

// defaultSkew is how far apart the clocks of the servers and of the tokens'
// issuer may be, unless given.
const defaultSkew = 30 * time.Second

// defaultCache bounds the memory of the tokens that a Verifier remembers, in
// bytes.
const defaultCache = 64 << 20

// Options say which tokens are good. One of Secret and Keys is needed; with
// both, either kind of token is.
type Options struct {
	Secret []byte // of HS256 tokens; empty: none are accepted
	// Previous is the secret before: its tokens are good while Secret is
	// replaced. Empty: there is none.
	Previous []byte
	Keys     *Keys // of RS256, ES256 and EdDSA tokens; nil: none are accepted

	Issuer   string // what a token's "iss" must be; empty: anything
	Audience string // what must be among a token's "aud"; empty: anything

	// BuyerID says which spellings of a "sub" are one buyer: ExactID (default),
	// TrimmedID or CasefoldID.
	BuyerID string
	// Skew is the tolerance for "exp" and "nbf". 0: defaultSkew;
	// negative: none.
	Skew time.Duration
	// MaxLife is how far ahead "exp" may lie: a token that is good for years
	// outlives every theft and every change of mind. 0: no limit.
	MaxLife time.Duration
	// Cache bounds the memory of remembered tokens, in bytes. 0: defaultCache.
	Cache uint64
	Now   func() time.Time // default time.Now
}

// Token is what a verified token says.
type Token struct {
	Buyer   sluice.BuyerID
	Expires time.Time // from then on it is void; the tolerance is not in it
	Issued  time.Time // as the login says; zero if it does not
	// Sales are the ids in the claim "sluice_sales": sales by invitation that
	// the shop lets this buyer into (sluice.EligibleToken).
	Sales []string
	// Signed are the other claims that are texts or whole numbers, by name, for the
	// limits of sales.
	Signed map[string]string
}

// Verifier identifies the buyer of a token: a JWT with "sub" (the buyer) and
// "exp". A verified token is remembered until it expires or its key is
// withdrawn, in bounded memory, so that a buyer who presses the button again
// costs no cryptography. It is safe for concurrent use.
type Verifier struct {
	o          Options
	algorithms []string // those that are accepted
	verified   *otter.Cache[string, verified]
	macs       []*sync.Pool // of hash.Hash, keyed with the secret, and with the one before
	once       visitors     // tokens of the secret that came once
}

// visitors are hashes of texts, each in the place that it names itself; a later one of
// the same place replaces it.
type visitors struct {
	seed   maphash.Seed
	hashes func() []atomic.Uint32 // made by the first use: an idle server has none in its memory
}

// known reports whether a text is among the last ones; from now on it is.
func (v *visitors) known(text string) bool {
	hash := maphash.String(v.seed, text)
	hashes := v.hashes()
	return hashes[hash%uint64(len(hashes))].Swap(uint32(hash>>32)|1) == uint32(hash>>32)|1
}

// verified is a token that was good, and the key that said so, nil for the
// secret.
type verified struct {
	Token
	key *publicKey
}

// NewVerifier returns a Verifier.
func NewVerifier(o Options) *Verifier {
	switch {
	case o.Skew == 0:
		o.Skew = defaultSkew
	case o.Skew < 0:
		o.Skew = 0
	}
	o.Cache = cmp.Or(o.Cache, defaultCache)
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{
		o: o,
		once: visitors{
			maphash.MakeSeed(), sync.OnceValue(func() []atomic.Uint32 { return make([]atomic.Uint32, 1<<18) }),
		},
		verified: otter.Must(&otter.Options[string, verified]{
			MaximumWeight: o.Cache,
			// The token, what was read of it, and the cache's own nodes, roughly.
			Weigher: func(token string, v verified) uint32 { return uint32(2*len(token) + 250) },
		}),
	}
	for _, secret := range [][]byte{o.Secret, o.Previous} {
		if len(secret) > 0 {
			v.macs = append(v.macs, &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }})
		}
	}
	if len(v.macs) > 0 {
		v.algorithms = append(v.algorithms, hs256)
	}
	if o.Keys != nil {
		v.algorithms = append(v.algorithms, rs256, es256, edDSA)
	}
	return v
}

// Verify returns the token's buyer, or why the token is invalid: an error that
// may be shown. ErrNoKeys says nothing about the token: try again later.
func (v *Verifier) Verify(ctx context.Context, token string) (Token, error) {
	if known, ok := v.verified.GetIfPresent(token); ok {
		if v.o.Now().Before(known.Expires.Add(v.o.Skew)) && (known.key == nil || !known.key.gone.Load()) {
			return known.Token, nil
		}
		v.verified.Invalidate(token)
	}
	if len(token) > maxToken {
		return Token{}, fmt.Errorf("the token is longer than %d bytes", maxToken)
	}
	found, err := v.judge(ctx, token)
	if err != nil {
		return Token{}, err
	}
	// One of the secret is remembered from its second time on: to remember a token costs
	// as much as to verify that one, and most of a crowd's come once.
	if found.key != nil || v.once.known(token) {
		v.verified.Set(strings.Clone(token), found)
	}
	return found.Token, nil
}

// base64url decodes as JWTs do: no padding, and one spelling of everything.
var base64url = base64.RawURLEncoding.Strict()

// plainHeader is the first part of nearly every HS256 token,
// {"alg":"HS256","typ":"JWT"}: it need not be read again and again.
const plainHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

// Sign returns an HS256 token with these claims, as a shop's login signs it.
func Sign(secret []byte, claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := plainHeader + "." + base64url.EncodeToString(payload)
	mac := hmac.New(sha256.New, secret)
	_, _ = io.WriteString(mac, text)
	return text + "." + base64url.EncodeToString(mac.Sum(nil)), nil
}

// KeysTrouble reports what is wrong with the login's keys (Keys.Trouble).
func (v *Verifier) KeysTrouble() (passedOver []string, err error) {
	if v.o.Keys == nil {
		return nil, nil
	}
	return v.o.Keys.Trouble()
}

// judge verifies a token that is not remembered. It reads the claims of one of the
// secret only when the signature is right, which costs less. It checks those of other
// tokens before the signature, so that a token which has expired, or is for another
// audience, causes no request for keys.
func (v *Verifier) judge(ctx context.Context, token string) (verified, error) {
	signed := token[:max(0, strings.LastIndexByte(token, '.'))]
	first, second, dotted := strings.Cut(signed, ".")
	signature, err := base64url.DecodeString(strings.TrimPrefix(token[len(signed):], "."))
	if err != nil || !dotted {
		return verified{}, errNoJWT
	}
	h := header{alg: hs256}
	if first != plainHeader {
		text, err := base64url.DecodeString(first)
		if err != nil {
			return verified{}, errNoJWT
		}
		if h, err = parseHeader(text); err != nil {
			return verified{}, err
		}
	}
	if !slices.Contains(v.algorithms, h.alg) {
		return verified{}, fmt.Errorf("the token's alg is not accepted here; want %s", strings.Join(v.algorithms, ", "))
	}
	if h.crit {
		return verified{}, errors.New(`the token's header has "crit", of which nothing is supported`)
	}
	if h.alg == hs256 && !v.sealed(signed, signature) {
		return verified{}, ErrSignature
	}
	payload, err := base64url.DecodeString(second)
	if err != nil {
		return verified{}, errNoJWT
	}
	c, err := parseClaims(payload)
	if err == nil {
		err = v.check(&c)
	}
	if err != nil {
		return verified{}, err
	}
	found := verified{Token: Token{
		Buyer: sluice.BuyerID(c.subject), Expires: c.expires, Issued: c.issued, Sales: c.sales, Signed: c.signed,
	}}
	if h.alg == hs256 {
		return found, nil
	}
	// What a key is for is the key's to say: a token cannot turn a public key
	// into a secret.
	found.key, err = v.signer(ctx, h, c.issued, func(key *publicKey) bool {
		return key.signed(signed, signature)
	})
	return found, err
}

// Errors of tokens that name their cause: another secret or key than the shop's
// signed it, or the clocks of the shop's login and of this server differ, or a page
// used it for too long.
var (
	ErrSignature = errors.New("the token's signature is not valid")
	ErrExpired   = errors.New("the token has expired")
	ErrNotYet    = errors.New("the token is not valid yet")
)

// sealed reports whether one of the secrets made a signature.
func (v *Verifier) sealed(text string, signature []byte) bool {
	for _, macs := range v.macs {
		mac := macs.Get().(hash.Hash)
		mac.Reset()
		_, _ = io.WriteString(mac, text)
		good := hmac.Equal(signature, mac.Sum(nil))
		macs.Put(mac)
		if good {
			return true
		}
	}
	return false
}

// signer returns the key that a token was signed with: the one that its header
// names, if valid says so. Signed is when the token says that it was signed.
func (v *Verifier) signer(ctx context.Context, h header, signed time.Time, valid func(*publicKey) bool) (*publicKey,
	error,
) {
	if h.badKid {
		return nil, errors.New(`the token's "kid" is not the name of a key`)
	}
	key := v.o.Keys.find(h.kid, h.alg)
	if key != nil && valid(key) {
		return key, nil
	}
	if signed.After(v.o.Now().Add(v.o.Skew)) {
		signed = time.Time{} // a time in the future cannot be right
	}
	unknown := v.o.Keys.renew(ctx, h.kid, signed)
	before := key
	key = v.o.Keys.find(h.kid, h.alg)
	switch {
	case key != nil && key != before && valid(key):
		return key, nil
	case unknown != nil:
		return nil, unknown
	case key != nil:
		return nil, ErrSignature
	case h.kid == "":
		return nil, errors.New(`the token has no "kid", and there is not just one key for its alg`)
	}
	return nil, errors.New("the token's key is not among those of the shop")
}
