package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// fault is a server on which buyers get nothing, for one reason.
type fault struct {
	create []string // flags of its sale
	serve  func(t *testing.T) (args []string, then func(*running))
	plant  func(t *testing.T, s *running) // after the sale was created
	token  func(s *running) string        // of the shop; nil: a good one

	body    string   // of the claims
	headers []string // and more than the usual ones
	silent  bool     // no claim comes
	status  int      // what the last of them gets
}

// faults are those of the rows of "Nothing is sold", by the word in bold.
var faults = map[string]fault{
	"secret": {status: 401, token: func(*running) string { return tokenOf("the secret of another shop", time.Hour) }},
	"clock": {status: 401, token: func(s *running) string { // of a login whose clock is an hour behind
		return tokenOf(s.secret(), 10*time.Minute-time.Hour)
	}},
	"body": {status: 400, body: `{"qty":1,"product":"phone"}`},
	"list": {status: 403, create: []string{"--eligibility", "list"}},
	"risk": {
		status: 403,
		create: []string{"--ticket-before", "10m", "--risk-url", "http://127.0.0.1:1/risk"},
	},
	"proxy": {
		status: 429, create: []string{"--address-rate", "1/1h"}, headers: []string{"X-Forwarded-For: 203.0.113.7"},
	},
	"paused": {status: 409, plant: func(t *testing.T, s *running) { ok(t, s.env, "sale", "pause", "phone") }},
	"hidden": {status: 404, create: []string{"--visibility", "hidden"}},
	"page":   {status: 405, headers: []string{"OPTIONS", "Origin: https://shop.example"}},
	"store": {status: 202, serve: func(t *testing.T) ([]string, func(*running)) {
		pg, redis := servertest.StartPostgres(t), servertest.StartRedis(t)
		return []string{"--ledger", redis.URL(), "--store", pg.URL()}, func(s *running) {
			pg.Stop(t)
			t.Cleanup(func() { s.end(t) })
			t.Cleanup(func() { pg.Start(t) }) // before, so that what was accepted is stored
		}
	}},
	"evicts": {status: 202, serve: func(t *testing.T) ([]string, func(*running)) {
		redis := servertest.StartRedis(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru")
		return []string{"--ledger", redis.URL(), "--store", servertest.Postgres(t)}, nil
	}},
	"arrives": {silent: true},
}

func (r *running) secret() string {
	secret, _ := os.ReadFile(filepath.Join(r.data, "buyer.secret"))
	return strings.TrimSpace(string(secret))
}

func tokenOf(secret string, life time.Duration) string {
	token, err := auth.Sign([]byte(secret), map[string]any{"sub": "ann", "exp": time.Now().Add(life).Unix()})
	if err != nil {
		panic(err)
	}
	return token
}

// The runbook starts with what to do when nothing is sold. Each row is tried: its fault
// is planted, its command run as it stands there, and what it says is what the row says.
func TestNothingIsSold(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operating.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## Nothing is sold\n")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		name := regexp.MustCompile(`\*\*([a-z]+)\*\*`).FindStringSubmatch(line)
		if len(cells) != 4 || name == nil {
			continue
		}
		rows++
		planted, known := faults[name[1]]
		if !known {
			t.Errorf("the row of %s is not tried", name[1])
			continue
		}
		t.Run(name[1], func(t *testing.T) {
			s, token := planted.begin(t)
			words := strings.Fields(quoted.FindStringSubmatch(cells[1])[1])[1:]
			for i, word := range words {
				words[i] = map[string]string{"SALE": "phone", "TOKEN": token}[word]
				if words[i] == "" {
					words[i] = word
				}
			}
			got := command(t, s.env, words...)
			if got.stderr != "" || strings.Contains(got.out, token) {
				t.Errorf("%q: %+v", words, got)
			}
			if name[1] != "store" { // of which it says only that the database does not answer
				shown := ok(t, s.env, "sale", "show", "phone")
				if _, line, _ := strings.Cut(shown, "\nclaims "); strings.HasPrefix(strings.TrimSpace(line), "none (node") !=
					(planted.silent || name[1] == "page") || strings.Contains(shown, "\nrefused ") !=
					slices.Contains([]string{"secret", "clock", "body", "list", "risk", "page"}, name[1]) {
					t.Errorf("sale show does not say whether buyers come:\n%s", shown)
				}
			}
			paragraph, _, _ := strings.Cut(got.out, "\n\n")
			first := !strings.HasPrefix(paragraph, "fail")
			for _, cause := range quoted.FindAllStringSubmatch(cells[2], -1) {
				if !strings.Contains(got.out, cause[1]) {
					t.Errorf("%v does not name %q:\n%s", words, cause[1], got.out)
				}
				first = first || strings.Contains(paragraph, cause[1])
			}
			if !first {
				t.Errorf("%v does not begin with the cause:\n%s", words, got.out)
			}
		})
	}
	if rows != len(faults) {
		t.Errorf("%d rows, and %d faults", rows, len(faults))
	}
}

// begin plants the fault, and lets buyers come.
func (f *fault) begin(t *testing.T) (s *running, token string) {
	t.Helper()
	var args []string
	var then func(*running)
	if f.serve != nil {
		args, then = f.serve(t)
	}
	s = serve(t, args...)
	ok(t, s.env, append([]string{
		"sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "100",
		"--max-per-buyer", "none",
	}, f.create...)...)
	if f.plant != nil {
		f.plant(t, s)
	}
	if then != nil {
		then(s)
	}
	token = tokenOf(s.secret(), time.Hour)
	if f.token != nil {
		token = f.token(s)
	}
	for last, n := 0, 0; !f.silent && (n < 3 || last != f.status); n++ {
		if last = f.claim(t, s, token, n); n > 300 {
			t.Fatalf("a claim gets %d, want %d", last, f.status)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return s, token
}

// claim sends one claim, and returns its status.
func (f *fault) claim(t *testing.T, s *running, token string, n int) int {
	t.Helper()
	body, method := f.body, http.MethodPost
	if body == "" {
		body = `{"quantity":1}`
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request := func(path string) *http.Request {
		r := must.Get(http.NewRequestWithContext(ctx, method, s.url+"/v1/sales/phone"+path, strings.NewReader(body)))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Idempotency-Key", fmt.Sprint("attempt-", n))
		for _, h := range f.headers {
			if name, value, is := strings.Cut(h, ": "); is {
				r.Header.Set(name, value)
			} else {
				r.Method = h
			}
		}
		if r.Method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
		}
		return r
	}
	response := must.Get(http.DefaultClient.Do(request("/orders")))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

// The Chinese page has the same commands, and the same causes that they show.
func TestNothingIsSoldInChinese(t *testing.T) {
	cells := func(file, heading string) (all []string) {
		text := must.Get(os.ReadFile("../../docs/" + file))(t)
		_, section, _ := strings.Cut(string(text), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		row := regexp.MustCompile("(?m)^\\| [^|]+ \\| (`sluice[^|]+ \\| [^|]+) \\|")
		for _, row := range row.FindAllStringSubmatch(section, -1) {
			all = append(all, row[1])
		}
		return all
	}
	english, chinese := cells("operating.md", "Nothing is sold"), cells("operating.zh-CN.md", "一件都没卖出去")
	if len(english) != len(faults) || !slices.Equal(english, chinese) {
		t.Errorf("in English\n%s\nin Chinese\n%s", strings.Join(english, "\n"), strings.Join(chinese, "\n"))
	}
}
