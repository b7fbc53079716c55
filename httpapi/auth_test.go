package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var tokenTime = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func signed(t testing.TB, claims jwt.MapClaims) string {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestPlainTokens(t *testing.T) {
	b := newBuyers([]byte("secret"), func() time.Time { return tokenTime })
	at := tokenTime.Unix()
	for _, c := range []struct {
		name   string
		claims jwt.MapClaims
		plain  bool
	}{
		{"sub and exp", jwt.MapClaims{"sub": "张三", "exp": at + 1}, true},
		{"more claims", jwt.MapClaims{"sub": "a", "exp": at + 1, "nbf": at, "iat": at, "aud": []string{"x"}, "roles": 7}, true},
		{"expires now", jwt.MapClaims{"sub": "a", "exp": at}, false},
		{"no exp", jwt.MapClaims{"sub": "a"}, false},
		{"not yet", jwt.MapClaims{"sub": "a", "exp": at + 9, "nbf": at + 1}, false},
		{"no sub", jwt.MapClaims{"exp": at + 1}, false},
		{"sub is a number", jwt.MapClaims{"sub": 7, "exp": at + 1}, false},
		{"a fraction is for the library", jwt.MapClaims{"sub": "a", "exp": float64(at) + 1.5}, false},
	} {
		token := signed(t, c.claims)
		if !strings.HasPrefix(token, plainHeader) {
			t.Fatalf("the header of %s is not the usual one", token)
		}
		if _, ok := b.plain(token); ok != c.plain {
			t.Errorf("%s: plain %v, want %v", c.name, ok, c.plain)
		}
		if _, ok := b.plain(token[:len(token)-1]); ok {
			t.Errorf("%s: a token with half a signature is good", c.name)
		}
	}
}

// Whatever the short way accepts, the library accepts, for the same buyer.
func FuzzPlainTokens(f *testing.F) {
	b := newBuyers([]byte("secret"), func() time.Time { return tokenTime })
	f.Add(signed(f, jwt.MapClaims{"sub": "a", "exp": tokenTime.Unix() + 1}), `{"sub":"a","exp":1794398401}`)
	f.Add("a.b.c", `{"SUB":"a","exp":1794398401,"exp":"x","sub":null}`)
	f.Fuzz(func(t *testing.T, token, payload string) {
		// A forged token, and one that the shop signed, with any payload.
		text, err := jwt.SigningMethodHS256.Sign(plainHeader+jwtSegment(payload), []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{token, plainHeader + jwtSegment(payload) + "." + jwtSegment(string(text))} {
			v, ok := b.plain(token)
			if !ok {
				continue
			}
			var claims jwt.RegisteredClaims
			_, err := b.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return b.secret, nil })
			if err != nil || claims.Subject != string(v.buyer) || !claims.ExpiresAt.Time.Equal(v.expires) {
				t.Errorf("%s is %+v by the short way; the library says %+v, %v", token, v, claims, err)
			}
		}
	})
}

func jwtSegment(text string) string { return (&jwt.Token{}).EncodeSegment([]byte(text)) }
