package redisledger_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// documented returns the rights that docs/redis-keys.md asks an operator to
// grant, as the words of its ACL SETUSER line behind the password.
func documented(t testing.TB) []string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "redis-keys.md")))(t)
	_, line, found := strings.Cut(string(text), "\nACL SETUSER sluice reset on >PASSWORD ")
	line, _, ended := strings.Cut(line, "\n```")
	if !found || !ended {
		t.Fatal("docs/redis-keys.md has no line that begins with ACL SETUSER sluice reset on >PASSWORD")
	}
	if strings.Contains(line, "\n") {
		t.Error("the ACL line of docs/redis-keys.md cannot be pasted: it is more than one line")
	}
	return strings.Fields(line)
}

// addUser makes a user with these rights alone and returns the URL for it.
func addUser(t testing.TB, url, name string, rights []string) string {
	t.Helper()
	client := newClient(t, url)
	command(t, client, append([]string{"ACL", "SETUSER", name, "reset", "on", ">secret"}, rights...)...)
	return strings.Replace(url, "://", "://"+name+":secret@", 1)
}

// leastRights returns the URL of a user with the documented rights, on keys of
// the tests. A Redis that the tests did not start keeps the users it has.
func leastRights(t testing.TB, url string) string {
	t.Helper()
	if os.Getenv("SLUICE_TEST_REDIS_URL") != "" {
		return url
	}
	rights := documented(t)
	rights[slices.Index(rights, "~sluice:*")] = "~sluicetest-*"
	return addUser(t, url, "least", rights)
}

// ofConnection are the commands that the client sends by itself: to choose a
// database, and to find its way in a cluster and among sentinels.
var ofConnection = []string{"+select", "+cluster|slots", "+cluster|shards", "+readonly", "+role"}

// The documented commands are those that the ledger and its scripts send, none
// missing and none too many.
func TestDocumentedRightsAreThoseInUse(t *testing.T) {
	used := map[string]bool{}
	for _, right := range ofConnection {
		used[right] = true
	}
	sources := must.Get(filepath.Glob("*.go"))(t)
	scripts := must.Get(filepath.Glob("lua/*.lua"))(t)
	parts := must.Get(filepath.Glob("lua/parts/*.lua"))(t)
	sent := regexp.MustCompile(`\.B\(\)\.([A-Z][a-z]+)([A-Z][a-z]+)?\(\)|redis\.p?call\('([A-Z]+)'(?:, '(CREATE)')?`)
	for _, file := range slices.Concat(sources, scripts, parts) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := must.Get(os.ReadFile(file))(t)
		for _, found := range sent.FindAllStringSubmatch(string(text), -1) {
			right := "+" + found[1] + found[3]
			if sub := found[2] + found[4]; sub != "" {
				right += "|" + sub
			}
			used[strings.ToLower(right)] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(used)), slices.Sorted(slices.Values(documented(t)[1:]))); diff != "" {
		t.Errorf("rights in docs/redis-keys.md: -in use +documented\n%s", diff)
	}
}

// With the documented rights everything works, and without any one of them
// something does not.
func TestLeastRights(t *testing.T) {
	server := servertest.StartRedis(t)
	admin := newClient(t, server.URL()+"/1")
	rights := documented(t)
	if err := work(t, admin, addUser(t, server.URL()+"/1", "all", rights), "s"); err != nil {
		t.Fatalf("with all documented rights: %v", err)
	}
	for i, right := range rights {
		if slices.Contains(ofConnection[1:], right) {
			continue // see below
		}
		without := slices.Delete(slices.Clone(rights), i, i+1)
		url := addUser(t, server.URL()+"/1", fmt.Sprint("without-", i), without)
		if err := work(t, admin, url, sluice.SaleID(fmt.Sprint("s-", i))); err == nil {
			t.Errorf("everything works without %s", right)
		}
	}

	node := servertest.StartCluster(t, 1)[0]
	url := strings.Replace(addUser(t, node.URL(), "all", rights), "redis://", "redis+cluster://", 1)
	loadOpen(t, open(t, url, redisledger.Options{Node: "a"}), "s", tight(3))
	if readings, err := newReplica(t, url).Read(t.Context(), []sluice.SaleID{"s"}); err != nil || !readings[0].Loaded {
		t.Errorf("%+v, %v; want a reading", readings, err)
	}
	for _, right := range ofConnection[1:] { // of replicas and sentinels
		words := strings.Split(strings.TrimPrefix(right, "+"), "|")
		answer := command(t, newClient(t, node.URL()), append([]string{"ACL", "DRYRUN", "all"}, words...)...)
		if text, err := answer.ToString(); err != nil || text != "OK" {
			t.Errorf("%s: %s, %v; want OK", right, text, err)
		}
	}
}

// work does everything that servers do with a ledger, and returns the first
// error.
func work(t testing.TB, admin rueidis.Client, url string, sale sluice.SaleID) error {
	ctx := t.Context()
	command(t, admin, "SCRIPT", "FLUSH")
	var ledgers []*redisledger.Ledger
	for _, node := range []string{"a", "b"} {
		l, err := redisledger.Open(ctx, url, redisledger.Options{Node: node})
		if err != nil {
			return err
		}
		defer l.Close()
		ledgers = append(ledgers, l)
	}
	l, b := ledgers[0], ledgers[1]
	terms := tight(3)
	terms.OpensAt = time.Now().Add(-time.Hour)
	claims := makeClaims(sale, 0, 3)
	var entries []port.Entry
	journal := func(by *redisledger.Ledger, source port.Source) func() error {
		return func() (err error) {
			entries, err = by.ReadJournal(ctx, port.JournalRead{Sale: sale, Source: source, Max: 10})
			if err == nil && len(entries) != 1 {
				err = fmt.Errorf("%d entries from %v, want 1", len(entries), source)
			}
			return err
		}
	}
	load := func(epoch int64) func() error {
		return func() error {
			return errors.Join(l.Load(ctx, port.LoadImage{Sale: sale, Epoch: epoch, Terms: terms}),
				l.Unfence(ctx, sale, epoch))
		}
	}
	for i, step := range []func() error{
		func() error { _, err := l.Risks(ctx); return err },
		load(1),
		func() error { terms.Version++; return l.Apply(ctx, sale, 1, terms) },
		func() error {
			_, err := l.Allow(ctx, sale, port.Rates{Buyer: sluice.BuyerRate{Requests: 1, PerS: 1}}, make([]port.Try, 1))
			return err
		},
		func() error { _, err := l.Claim(ctx, sale, claims); return err },
		func() error {
			_, err := l.Recall(ctx, sluice.ClaimID{Sale: sale, Buyer: claims[0].Buyer, Key: claims[0].Key})
			return err
		},
		journal(l, port.New),
		journal(l, port.Own),
		journal(b, port.Abandoned),
		func() error { return b.Ack(ctx, sale, []string{entries[0].ID}) },
		func() error { _, err := l.Release(ctx, sale, releasesOf(sale, 1, claims[:2]...)); return err },
		func() error { return l.Records(ctx, sale, func(port.Record) bool { return true }) },
		func() error { return l.Holders(ctx, sale, func(sluice.BuyerID) bool { return true }) },
		func() error { _, err := l.Read(ctx, []sluice.SaleID{sale}); return err },
		func() error { return l.Fence(ctx, sale, 1, "why") },
		func() error { // behind the remains of a torn transaction
			command(t, admin, "XADD", "sluice:{"+string(sale)+"}:journal", "*", "v", "1")
			return l.PeekJournal(ctx, sale, func(port.Entry) bool { return true })
		},
		load(2), // keeps the journal aside
		func() error { return l.Drop(ctx, sale, 2) },
		func() error {
			w, err := redisledger.Open(ctx, url, redisledger.Options{Node: "w", WaitReplicas: 1, WaitTimeout: time.Millisecond})
			if err != nil {
				return err
			}
			defer w.Close()
			if err = w.Confirmed(ctx, sale); err != nil && strings.Contains(err.Error(), "0 of 1 replicas") {
				return nil // Redis has counted, so it was allowed
			}
			return fmt.Errorf("with no replica: %v", err)
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}
