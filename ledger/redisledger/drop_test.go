package redisledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// keysOf lists the keys of a prefix.
func keysOf(t testing.TB, client rueidis.Client, prefix string) []string {
	t.Helper()
	message := command(t, client, "KEYS", prefix+":*")
	names := must.Get(message.AsStrSlice())(t)
	return names
}

// A sale with journals of earlier epochs goes with them, and nothing else goes.
func TestDropLeavesNoKey(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	const epochs = 1203
	for epoch := int64(1); epoch <= epochs; epoch += 601 {
		loadEpoch(t, l, "s", epoch, tight(10))
		wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
	}
	loadOpen(t, l, "other", tight(10))
	if err := l.Drop(t.Context(), "s", epochs); err == nil || errors.Is(err, port.ErrStaleEpoch) {
		t.Errorf("with an entry in the journal: %v", err)
	}
	if err := l.Drop(t.Context(), "s", epochs-1); !errors.Is(err, port.ErrStaleEpoch) {
		t.Errorf("another epoch: %v, want ErrStaleEpoch", err)
	}
	if n := len(keysOf(t, client, prefix)); n != 3+3+2 {
		t.Errorf("%d keys, want those of two sales and two journals kept aside: %q", n, keysOf(t, client, prefix))
	}
	entries := must.Get(l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New}))(t)
	must.Succeed(t, l.Ack(t.Context(), "s", []string{entries[0].ID}))
	must.Succeed(t, l.Drop(t.Context(), "s", epochs))
	for _, name := range keysOf(t, client, prefix) {
		if !strings.HasPrefix(name, prefix+":{other}:") {
			t.Errorf("key %s is left", name)
		}
	}
	must.Succeed(t, l.Drop(t.Context(), "s", epochs))

	// Even a server that knew more of the old sale goes on with a new one.
	loadOpen(t, l, "s", tight(10))
	wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
	if r := read(t, l, "s"); r.Seq != 1 || r.Fence != "" {
		t.Errorf("%+v", r)
	}
}

// A drop that broke off, or a sale hash that was lost, leaves something to the
// next one; entries that wait are never removed.
func TestDropOfRemains(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	for epoch := int64(1); epoch <= 2; epoch++ {
		loadEpoch(t, l, "s", epoch, tight(10))
		wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
	}
	command(t, client, "DEL", prefix+":{s}:sale")
	if err := l.Drop(t.Context(), "s", 2); err == nil {
		t.Error("no error, with an entry in the journal")
	}
	if n := len(keysOf(t, client, prefix)); n != 3 {
		t.Errorf("%d keys, want buyers, journal, and the one kept aside", n)
	}
	command(t, client, "DEL", prefix+":{s}:journal")
	must.Succeed(t, l.Drop(t.Context(), "s", 2))
	if names := keysOf(t, client, prefix); len(names) != 0 {
		t.Errorf("keys %q are left", names)
	}
}

// A key that holds something else is no reason to keep the sale; what waits in the
// journal is, and so is a format that this version does not know.
func TestDropOfDamagedSales(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for _, key := range []string{"sale", "buyers", "journal"} {
		t.Run(key, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", tight(10))
			wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
			command(t, client, "SET", prefix+":{s}:"+key, "something else")
			if key != "journal" {
				if err := l.Drop(t.Context(), "s", 1); err == nil {
					t.Error("no error, with an entry in the journal")
				}
				command(t, client, "DEL", prefix+":{s}:journal")
			}
			must.Succeed(t, l.Drop(t.Context(), "s", 1))
			if names := keysOf(t, client, prefix); len(names) != 0 {
				t.Errorf("keys %q are left", names)
			}
		})
	}
	t.Run("another format", func(t *testing.T) {
		prefix := newPrefix(t, url)
		l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
		loadOpen(t, l, "s", tight(10))
		command(t, client, "HSET", prefix+":{s}:sale", "format", "2")
		_, err := l.Release(t.Context(), "s", releasesOf("s", 1, makeClaim("s", 1)))
		for what, err := range map[string]error{"Release": err, "Drop": l.Drop(t.Context(), "s", 1)} {
			if err == nil || !strings.Contains(err.Error(), "format") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
