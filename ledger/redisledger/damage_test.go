package redisledger_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// A field of the sale that no server writes so is damage: whichever call comes to
// it first fences the sale, and decides nothing by a guess.
func TestNonsenseIsDamage(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	epoch := int64(0)
	for _, terms := range []sluice.Terms{tight(100), loose(100)} {
		for field, less := range map[string]string{
			"seq": "-1", "taken": "-1", "entries": "-1", "terms": "-1", "total": "-2", "max_buyer": "-2", "max_orders": "-2",
			"max_unpaid": "-1", "opens": "", "closes": "", "paused": "2", "calm_until": "-1", "calm_code": "-1",
			"layout": "shared", "told:a": "-1", "format": "0",
		} {
			for _, value := range []string{
				less, "x", "", "1.5", " 1", "07", "-0", "0x1", "9223372036854775807", "99999999999999999999",
			} {
				if (field == "opens" || field == "closes") && value != "" && strings.Trim(value, "0123456789") == "" &&
					value != "07" {
					continue // a moment, if a late one
				}
				epoch++
				loadEpoch(t, l, "s", epoch, terms)
				first := makeClaim("s", 0)
				wantAll(t, claim(t, l, "s", first), sluice.Accepted)
				calls := map[string]func() bool{
					"claim": func() bool {
						return claim(t, l, "s", makeClaim("s", 1))[0].Code == sluice.Unavailable
					},
					"read": func() bool { return strings.HasPrefix(read(t, l, "s").Fence, sluice.FenceLost) },
				}
				if !strings.HasPrefix(field, "max_") && field != "terms" && !strings.HasPrefix(field, "calm_") {
					calls["release"] = func() bool {
						_, err := l.Release(t.Context(), "s", []sluice.Release{release(first, epoch)})
						return errors.Is(err, sluice.ErrStaleEpoch)
					}
				}
				if field == "calm_code" || field == "paused" { // of which a reading has no number
					delete(calls, "read")
				}
				key := prefix + ":{s}:sale"
				for name, call := range calls {
					command(t, client, "HSET", key, "fence", "", field, value)
					if !call() {
						t.Errorf("%s %q: %s goes on", field, value, name)
					}
					fence := command(t, client, "HGET", key, "fence")
					if text, _ := fence.ToString(); !strings.Contains(text, strings.TrimSuffix(field, ":a")) ||
						!strings.HasPrefix(text, sluice.FenceLost) {
						t.Errorf("%s %q: the fence of %s is %q", field, value, name, text)
					}
				}
				if n := command(t, client, "XLEN", prefix+":{s}:journal"); n.String() != "1" {
					if length, _ := n.AsInt64(); length != 1 {
						t.Errorf("%s %q: the journal has %d entries", field, value, length)
					}
				}
			}
		}
	}
}

// An epoch that no server writes so is damage too: the next load replaces it. One
// that was there for a moment is passed over.
func TestAnEpochOfNoServer(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	epoch := int64(0)
	for _, value := range []string{
		"1125899906842625", "9007199254740992", "9223372036854775807", "99999999999999999999", "", "-1", "0", "x",
		"0x7fffffff", "1e9", " 7", "+7", "1000 for a moment",
	} {
		epoch++
		loadEpoch(t, l, "s", epoch, tight(100))
		first := makeClaim("s", 0)
		wantAll(t, claim(t, l, "s", first), sluice.Accepted)
		field, moment := strings.CutSuffix(value, " for a moment")
		command(t, client, "HSET", prefix+":{s}:sale", "epoch", field)
		for i := range 2 {
			for _, c := range []sluice.Claim{makeClaim("s", 1), first} {
				if d := claim(t, l, "s", c)[0]; d.Code != sluice.Unavailable {
					t.Errorf("%q: claim %d is decided: %v", value, i, d.Code)
				}
			}
			if r := read(t, l, "s"); r.Loaded && r.Fence == "" {
				t.Errorf("%q: %+v", value, r)
			}
		}
		if _, err := l.Release(t.Context(), "s", []sluice.Release{release(first, epoch)}); err == nil {
			t.Errorf("%q: released", value)
		}
		if _, err := l.Find(t.Context(), first.Order, first.Buyer); err == nil || errors.Is(err, sluice.ErrOrderNotFound) {
			t.Errorf("%q: find: %v", value, err)
		}
		if moment {
			command(t, client, "HSET", prefix+":{s}:sale", "epoch", strconv.FormatInt(epoch, 10))
		}
	}
	var seen *sluice.EpochError
	err := l.Load(t.Context(), sluice.LoadImage{Sale: "s", Epoch: epoch + 1, Terms: tight(100)})
	if !errors.As(err, &seen) || !errors.Is(err, sluice.ErrStaleEpoch) || seen.Seen != 1000 {
		t.Fatalf("loaded under an epoch before one that was seen: %v", err)
	}
	loadEpoch(t, l, "s", 1001, tight(100))
	wantAll(t, claim(t, l, "s", makeClaim("s", 0)), sluice.Accepted)
	if r := read(t, l, "s"); !r.Loaded || r.Epoch != 1001 || r.Fence != "" {
		t.Errorf("%+v", r)
	}
	if err := l.Load(t.Context(), sluice.LoadImage{Sale: "t", Epoch: sluice.MaxEpoch + 1, Terms: tight(1)}); err == nil {
		t.Error("loaded under an epoch that is damage")
	}
}

// A sale that an older version has loaded has no limit of unpaid endings.
func TestASaleWithoutMaxUnpaid(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	loadOpen(t, l, "s", tight(100))
	command(t, newClient(t, url), "HDEL", prefix+":{s}:sale", "max_unpaid")
	wantAll(t, claim(t, l, "s", makeClaim("s", 1)), sluice.Accepted)
	ended := release(makeClaim("s", 1), 1)
	ended.Unpaid = true
	if _, err := l.Release(t.Context(), "s", []sluice.Release{ended}); err != nil {
		t.Error(err)
	}
	another := makeClaim("s", 2)
	another.Buyer = ended.Buyer
	wantAll(t, claim(t, l, "s", another), sluice.Accepted)
	if r := read(t, l, "s"); r.Fence != "" || r.Terms.MaxUnpaid != 0 {
		t.Errorf("reading %+v", r)
	}
}

func release(c sluice.Claim, epoch int64) sluice.Release {
	return sluice.Release{Buyer: c.Buyer, Key: c.Key, Order: c.Order, Epoch: epoch}
}

// A layout that the records do not have would hide them, and a repeat would get
// another order (I4). Whoever has a record notices; what is written before that
// is read like the rest.
func TestTheOtherLayout(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for layout, terms := range layouts {
		other := map[string]string{"whole": "split", "split": "whole"}[layout]
		for name, notices := range map[string]func(l *redisledger.Ledger) bool{
			"a repeat": func(l *redisledger.Ledger) bool {
				return claim(t, l, "s", makeClaim("s", 1))[0].Code == sluice.Unavailable
			},
			"a claim beside others": func(l *redisledger.Ledger) bool {
				another := makeClaim("s", 70)
				another.Buyer = makeClaim("s", 1).Buyer
				d := claim(t, l, "s", makeClaim("s", 71), another, makeClaim("s", 71), makeClaim("s", 72))
				return d[0].Code == sluice.Unavailable && d[3].Code == sluice.Unavailable
			},
			"a release": func(l *redisledger.Ledger) bool {
				_, err := l.Release(t.Context(), "s", []sluice.Release{release(makeClaim("s", 1), 1)})
				return errors.Is(err, sluice.ErrStaleEpoch)
			},
		} {
			t.Run(layout+" and "+name, func(t *testing.T) {
				prefix := newPrefix(t, url)
				l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
				loadOpen(t, l, "s", terms(100))
				wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
				command(t, client, "HSET", prefix+":{s}:sale", "layout", other)

				wantAll(t, claim(t, l, "s", makeClaim("s", 50)), sluice.Accepted)
				c := makeClaim("s", 1)
				if r, err := l.Recall(t.Context(), sluice.ClaimID{Sale: "s", Buyer: c.Buyer, Key: c.Key}); !errors.Is(err,
					sluice.ErrNotLoaded) {
					t.Errorf("Recall: %+v, %v", r, err)
				}
				if r, err := l.Find(t.Context(), c.Order, c.Buyer); !errors.Is(err, sluice.ErrNotLoaded) {
					t.Errorf("Find: %+v, %v", r, err)
				}
				if !notices(l) {
					t.Error("it goes on")
				}
				wantLost(t, l, "s", "laid out")
				records, units := 0, int64(0)
				must(t, l.Records(t.Context(), "s", func(r sluice.Record) bool {
					records++
					units += r.Quantity
					return true
				}))
				if r := read(t, l, "s"); records != 4 || units != r.Taken || r.Seq != 4 {
					t.Errorf("%d records of %d units beside %+v", records, units, r)
				}
			})
		}
	}
}

// A journal that takes no more entries is damage: a load begins another one.
func TestAJournalWithoutIDs(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	loadOpen(t, l, "s", tight(100))
	first := makeClaim("s", 0)
	wantAll(t, claim(t, l, "s", first), sluice.Accepted)
	command(t, newClient(t, url), "XSETID", prefix+":{s}:journal", "18446744073709551615-18446744073709551615")
	wantAll(t, claim(t, l, "s", first), sluice.Accepted)
	wantAll(t, claim(t, l, "s", makeClaims("s", 1, 2)...), sluice.Unavailable)
	wantLost(t, l, "s", "journal")
	if r := read(t, l, "s"); r.Seq != 1 || r.Taken != 1 {
		t.Errorf("%+v", r)
	}
	loadEpoch(t, l, "s", 2, tight(100))
	wantAll(t, claim(t, l, "s", makeClaims("s", 1, 2)...), sluice.Accepted)
}
