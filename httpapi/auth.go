package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httpapi/wire"
)

// maxToken bounds a token's length in bytes: longer ones are refused unread.
const maxToken = 4096

// buyers verifies buyers' tokens: JWT with "sub" (the buyer) and "exp", signed
// with HS256. A verified token is remembered until it expires, in bounded
// memory, so that a buyer who presses the button again costs no cryptography.
type buyers struct {
	parser   *jwt.Parser
	secret   []byte
	verified *otter.Cache[string, verified]
	macs     sync.Pool // of hash.Hash, keyed with the secret
	now      func() time.Time
}

type verified struct {
	buyer   sluice.BuyerID
	expires time.Time
}

// maxVerified bounds the remembered tokens.
const maxVerified = 200_000

func newBuyers(secret []byte, now func() time.Time) *buyers {
	return &buyers{
		parser: jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(now)),
		secret: secret, now: now,
		macs:     sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }},
		verified: otter.Must(&otter.Options[string, verified]{MaximumSize: maxVerified}),
	}
}

// buyer returns whose token this is, or why it is nobody's.
func (b *buyers) buyer(token string) (sluice.BuyerID, error) {
	if v, ok := b.verified.GetIfPresent(token); ok {
		if b.now().Before(v.expires) {
			return v.buyer, nil
		}
		b.verified.Invalidate(token)
	}
	if len(token) > maxToken {
		return "", errors.New("the token is too long")
	}
	if v, ok := b.plain(token); ok {
		b.verified.Set(strings.Clone(token), v)
		return v.buyer, nil
	}
	var claims jwt.RegisteredClaims
	_, err := b.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return b.secret, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", errors.New("the token has expired")
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return "", errors.New(`the token has no "exp"`)
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return "", errors.New("the token is not valid yet")
	case errors.Is(err, jwt.ErrTokenMalformed):
		return "", errors.New("the token is not a JWT")
	case err != nil:
		return "", errors.New("the token's signature is not valid; want HS256 with the buyers' secret")
	}
	buyer := sluice.BuyerID(claims.Subject)
	if err := buyer.Validate(); err != nil {
		return "", errors.New(`the token's "sub": ` + err.Error())
	}
	b.verified.Set(strings.Clone(token), verified{buyer: buyer, expires: claims.ExpiresAt.Time})
	return buyer, nil
}

// plainHeader is the first part, with its dot, of nearly every HS256 token:
// {"alg":"HS256","typ":"JWT"}.
const plainHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."

// plain verifies the usual sort of token without the library's general JSON,
// which costs more than the rest of a claim. It only ever says yes: exactly
// this header, a valid signature, sub, exp, and nbf if there is one. Whatever
// is not as plain as that is the library's to judge.
func (b *buyers) plain(token string) (verified, bool) {
	rest, found := strings.CutPrefix(token, plainHeader)
	payload, signature, dotted := strings.Cut(rest, ".")
	if !found || !dotted {
		return verified{}, false
	}
	have, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return verified{}, false
	}
	mac := b.macs.Get().(hash.Hash)
	defer b.macs.Put(mac)
	mac.Reset()
	_, _ = io.WriteString(mac, token[:len(plainHeader)+len(payload)])
	if !hmac.Equal(have, mac.Sum(nil)) {
		return verified{}, false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return verified{}, false
	}
	var claims struct {
		Subject   sluice.BuyerID `json:"sub"`
		Expires   int64          `json:"exp"`
		NotBefore int64          `json:"nbf"`
	}
	if json.Unmarshal(text, &claims) != nil || claims.Subject.Validate() != nil {
		return verified{}, false
	}
	now, expires := b.now(), time.Unix(claims.Expires, 0)
	if !now.Before(expires) || now.Before(time.Unix(claims.NotBefore, 0)) {
		return verified{}, false
	}
	return verified{buyer: claims.Subject, expires: expires}, true
}

// bearer returns the token of the Authorization header, empty if there is none.
func bearer(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return ""
	}
	const scheme = "Bearer "
	if v := values[0]; len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return v[len(scheme):]
	}
	return ""
}

// asBuyer answers the request as the buyer who asks, or says why not.
func (s *Server) asBuyer(next func(http.ResponseWriter, *http.Request, sluice.BuyerID)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		if token == "" {
			problem(w, wire.CodeUnauthenticated, "want the header Authorization: Bearer TOKEN, with a buyer's token")
			return
		}
		buyer, err := s.buyers.buyer(token)
		if err != nil {
			if s.isAdmin(token) {
				problem(w, wire.CodeForbidden, "this is for buyers; the admin key is not a buyer")
				return
			}
			problem(w, wire.CodeUnauthenticated, err.Error())
			return
		}
		next(w, r, buyer)
	}
}

// asMerchant answers the request if it comes with the admin key.
func (s *Server) asMerchant(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := bearer(r)
		switch {
		case token == "":
			problem(w, wire.CodeUnauthenticated, "want the header Authorization: Bearer ADMIN_KEY")
		case s.isAdmin(token):
			next(w, r)
		default:
			if _, err := s.buyers.buyer(token); err == nil {
				problem(w, wire.CodeForbidden, "this is for the merchant; a buyer's token is not the admin key")
				return
			}
			problem(w, wire.CodeUnauthenticated, "the admin key is not right")
		}
	}
}

// isAdmin compares in constant time, whatever the lengths.
func (s *Server) isAdmin(token string) bool {
	have := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(have[:], s.adminKey[:]) == 1
}
