package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func segment(text string) string { return (&jwt.Token{}).EncodeSegment([]byte(text)) }

// Whatever the short way accepts, the long way accepts, for the same buyer.
func FuzzPlainTokens(f *testing.F) {
	lax, named := verifier(Options{Secret: secret}), verifier(Options{Secret: secret, Issuer: "shop", Audience: "sluice"})
	f.Add(signed(f, jwt.MapClaims{"sub": "a", "exp": at(1e9)}), `{"sub":"a","exp":1794398401}`)
	f.Add("a.b.c", `{"SUB":"a","exp":1794398401,"exp":"x","sub":null}`)
	f.Add("", `{"sub":"a","exp":1794398401,"iss":"shop","aud":"sluice","sluice_sales":["a"]}`)
	f.Add("", `{"sub":"a","exp":1794398401,"iss":"\u0073hop","ISS":"shop","aud":["x"],"Aud":"sluice"}`)
	f.Fuzz(func(t *testing.T, token, payload string) {
		// A forged token, and one that the shop signed, with any payload.
		text, err := jwt.SigningMethodHS256.Sign(plainHeader+segment(payload), secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []*Verifier{lax, named} {
			for _, token := range []string{token, plainHeader + segment(payload) + "." + segment(string(text))} {
				got, ok := v.plain(token)
				if !ok {
					continue
				}
				long, err := v.judge(context.Background(), token)
				if err != nil || long.Buyer != got.Buyer || !long.Expires.Equal(got.Expires) || !slices.Equal(long.Sales, got.Sales) {
					t.Errorf("%s is %+v by the short way; the long one says %+v, %v", token, got, long, err)
				}
			}
		}
	})
}

// No token makes the verifier panic, and none is good that was not signed by
// somebody who may.
func FuzzVerify(f *testing.F) {
	v := verifier(Options{Secret: secret, Keys: keysOf(f, document(f, rsaOne(), ecOne(), edOne()))})
	good := jwt.MapClaims{"sub": "alice", "exp": at(1e9)}
	mine := map[string]bool{}
	for _, token := range []string{signed(f, good), rsaOne().token(f, good), ecOne().token(f, good), edOne().token(f, good)} {
		mine[token] = true
		f.Add(token)
		f.Add(token[:len(token)/2])
		header, rest, _ := strings.Cut(token, ".")
		f.Add(segment(`{"alg":"none"}`) + "." + rest)
		f.Add(segment(`{"alg":"HS256","kid":"rsa-1"}`) + "." + rest)
		f.Add(header + "." + segment(`{"sub":"eve","exp":1e99,"aud":{}}`) + "." + rest)
	}
	f.Add(segment(`{"alg":"RS256","kid":{"a":1}}`) + "." + segment(`{"sub":"a","exp":1794398401}`) + ".AA")
	f.Add(segment(`{"alg":"EdDSA","kid":"ed-1"}`) + "." + segment(`{"sub":"a","exp":1794398401}`) + ".AA")
	f.Add(segment(`[]`) + "." + segment(`null`) + ".")
	f.Fuzz(func(t *testing.T, token string) {
		got, err := v.Verify(t.Context(), token)
		// ECDSA signatures can be turned into another valid one of the same claims.
		if err == nil && !mine[token] && !strings.HasPrefix(token, segment(`{"alg":"ES256"`)[:10]) {
			t.Errorf("%q is good, for %+v", token, got)
		}
		if err == nil && got.Buyer != "alice" {
			t.Errorf("%q is %s", token, got.Buyer)
		}
		if err != nil && !errors.Is(err, ErrNoKeys) && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// No document makes the parser panic, and every key that comes out of one is
// fit to verify with.
func FuzzKeySet(f *testing.F) {
	f.Add(document(f, rsaOne(), ecOne(), edOne()))
	for _, text := range []string{
		`{"keys":[]}`, `{"keys":null}`, `[]`, `{"keys":[1,null,"x",{}]}`,
		`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}`,
		`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"},{"kty":"OKP","crv":"X25519","x":"AA"}]}`,
		`{"keys":[{"kty":"RSA","n":"","e":"","x5c":["AA"]}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, _, err := parseKeySet(text)
		if err != nil {
			return
		}
		for name, key := range set.keys {
			if name.alg != key.alg || name.id != key.id || set.find(name.id, name.alg) == nil && name.id != "" {
				t.Errorf("key %+v is filed as %+v", key, name)
			}
			method := jwt.GetSigningMethod(key.alg)
			if err := method.Verify("a.b", []byte("no signature"), key.key); err == nil {
				t.Errorf("key %+v takes anything for a signature", key)
			}
		}
	})
}
