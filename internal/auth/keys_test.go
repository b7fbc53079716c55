package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/internal/must"
)

// login is a server that hands out a JWKS, in whatever way a test wants.
type login struct {
	*httptest.Server
	asked  atomic.Int64
	mu     sync.Mutex
	answer http.HandlerFunc
}

func newLogin(t *testing.T, answer http.HandlerFunc) *login {
	l := &login{answer: answer}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.asked.Add(1)
		l.mu.Lock()
		answer := l.answer
		l.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *login) set(answer http.HandlerFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

func serve(text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }
}

// clock is a time that tests move by hand.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(tokenTime.UnixNano())
	return c
}
func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func keysAt(t *testing.T, location string, c *clock) *Keys {
	t.Helper()
	k := must.Get(NewKeys(KeysOptions{Location: location, Now: c.now, Timeout: time.Minute}))(t)
	t.Cleanup(k.Close)
	k.patience = time.Minute // however busy the machine is
	return k
}

// hanging is an answer that does not come before the client or the test ends.
func hanging(t *testing.T) http.HandlerFunc {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}
}

// Certificates beside a key say nothing about it: no field of theirs makes it unfit, however broken.
func TestCertificatesAreIgnored(t *testing.T) {
	for name, fields := range map[string]string{
		"a negative serial number": `"x5c":["MIIBIjCByaADAgECAgH/"]`, "an empty chain": `"x5c":[]`, "an empty certificate": `"x5c":[""]`,
		"base64url": `"x5c":["_-__"]`, "no list": `"x5c":"MIIB"`, "null": `"x5c":null`,
		"a thumbprint of another one": `"x5t":"AAAAAAAAAAAAAAAAAAAAAAAAAAA"`, "a thumbprint in hex": `"x5t":"00ff"`,
		"a number": `"x5t#S256":7`, "a thumbprint with padding": `"x5t#S256":"YQ=="`, "no URL": `"x5u":"::"`,
	} {
		key := must.Get(json.Marshal(jose.JSONWebKey{Key: rsaOne().public(), KeyID: "rsa-1"}))(t)
		text := fmt.Appendf(nil, `{"keys":[%s,%s}]}`, key[:len(key)-1], fields)
		set, skipped, err := parseKeySet(text)
		if err != nil || len(skipped) > 0 || set.find("rsa-1", rs256) == nil {
			t.Errorf("%s: %q, %v; want the key", name, skipped, err)
		}
	}
}

// withOps is a key for what stands in its key_ops.
func withOps(ops string) json.RawMessage {
	key, _ := json.Marshal(jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a"}) // which always can be
	return append(bytes.TrimSuffix(key, []byte("}")), `,"key_ops":`+ops+`}`...)
}

// A key that buyers' tokens may need and that cannot be used is warned of with its name, once; one that is
// for something else is not.
func TestPassedOverKeysAreWarnedOf(t *testing.T) {
	with := func(keys ...any) []byte {
		keys = append(keys, jose.JSONWebKey{Key: ecOne().public(), KeyID: "good"})
		return must.Get(json.Marshal(map[string]any{"keys": keys}))(t)
	}
	over := func(k *Keys) []string {
		passedOver, err := k.Trouble()
		must.Succeed(t, err)
		return passedOver
	}
	server := newLogin(t, serve(with(jose.JSONWebKey{Key: rsaOne().public(), KeyID: "enc-1", Use: "enc"})))
	var log bytes.Buffer
	k := must.Get(NewKeys(KeysOptions{
		Location: server.URL, Timeout: time.Minute,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}))(t)
	defer k.Close()
	must.Succeed(t, k.Refresh(t.Context()))
	server.set(serve(with(withOps(`["wrapKey", "encrypt"]`))))
	must.Succeed(t, k.Refresh(t.Context()))
	if strings.Contains(log.String(), "level=WARN") || len(over(k)) != 0 {
		t.Errorf("keys to encrypt: %s, %q", &log, over(k))
	}
	for _, wrong := range []any{
		withOps(`["sign"]`), withOps(`[]`), withOps(`["Verify"]`),
		jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a", Use: "signature"},
	} {
		server.set(serve(with(wrong)))
		must.Succeed(t, k.Refresh(t.Context()))
		if over := over(k); len(over) != 1 || !strings.Contains(log.String(), "level=WARN") ||
			!strings.Contains(over[0], "want ") {
			t.Errorf("%s: passed over %q; %s", wrong, over, &log)
		}
		log.Reset()
	}
	server.set(serve(with(jose.JSONWebKey{Key: rsaOne().public(), KeyID: "ps-7", Use: "sig", Algorithm: "PS256"})))
	for range 2 {
		must.Succeed(t, k.Refresh(t.Context()))
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "ps-7") {
		t.Errorf("%d warnings, want one that names the key: %s", n, &log)
	}
	if over := over(k); len(over) != 1 || !strings.Contains(over[0], "ps-7") || !strings.Contains(over[0], "PS256") {
		t.Errorf("passed over: %q", over)
	}
	server.set(serve(nil))
	_ = k.Refresh(t.Context())
	if _, err := k.Trouble(); err == nil {
		t.Error("a document that is no JSON is no trouble")
	}
}

// A key server that is down, slow or wrong locks no buyer out: the previous
// keys stay in use until its first good answer brings the new ones.
func TestKeysOutliveTheirServer(t *testing.T) {
	elsewhere := newLogin(t, serve(document(t, rsaTwo())))
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	for name, trouble := range map[string]http.HandlerFunc{
		"500":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"404":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"a redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"a cut answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a short answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = w.Write([]byte("{"))
		},
		"nothing":      serve(nil),
		"HTML":         serve([]byte("<html>come back later</html>")),
		"half a JSON":  serve(document(t, rsaTwo())[:100]),
		"no keys":      serve([]byte(`{"keys":[]}`)),
		"null":         serve([]byte(`null`)),
		"other JSON":   serve([]byte(`{"error":"x"}`)),
		"a list":       serve([]byte(`[]`)),
		"useless keys": serve([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"rsa-1","alg":"RS256"},{"kty":"XYZ"},7]}`)),
		"a kid twice":  serve(document(t, rsaTwo(), signer{"rsa-2", rsaOne().method, rsaOne().key})),
		"a huge body": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<16)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			server := newLogin(t, serve(document(t, rsaOne())))
			k := keysAt(t, server.URL, c)
			v := verifier(Options{Keys: k})
			want(t, v, "with the first keys", rsaOne().token(t, good), "")

			server.set(trouble)
			err := k.Refresh(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			if name == "a huge body" && !strings.Contains(err.Error(), "larger than") {
				t.Errorf("a huge body was read on: %v", err)
			}
			if k.set.Load().find("rsa-1", rs256) == nil {
				t.Errorf("the keys from before are gone after %v", err)
			}
			want(t, v, "with the keys from before", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(2 * time.Hour)}),
				"")
			if _, err := v.Verify(t.Context(), rsaTwo().token(t, good)); !errors.Is(err, ErrNoKeys) {
				t.Errorf("a key that is not there while the server fails: %v, want ErrNoKeys", err)
			}

			server.set(serve(document(t, rsaTwo())))
			c.advance(time.Minute)
			want(t, v, "with the new keys", rsaTwo().token(t, good), "")
			c.advance(time.Minute)
			if _, err := v.Verify(t.Context(), rsaOne().token(t, good)); err == nil || errors.Is(err, ErrNoKeys) {
				t.Errorf("with a key that was withdrawn: %v", err)
			}
		})
	}
	if n := elsewhere.asked.Load(); n != 0 {
		t.Error("a redirect was followed")
	}
}

// A key server that does not answer delays no token of a known key, and others
// only until the request times out.
func TestSlowServer(t *testing.T) {
	server := newLogin(t, serve(document(t, rsaOne())))
	c := newClock()
	k := keysAt(t, server.URL, c)
	v := verifier(Options{Keys: k})
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	want(t, v, "with the first keys", rsaOne().token(t, good), "")
	server.set(hanging(t))
	k.o.Timeout = 200 * time.Millisecond
	c.advance(time.Minute)
	if _, err := v.Verify(t.Context(), rsaTwo().token(t, good)); !errors.Is(err, ErrNoKeys) {
		t.Errorf("while the server hangs: %v, want ErrNoKeys", err)
	}
	want(t, v, "with the keys from before", rsaOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(2 * time.Hour)}), "")
}

// Requests that wait for a server that hangs are few, and end with their own
// contexts.
func TestFewWait(t *testing.T) {
	server := newLogin(t, hanging(t))
	k := must.Get(NewKeys(KeysOptions{Location: server.URL, Timeout: time.Hour}))(t)
	defer k.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range maxWaiting {
		all.Go(func() {
			if err := k.renew(ctx, "x", time.Time{}); !errors.Is(err, ErrNoKeys) {
				t.Errorf("%v, want ErrNoKeys", err)
			}
		})
	}
	waiting := func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.waiting
	}
	for deadline := time.Now().Add(patience / 2); waiting() < maxWaiting && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if waiting() == maxWaiting { // a machine that is too busy for this has nothing to see
		began := time.Now()
		if err := k.renew(t.Context(), "x", time.Time{}); !errors.Is(err, ErrNoKeys) {
			t.Errorf("%v, want ErrNoKeys", err)
		}
		if took := time.Since(began); took >= patience {
			t.Errorf("one too many waited for %v", took)
		}
	}
	cancel()
	all.Wait()
	if n, asked := waiting(), server.asked.Load(); n != 0 || asked > 1 {
		t.Errorf("%d wait for ever; the server was asked %d times", n, asked)
	}
}

// With no keys from the start, no buyer is let in, and no token is reported as
// wrong.
func TestNoKeysAtStart(t *testing.T) {
	server := newLogin(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	c := newClock()
	k := keysAt(t, server.URL, c)
	v := verifier(Options{Secret: secret, Keys: k})
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	if err := k.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("the first reading: %v", err)
	}
	for range 3 {
		if _, err := v.Verify(t.Context(), rsaOne().token(t, good)); !errors.Is(err, ErrNoKeys) {
			t.Errorf("%v, want ErrNoKeys", err)
		}
	}
	if n := server.asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want 1", n)
	}
	want(t, v, "the secret is here", signed(t, good), "")
	server.set(serve(document(t, rsaOne())))
	c.advance(time.Minute)
	want(t, v, "once it answers", rsaOne().token(t, good), "")
}

// Tokens with unknown key names cause one request to the key server per
// cooldown, not one per token; those that could not be good anyway, none.
func TestUnknownKeysAreRateLimited(t *testing.T) {
	server := newLogin(t, serve(document(t, rsaOne())))
	c := newClock()
	k := keysAt(t, server.URL, c)
	v := verifier(Options{Secret: secret, Keys: k})
	must.Succeed(t, k.Refresh(t.Context()))
	flood := func(claims jwt.MapClaims) {
		for i := range 50 {
			forged := signer{fmt.Sprint("forged-", i), ecOne().method, ecOne().key}
			if _, err := v.Verify(t.Context(), forged.token(t, claims)); err == nil {
				t.Fatal("a forged token is good")
			}
		}
	}
	c.advance(time.Minute)
	flood(jwt.MapClaims{"sub": "eve", "exp": at(-time.Hour)})
	flood(jwt.MapClaims{"exp": at(time.Hour)})
	if n := server.asked.Load(); n != 1 {
		t.Errorf("tokens that are void made the server be asked %d times, want none besides the first", n)
	}
	flood(jwt.MapClaims{"sub": "eve", "exp": at(time.Hour)})
	later(t, v, "a new name so soon may be that of a new key",
		newSigner("new", es256).token(t, jwt.MapClaims{"sub": "eve", "exp": at(time.Hour)}))
	if n := server.asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times, want 2", n)
	}
	c.advance(k.o.Cooldown)
	flood(jwt.MapClaims{"sub": "eve", "exp": at(time.Hour)})
	if n := server.asked.Load(); n != 3 {
		t.Errorf("after the cooldown the server was asked %d times, want 3", n)
	}
}

// What a key has signed is void with the key, remembered or not; what another
// key has signed stays remembered.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	put := func(signers ...signer) { // with a byte order mark, as editors of Windows write it
		t.Helper()
		must.Succeed(t, os.WriteFile(path, append([]byte("\ufeff"), document(t, signers...)...), 0o600))
	}
	put(rsaOne(), ecOne())
	k := keysAt(t, path, newClock())
	must.Succeed(t, k.Refresh(t.Context()))
	v := verifier(Options{Keys: k})
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	withdrawn, stays := rsaOne().token(t, good), ecOne().token(t, good)
	want(t, v, "before", withdrawn, "")
	want(t, v, "before", stays, "")
	kept, _ := v.verified.GetIfPresent(stays)

	put(ecOne(), rsaTwo())
	must.Succeed(t, k.Refresh(t.Context()))
	if _, err := v.Verify(t.Context(), withdrawn); err == nil {
		t.Error("a remembered token outlives its key")
	}
	want(t, v, "the key that stays", stays, "")
	if now, ok := v.verified.GetIfPresent(stays); !ok || now.key != kept.key || now.key.gone.Load() {
		t.Error("a token whose key stays had to be verified again")
	}
	want(t, v, "the new key", rsaTwo().token(t, good), "")

	// The same name for another key: the old one is gone all the same.
	put(signer{"ec-1", rsaOne().method, rsaOne().key}, newSigner("ec-1", es256))
	must.Succeed(t, k.Refresh(t.Context()))
	want(t, v, "another key of that name", stays, "signature")
	put(ecOne())
	must.Succeed(t, k.Refresh(t.Context()))
	want(t, v, "it came back", stays, "")
}

// Run reads again at its pace, and sooner after a failure.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := must.Get(NewKeys(KeysOptions{Location: "unused", Refresh: time.Minute}))(t)
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		broken := false
		text := document(t, ecOne())
		k.fetch = func(context.Context) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			if broken {
				return nil, errors.New("down")
			}
			return text, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(90 * time.Second)
		mu.Lock()
		broken = true
		mu.Unlock()
		time.Sleep(40 * time.Second) // at 120 s it fails, then at 121, 123, 127
		mu.Lock()
		broken = false
		mu.Unlock()
		time.Sleep(70 * time.Second) // at 135 s it is good again, then at 195
		cancel()
		<-done
		k.Close()
		want := []time.Duration{0, 60, 120, 121, 123, 127, 135, 195}
		for i := range want {
			want[i] *= time.Second
		}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("it was read at %v, want %v", at, want)
		}
		if k.set.Load().size() != 1 {
			t.Error("there are no keys")
		}
		if err := k.Refresh(t.Context()); err == nil {
			t.Error("it is read after the end")
		}
	})
}

// Keys that close while buyers with new tokens ask for them wait for what has begun, and begin
// nothing.
func TestKeysClose(t *testing.T) {
	text := document(t, ecOne())
	for range 20 {
		k := must.Get(NewKeys(KeysOptions{Location: "unused"}))(t)
		var asked atomic.Int64
		k.fetch = func(context.Context) ([]byte, error) {
			asked.Add(1)
			return text, nil
		}
		var buyers sync.WaitGroup
		for range 4 {
			buyers.Go(func() {
				for k.Refresh(t.Context()) == nil {
				}
			})
		}
		for asked.Load() < 10 {
			time.Sleep(100 * time.Microsecond)
		}
		k.Close()
		before := asked.Load()
		buyers.Wait()
		if n := asked.Load() - before; n != 0 {
			t.Errorf("%d readings after the end", n)
		}
	}
}

func TestKeysLocation(t *testing.T) {
	for location, good := range map[string]bool{
		"jwks.json": true, "/etc/sluice/jwks.json": true, "https://login.example.com/jwks": true,
		"https://login.example.com/jwks?tenant=7": true,
		"http://127.0.0.1:8080/jwks":              true, "http://[::1]/jwks": true, "http://localhost/jwks": true,
		"": false, "http://login.example.com/jwks": false, "http://localhost.example.com/": false,
		"http://127.0.0.1.example.com/": false,
		"http://10.0.0.1/jwks":          false, "ftp://login.example.com/jwks": false, "https://": false,
		"https://user:pass@login.example.com/jwks": false,
		"https://login.example.com/jwks#x":         false, "file:///etc/jwks": false, "https://%zz/": false,
	} {
		if err := CheckKeysLocation(location); (err == nil) != good {
			t.Errorf("%q: %v, want good %v", location, err, good)
		}
	}
	for _, location := range []string{"", "http://login.example.com"} {
		if _, err := NewKeys(KeysOptions{Location: location}); err == nil {
			t.Errorf("%q: no error", location)
		}
	}
	var log bytes.Buffer
	k := must.Get(NewKeys(KeysOptions{
		Location: "https://127.0.0.1:1/jwks?key=hidden", Log: slog.New(slog.NewTextHandler(&log, nil)),
	}))(t)
	defer k.Close()
	if err := k.Refresh(t.Context()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v, want an error without the query", err)
	}
	if strings.Contains(log.String(), "from before") || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("there are no keys from before: %s", &log)
	}
}

func TestKeySet(t *testing.T) {
	small := must.Get(rsa.GenerateKey(rand.Reader, 1024))(t)
	p384 := must.Get(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	off := `{"kty":"EC","crv":"P-256","kid":"off","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"}`
	for _, ops := range []string{"null", `["verify"]`, `["sign", "verify"]`} {
		if set, _, err := parseKeySet([]byte(`{"keys":[` + string(withOps(ops)) + `]}`)); err != nil || set.size() != 1 {
			t.Errorf("key_ops %s: %v", ops, err)
		}
	}
	for _, c := range []struct {
		name string
		key  any
		want string
	}{
		{"small RSA", jose.JSONWebKey{Key: &small.PublicKey, KeyID: "a"}, "1024 bits"},
		{"P-384", jose.JSONWebKey{Key: &p384.PublicKey, KeyID: "a"}, "another curve"},
		{"private", jose.JSONWebKey{Key: private, KeyID: "a"}, "holds a secret"},
		{"symmetric", jose.JSONWebKey{Key: []byte("secret"), KeyID: "a"}, "holds a secret"},
		{"to encrypt", jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a", Use: "enc"}, "use"},
		{"to wrap keys", withOps(`["wrapKey", "encrypt"]`), "key_ops"},
		{"to sign, and no more", withOps(`["sign"]`), "key_ops"},
		{"for nothing", withOps(`[]`), "key_ops"},
		{"for what is no list", withOps(`"verify"`), "key_ops"},
		{"of PS256", jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a", Algorithm: "PS256"}, "PS256"},
		{"of HS256", jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a", Algorithm: "HS256"}, "HS256"},
		{"of another type", jose.JSONWebKey{Key: rsaOne().public(), KeyID: "a", Algorithm: "ES256"}, "ES256"},
		{"off the curve", json.RawMessage(off), "cannot be read"},
		{"a long kid", jose.JSONWebKey{Key: rsaOne().public(), KeyID: strings.Repeat("k", 600)}, "kid"},
		{"a number", 7, "no JSON object"},
	} {
		text, err := json.Marshal(map[string]any{"keys": []any{c.key, jose.JSONWebKey{Key: ecOne().public(), KeyID: "good"}}})
		if err != nil {
			t.Fatal(err)
		}
		set, skipped, err := parseKeySet(text)
		if err != nil || set.size() != 1 || set.find("good", es256) == nil || len(skipped) != 1 ||
			!strings.Contains(skipped[0], c.want) {
			t.Errorf("%s: %d keys, %q, %v; want it passed over for %q", c.name, set.size(), skipped, err, c.want)
		}
	}
	twice := document(t, ecOne(), ecOne())
	if set, _, err := parseKeySet(twice); err != nil || set.size() != 1 {
		t.Errorf("the same key twice: %v", err)
	}
	many := bytes.Repeat([]byte(`{},`), maxKeys+1)
	if _, _, err := parseKeySet([]byte(`{"keys":[` + string(many[:len(many)-1]) + `]}`)); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Errorf("too many keys: %v", err)
	}
}
