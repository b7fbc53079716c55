package client_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
)

func TestBuyerToken(t *testing.T) {
	said := func(token client.Token) (claims map[string]any) {
		t.Helper()
		text := must.Get(client.BuyerToken("secret", token))(t)
		payload := must.Get(base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1]))(t)
		must.Succeed(t, json.Unmarshal(payload, &claims))
		if life := claims["exp"].(float64) - claims["iat"].(float64); life != 3600 {
			t.Errorf("it lives for %v s", life)
		}
		delete(claims, "exp")
		delete(claims, "iat")
		return claims
	}
	plain := client.Token{Buyer: "u-42", TTL: time.Hour}
	if diff := cmp.Diff(map[string]any{"sub": "u-42"}, said(plain)); diff != "" {
		t.Error(diff)
	}
	full := plain
	full.Sales, full.Issuer, full.Audience = []sluice.SaleID{"vip"}, "shop", "sluice"
	full.Signed = map[string]string{"household": "17"}
	if diff := cmp.Diff(map[string]any{
		"sub": "u-42", "sluice_sales": []any{"vip"}, "iss": "shop", "aud": "sluice", "household": "17",
	}, said(full)); diff != "" {
		t.Error(diff)
	}
	full.Signed["sub"] = "another"
	if token, err := client.BuyerToken("secret", full); err == nil {
		t.Errorf("another buyer's: %s", token)
	}
}
