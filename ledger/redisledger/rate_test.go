package redisledger_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// What stands in Redis of a buyer's rate: one key with a deadline, in the slot
// of the sale; and a try that is denied leaves it as it is.
func TestRateKeys(t *testing.T) {
	url := servertest.StartRedis(t).URL() // its own: the server's count of writes is looked at
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "n", Prefix: prefix})
	client := newClient(t, url)
	rate := sluice.BuyerRate{Requests: 2, PerS: 600}
	allow := func(want ...bool) {
		t.Helper()
		buyers := make([]sluice.BuyerID, len(want))
		for i := range buyers {
			buyers[i] = "ann"
		}
		waits, err := l.Allow(t.Context(), "phone", rate, buyers)
		if err != nil || len(waits) != len(want) {
			t.Fatalf("%v, %v", waits, err)
		}
		for i, wait := range waits {
			if passes := wait == 0; passes != want[i] || wait < 0 || wait > 300*time.Second {
				t.Errorf("try %d waits %v, want %t", i, wait, want[i])
			}
		}
	}
	key := prefix + ":{phone}:rate:ann"
	allow(true, true)
	before, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	ahead, err := strconv.ParseInt(before, 10, 64)
	if now := time.Now().UnixMicro(); err != nil || ahead < now || ahead > now+1200e6 {
		t.Errorf("kept is %q: %v; it is %d now", before, err, now)
	}
	changes := changesSinceSave(t, client)
	allow(false, false)
	allow(false)
	if after := changesSinceSave(t, client); after != changes {
		t.Errorf("denied tries wrote %d times", after-changes)
	}
	if after, _ := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString(); after != before {
		t.Errorf("denied tries changed what is kept from %s to %s", before, after)
	}
	if ms, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).AsInt64(); err != nil || ms <= 0 ||
		ms > 600_000 {
		t.Errorf("it is kept for %d ms, want up to 600,000", ms)
	}
	// A sale that is dropped, or never was, changes nothing about it; a key that
	// another program has written is an error, so no buyer passes.
	command(t, client, "DEL", key)
	command(t, client, "LPUSH", key, "x")
	if waits, err := l.Allow(t.Context(), "phone", rate, []sluice.BuyerID{"bob", "ann"}); err == nil {
		t.Errorf("a list in the place of a rate: %v", waits)
	}
	command(t, client, "DEL", key)
	command(t, client, "SET", key, "soon")
	if waits, err := l.Allow(t.Context(), "phone", rate, []sluice.BuyerID{"ann"}); err == nil {
		t.Errorf("a word in the place of a rate: %v", waits)
	}
}

// changesSinceSave is how many writes the server has counted.
func changesSinceSave(t *testing.T, client rueidis.Client) int {
	t.Helper()
	message := command(t, client, "INFO", "persistence")
	info, err := message.ToString()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(info, "rdb_changes_since_last_save:")
	number, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		t.Fatalf("no count of writes in %q", info)
	}
	return n
}

// The script cache is volatile, and a call may need several batches.
func TestRateWithoutAScriptCache(t *testing.T) {
	server := servertest.StartRedis(t)
	l := open(t, server.URL(), redisledger.Options{Node: "n"})
	client := newClient(t, server.URL())
	var buyers []sluice.BuyerID
	for i := range 600 {
		buyers = append(buyers, sluice.BuyerID("buyer-"+strconv.Itoa(i)))
	}
	for round := range 2 {
		command(t, client, "SCRIPT", "FLUSH")
		waits, err := l.Allow(t.Context(), "phone", sluice.BuyerRate{Requests: 1, PerS: 3600}, buyers)
		if err != nil || len(waits) != len(buyers) {
			t.Fatalf("%d answers, %v", len(waits), err)
		}
		for i, wait := range waits {
			if (wait == 0) != (round == 0) {
				t.Fatalf("round %d, try %d: %v", round, i, wait)
			}
		}
	}
	// A Redis that is gone is an error: no buyer passes unchecked.
	server.Stop()
	if waits, err := l.Allow(t.Context(), "phone", sluice.BuyerRate{Requests: 1, PerS: 1}, buyers[:1]); err == nil {
		t.Errorf("without Redis: %v", waits)
	}
}

// BenchmarkAllow is a batch of 250 tries of as many buyers: all within the rate,
// and all denied. It reports the processor time of Redis as well.
func BenchmarkAllow(b *testing.B) {
	server := servertest.StartRedis(b)
	l := open(b, server.URL(), redisledger.Options{Node: "n"})
	client := newClient(b, server.URL())
	var buyers []sluice.BuyerID
	for i := range 250 {
		buyers = append(buyers, sluice.BuyerID("buyer-"+strconv.Itoa(i)))
	}
	for name, rate := range map[string]sluice.BuyerRate{
		"within": {Requests: sluice.MaxRateRequests, PerS: 1}, "denied": {Requests: 1, PerS: sluice.MaxRatePerS},
	} {
		b.Run(name, func(b *testing.B) {
			before, tries := cpuSeconds(b, client), 0.0
			for b.Loop() {
				if _, err := l.Allow(b.Context(), sluice.SaleID(name), rate, buyers); err != nil {
					b.Fatal(err)
				}
				tries += 250
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/tries, "ns/try")
			b.ReportMetric((cpuSeconds(b, client)-before)*1e9/tries, "redis-cpu-ns/try")
		})
	}
}

// cpuSeconds is the processor time that the server has used.
func cpuSeconds(b *testing.B, client rueidis.Client) (total float64) {
	b.Helper()
	message := command(b, client, "INFO", "cpu")
	info, err := message.ToString()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		_, rest, _ := strings.Cut(info, "\r\n"+name)
		number, _, _ := strings.Cut(rest, "\r\n")
		seconds, err := strconv.ParseFloat(number, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += seconds
	}
	return total
}
