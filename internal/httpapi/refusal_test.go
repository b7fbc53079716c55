package httpapi

import (
	"net/http/httptest"
	"testing"
	"time"
)

// Whoever waits as long as Retry-After says must not come too early: part of a
// second is a whole one.
func TestRetryAfterIsRoundedUp(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		want string // empty: no header
	}{
		{-time.Second, ""},
		{0, ""},
		{1, "1"},
		{time.Millisecond, "1"},
		{time.Second - 1, "1"},
		{time.Second, "1"},
		{time.Second + 1, "2"},
		{1200 * time.Millisecond, "2"},
		{2 * time.Second, "2"},
		{119*time.Second + 1, "120"},
		{120 * time.Second, "120"},
		{120*time.Second + 1, "121"}, // the first that is not kept
		{121 * time.Second, "121"},
		{time.Hour + 1, "3601"},
	} {
		got := ""
		if after := retryIn(c.wait); len(after) == 1 {
			got = after[0]
		} else if after != nil {
			t.Errorf("%s: %q", c.wait, after)
		}
		if got != c.want {
			t.Errorf("%s: Retry-After %q, want %q", c.wait, got, c.want)
		}
	}
}

// An answer's own Retry-After goes before that of its code.
func TestRefusalsSayWhenToComeBack(t *testing.T) {
	for _, c := range []struct {
		code string
		wait time.Duration
		want string
	}{
		{"rate_limited", 1200 * time.Millisecond, "2"},
		{"rate_limited", 0, "1"},
		{"overloaded", 0, "1"},
		{"sold_out", 0, ""},
	} {
		w := httptest.NewRecorder()
		for code, refusal := range refusals {
			if code.String() == c.code {
				refusal.write(w, retryIn(c.wait))
			}
		}
		if got := w.Header().Get("Retry-After"); got != c.want || w.Code != statuses[c.code] {
			t.Errorf("%s, %s: %d, Retry-After %q, want %q", c.code, c.wait, w.Code, got, c.want)
		}
	}
}
