package engine_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// asks returns the status that a token gets.
func asks(t *testing.T, e *engine.Engine, token string) int {
	t.Helper()
	r := httptest.NewRequest("GET", "/v1/orders", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, r)
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	return w.Code
}

// A server starts while the key server of buyers' tokens is down, accepts none
// of these tokens until it is back, and then does.
func TestKeysThatComeLater(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	document := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1"}}}))(t)
	var up atomic.Bool
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(document)
	}))
	defer login.Close()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), BuyerJWKS: login.URL, BuyerIssuer: "shop",
		BuyerAudience: "sluice",
	}))(t)
	defer e.Close(context.Background())
	claims := jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix(), "iss": "shop", "aud": "sluice"}
	sign := func(method jwt.SigningMethod, key any) string {
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = "1"
		text := must.Get(token.SignedString(key))(t)
		return text
	}
	good := sign(jwt.SigningMethodES256, key)
	if status := asks(t, e, good); status != http.StatusServiceUnavailable {
		t.Errorf("without keys: status %d, want 503", status)
	}
	if e.BuyerSecret() != "" {
		t.Error("there is a secret beside the JWKS")
	}
	for _, secret := range []string{"x", "1"} {
		if status := asks(t, e, sign(jwt.SigningMethodHS256, []byte(secret))); status != http.StatusUnauthorized {
			t.Errorf("HS256 where no secret is set: status %d, want 401", status)
		}
	}
	up.Store(true)
	for deadline := time.Now().Add(time.Minute); asks(t, e, good) != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the keys are not read, although their server is back")
		}
	}
	claims["aud"] = "another"
	if status := asks(t, e, sign(jwt.SigningMethodES256, key)); status != http.StatusUnauthorized {
		t.Errorf("another audience: status %d", status)
	}
}

func TestKeysThatAreWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(path, []byte(`{"keys":[]}`), 0o600))
	const long = "0123456789abcdef-long"
	for name, c := range map[string]struct {
		cfg  engine.Config
		want string
	}{
		"no JWKS file": {
			engine.Config{BuyerJWKS: "/nonexistent/jwks.json", BuyerAudience: "sluice"},
			"/nonexistent/jwks.json",
		},
		"an empty JWKS file": {engine.Config{BuyerJWKS: path, BuyerAudience: "*"}, "no keys"},
		"plain http":         {engine.Config{BuyerJWKS: "http://login.example.com/", BuyerAudience: "sluice"}, "https"},
		"no audience":        {engine.Config{BuyerJWKS: "https://login.example.com/"}, "buyer_audience"},

		"a short admin key": {
			engine.Config{Exposed: true, AdminKey: "q7q"},
			"admin_key (from the settings) is short",
		},
		"a short buyer secret": {
			engine.Config{Exposed: true, BuyerSecret: "q7q"},
			"buyer_secret (from the settings) is short",
		},
		"a short buyer secret before": {engine.Config{Exposed: true, BuyerSecretPrevious: "q7q"}, "buyer_secret_previous"},
		"a short ticket secret":       {engine.Config{Exposed: true, TicketSecret: "q7q"}, "ticket_secret (from"},
		"a short webhook key":         {engine.Config{Exposed: true, WebhookKey: "q7q"}, "webhook_key (from"},
		"a short key": {
			engine.Config{AdminKeys: []sluice.AdminKey{{Name: "ann", Role: sluice.Viewer, Key: "short"}}},
			"ann: key: it is short",
		},
		"a key twice": {engine.Config{AdminKey: long, AdminKeys: []sluice.AdminKey{
			{Name: "ann", Role: sluice.Viewer, Key: long},
		}}, "same key as that of admin"},
	} {
		c.cfg.DataDir = t.TempDir()
		e, err := engine.Open(t.Context(), c.cfg)
		if err == nil {
			_ = e.Close(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), long) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// Keys that can be guessed are no errors, but warned of at the start, wherever
// they come from; the warning does not repeat them.
func TestShortKeysAreWarnedOf(t *testing.T) {
	const admin, buyer = "admin_key is short", "buyer_secret is short"
	long := strings.Repeat("x", 32)
	for name, c := range map[string]struct {
		cfg    engine.Config
		files  map[string]string
		warned []string
	}{
		"generated":   {},
		"short":       {cfg: engine.Config{AdminKey: "q7q", BuyerSecret: "q8q"}, warned: []string{admin, buyer}},
		"nearly":      {cfg: engine.Config{AdminKey: long[:15], BuyerSecret: long[:31]}, warned: []string{admin, buyer}},
		"just enough": {cfg: engine.Config{AdminKey: long[:16], BuyerSecret: long}},
		"of the open": {cfg: engine.Config{Exposed: true, AdminKey: long[:16], BuyerSecret: long}},
		"one of them": {cfg: engine.Config{AdminKey: long, BuyerSecret: "q8q"}, warned: []string{buyer}},
		"kept in a file": {
			files:  map[string]string{"admin.key": "q7q\n", "buyer.secret": "q8q\n"},
			warned: []string{admin, buyer, "from=\"admin.key in", "from=\"buyer.secret in"},
		},
		"no secret: JWKS": {cfg: engine.Config{AdminKey: long, BuyerJWKS: "http://127.0.0.1:1/", BuyerAudience: "sluice"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.DataDir = t.TempDir()
			for file, text := range c.files {
				must.Succeed(t, os.WriteFile(filepath.Join(c.cfg.DataDir, file), []byte(text), 0o600))
			}
			var log strings.Builder
			c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			e := must.Get(engine.Open(t.Context(), c.cfg))(t)
			if err := e.Close(t.Context()); err != nil { // nothing writes to the log any more
				t.Fatal(err)
			}
			said := log.String()
			for _, warning := range c.warned {
				if !strings.Contains(said, warning) {
					t.Errorf("want %q in %s", warning, said)
				}
			}
			for _, line := range []string{admin, buyer} {
				if strings.Contains(said, line) && !slices.Contains(c.warned, line) {
					t.Errorf("%q is said of keys that are long enough", line)
				}
			}
			if strings.Contains(said, "q7q") || strings.Contains(said, "q8q") {
				t.Error("a key is in the log")
			}
		})
	}
}
