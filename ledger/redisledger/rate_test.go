package redisledger_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// What stands in Redis of the rates: for a buyer and for an address one key with
// a deadline, in the slot of the sale; and a try that is denied leaves both as
// they are.
func TestRateKeys(t *testing.T) {
	url := servertest.StartRedis(t).URL() // its own: the server's count of writes is looked at
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "n", Prefix: prefix})
	client := newClient(t, url)
	rates := port.Rates{
		Buyer: sluice.BuyerRate{Requests: 2, PerS: 600}, Address: sluice.AddressRate{Requests: 4, PerS: 300},
	}
	allow := func(want ...bool) {
		t.Helper()
		waits, err := l.Allow(t.Context(), "phone", rates,
			slices.Repeat([]port.Try{{Buyer: "ann", Address: "192.0.2.1"}}, len(want)))
		if err != nil || len(waits) != len(want) {
			t.Fatalf("%v, %v", waits, err)
		}
		for i, wait := range waits {
			if wait := wait.Longest(); (wait == 0) != want[i] || wait < 0 || wait > 300*time.Second {
				t.Errorf("try %d waits %v, want %t", i, wait, want[i])
			}
		}
	}
	key := prefix + ":{phone}:rate:ann"
	get := func(key string) string {
		t.Helper()
		text := must.Get(client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString())(t)
		return text
	}
	allow(true, true)
	before := map[string]string{}
	for key, s := range map[string]int64{key: 600, prefix + ":{phone}:addr:192.0.2.1": 300} {
		before[key] = get(key)
		ahead, err := strconv.ParseInt(before[key], 10, 64)
		if now := time.Now().UnixMicro(); err != nil || ahead < now || ahead > now+2*s*1e6 {
			t.Errorf("%s: kept is %q: %v; it is %d now", key, before[key], err, now)
		}
		if ms, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).AsInt64(); err != nil || ms <= 0 ||
			ms > s*1000 {
			t.Errorf("%s is kept for %d ms, want up to %d s", key, ms, s)
		}
	}
	changes := changesSinceSave(t, client)
	allow(false, false)
	allow(false)
	if after := changesSinceSave(t, client); after != changes {
		t.Errorf("denied tries wrote %d times", after-changes)
	}
	for key, was := range before {
		if is := get(key); is != was {
			t.Errorf("denied tries changed %s from %s to %s", key, was, is)
		}
	}
	// A sale that is dropped, or never was, changes nothing about it. A key that another
	// program has written is replaced: that buyer's rate begins again.
	for _, plant := range [][]string{{"LPUSH", key, "x"}, {"SET", key, "soon"}, {"SET", key, "nan"}} {
		command(t, client, "DEL", key)
		command(t, client, plant...)
		waits, err := l.Allow(t.Context(), "phone", port.Rates{Buyer: rates.Buyer},
			[]port.Try{{Buyer: "bob"}, {Buyer: "ann"}, {Buyer: "ann"}, {Buyer: "ann"}})
		if err != nil || waits[1].Buyer != 0 || waits[2].Buyer != 0 || waits[3].Buyer <= 0 {
			t.Errorf("%v: %v, %v; want two tries of ann", plant, waits, err)
		}
	}
}

// changesSinceSave is how many writes the server has counted.
func changesSinceSave(t *testing.T, client rueidis.Client) int {
	t.Helper()
	message := command(t, client, "INFO", "persistence")
	info := must.Get(message.ToString())(t)
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
	tries := triesOf(600)
	rates := port.Rates{
		Buyer: sluice.BuyerRate{Requests: 1, PerS: 3600}, Address: sluice.AddressRate{Requests: 1, PerS: 60},
	}
	for round := range 2 {
		command(t, client, "SCRIPT", "FLUSH")
		waits, err := l.Allow(t.Context(), "phone", rates, tries)
		if err != nil || len(waits) != len(tries) {
			t.Fatalf("%d answers, %v", len(waits), err)
		}
		for i, wait := range waits {
			if (wait.Buyer == 0) != (round == 0) || (wait.Address == 0) != (round == 0) || wait.Address > time.Minute {
				t.Fatalf("round %d, try %d: %v", round, i, wait)
			}
		}
	}
	// A Redis that is gone is an error: no buyer passes unchecked.
	server.Stop()
	if waits, err := l.Allow(t.Context(), "phone", rates, tries[:1]); err == nil {
		t.Errorf("without Redis: %v", waits)
	}
}

// triesOf are the tries of n buyers, from as many addresses.
func triesOf(n int) (tries []port.Try) {
	for i := range n {
		tries = append(tries, port.Try{
			Buyer: sluice.BuyerID("buyer-" + strconv.Itoa(i)), Address: fmt.Sprintf("2001:db8:0:%x::/64", i),
		})
	}
	return tries
}

// BenchmarkAllow is a batch of 250 tries of as many buyers: all within the rate,
// or within that of addresses too, and all denied. It reports the processor time
// of Redis as well.
func BenchmarkAllow(b *testing.B) {
	server := servertest.StartRedis(b)
	l := open(b, server.URL(), redisledger.Options{Node: "n"})
	client := newClient(b, server.URL())
	tries250 := triesOf(250)
	for name, rates := range map[string]port.Rates{
		"within": {Buyer: sluice.BuyerRate{Requests: 1_000_000, PerS: 1}},
		"denied": {Buyer: sluice.BuyerRate{Requests: 1, PerS: 86_400}},
		"within-both": {
			Buyer:   sluice.BuyerRate{Requests: 1_000_000, PerS: 1},
			Address: sluice.AddressRate{Requests: 1_000_000, PerS: 1},
		},
	} {
		b.Run(name, func(b *testing.B) {
			before, tries := cpuSeconds(b, client), 0.0
			for b.Loop() {
				must.Get(l.Allow(b.Context(), sluice.SaleID(name), rates, tries250))(b)
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
	info := must.Get(message.ToString())(b)
	for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		_, rest, _ := strings.Cut(info, "\r\n"+name)
		number, _, _ := strings.Cut(rest, "\r\n")
		seconds := must.Get(strconv.ParseFloat(number, 64))(b)
		total += seconds
	}
	return total
}
