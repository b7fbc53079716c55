package redisledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
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
			"told:a": "-1", "format": "0",
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
					"read": func() bool { return strings.HasPrefix(read(t, l, "s").Fence, port.FenceLost) },
				}
				if !strings.HasPrefix(field, "max_") { // by which the server has read that it decides
					calls["claim"] = func() bool {
						return claim(t, l, "s", makeClaim("s", 1))[0].Code == sluice.Unavailable
					}
				}
				if !strings.HasPrefix(field, "max_") && field != "terms" && !strings.HasPrefix(field, "calm_") {
					calls["release"] = func() bool {
						_, err := l.Release(t.Context(), "s", []port.Release{release(first, epoch)})
						return errors.Is(err, port.ErrStaleEpoch)
					}
				}
				key := prefix + ":{s}:sale"
				for name, call := range calls {
					command(t, client, "HSET", key, "fence", "", field, value)
					if !call() {
						t.Errorf("%s %q: %s goes on", field, value, name)
					}
					fence := command(t, client, "HGET", key, "fence")
					if text, _ := fence.ToString(); !strings.Contains(text, strings.TrimSuffix(field, ":a")) ||
						!strings.HasPrefix(text, port.FenceLost) {
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
		if _, err := l.Release(t.Context(), "s", []port.Release{release(first, epoch)}); err == nil {
			t.Errorf("%q: released", value)
		}
		if _, err := l.Find(t.Context(), first.Order, first.Buyer); err == nil || errors.Is(err, sluice.ErrOrderNotFound) {
			t.Errorf("%q: find: %v", value, err)
		}
		if moment {
			command(t, client, "HSET", prefix+":{s}:sale", "epoch", strconv.FormatInt(epoch, 10))
		}
	}
	var seen *port.EpochError
	err := l.Load(t.Context(), port.LoadImage{Sale: "s", Epoch: epoch + 1, Terms: tight(100)})
	if !errors.As(err, &seen) || !errors.Is(err, port.ErrStaleEpoch) || seen.Seen != 1000 {
		t.Fatalf("loaded under an epoch before one that was seen: %v", err)
	}
	loadEpoch(t, l, "s", 1001, tight(100))
	wantAll(t, claim(t, l, "s", makeClaim("s", 0)), sluice.Accepted)
	if r := read(t, l, "s"); !r.Loaded || r.Epoch != 1001 || r.Fence != "" {
		t.Errorf("%+v", r)
	}
	if err := l.Load(t.Context(), port.LoadImage{Sale: "t", Epoch: port.MaxEpoch + 1, Terms: tight(1)}); err == nil {
		t.Error("loaded under an epoch that is damage")
	}
}

func release(c sluice.Claim, epoch int64) port.Release {
	return port.Release{Buyer: c.Buyer, Key: c.Key, Order: c.Order, Epoch: epoch}
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

// batchOf is the name of the batch that a field points to.
func batchOf(value string) string {
	before, _, _ := strings.Cut(value, ":")
	return before[strings.LastIndex(before, "\t")+1:]
}

// damagedFirsts are what may be in the field of a buyer with one claim instead of what a
// server wrote; true: it still has the line of the claim, which is the buyer's answer.
func damagedFirsts(real string) map[string]bool {
	line := real[strings.Index(real, "\n"):]
	order := string(makeClaim("s", 0).Order)
	with := func(old, new string) string { return strings.Replace(real, old, new, 1) }
	ending := func(text string) string { return strings.TrimSuffix(real, "\t1") + text }
	damaged := map[string]bool{
		"x\t1\nfoo": false, "x\t1\t1\nfoo": false, "1\t1\nfoo": false, "-1\t1\nq": false,
		"1\t1\t9223372036854775807\nq": false, "0\t0\n": false, "1\t1\n": false, "1\t1": false, "\n": false, "": false,
		"\xff\x00\n\xfe": false, with(order, ""): false, with(order, "z"): false,
		with("\nbuyer-0", "\nbuyer-1"): false, with("\t1\t\t", "\t-1\t\t"): false,
		ending("\t2"): false, ending("\t01"): false, ending("\tu"): false, ending("\t1u"): false, ending("\t00"): false,
		ending("\t1\t1"): false, ending(""): false,
		"2\t1" + line: true, "1\t2" + line: true, "01\t1" + line: true, "x\t1" + line: true, line: true, "0\t1" + line: true,
		"1\t1\t0" + line: true, real + "\nfoo": true, real + "\n": true, real + "\nfoo\n": true,
	}
	for cut := 1; cut < len(real); cut += 7 {
		damaged[real[:cut]] = false
	}
	return damaged
}

// What a repeat finds on record is judged by its server: a record that no store takes
// is no answer.
func TestARecordThatNoStoreTakes(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for field, values := range map[int][]string{
		0: {"0", "9007199254740992", "x", ""}, 1: {"0", "1125899906842625"}, 2: {"-1", "253402300800000"},
		3: {"0", "9007199254740992", "3\t1"}, -1: {"", "1"},
	} {
		for _, value := range values {
			for _, loaded := range []bool{false, true} { // with a place of its own, or that of a batch
				prefix := newPrefix(t, url)
				l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
				loadOpen(t, l, "s", tight(100))
				wantAll(t, claim(t, l, "s", makeClaim("s", 0)), sluice.Accepted)
				if loaded {
					image := port.LoadImage{Sale: "s", Epoch: 2, Terms: tight(100), Taken: 1}
					must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool {
						image.Records = append(image.Records, r)
						return true
					}))
					must.Succeed(t, l.Load(t.Context(), image))
					must.Succeed(t, l.Unfence(t.Context(), "s", 2))
				}
				message := command(t, client, "HGETALL", prefix+":{s}:buyers")
				fields, err := message.AsStrMap()
				must.Succeed(t, err)
				for name, real := range fields {
					head, tail, separator := "", "", "\t"
					switch {
					case loaded && name == "buyer-0":
						parts := strings.Split(real, "\t")
						head, tail, separator = strings.Join(parts[:len(parts)-2], "\t")+"\t", "\t1", ":"
						real = parts[len(parts)-2]
					case loaded || len(name) < 2 || name[0] != '\n':
						continue
					}
					parts := strings.Split(real, separator)
					if len(parts) != 4 {
						t.Fatalf("%q", real)
					}
					text := value
					if field >= 0 {
						parts[field] = value
						text = strings.Join(parts, separator)
					}
					command(t, client, "HSET", prefix+":{s}:buyers", name, head+text+tail)
				}
				var damage *port.DamageError
				err = l.Records(t.Context(), "s", func(r port.Record) bool { t.Errorf("%+v", r); return true })
				if !errors.As(err, &damage) {
					t.Errorf("field %d is %q, loaded %t: %v", field, value, loaded, err)
				}
				wantAll(t, claim(t, l, "s", makeClaim("s", 0)), sluice.Unavailable)
				if r := read(t, l, "s"); !strings.HasPrefix(r.Fence, port.FenceLost) {
					t.Errorf("field %d is %q, loaded %t: %+v", field, value, loaded, r)
				}
			}
		}
	}
}

// A buyer's record that no server writes so is damage of the sale: the call that
// needs it fences the sale and decides nothing. Whatever the record still says is an
// answer, every other record can be read, and when the store's records are loaded,
// all have the orders that they had.
func TestADamagedRecord(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for name, terms := range limits {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			buyers := prefix + ":{s}:buyers"
			real := map[string]string{} // of buyer-0
			epoch := int64(1)
			loadOpen(t, l, "s", terms(100))
			wantAll(t, claim(t, l, "s", makeClaim("s", 0)), sluice.Accepted)
			message := command(t, client, "HGETALL", buyers)
			fields := must.Get(message.AsStrMap())(t)
			for field, value := range fields {
				if strings.HasPrefix(field, "buyer-0") {
					real[field] = value
				}
			}
			damage := func(field, value string, whole bool) {
				for name, decides := range map[string]func() (answered bool){
					"repeat": func() bool {
						d := claim(t, l, "s", makeClaim("s", 0))[0]
						return d.Code == sluice.Accepted && d.Order == makeClaim("s", 0).Order
					},
					"claim beside others": func() bool {
						another := makeClaim("s", 7)
						another.Buyer = "buyer-0"
						batch := []sluice.Claim{makeClaim("s", 1), another, makeClaim("s", 8), another}
						answered := false
						for i, d := range claim(t, l, "s", batch...) { // each is decided, or surely is not
							switch {
							case d.Code == sluice.Accepted && (i == 0 || i == 2) && d.Order == batch[i].Order:
							case d.Code != sluice.Unavailable:
								t.Errorf("%q %q: %d is decided: %+v", field, value, i, d)
							}
						}
						return answered
					},
					"release": func() bool {
						got, err := l.Release(t.Context(), "s", []port.Release{release(makeClaim("s", 0), epoch)})
						if err != nil && !errors.Is(err, port.ErrStaleEpoch) {
							t.Errorf("%q: %v", value, err)
						}
						return got.Applied == 1
					},
					"find": func() bool {
						r, err := l.Find(t.Context(), makeClaim("s", 0).Order, "buyer-0")
						if err != nil && !errors.Is(err, port.ErrNotLoaded) {
							t.Errorf("%q: %v", value, err)
						}
						return err == nil && r.Key == makeClaim("s", 0).Key
					},
				} {
					epoch++
					loadEpoch(t, l, "s", epoch, terms(100))
					wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
					var image []port.Record // as the store has them
					must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool { image = append(image, r); return true }))
					message := command(t, client, "HGET", buyers, field)
					now, err := message.ToString()
					must.Succeed(t, err)
					value := strings.Replace(value, batchOf(real[field]), batchOf(now), 1)
					command(t, client, "HSET", buyers, field, value)
					answered := decides()
					if answered && !whole {
						t.Errorf("%q %q: %s goes on", field, value, name)
					}
					if r := read(t, l, "s"); !answered && !strings.HasPrefix(r.Fence, port.FenceLost) || r.Seq > 4 {
						t.Errorf("%q %q: after %s %+v", field, value, name, r)
					}
					var others []sluice.BuyerID
					err = l.Records(t.Context(), "s", func(r port.Record) bool {
						if r.Buyer != "buyer-0" {
							others = append(others, r.Buyer)
						}
						return true
					})
					var found *port.DamageError
					if name != "release" && (!errors.As(err, &found) || len(found.Buyers) != 1 || found.Buyers[0] != "buyer-0") ||
						len(others) < 2 {
						t.Errorf("%q %q: after %s records of %v, %v", field, value, name, others, err)
					}
					epoch++
					next := port.LoadImage{Sale: "s", Epoch: epoch, Terms: terms(100), Taken: 3, Records: image}
					must.Succeed(t, l.Load(t.Context(), next))
					must.Succeed(t, l.Unfence(t.Context(), "s", epoch))
					for i, d := range claim(t, l, "s", makeClaims("s", 0, 3)...) {
						if d.Code != sluice.Accepted || !d.Replayed || d.Order != makeClaim("s", i).Order {
							t.Errorf("%q %q: loaded again, %d gets %+v", field, value, i, d)
						}
					}
				}
			}
			for field, value := range real {
				for other, whole := range damagedFirsts(value) {
					damage(field, other, whole)
				}
			}
		})
	}
}

// A further claim is looked at before it is an answer or ends. All claims of a buyer are
// counted when they are listed.
func TestADamagedFurtherClaim(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	buyers := prefix + ":{s}:buyers"
	claims := ofBuyer("ann", 0, 4)
	field := func(n int) string { return "ann\n" + string(claims[n].Key) }
	decides := map[string]func(epoch int64) bool{
		"repeat": func(int64) bool { return claim(t, l, "s", claims[3])[0].Code != sluice.Unavailable },
		"release": func(epoch int64) bool {
			got, err := l.Release(t.Context(), "s", []port.Release{release(claims[3], epoch)})
			return err == nil && got.Applied > 0
		},
		"find": func(int64) bool {
			_, err := l.Find(t.Context(), claims[3].Order, "ann")
			return !errors.Is(err, port.ErrNotLoaded)
		},
		"list": func(int64) bool {
			_, err := l.Find(t.Context(), makeClaim("s", 999).Order, "ann")
			return !errors.Is(err, port.ErrNotLoaded)
		},
	}
	epoch := int64(0)
	for damage, words := range map[string]func(real string) []string{
		"newest is gone":     func(string) []string { return []string{"HDEL", buyers, field(3)} },
		"newest is nonsense": func(string) []string { return []string{"HSET", buyers, field(3), "nonsense"} },
		"newest is cut":      func(real string) []string { return []string{"HSET", buyers, field(3), real[:len(real)-40]} },
		"newest is empty":    func(string) []string { return []string{"HSET", buyers, field(3), ""} },
		"one before is gone": func(string) []string { return []string{"HDEL", buyers, field(2)} },
		"link is cut": func(real string) []string {
			return []string{"HSET", buyers, field(3), real[:strings.Index(real, "\n")+1]}
		},
	} {
		for call, decide := range decides {
			old := damage == "one before is gone" || damage == "link is cut"
			gone := damage == "newest is gone"
			if (old || gone) && call != "list" {
				continue // what they need is there; or it cannot be told from a claim that never was
			}
			epoch++
			loadEpoch(t, l, "s", epoch, loose(100))
			for _, c := range claims {
				wantAll(t, claim(t, l, "s", c), sluice.Accepted)
			}
			message := command(t, client, "HGET", buyers, field(3))
			real := must.Get(message.ToString())(t)
			command(t, client, words(real)...)
			if decide(epoch) {
				t.Errorf("%s: %s goes on", damage, call)
			}
			wantLost(t, l, "s", "damaged")
		}
	}
}

// What claims, releases and loads write is never damage, whatever ids and data are
// made of.
func TestHealthyRecordsAreSound(t *testing.T) {
	url := servertest.Redis(t)
	for name, terms := range limits {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, uint64(len(name))))
			text := func(least, most int, letters string) string {
				all, n := []rune(letters), least+random.IntN(most-least+1)
				var b strings.Builder
				for b.Len() < n {
					c := string(all[random.IntN(len(all))])
					if b.Len()+len(c) > most {
						break
					}
					b.WriteString(c)
				}
				return b.String()
			}
			const sale = "a-sale_9"
			l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
			rules := terms(1 << 40)
			if rules.MaxOrders > 0 {
				rules.MaxPerBuyer, rules.MaxOrders, rules.MaxUnpaid = 1<<40, 64, 60
			}
			epoch := int64(1)
			loadEpoch(t, l, sale, epoch, rules)
			var buyers []sluice.BuyerID
			for range 12 {
				buyers = append(buyers, sluice.BuyerID(text(1, 128, "aZ09%.-+*?[]^$()\"\\{} '\u00e9\u5f20\U0001f600\u00a0")))
			}
			accepted, live := map[sluice.OrderID]sluice.Claim{}, map[sluice.OrderID]bool{}
			for step := range 120 {
				claims := make([]sluice.Claim, 1+random.IntN(20))
				for i := range claims {
					claims[i] = sluice.Claim{
						Buyer: buyers[random.IntN(len(buyers))], Key: sluice.Key(text(8, 64, "aZ09-_")),
						Order: sluice.SaleID(sale).Order(text(32, 32, "0123456789abcdef")), Quantity: 1 + random.Int64N(3),
					}
					if random.IntN(3) == 0 {
						claims[i].Meta = text(0, 512, "{}[]\":,%\x01\x1b\x7f\u00e9\u5f20 ab1")
					}
					if random.IntN(20) == 0 {
						claims[i].Quantity = sluice.MaxQuantity
					}
					must.Succeed(t, claims[i].Validate())
				}
				var ends []port.Release
				for order, c := range accepted {
					if random.IntN(8) == 0 && len(claims) < 200 {
						claims = append(claims, c)
					}
					if r := release(c, epoch); live[order] && random.IntN(10) == 0 {
						r.Unpaid = random.IntN(4) == 0
						ends, live[order] = append(ends, r), false
					}
				}
				for i, d := range claim(t, l, sale, claims...) {
					was, repeat := accepted[claims[i].Order]
					switch {
					case repeat && (d.Code != sluice.Accepted || d.Order != was.Order):
						t.Fatalf("step %d: a repeat gets %+v", step, d)
					case d.Code == sluice.Accepted && !repeat:
						accepted[d.Order], live[d.Order] = claims[i], true
					case d.Code != sluice.Accepted && d.Code != sluice.BuyerLimit:
						t.Fatalf("step %d: %+v", step, d)
					}
				}
				if got, err := l.Release(t.Context(), sale, ends); err != nil || got.Applied != len(ends) {
					t.Fatalf("step %d: %d endings: %+v, %v", step, len(ends), got, err)
				}
				if step%40 != 39 {
					continue
				}
				image := port.LoadImage{Sale: sale, Epoch: epoch + 1, Terms: rules}
				image.Terms.OpensAt = time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
				err := l.Records(t.Context(), sale, func(r port.Record) bool {
					if image.Records = append(image.Records, r); r.Live != live[r.Order] {
						t.Errorf("step %d: %+v", step, r)
					}
					if r.Live {
						image.Taken += r.Quantity
					}
					return true
				})
				if err != nil || len(image.Records) != len(accepted) {
					t.Fatalf("step %d: %d records of %d claims: %v", step, len(image.Records), len(accepted), err)
				}
				epoch++
				must.Succeed(t, l.Load(t.Context(), image))
				must.Succeed(t, l.Unfence(t.Context(), sale, epoch))
			}
		})
	}
}

// What is kept of a batch is damaged: its claims decide nothing, a claim that needs it fences
// the sale, and names every buyer of the batch. Other batches are sound, and so is what
// needs the line alone. Loaded again, all have the orders that they had.
func TestADamagedBatch(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	buyers := prefix + ":{s}:buyers"
	epoch := int64(0)
	for damage, change := range map[string]func(kept string) string{
		"gone":           nil,
		"empty":          func(string) string { return "" },
		"nonsense":       func(string) string { return "nonsense" },
		"cut":            func(kept string) string { return kept[:strings.LastIndex(kept, "\t")] },
		"one more":       func(kept string) string { return kept + "\t\t" },
		"sequence 0":     func(kept string) string { return "0" + kept[1:] },
		"no sequence":    func(kept string) string { return "x" + kept[1:] },
		"a leading zero": func(kept string) string { return "0" + kept },
		"epoch 0": func(kept string) string {
			return strings.Replace(kept, fmt.Sprintf("\t%d\t", epoch), "\t0\t", 1)
		},
		"a year of no store": func(kept string) string {
			return strings.Replace(kept, fmt.Sprintf("\t%d\t", epoch), fmt.Sprintf("\t%d\t999999", epoch), 1)
		},
		"nonsense positions":        func(kept string) string { return kept + "\tx" },
		"its own were not accepted": func(kept string) string { return kept + "\t1,2" },
	} {
		for call, decide := range map[string]func() (answered bool){
			"repeat": func() bool { return claim(t, l, "s", makeClaim("s", 0))[0].Code != sluice.Unavailable },
			"repeat beside others": func() bool {
				d := claim(t, l, "s", makeClaim("s", 7), makeClaim("s", 1), makeClaim("s", 8), makeClaim("s", 3))
				for _, i := range []int{0, 2, 3} { // each is decided, or surely is not
					if d[i].Code != sluice.Unavailable && (d[i].Code != sluice.Accepted || d[i].Replayed != (i == 3)) {
						t.Errorf("%s: claim %d beside it: %+v", damage, i, d[i])
					}
				}
				return d[1].Code != sluice.Unavailable
			},
			"recall": func() bool {
				_, err := l.Recall(t.Context(), sluice.ClaimID{Sale: "s", Buyer: "buyer-1", Key: makeClaim("s", 1).Key})
				return !errors.Is(err, port.ErrNotLoaded)
			},
			"find": func() bool {
				_, err := l.Find(t.Context(), makeClaim("s", 0).Order, "buyer-0")
				return !errors.Is(err, port.ErrNotLoaded)
			},
		} {
			epoch++
			loadEpoch(t, l, "s", epoch, tight(100))
			wantAll(t, claim(t, l, "s", makeClaims("s", 0, 2)...), sluice.Accepted)
			wantAll(t, claim(t, l, "s", makeClaims("s", 3, 5)...), sluice.Accepted)
			var image []port.Record
			must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool { image = append(image, r); return true }))
			message := command(t, client, "HGET", buyers, "buyer-0")
			value := must.Get(message.ToString())(t)
			field := "\n" + batchOf(value)
			message = command(t, client, "HGET", buyers, field)
			kept := must.Get(message.ToString())(t)
			if change == nil {
				command(t, client, "HDEL", buyers, field)
			} else {
				command(t, client, "HSET", buyers, field, change(kept))
			}
			got, err := l.Release(t.Context(), "s", []port.Release{release(makeClaim("s", 4), epoch)})
			if err != nil || got.Applied != 1 {
				t.Errorf("%s: a release of another batch: %+v, %v", damage, got, err)
			}
			if decide() {
				t.Errorf("%s: %s goes on", damage, call)
			}
			wantLost(t, l, "s", "damaged")
			var sound []sluice.BuyerID
			err = l.Records(t.Context(), "s", func(r port.Record) bool { sound = append(sound, r.Buyer); return true })
			var found *port.DamageError
			if !errors.As(err, &found) {
				t.Fatalf("%s: after %s records of %v, %v", damage, call, sound, err)
			}
			slices.Sort(found.Buyers)
			if !slices.Equal(found.Buyers, []sluice.BuyerID{"buyer-0", "buyer-1"}) || len(sound) < 2 {
				t.Errorf("%s: after %s damaged are %v, sound %v", damage, call, found.Buyers, sound)
			}
			epoch++
			must.Succeed(t, l.Load(t.Context(), port.LoadImage{
				Sale: "s", Epoch: epoch, Terms: tight(100), Taken: 4, Records: image,
			}))
			must.Succeed(t, l.Unfence(t.Context(), "s", epoch))
			for i, n := range []int{0, 1, 3, 4} {
				want := image[slices.IndexFunc(image, func(r port.Record) bool { return r.Order == makeClaim("s", n).Order })]
				if d := claim(t, l, "s", makeClaim("s", n))[0]; d.Order != want.Order || d.Seq != want.Seq || !d.Replayed {
					t.Errorf("%s: loaded again, %d gets %+v", damage, i, d)
				}
			}
		}
	}
}
