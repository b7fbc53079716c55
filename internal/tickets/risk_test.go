package tickets

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// The environment has a proxy, for all tests, since net/http reads it once: what is sent by it goes nowhere.
func init() { _ = os.Setenv("HTTP_PROXY", "http://127.0.0.1:1") }

// asker returns an Asker with a clock that the test moves.
func asker(t *testing.T) (*Asker, *atomic.Int64) {
	a := NewAsker(nil)
	t.Cleanup(a.Close)
	ms := new(atomic.Int64)
	a.now = func() time.Time { return time.UnixMilli(ms.Load()) }
	return a, ms
}

func rule(url string, onFailure sluice.OnFailure) sluice.Risk {
	return sluice.Risk{URL: url, TimeoutMS: 10_000, OnFailure: onFailure}
}

var question = Question{Sale: "phones", Buyer: "ann", Address: "192.0.2.7", Token: "tok"}

func TestAsk(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a redirect was followed")
		_, _ = io.WriteString(w, `{"allow":true}`)
	}))
	defer elsewhere.Close()
	long := strings.Repeat("手", 100)
	for _, c := range []struct {
		name   string
		status int
		answer string
		allow  bool
		reason string
		failed bool
	}{
		{"allowed", 200, `{"allow":true}`, true, "", false},
		{"denied", 200, `{"allow":false,"reason":"a robot"}`, false, "a robot", false},
		{"more fields", 200, `{"allow":true,"score":0.9}`, true, "", false},
		{"a long reason", 200, `{"allow":false,"reason":"` + long + `"}`, false, long[:198], false},
		{"a reason of many lines", 200, `{"allow":false,"reason":"a\nb"}`, false, "", false},
		{"no verdict", 200, `{}`, false, "", true},
		{"null", 200, `{"allow":null}`, false, "", true},
		{"a word", 200, `{"allow":"true"}`, false, "", true},
		{"not JSON", 200, `yes`, false, "", true},
		{"nothing", 200, ``, false, "", true},
		{"an endless answer", 200, `{"allow":true,"x":"` + strings.Repeat("x", maxAnswer) + `"}`, false, "", true},
		{"an error", 500, `{"allow":true}`, false, "", true},
		{"another success", 204, ``, false, "", true},
		{"elsewhere", 302, `{"allow":true}`, false, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got Question
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
					json.NewDecoder(r.Body).Decode(&got) != nil {
					t.Errorf("request %s %v", r.Method, r.Header)
				}
				w.Header().Set("Location", elsewhere.URL)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			a, _ := asker(t)
			for _, policy := range []sluice.OnFailure{sluice.Allow, sluice.Deny} {
				v, err := a.Ask(t.Context(), rule(server.URL, policy), question, "")
				want := c.allow
				if c.failed {
					want = policy == sluice.Allow
				}
				if err != nil || v.Allow != want || v.Reason != c.reason || (v.Failed != nil) != c.failed {
					t.Errorf("policy %s: %+v, want allow %v, reason %q, failed %v", policy, v, want, c.reason, c.failed)
				}
			}
			if got != question {
				t.Errorf("asked %+v, want %+v", got, question)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	a, _ := asker(t)
	r := rule(server.URL, sluice.Deny)
	r.TimeoutMS = 1
	if v, _ := a.Ask(t.Context(), r, question, ""); v.Failed == nil || v.Allow {
		t.Errorf("%+v, want a failure", v)
	}
}

// about is a question about the nth buyer.
func about(n int) Question {
	q := question
	q.Buyer = sluice.BuyerID(fmt.Sprint("buyer-", n))
	return q
}

// A service is asked so many questions at a time, one about each buyer. More wait for a place; who gets none is
// told so, whatever the policy is.
func TestAtATime(t *testing.T) {
	arrived, release := make(chan struct{}, 2*maxAtATime), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, `{"allow":true}`)
	}))
	defer server.Close()
	a, _ := asker(t)
	var asks sync.WaitGroup
	for n := range maxAtATime + 3 { // three wait
		asks.Go(func() {
			if v, err := a.Ask(context.Background(), rule(server.URL, sluice.Deny), about(n), ""); !v.Allow || v.Failed != nil ||
				err != nil {
				t.Errorf("%+v, %v; want allowed", v, err)
			}
		})
	}
	for range maxAtATime {
		<-arrived
	}
	for _, policy := range []sluice.OnFailure{sluice.Allow, sluice.Deny} {
		r := rule(server.URL, policy)
		r.TimeoutMS = 1
		for _, n := range []int{0, 1000} { // a buyer about whom there is a question, and another one
			want := map[int]error{0: ErrUnderWay, 1000: ErrBusy}[n]
			if v, err := a.Ask(t.Context(), r, about(n), ""); err != want || v.Allow {
				t.Errorf("buyer %d, policy %s: %+v, %v; want %v", n, policy, v, err, want)
			}
		}
	}
	if len(a.service(server.URL).failed) > 0 {
		t.Error("a crowd counts as a failure of the service")
	}
	// Another service is asked as ever.
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"allow":true}`)
	}))
	defer other.Close()
	if v, err := a.Ask(t.Context(), rule(other.URL, sluice.Deny), about(2000), ""); !v.Allow || v.Failed != nil ||
		err != nil {
		t.Errorf("another service: %+v, %v", v, err)
	}
	close(release)
	asks.Wait()
	if len(a.asking) > 0 || a.service(server.URL).waiting.Load() > 0 {
		t.Errorf("%d questions, %d that wait, after all were answered", len(a.asking), a.service(server.URL).waiting.Load())
	}
}

// A service judges a proof of work once, until that has expired.
func TestJudgedOnce(t *testing.T) {
	var asked atomic.Int64
	var says atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, says.Load().(string))
	}))
	defer server.Close()
	a, ms := asker(t)
	ask := func(proof string, allow bool, times int64) {
		t.Helper()
		v, err := a.Ask(t.Context(), rule(server.URL, sluice.Deny), question, proof)
		if err != nil || v.Allow != allow || asked.Load() != times {
			t.Errorf("%q: %+v, %v, asked %d times; want %t, %d", proof, v, err, asked.Load(), allow, times)
		}
	}
	says.Store(`no answer`)
	ask("first", false, 1)
	says.Store(`{"allow":false,"reason":"a robot"}`)
	ask("first", false, 2) // it has not judged
	says.Store(`{"allow":true}`)
	ask("first", false, 2)
	ask("second", true, 3)
	ask("second", true, 3)
	ask("", true, 4)
	ask("", true, 5)
	ms.Add((ChallengeLife + time.Second).Milliseconds())
	ask("third", true, 6)
	ms.Add((ChallengeLife + time.Second).Milliseconds())
	ask("fourth", true, 7)
	if _, known := a.judged.get("first"); known {
		t.Error("what has expired is remembered")
	}
	for n := range 3 * maxLately {
		a.judged.put(fmt.Sprint(n), Verdict{}, a.now())
	}
	if n := len(a.judged.now) + len(a.judged.before); n > 2*maxLately {
		t.Errorf("%d verdicts are remembered", n)
	}
}

// A service rests after failures about so many buyers, with no answer among them or shortly before.
func TestRest(t *testing.T) {
	var asked, status atomic.Int64
	status.Store(500)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"allow":true}`)
	}))
	defer server.Close()
	a, ms := asker(t)
	ask := func(buyer int) error {
		v, err := a.Ask(t.Context(), rule(server.URL, sluice.Deny), about(buyer), "")
		return cmp.Or(err, v.Failed)
	}
	var buyers int
	another := func() error { buyers++; return ask(buyers) }
	want := func(what string, more int64, err error, want error) {
		t.Helper()
		if n := asked.Swap(0); n != more || (want == errRests) != (err == errRests) || (want == nil) != (err == nil) {
			t.Errorf("%s: asked %d times, %v; want %d, %v", what, n, err, more, want)
		}
	}
	var last error
	for range failuresToRest - 1 {
		last = another()
	}
	for range 2 * failuresToRest {
		last = ask(1)
	}
	want("one buyer, many times", 3*failuresToRest-1, last, io.EOF)
	want("another buyer", 1, another(), io.EOF)
	want("it rests", 0, another(), errRests)
	ms.Add(restFor.Milliseconds() - 1)
	want("until the end", 0, another(), errRests)
	ms.Add(1)
	want("one finds out", 1, another(), io.EOF)
	want("and it rests again", 0, another(), errRests)
	ms.Add(restFor.Milliseconds())
	status.Store(200)
	want("well again", 1, another(), nil)
	want("as ever", 1, another(), nil)

	// Whoever it fails for, it answers others: it lives.
	for range 2 * failuresToRest {
		status.Store(500)
		last = another()
	}
	want("shortly after an answer", 2*failuresToRest, last, io.EOF)
	ms.Add(livesFor.Milliseconds())
	want("no answer since", 1, another(), io.EOF)
	want("it rests again", 0, another(), errRests)
	ms.Add(restFor.Milliseconds())
	status.Store(200)
	want("it answers one", 1, another(), nil)
	status.Store(500)
	ms.Add(livesFor.Milliseconds())
	for range failuresToRest - 1 {
		last = another()
	}
	want("fewer buyers since an answer", failuresToRest-1, last, io.EOF)
	status.Store(200)
	want("an answer among them", 1, another(), nil)

	// Buyers who leave are no failures.
	ms.Add(livesFor.Milliseconds())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 2 * failuresToRest {
		_, _ = a.Ask(gone, rule(server.URL, sluice.Deny), about(n), "")
	}
	if err := another(); err != nil {
		t.Errorf("after buyers who left: %v", err)
	}
}

// After a rest one question finds out, and the others do not wait for it.
func TestOneFindsOut(t *testing.T) {
	var hold atomic.Bool
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if hold.Load() {
			arrived <- struct{}{}
			<-release
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	a, ms := asker(t)
	for n := range failuresToRest {
		_, _ = a.Ask(t.Context(), rule(server.URL, sluice.Deny), about(n), "")
	}
	ms.Add(restFor.Milliseconds())
	hold.Store(true)
	var first sync.WaitGroup
	first.Go(func() { _, _ = a.Ask(context.Background(), rule(server.URL, sluice.Deny), question, "") })
	<-arrived
	if v, _ := a.Ask(t.Context(), rule(server.URL, sluice.Allow), about(1), ""); v.Failed != errRests || !v.Allow {
		t.Errorf("while one finds out: %+v, want %v", v, errRests)
	}
	close(release)
	first.Wait()
}

// What is logged names no secret.
func TestAddress(t *testing.T) {
	if got := Address("https://risk.example/check?key=secret"); got != "https://risk.example/check" {
		t.Errorf("%q", got)
	}
	a, _ := asker(t)
	v, _ := a.Ask(t.Context(), rule("http://127.0.0.1:1/?key=secret", sluice.Deny), question, "")
	if v.Failed == nil || strings.Contains(v.Failed.Error(), "secret") {
		t.Errorf("%v", v.Failed)
	}
}

// A service at an address that package outbound forbids is not asked. The address
// is the one of them that leads to this machine, so that the test sends nothing
// elsewhere, whatever is wrong with the guard. A proxy of the environment is no way around it.
func TestGuardedAddresses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is asked") }))
	defer server.Close()
	a := NewAsker(nil)
	defer a.Close()
	v, _ := a.Ask(t.Context(), rule(strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1), sluice.Deny), question, "")
	if v.Failed == nil || !strings.Contains(v.Failed.Error(), "not an address") {
		t.Errorf("%+v", v)
	}
}
