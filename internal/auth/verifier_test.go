package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/internal/must"
)

var (
	tokenTime = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	secret    = []byte("secret")
)

// signer signs tokens: a private key and its name.
type signer struct {
	kid    string
	method jwt.SigningMethod
	key    any
}

// Making an RSA key takes long; the tests share these.
var (
	rsaOne = sync.OnceValue(func() signer { return newSigner("rsa-1", rs256) })
	rsaTwo = sync.OnceValue(func() signer { return newSigner("rsa-2", rs256) })
	ecOne  = sync.OnceValue(func() signer { return newSigner("ec-1", es256) })
	edOne  = sync.OnceValue(func() signer { return newSigner("ed-1", edDSA) })
)

func newSigner(kid, alg string) signer {
	var key any
	var err error
	switch alg {
	case rs256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case es256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case edDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		panic(err)
	}
	return signer{kid, jwt.GetSigningMethod(alg), key}
}

func (s signer) public() any { return s.key.(crypto.Signer).Public() }

func (s signer) token(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	return sign(t, s.method, s.key, map[string]any{"kid": s.kid}, claims)
}

func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	for name, value := range header {
		token.Header[name] = value
	}
	text := must.Get(token.SignedString(key))(t)
	return text
}

func signed(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, secret, nil, claims)
}

// document is a JWKS of these signers' public keys.
func document(t testing.TB, signers ...signer) []byte {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, s := range signers {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: s.public(), KeyID: s.kid, Use: "sig", Algorithm: s.method.Alg()})
	}
	text := must.Get(json.Marshal(set))(t)
	return text
}

// keysOf returns keys from a file.
func keysOf(t testing.TB, text []byte) *Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	k := must.Get(NewKeys(KeysOptions{Location: path}))(t)
	t.Cleanup(k.Close)
	must.Succeed(t, k.Refresh(t.Context()))
	return k
}

func at(offset time.Duration) int64 { return tokenTime.Add(offset).Unix() }

func verifier(o Options) *Verifier {
	if o.Now == nil {
		o.Now = func() time.Time { return tokenTime }
	}
	return NewVerifier(o)
}

// want checks what a verifier says of a token, twice: the second time it may
// remember. An empty problem: it is alice's.
func want(t *testing.T, v *Verifier, name, token, problem string) {
	t.Helper()
	for range 2 {
		got, err := v.Verify(t.Context(), token)
		switch {
		case problem == "" && (err != nil || got.Buyer != "alice"):
			t.Errorf("%s: %+v, %v", name, got, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: %+v, %v, want an error with %q", name, got, err, problem)
		case problem != "" && errors.Is(err, ErrNoKeys):
			t.Errorf("%s: %v says nothing about the token", name, err)
		}
	}
}

func TestVerify(t *testing.T) {
	keys := keysOf(t, document(t, rsaOne(), ecOne(), edOne()))
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Minute)}
	pemOf := func(s signer) []byte {
		der := must.Get(x509.MarshalPKIXPublicKey(s.public()))(t)
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	both := verifier(Options{Secret: secret, Keys: keys})
	for _, c := range []struct{ name, token, problem string }{
		{"HS256", signed(t, good), ""},
		{"RS256", rsaOne().token(t, good), ""},
		{"ES256", ecOne().token(t, good), ""},
		{"EdDSA", edOne().token(t, good), ""},
		{"no kid, and one key for it", sign(t, ecOne().method, ecOne().key, nil, good), ""},

		{"another secret", sign(t, jwt.SigningMethodHS256, []byte("other"), nil, good), "signature"},
		{"an empty secret", sign(t, jwt.SigningMethodHS256, []byte{}, nil, good), "signature"},
		{"another key of that name", newSigner("ec-1", es256).token(t, good), "signature"},
		{"alg none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, good), "alg"},
		{"alg none with a kid", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType,
			map[string]any{"kid": "rsa-1"}, good), "alg"},
		{"HS512", sign(t, jwt.SigningMethodHS512, secret, nil, good), "alg"},
		{"PS256", sign(t, jwt.SigningMethodPS256, rsaOne().key, map[string]any{"kid": "rsa-1"}, good), "alg"},
		{"RS512", sign(t, jwt.SigningMethodRS512, rsaOne().key, map[string]any{"kid": "rsa-1"}, good), "alg"},
		{"HS256 with an RSA public key (PEM)", sign(t, jwt.SigningMethodHS256, pemOf(rsaOne()),
			map[string]any{"kid": "rsa-1"}, good), "signature"},
		{"HS256 with an RSA modulus", sign(t, jwt.SigningMethodHS256, rsaOne().public().(*rsa.PublicKey).N.Bytes(),
			map[string]any{"kid": "rsa-1"}, good), "signature"},
		{"RS256 with the name of an EC key", sign(t, jwt.SigningMethodRS256, rsaOne().key, map[string]any{"kid": "ec-1"},
			good), "not among those"},
		{"a kid that is a number", sign(t, jwt.SigningMethodRS256, rsaOne().key, map[string]any{"kid": 1}, good), "kid"},
		{"crit", sign(t, jwt.SigningMethodRS256, rsaOne().key,
			map[string]any{"kid": "rsa-1", "crit": []string{"b64"}, "b64": false}, good), "crit"},
		{"crit, HS256", sign(t, jwt.SigningMethodHS256, secret, map[string]any{"crit": []string{"exp"}}, good), "crit"},
		{"jku is not followed", sign(t, jwt.SigningMethodRS256, rsaTwo().key,
			map[string]any{"kid": "rsa-1", "jku": "https://evil.example"}, good), "signature"},

		{"no exp", rsaOne().token(t, jwt.MapClaims{"sub": "alice"}), `no "exp"`},
		{"exp is a text", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": "tomorrow"}), `"exp" is not a number`},
		{"no sub", rsaOne().token(t, jwt.MapClaims{"exp": at(time.Minute)}), `"sub"`},
		{"no sub, HS256", signed(t, jwt.MapClaims{"exp": at(time.Minute)}), `"sub"`},
		{"sub too long", rsaOne().token(t, jwt.MapClaims{"sub": strings.Repeat("a", 200), "exp": at(time.Minute)}), `"sub"`},
		{"within the tolerance", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(-29 * time.Second)}), ""},
		{"within the tolerance, HS256", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(-29 * time.Second)}), ""},
		{"expired", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(-30 * time.Second)}), "expired"},
		{"expired, HS256", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(-30 * time.Second)}), "expired"},
		{
			"nearly valid", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "nbf": at(30 * time.Second)}),
			"",
		},
		{
			"nearly valid, HS256", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "nbf": at(30 * time.Second)}),
			"",
		},
		{
			"not yet", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "nbf": at(31 * time.Second)}),
			"not valid yet",
		},
		{
			"not yet, HS256", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "nbf": at(31 * time.Second)}),
			"not valid yet",
		},

		{"no JWT", "abc", "not a JWT"},
		{"empty", "", "not a JWT"},
		{"four parts", "a.b.c.d", "not a JWT"},
		{"padding", strings.TrimSuffix(signed(t, good), "=") + "=", "not a JWT"},
		{
			"too long", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Minute), "x": strings.Repeat("x", maxToken)}),
			"longer than",
		},
	} {
		want(t, both, c.name, c.token, c.problem)
	}

	onlySecret, onlyKeys := verifier(Options{Secret: secret}), verifier(Options{Keys: keys})
	want(t, onlySecret, "HS256 where there is only a secret", signed(t, good), "")
	want(t, onlySecret, "RS256 where there is only a secret", rsaOne().token(t, good), "want HS256")
	want(t, onlyKeys, "RS256 where there are only keys", rsaOne().token(t, good), "")
	want(t, onlyKeys, "HS256 where there are only keys", signed(t, good), "want RS256, ES256, EdDSA")
	want(t, onlyKeys, "HS256 with the secret that is none", sign(t, jwt.SigningMethodHS256, []byte{}, nil, good), "alg")
	strict := verifier(Options{Secret: secret, Skew: -1})
	want(t, strict, "no tolerance", signed(t, jwt.MapClaims{"sub": "alice", "exp": at(0)}), "expired")
	two := verifier(Options{Keys: keysOf(t, document(t, rsaOne(), rsaTwo()))})
	want(t, two, "no kid, and two keys for it", sign(t, rsaOne().method, rsaOne().key, nil, good), `no "kid"`)
}

// Whoever has not the secret has no claims read: they may cost much. What is signed by a key is
// read first, so it has a limit of its own.
func TestStrangersClaimsCostLittle(t *testing.T) {
	many := jwt.MapClaims{"sub": "alice", "exp": at(time.Minute)}
	for i := range 255 {
		many[fmt.Sprint("x", i)] = i
	}
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne()))})
	for name, claims := range map[string]jwt.MapClaims{
		"no subject": {"exp": at(time.Minute)}, "expired": {"sub": "alice", "exp": at(-time.Hour)}, "many": many,
	} {
		forged := sign(t, jwt.SigningMethodHS256, []byte("another"), nil, claims)
		want(t, v, name, forged, "signature")
		unread := forged[:strings.LastIndexByte(forged, '.')] + "!" + forged[strings.LastIndexByte(forged, '.'):]
		want(t, v, name+", no base64url", unread, "signature")
	}
	want(t, v, "257 claims", ecOne().token(t, many), "more than 256")
	delete(many, "x0")
	want(t, v, "256 claims", ecOne().token(t, many), "")
	head := base64url.EncodeToString([]byte(`{"alg":"ES256"` + strings.Repeat(`,"a":0`, 256) + "}"))
	want(t, v, "257 members of the header", head+".e30.AAAA", "more than 256")
}

func TestIssuerAndAudience(t *testing.T) {
	v := verifier(Options{
		Secret: secret, Keys: keysOf(t, document(t, ecOne())), Issuer: "https://login.example",
		Audience: "sluice",
	})
	claims := func(more ...any) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "alice", "exp": at(time.Minute), "iss": "https://login.example", "aud": "sluice"}
		for i := 0; i < len(more); i += 2 {
			c[more[i].(string)] = more[i+1]
			if more[i+1] == nil {
				delete(c, more[i].(string))
			}
		}
		return c
	}
	for _, c := range []struct {
		name    string
		claims  jwt.MapClaims
		problem string
	}{
		{"both", claims(), ""},
		{"one audience of several", claims("aud", []string{"other", "sluice"}), ""},
		{"another issuer", claims("iss", "https://evil.example"), `"iss"`},
		{"an issuer that only begins so", claims("iss", "https://login.example.evil"), `"iss"`},
		{"no issuer", claims("iss", nil), `"iss"`},
		{"another audience", claims("aud", "other"), `"aud"`},
		{"no audience", claims("aud", nil), `"aud"`},
		{"an empty list", claims("aud", []string{}), `"aud"`},
		{"an audience that is a number", claims("aud", 7), `"aud"`},
		{"the letters differ", claims("aud", "Sluice"), `"aud"`},
	} {
		want(t, v, c.name+", HS256", signed(t, c.claims), c.problem)
		want(t, v, c.name+", ES256", ecOne().token(t, c.claims), c.problem)
	}
}

// A remembered token ends with its exp and the tolerance, not with the memory.
func TestRememberedTokensExpire(t *testing.T) {
	now := tokenTime
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne())), Now: func() time.Time { return now }})
	claims := jwt.MapClaims{"sub": "alice", "exp": at(time.Minute)}
	tokens := []string{signed(t, claims), ecOne().token(t, claims)}
	for _, token := range tokens {
		want(t, v, "fresh, twice", token, "")
		if _, known := v.verified.GetIfPresent(token); !known {
			t.Error("a token that came twice is not remembered")
		}
	}
	now = tokenTime.Add(time.Minute + defaultSkew - time.Millisecond)
	for _, token := range tokens {
		want(t, v, "in its last moment", token, "")
	}
	now = tokenTime.Add(time.Minute + defaultSkew)
	for _, token := range tokens {
		want(t, v, "after it", token, "expired")
	}
}

// The memory of remembered tokens is bounded in bytes.
func TestMemoryIsBounded(t *testing.T) {
	v := verifier(Options{Secret: secret, Cache: 100_000})
	const tokens = 2000
	for i := range tokens {
		token := signed(t, jwt.MapClaims{
			"sub": fmt.Sprint("buyer-", i), "exp": at(time.Hour), "x": strings.Repeat("x", 500),
		})
		for n := range 2 {
			must.Get(v.Verify(t.Context(), token))(t)
			if _, known := v.verified.GetIfPresent(token); known && n == 0 {
				t.Fatal("a token that came once takes memory")
			}
		}
	}
	v.verified.CleanUp()
	if n := v.verified.EstimatedSize(); n == 0 || n > 150 {
		t.Errorf("%d tokens of about 1,000 bytes are remembered in 100,000 bytes", n)
	}
}

func TestInvitations(t *testing.T) {
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne()))})
	claims := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "sluice_sales": []string{"vip", "early"}}
	for _, token := range []string{signed(t, claims), ecOne().token(t, claims)} {
		for range 2 {
			if got, err := v.Verify(t.Context(), token); err != nil || !slices.Equal(got.Sales, []string{"vip", "early"}) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
	claims["sluice_sales"] = "vip"
	want(t, v, "one that is no list", signed(t, claims), `"sluice_sales"`)
}

// Texts and whole numbers that a limit may be by are kept; whatever else a login adds is nothing to it.
func TestSignedClaims(t *testing.T) {
	v := verifier(Options{Secret: secret})
	claims := jwt.MapClaims{
		"sub": "alice", "exp": at(time.Hour), "household": "17 elm street", "device": 4711, "long": strings.Repeat("x", 300),
		"negative": -1, "half": 0.5, "yes": true, "none": nil, "list": []string{"a"}, "Name": "Alice", "iss": "login",
	}
	want := map[string]string{"household": "17 elm street", "device": "4711", "none": ""}
	for range 2 {
		got, err := v.Verify(t.Context(), signed(t, claims))
		delete(got.Signed, "long") // of which no limit makes a counter
		if err != nil || !maps.Equal(got.Signed, want) {
			t.Errorf("%v, %v; want %v", got.Signed, err, want)
		}
	}
	escaped := must.Get(parseClaims([]byte(`{"household":"` + strings.Repeat(`\u6876`, 85) + `"}`)))(t) // as PHP writes it
	if got := escaped.signed["household"]; got != strings.Repeat("桶", 85) {
		t.Errorf("escaped: %q", got)
	}
}

func TestVerifyAllocates(t *testing.T) {
	v := verifier(Options{Secret: secret, Keys: keysOf(t, document(t, ecOne()))})
	for _, token := range []string{
		signed(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}),
		ecOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}),
	} {
		want(t, v, "fresh", token, "")
		if n := testing.AllocsPerRun(100, func() { _, _ = v.Verify(t.Context(), token) }); n > 0 {
			t.Errorf("a remembered token costs %v allocations, want none", n)
		}
	}
}

// While a secret is replaced, tokens of the one before stay good; afterwards they
// are void, also those that were remembered before the restart that it takes.
func TestPreviousSecret(t *testing.T) {
	claims := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	next := sign(t, jwt.SigningMethodHS256, []byte("next"), nil, claims)
	both := verifier(Options{Secret: []byte("next"), Previous: secret})
	want(t, both, "the new one", next, "")
	want(t, both, "the one before", signed(t, claims), "")
	want(t, both, "a third", sign(t, jwt.SigningMethodHS256, []byte("third"), nil, claims), "signature")
	want(t, verifier(Options{Secret: []byte("next")}), "without the one before", signed(t, claims), "signature")
	want(t, verifier(Options{Previous: secret}), "only the one before", signed(t, claims), "")
}

func TestMaxLife(t *testing.T) {
	life := func(exp time.Duration) string { return signed(t, jwt.MapClaims{"sub": "alice", "exp": at(exp)}) }
	v := verifier(Options{Secret: secret, MaxLife: 31 * 24 * time.Hour})
	want(t, v, "a month", life(31*24*time.Hour), "")
	want(t, v, "a month by a clock that is ahead", life(31*24*time.Hour+defaultSkew), "")
	want(t, v, "a second more", life(31*24*time.Hour+defaultSkew+time.Second), "lies more than 744h")
	want(t, verifier(Options{Secret: secret}), "no limit", life(100*365*24*time.Hour), "")
}

func TestInvisibleBuyers(t *testing.T) {
	v := verifier(Options{Secret: secret})
	for _, sub := range []string{
		"ali\u200bce", "\u202ealice", "alice\ufeff", "ali\u00adce", "a\U000e0061", // Cf
		"alice\ufe0f", "alice\u180b", "alice\U000e0100", // selectors of variants
		"ali\u034fce", "alice\u3164", "alice\uffa0", "\u115falice", "alice\u17b4", "alice\u2065", "a\U000e0fff",
	} {
		want(t, v, fmt.Sprintf("%q", sub), signed(t, jwt.MapClaims{"sub": sub, "exp": at(time.Hour)}), "invisible character")
	}
}
