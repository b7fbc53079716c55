package identity

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/sluicehq/sluice"
)

// MaxToken bounds a token's length in bytes: longer ones are refused unread.
const MaxToken = 8192

// DefaultSkew is how far apart the clocks of servers and of whoever signs
// tokens may be, unless given.
const DefaultSkew = 30 * time.Second

// DefaultCache bounds the memory of the tokens that a Verifier remembers, in
// bytes.
const DefaultCache = 64 << 20

// Options say which tokens are good. One of Secret and Keys is needed; with
// both, either kind of token is.
type Options struct {
	Secret []byte // of HS256 tokens; empty: none are accepted
	Keys   *Keys  // of RS256, ES256 and EdDSA tokens; nil: none are accepted

	Issuer   string // what a token's "iss" must be; empty: anything
	Audience string // what must be among a token's "aud"; empty: anything

	// Skew is the tolerance for "exp", "nbf" and "iat". 0: DefaultSkew;
	// negative: none.
	Skew time.Duration
	// Cache bounds the memory of remembered tokens, in bytes. 0: DefaultCache.
	Cache uint64
	Now   func() time.Time // default time.Now
}

// Token is what a verified token says.
type Token struct {
	Buyer   sluice.BuyerID
	Expires time.Time // from then on it is void; the tolerance is not in it
	// Sales are the ids in the claim "sluice_sales": sales by invitation that
	// the shop lets this buyer into (sluice.EligibleToken).
	Sales []string
}

// Verifier tells whose a buyer's token is: a JWT with "sub" (the buyer) and
// "exp". A verified token is remembered until it expires or its key is
// withdrawn, in bounded memory, so that a buyer who presses the button again
// costs no cryptography. It is safe for concurrent use.
type Verifier struct {
	o         Options
	methods   map[string]bool // of the algorithms that are accepted
	want      string          // those algorithms, for people
	parser    *jwt.Parser
	validator *jwt.Validator
	verified  *otter.Cache[string, verified]
	macs      sync.Pool // of hash.Hash, keyed with the secret
}

// claims are what is read of a token.
type claims struct {
	jwt.RegisteredClaims
	Sales []string `json:"sluice_sales"`
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
		o.Skew = DefaultSkew
	case o.Skew < 0:
		o.Skew = 0
	}
	if o.Cache == 0 {
		o.Cache = DefaultCache
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	rules := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithTimeFunc(o.Now), jwt.WithLeeway(o.Skew)}
	if o.Issuer != "" {
		rules = append(rules, jwt.WithIssuer(o.Issuer))
	}
	if o.Audience != "" {
		rules = append(rules, jwt.WithAudience(o.Audience))
	}
	v := &Verifier{
		o: o, methods: map[string]bool{}, validator: jwt.NewValidator(rules...),
		parser: jwt.NewParser(jwt.WithStrictDecoding()),
		macs:   sync.Pool{New: func() any { return hmac.New(sha256.New, o.Secret) }},
		verified: otter.Must(&otter.Options[string, verified]{
			MaximumWeight: o.Cache,
			// The token, what was read of it, and the cache's own nodes, roughly.
			Weigher: func(token string, v verified) uint32 { return uint32(2*len(token) + 250) },
		}),
	}
	var algorithms []string
	if len(o.Secret) > 0 {
		algorithms = append(algorithms, HS256)
	}
	if o.Keys != nil {
		algorithms = append(algorithms, RS256, ES256, EdDSA)
	}
	for _, alg := range algorithms {
		v.methods[alg] = true
	}
	v.want = strings.Join(algorithms, ", ")
	return v
}

// Verify says whose token this is, or why it is nobody's: an error that may be
// shown. ErrNoKeys says nothing about the token: ask again later.
func (v *Verifier) Verify(ctx context.Context, token string) (Token, error) {
	if known, ok := v.verified.GetIfPresent(token); ok {
		if v.o.Now().Before(known.Expires.Add(v.o.Skew)) && (known.key == nil || !known.key.gone.Load()) {
			return known.Token, nil
		}
		v.verified.Invalidate(token)
	}
	if len(token) > MaxToken {
		return Token{}, fmt.Errorf("the token is longer than %d bytes", MaxToken)
	}
	if t, ok := v.plain(token); ok {
		v.verified.Set(strings.Clone(token), verified{Token: t})
		return t, nil
	}
	found, err := v.judge(ctx, token)
	if err != nil {
		return Token{}, err
	}
	v.verified.Set(strings.Clone(token), found)
	return found.Token, nil
}

// judge is the long way, for any token. What a token claims is looked at before
// its signature, so that one which has expired, or is for somebody else, asks
// nobody for keys.
func (v *Verifier) judge(ctx context.Context, text string) (verified, error) {
	var c claims
	token, parts, err := v.parser.ParseUnverified(text, &c)
	if errors.Is(err, jwt.ErrTokenMalformed) || token == nil {
		return verified{}, errors.New("the token is not a JWT")
	}
	alg, _ := token.Header["alg"].(string)
	if err != nil || !v.methods[alg] {
		return verified{}, fmt.Errorf("the token's alg is not accepted here; want %s", v.want)
	}
	if _, ok := token.Header["crit"]; ok {
		return verified{}, errors.New(`the token's header has "crit", of which nothing is supported`)
	}
	if err := v.check(&c.RegisteredClaims); err != nil {
		return verified{}, err
	}
	found := verified{Token: Token{Buyer: sluice.BuyerID(c.Subject), Expires: c.ExpiresAt.Time, Sales: c.Sales}}
	var key any = v.o.Secret
	if alg != HS256 { // what a key is for is the key's to say: a token cannot turn a public key into a secret
		if found.key, err = v.key(ctx, token, alg); err != nil {
			return verified{}, err
		}
		key = found.key.key
	}
	if token.Method.Verify(strings.Join(parts[:2], "."), token.Signature, key) != nil {
		return verified{}, errors.New("the token's signature is not valid")
	}
	return found, nil
}

// check says what is wrong with what a token claims.
func (v *Verifier) check(c *jwt.RegisteredClaims) error {
	err := v.validator.Validate(c)
	switch {
	case err == nil:
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing) && c.ExpiresAt == nil:
		return errors.New(`the token has no "exp"`)
	case errors.Is(err, jwt.ErrTokenExpired):
		return errors.New("the token has expired")
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return errors.New("the token is not valid yet")
	case errors.Is(err, jwt.ErrTokenInvalidIssuer), v.o.Issuer != "" && c.Issuer == "":
		return errors.New(`the token's "iss" is not the issuer whose tokens are accepted here`)
	default:
		return errors.New(`the token's "aud" does not name this shop`)
	}
	if err := sluice.BuyerID(c.Subject).Validate(); err != nil {
		return errors.New(`the token's "sub": ` + err.Error())
	}
	return nil
}

func (v *Verifier) key(ctx context.Context, token *jwt.Token, alg string) (*publicKey, error) {
	id, ok := token.Header["kid"].(string)
	if !ok && token.Header["kid"] != nil || len(id) > maxKeyID {
		return nil, errors.New(`the token's "kid" is not the name of a key`)
	}
	key, err := v.o.Keys.key(ctx, id, alg)
	if err != nil {
		return nil, err
	}
	if key == nil && id == "" {
		return nil, errors.New(`the token has no "kid", and there is not just one key for its alg`)
	}
	if key == nil {
		return nil, errors.New("the token's key is not among those of the shop")
	}
	return key, nil
}

// plainHeader is the first part, with its dot, of nearly every HS256 token:
// {"alg":"HS256","typ":"JWT"}.
const plainHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."

// plain verifies the usual sort of HS256 token without the library's general
// JSON, which costs more than the rest of a claim. It only ever says yes:
// exactly this header, a valid signature, sub, exp, nbf if there is one, and the
// issuer and audience that are wanted. Whatever is not as plain as that takes
// the long way.
func (v *Verifier) plain(token string) (Token, bool) {
	rest, found := strings.CutPrefix(token, plainHeader)
	payload, signature, dotted := strings.Cut(rest, ".")
	if !found || !dotted || len(v.o.Secret) == 0 {
		return Token{}, false
	}
	have, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return Token{}, false
	}
	mac := v.macs.Get().(hash.Hash)
	defer v.macs.Put(mac)
	mac.Reset()
	_, _ = io.WriteString(mac, token[:len(plainHeader)+len(payload)])
	if !hmac.Equal(have, mac.Sum(nil)) {
		return Token{}, false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return Token{}, false
	}
	var claims struct {
		Subject   sluice.BuyerID   `json:"sub"`
		Expires   int64            `json:"exp"`
		NotBefore int64            `json:"nbf"`
		Issuer    string           `json:"iss"`
		Audience  jwt.ClaimStrings `json:"aud"`
		Sales     []string         `json:"sluice_sales"`
		// Not looked at, but of the right type, as for the library.
		IssuedAt int64  `json:"iat"`
		ID       string `json:"jti"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Subject.Validate() != nil {
		return Token{}, false
	}
	if v.o.Issuer != "" && claims.Issuer != v.o.Issuer || v.o.Audience != "" && !slices.Contains(claims.Audience, v.o.Audience) {
		return Token{}, false
	}
	now, expires := v.o.Now(), time.Unix(claims.Expires, 0)
	if !now.Before(expires.Add(v.o.Skew)) || now.Add(v.o.Skew).Before(time.Unix(claims.NotBefore, 0)) {
		return Token{}, false
	}
	return Token{Buyer: claims.Subject, Expires: expires, Sales: claims.Sales}, true
}
