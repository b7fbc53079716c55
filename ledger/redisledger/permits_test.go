package redisledger_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// What stands in Redis of permits: one key with a deadline, in the slot of the
// sale, as long as some are in use. A call that comes late changes nothing.
func TestPermitKey(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	client := newClient(t, url)
	loadOpen(t, l, "phone", tight(10))
	key := prefix + ":{phone}:permits"
	get := func() string {
		t.Helper()
		answer := command(t, client, "GET", key)
		text, err := answer.ToString()
		must(t, err)
		return text
	}
	permits := func(used, asked, want int64) {
		t.Helper()
		got, err := l.Permits(t.Context(), "phone", sluice.PermitAsk{Ratio: 1.5, Used: used, Want: asked})
		if err != nil || got != want {
			t.Errorf("%d used, %d wanted: %d, %v; want %d", used, asked, got, err, want)
		}
	}
	before := time.Now()
	permits(0, 12, 12)
	lines := strings.Split(get(), "\n")
	fields := strings.Split(lines[len(lines)-1], "\t")
	if len(lines) != 2 || lines[0] != "1" || len(fields) != 4 || fields[0] != "a" || fields[2] != "12" {
		t.Fatalf("kept is %q", lines)
	}
	number, err := strconv.ParseInt(fields[1], 10, 64)
	must(t, err)
	ends, err := strconv.ParseInt(fields[3], 10, 64)
	must(t, err)
	if least := before.Add(sluice.PermitLease).UnixMilli(); ends < least-1 || ends > least+10_000 {
		t.Errorf("void at %d, want %d or a little later", ends, least)
	}
	answer := command(t, client, "PTTL", key)
	if ms, err := answer.ToInt64(); err != nil || ms <= 0 || ms > 30_000 {
		t.Errorf("it is kept for %d ms, %v", ms, err)
	}

	newer := strings.Replace(get(), fields[1], strconv.FormatInt(number+60e6, 10), 1) // by a minute
	command(t, client, "SET", key, newer)
	permits(0, 3, 0)
	if get() != newer {
		t.Errorf("a late call has changed %q to %q", newer, get())
	}
	command(t, client, "SET", key, "1\nb\t1\t14\t"+strconv.FormatInt(time.Now().UnixMilli()+2000, 10))
	permits(0, 3, 1)
	command(t, client, "SET", key, "0\nb\t1\t14\t"+strconv.FormatInt(time.Now().UnixMilli()+2000, 10)) // of another epoch
	permits(1, 3, 3)
	permits(0, 0, 0)
	answer = command(t, client, "EXISTS", key)
	if n, err := answer.ToInt64(); err != nil || n != 0 {
		t.Errorf("nothing is in use, and the key is there: %d, %v", n, err)
	}
	// What another program has put there is replaced, or removed.
	command(t, client, "LPUSH", key, "x")
	permits(0, 3, 3)
	if kept := get(); !strings.HasPrefix(kept, "1\na\t") {
		t.Errorf("in the place of a list: %q", kept)
	}
	command(t, client, "DEL", key)
	command(t, client, "LPUSH", key, "x")
	permits(0, 0, 0)
	answer = command(t, client, "EXISTS", key)
	if n, err := answer.ToInt64(); err != nil || n != 0 {
		t.Errorf("nothing is in use, and the list is there: %d, %v", n, err)
	}
}
