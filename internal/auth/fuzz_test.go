package auth

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/internal/must"
)

func segment(text string) string { return (&jwt.Token{}).EncodeSegment([]byte(text)) }

// Whatever payload is good here, a general reader of JSON and the library find
// good too, for the same buyer; and its names stand in it once.
func FuzzClaims(f *testing.F) {
	v := verifier(Options{Secret: secret})
	library := jwt.NewParser(jwt.WithTimeFunc(v.o.Now), jwt.WithLeeway(v.o.Skew), jwt.WithExpirationRequired())
	f.Add(`{"sub":"a","exp":1794398401}`)
	f.Add(`{"SUB":"a","exp":1794398401,"exp":"x","sub":null}`)
	f.Add(`{"sub":"\u0061\ud83d\ude00\\","exp":1.794398401e9,"nbf":-0,"aud":["x","\n"],"sluice_sales":["a",""],"x":{"y":[{}]}}`)
	f.Add("{\"sub\":\"a\xff\\ud800\",\"exp\":1e400} ")
	f.Fuzz(func(t *testing.T, payload string) {
		token := plainHeader + "." + segment(payload)
		signature := must.Get(jwt.SigningMethodHS256.Sign(token, secret))(t)
		token += "." + segment(string(signature))
		got, err := v.judge(t.Context(), token)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(payload), &members); err != nil {
			t.Fatalf("%q is good, and no JSON: %v", payload, err)
		}
		var sub string
		if err := json.Unmarshal(members["sub"], &sub); err != nil || sub != string(got.Buyer) {
			t.Errorf("%q is of %q; its sub is %q, %v", payload, got.Buyer, sub, err)
		}
		var sales []string
		if raw := members["sluice_sales"]; raw != nil {
			if err := json.Unmarshal(raw, &sales); err != nil || !slices.Equal(sales, got.Sales) {
				t.Errorf("%q is for %q, want %q, %v", payload, got.Sales, sales, err)
			}
		}
		if exp := got.Expires.Unix(); exp == farthest { // the library's arithmetic overflows
			return
		}
		// By a map: the library's own claims take other letters for the same name.
		theirs := jwt.MapClaims{}
		if _, err := library.ParseWithClaims(token, theirs, func(*jwt.Token) (any, error) {
			return secret, nil
		}); err != nil {
			if nbf, _ := theirs["nbf"].(float64); nbf > -1e15 { // the same
				t.Errorf("%q is good; the library: %v", payload, err)
			}
			return
		}
		if exp, err := theirs.GetExpirationTime(); err != nil || exp.Unix() != got.Expires.Unix() && exp.Unix() < 1<<53 {
			t.Errorf("%q expires at %v; the library says %v, %v", payload, got.Expires, exp, err)
		}
		for name := range members {
			quoted, _ := json.Marshal(name)
			if n := strings.Count(payload, string(quoted)+":"); n > 1 && !strings.ContainsAny(payload[1:], "{[\\") {
				t.Errorf("%q has %s %d times", payload, quoted, n)
			}
		}
	})
}

// No token makes the verifier panic, and none is good that was not signed with
// an accepted key.
func FuzzVerify(f *testing.F) {
	v := verifier(Options{Secret: secret, Keys: keysOf(f, document(f, rsaOne(), ecOne(), edOne()))})
	good := jwt.MapClaims{"sub": "alice", "exp": at(1e9)}
	mine := map[string]bool{}
	for _, token := range []string{
		signed(f, good), rsaOne().token(f, good), ecOne().token(f, good),
		edOne().token(f, good),
	} {
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
			if key.signed("a.b", []byte("no signature")) {
				t.Errorf("key %+v takes anything for a signature", key)
			}
		}
	})
}
