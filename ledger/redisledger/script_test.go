package redisledger

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
)

// luaSources returns the text of every script by name, with its parts.
func luaSources(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(sources, "lua/*.lua")
	if err != nil || len(names) == 0 {
		t.Fatalf("scripts %v: %v", names, err)
	}
	all := map[string]string{}
	for _, name := range names {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "lua/"), ".lua")
		all[name] = load(name).text
	}
	return all
}

// headerOf splits the contract at the top of a script into its parts.
func headerOf(text string) (first string, parts map[string]string, body string) {
	parts = map[string]string{}
	var part string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		body = text[strings.Index(text, line)+len(line):]
		comment = strings.TrimSpace(comment)
		name, rest, named := strings.Cut(comment, ":")
		switch {
		case first == "":
			first = comment
		case named && slices.Contains(headerParts, name):
			part = name
			parts[part] = strings.TrimSpace(rest)
		case part != "":
			parts[part] += " " + comment
		}
	}
	return first, parts, body
}

var headerParts = []string{"KEYS", "ARGV", "Returns", "Keeps", "Cost", "Resend"}

func TestScriptsStateTheirContract(t *testing.T) {
	for name, text := range luaSources(t) {
		first, parts, body := headerOf(text)
		if !strings.HasPrefix(first, name+".lua: ") {
			t.Errorf("%s: begins with %q, want its name and what it does", name, first)
		}
		for _, part := range headerParts {
			if parts[part] == "" {
				t.Errorf("%s: the header does not say %s", name, part)
			}
		}
		for _, list := range []string{"KEYS", "ARGV"} {
			stated := numbered(parts[list])
			for _, used := range indexes(body, list) {
				if !slices.Contains(stated, used) && !openEnded(parts[list], used) {
					t.Errorf("%s: uses %s[%d], which the header does not name", name, list, used)
				}
			}
		}
	}
}

// numbered finds "1 sale hash", "2 ..." in a part of a header.
func numbered(text string) []int {
	var all []int
	for _, match := range regexp.MustCompile(`(?:^|[;,] )(\d+)(?:\.\.)? `).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(match[1])
		all = append(all, n)
	}
	return append(all, numberedAnd(text)...)
}

// numberedAnd finds the second of "4 epoch and 5 sequence".
func numberedAnd(text string) []int {
	var all []int
	for _, match := range regexp.MustCompile(` and (\d+) `).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(match[1])
		all = append(all, n)
	}
	return all
}

// openEnded reports whether "7.. names" covers index n.
func openEnded(text string, n int) bool {
	match := regexp.MustCompile(`(\d+)\.\. `).FindStringSubmatch(text)
	if match == nil {
		return false
	}
	from, _ := strconv.Atoi(match[1])
	return n >= from
}

// indexes lists the literal indexes that a script uses of KEYS or ARGV.
func indexes(body, list string) []int {
	found := map[int]bool{}
	for _, match := range regexp.MustCompile(list+`\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(match[1])
		found[n] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// A cluster routes a script by its declared keys, and proxies refuse others:
// every command names its key as KEYS[i], written there, the i too unless the
// script has a loop over its keys.
func TestScriptsUseDeclaredKeysOnly(t *testing.T) {
	call := regexp.MustCompile(`redis\.p?call\('(\w+)'(, *'(?:CREATE)')?(?:, *([^,)]+))?`)
	key := regexp.MustCompile(`^KEYS\[[\di]\]$`)
	for name, text := range luaSources(t) {
		_, _, body := headerOf(text)
		calls := call.FindAllStringSubmatch(body, -1)
		if len(calls) != strings.Count(body, "redis.call(")+strings.Count(body, "redis.pcall(") || len(calls) == 0 {
			t.Errorf("%s: a command that is not written out", name)
		}
		for _, c := range calls {
			if c[1] != "TIME" && !key.MatchString(c[3]) {
				t.Errorf("%s: %s names its key as %q, want KEYS[i]", name, c[1], c[3])
			}
		}
	}
}

// Redis runs Lua 5.1, Dragonfly 5.4, where / makes a float, and where a
// number that is not whole is written otherwise.
func TestScriptsStayPortable(t *testing.T) {
	banned := map[string]*regexp.Regexp{
		"division":             regexp.MustCompile(`[^/]/[^/]`),
		"a comma number":       regexp.MustCompile(`[^\w.]\d+\.\d+`),
		"math library":         regexp.MustCompile(`\bmath\.`),
		"cjson, cmsgpack, bit": regexp.MustCompile(`\b(cjson|cmsgpack|bit|struct)\.`),
		"a global":             regexp.MustCompile(`(?m)^(?:\w+ *=|function )`),
		"setresp or replicate": regexp.MustCompile(`redis\.(setresp|replicate_commands|breakpoint)`),
		"unpack of Lua 5.1":    regexp.MustCompile(`[^.\w(]unpack\(`),
	}
	alias := regexp.MustCompile(`local unpack = table\.unpack or unpack`)
	for name, text := range luaSources(t) {
		_, _, body := headerOf(text)
		for what, pattern := range banned {
			if what == "unpack of Lua 5.1" && alias.MatchString(body) {
				continue
			}
			if found := pattern.FindString(withoutComments(body)); found != "" {
				t.Errorf("%s: %s: %q", name, what, found)
			}
		}
	}
}

func withoutComments(body string) string {
	return regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(body, "")
}

// The numbers of codes in scripts are those of sluice.Code. The golden text
// below is what is stored and sent; a number is never given to another code.
func TestScriptsAndDomainAgreeOnCodes(t *testing.T) {
	const golden = `1 ACCEPTED accepted
2 KEY_REUSED idempotency_key_reused
3 SALE_NOT_FOUND sale_not_found
4 UNAVAILABLE unavailable
5 NOT_OPEN not_open
6 CLOSED closed
7 PAUSED paused
8 BUYER_LIMIT buyer_limit
9 SOLD_OUT sold_out
10 INSUFFICIENT insufficient
11 RATE_LIMITED rate_limited
12 OVERLOADED overloaded
`
	numbers := map[string]string{}
	var got strings.Builder
	for line := range strings.Lines(golden) {
		field := strings.Fields(line)
		numbers[field[1]] = field[0]
		code, err := sluice.ParseCode(field[2])
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(&got, "%d %s %s\n", code, field[1], code)
	}
	if diff := cmp.Diff(golden, got.String()); diff != "" {
		t.Errorf("sluice.Code has changed: -golden +got\n%s", diff)
	}
	if len(sluice.Codes()) != len(numbers) {
		t.Errorf("%d codes, the golden text has %d", len(sluice.Codes()), len(numbers))
	}

	used := map[string]bool{}
	for name, text := range luaSources(t) {
		for _, c := range regexp.MustCompile(`(?m)^local ([A-Z_]+) = (\d+)`).FindAllStringSubmatch(text, -1) {
			used[c[1]] = true
			if numbers[c[1]] != c[2] {
				t.Errorf("%s: %s is %s, want %s", name, c[1], c[2], numbers[c[1]])
			}
		}
	}
	want := []string{"SOLD_OUT"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("codes in scripts: -want +got\n%s", diff)
	}
}

// Every script that is embedded is one that the ledger calls.
func TestEveryScriptIsLoaded(t *testing.T) {
	loaded := map[string]bool{}
	for _, s := range []*script{
		commitScript, readScript, recordsScript, loadBeginScript, loadRecordsScript, applyScript, fenceScript, unfenceScript,
		ackScript, releaseScript, dropScript, rateScript,
	} {
		loaded[s.name] = true
		if len(s.sha) != 40 {
			t.Errorf("%s: hash %q", s.name, s.sha)
		}
	}
	for name := range luaSources(t) {
		if !loaded[name] {
			t.Errorf("%s.lua is never called", name)
		}
	}
}

// A setting that Redis returns no value for is an error, and the others are
// judged all the same.
func TestRisksOfUnknownSettings(t *testing.T) {
	found, err := risks(map[string]string{"maxmemory": "1", "maxmemory-policy": "allkeys-lru"})
	if len(found) != 1 || err == nil || !strings.Contains(err.Error(), "appendonly, appendfsync") {
		t.Errorf("%+v, %v; want the policy, and an error that names the file's settings", found, err)
	}
}
