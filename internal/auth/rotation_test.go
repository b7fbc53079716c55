package auth

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/internal/must"
)

// unnamed is a signer whose key has no kid, in the set and in tokens.
func unnamed(s signer) signer { return signer{"", s.method, s.key} }

// later is what the verifiers of these tests do with a token that may be good
// by keys that cannot be read now.
func later(t *testing.T, v *Verifier, name, token string) {
	t.Helper()
	if got, err := v.Verify(t.Context(), token); !errors.Is(err, ErrNoKeys) {
		t.Errorf("%s: %+v, %v, want ErrNoKeys", name, got, err)
	}
}

// A new key in the place of an old one, under the same kid or none, is found by
// the first token that it signed; what the old one signed is void from then on.
func TestRotationInPlace(t *testing.T) {
	for name, c := range map[string]struct{ before, after signer }{
		"no kid":                      {unnamed(ecOne()), unnamed(newSigner("", es256))},
		"the same kid":                {ecOne(), newSigner("ec-1", es256)},
		"no kid, another algorithm":   {unnamed(rsaOne()), unnamed(ecOne())},
		"the kid, another algorithm":  {edOne(), newSigner("ed-1", es256)},
		"a kid that tokens leave out": {signer{"a", ecOne().method, ecOne().key}, unnamed(newSigner("b", es256))},
	} {
		t.Run(name, func(t *testing.T) {
			server := newLogin(t, serve(document(t, c.before)))
			clock := newClock()
			k := keysAt(t, server.URL, clock)
			v := verifier(Options{Keys: k})
			good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
			old := c.before.token(t, good)
			want(t, v, "before", old, "")

			server.set(serve(document(t, c.after)))
			clock.advance(time.Minute)
			want(t, v, "the new key's", c.after.token(t, good), "")
			if got, err := v.Verify(t.Context(), old); err == nil {
				t.Errorf("the old key's, remembered, is good: %+v", got)
			}
			if n := server.asked.Load(); n != 2 {
				t.Errorf("the server was asked %d times, want 2", n)
			}
			clock.advance(time.Minute)
			if _, err := v.Verify(t.Context(), old); err == nil || errors.Is(err, ErrNoKeys) {
				t.Errorf("the old key's: %v, want that it is void", err)
			}
		})
	}
}

// Between two readings a token that the keys do not fit is void, unless it says
// that it was signed after the last one.
func TestSignedAfterTheKeysWereRead(t *testing.T) {
	next := newSigner("ec-1", es256)
	server := newLogin(t, serve(document(t, ecOne())))
	clock := newClock()
	k := keysAt(t, server.URL, clock)
	v := verifier(Options{Keys: k, Now: clock.now})
	must.Succeed(t, k.Refresh(t.Context()))
	server.set(serve(document(t, next)))
	clock.advance(2 * time.Second)
	issued := func(s signer, iat time.Duration) string {
		return s.token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "iat": at(iat)})
	}
	later(t, v, "signed after it", issued(next, 2*time.Second))
	later(t, v, "signed after it, by a clock that is ahead", issued(next, 20*time.Second))
	want(t, v, "signed before it", issued(next, -time.Second), "signature")
	want(t, v, "signed far in the future", issued(next, time.Hour), "signature")
	want(t, v, "it does not say", next.token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}), "signature")
	want(t, v, "the key that is there", issued(ecOne(), 2*time.Second), "")
	if n := server.asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want 1", n)
	}
	clock.advance(k.o.Cooldown)
	want(t, v, "after the cooldown", issued(next, 2*time.Second), "")
	want(t, v, "void", issued(ecOne(), 2*time.Second), "signature")
}

// Forged tokens make the server be asked once per cooldown, not once per token,
// and the answer to them is final when it can be.
func TestForgedTokensAreRateLimited(t *testing.T) {
	server := newLogin(t, serve(document(t, ecOne(), unnamed(edOne()))))
	clock := newClock()
	k := keysAt(t, server.URL, clock)
	v := verifier(Options{Keys: k})
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	want(t, v, "a good one", ecOne().token(t, good), "")
	forged := []string{
		newSigner("ec-1", es256).token(t, good), newSigner("", edDSA).token(t, good), newSigner("", es256).token(t, good),
		newSigner("", rs256).token(t, good), newSigner("ec-1", edDSA).token(t, good),
	}
	flood := func() {
		t.Helper()
		for range 10 {
			for _, token := range forged {
				if _, err := v.Verify(t.Context(), token); err == nil || errors.Is(err, ErrNoKeys) {
					t.Errorf("%v, want that it is void", err)
				}
			}
		}
		want(t, v, "a good one among them", ecOne().token(t, good), "")
	}
	flood()
	if n := server.asked.Load(); n != 1 {
		t.Errorf("right after the first reading the server was asked %d times, want 1", n)
	}
	for round := range int64(3) {
		clock.advance(k.o.Cooldown)
		flood()
		if n := server.asked.Load(); n != round+2 {
			t.Errorf("after %d cooldowns the server was asked %d times, want %d", round+1, n, round+2)
		}
	}
	// Nothing final can be said while the keys cannot be read.
	server.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	clock.advance(k.o.Cooldown)
	for _, token := range forged {
		later(t, v, "while the server fails", token)
	}
	want(t, v, "a good one while the server fails",
		ecOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(2 * time.Hour)}), "")
	if n := server.asked.Load(); n != 5 {
		t.Errorf("while it fails the server was asked %d times, want 5", n)
	}
}

// All requests whose tokens do not fit wait for one reading of the keys; those
// whose tokens fit do not wait.
func TestRotationIsReadOnceForAll(t *testing.T) {
	next := newSigner("ec-1", es256)
	server := newLogin(t, serve(document(t, ecOne())))
	clock := newClock()
	k := keysAt(t, server.URL, clock)
	v := verifier(Options{Keys: k})
	good := jwt.MapClaims{"sub": "alice", "exp": at(time.Hour)}
	want(t, v, "before", ecOne().token(t, good), "")
	clock.advance(time.Minute)
	asked, answer := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	server.set(func(w http.ResponseWriter, _ *http.Request) {
		close(asked) // a second request would panic, and fail
		<-answer
		_, _ = w.Write(document(t, next))
	})
	var all sync.WaitGroup
	const buyers = 50
	for range buyers {
		all.Go(func() { want(t, v, "the new key's", next.token(t, good), "") })
	}
	<-asked
	want(t, v, "the old key's meanwhile", ecOne().token(t, jwt.MapClaims{"sub": "alice", "exp": at(2 * time.Hour)}), "")
	untilWaiting(t, k, buyers)
	release()
	all.Wait()
	if n := server.asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times, want 2", n)
	}
}

// untilWaiting returns once that many requests wait for a reading.
func untilWaiting(t *testing.T, k *Keys, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		waiting := k.waiting
		k.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", waiting, n)
		}
	}
}

// What a reading brings that began before a token was signed is not the last
// word on it.
func TestSignedWhileTheKeysAreRead(t *testing.T) {
	next := newSigner("ec-1", es256)
	server := newLogin(t, serve(document(t, ecOne())))
	clock := newClock()
	k := keysAt(t, server.URL, clock)
	v := verifier(Options{Keys: k, Now: clock.now})
	must.Succeed(t, k.Refresh(t.Context()))
	asked, answer := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	defer release()
	server.set(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = w.Write(document(t, ecOne()))
	})
	clock.advance(time.Minute)
	token := func(iat time.Duration) string {
		return next.token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "iat": at(iat)})
	}
	var all sync.WaitGroup
	all.Go(func() { want(t, v, "signed when it began", token(time.Minute), "signature") })
	<-asked
	clock.advance(2 * time.Second)
	all.Go(func() { later(t, v, "signed since", token(time.Minute+time.Second)) })
	untilWaiting(t, k, 2)
	release()
	all.Wait()
}

// A token without kid is void as soon as its key is withdrawn, though it was
// good before and is remembered, and though the keys were read since then and
// before: each reading makes a new set of the same keys.
func TestWithdrawnWithoutKid(t *testing.T) {
	for name, after := range map[string][]signer{
		"another key instead":        {unnamed(newSigner("", es256))},
		"a key of another algorithm": {unnamed(edOne())},
	} {
		t.Run(name, func(t *testing.T) {
			old := unnamed(ecOne())
			server := newLogin(t, serve(document(t, old)))
			clock := newClock()
			k := keysAt(t, server.URL, clock)
			v := verifier(Options{Keys: k})
			issue := func(nth int) string {
				return old.token(t, jwt.MapClaims{"sub": "alice", "exp": at(time.Hour), "jti": fmt.Sprint(nth)})
			}
			tokens := []string{issue(0), issue(1), issue(2)}
			want(t, v, "before", tokens[0], "")
			refresh := func(signers ...signer) {
				t.Helper()
				server.set(serve(document(t, signers...)))
				clock.advance(time.Minute)
				must.Succeed(t, k.Refresh(t.Context()))
			}
			refresh(old)
			want(t, v, "after a reading", tokens[1], "")
			refresh(old)
			want(t, v, "after another", tokens[2], "")
			for range 2 {
				refresh(after...)
				for i, token := range tokens {
					if got, err := v.Verify(t.Context(), token); err == nil {
						t.Errorf("token %d is good after its key is withdrawn: %+v", i, got)
					}
				}
			}
		})
	}
}
