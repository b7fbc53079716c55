package httpapi

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// docs/codes.md has every code with its number and status, and no other; in Chinese, too.
func TestCodesAreDocumented(t *testing.T) {
	for _, page := range []string{"codes.md", "codes.zh-CN.md"} {
		t.Run(page, func(t *testing.T) { codesAreDocumented(t, page) })
	}
}

func codesAreDocumented(t *testing.T, page string) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", page)))(t)
	documented := map[string]int{} // status by code
	numbers := map[string]int{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		number, err := strconv.Atoi(cells[0])
		if err == nil {
			cells = cells[1:]
		}
		codes := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[0], -1)
		if len(cells) < 3 || len(codes) == 0 {
			continue
		}
		for i, status := range strings.Split(cells[1], " / ") {
			for _, c := range codes[i:] {
				documented[c[1]], _ = strconv.Atoi(status)
				numbers[c[1]] = number
			}
		}
	}
	for code, as := range codes {
		if as.title == "" {
			t.Errorf("%s has no title", code)
		}
		if documented[code] != as.status {
			t.Errorf("%s has the status %d, in docs/%s %d", code, as.status, page, documented[code])
		}
		delete(documented, code)
	}
	for code := range documented {
		t.Errorf("docs/%s has %s, which has no status", page, code)
	}
	for _, code := range sluice.Codes() {
		if name := code.String(); numbers[name] != int(code) || codes[name].status == 0 {
			t.Errorf("%s has the number %d, in docs/%s %d, and the status %d", name, code, page, numbers[name],
				codes[name].status)
		}
	}
}

// A client that waits as long as Retry-After says must not come too early: part
// of a second is a whole one.
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
		for code, refusal := range newProblems("").encoded {
			if code.String() == c.code {
				refusal.write(w, retryIn(c.wait))
			}
		}
		if got := w.Header().Get("Retry-After"); got != c.want || w.Code != codes[c.code].status {
			t.Errorf("%s, %s: %d, Retry-After %q, want %q", c.code, c.wait, w.Code, got, c.want)
		}
	}
}
