package redisledger_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// lossy stands between a ledger and a Redis, and can lose replies: commands
// arrive and run, and what Redis says of them does not come back.
type lossy struct {
	net.Listener
	to     string
	losing atomic.Bool
	loseAt atomic.Pointer[string] // in a command, from which on replies are lost; nil: none
	mu     sync.Mutex
	open   []net.Conn
}

func newLossy(t testing.TB, to string) *lossy {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &lossy{Listener: listener, to: to}
	t.Cleanup(func() { listener.Close(); p.cut() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *lossy) url() string { return "redis://" + p.Addr().String() }

// cut ends the connections of now; later ones lose nothing.
func (p *lossy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		conn.Close()
	}
	p.open = nil
	p.losing.Store(false)
	p.loseAt.Store(nil)
}

func (p *lossy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.open = append(p.open, client, server)
	p.mu.Unlock()
	go func() {
		defer server.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if word := p.loseAt.Load(); word != nil && bytes.Contains(buf[:n], []byte(*word)) {
				p.losing.Store(true)
			}
			if err == nil {
				_, err = server.Write(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err == nil && !p.losing.Load() {
			_, err = client.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// The reply to releases is lost: given again they change nothing (I6), and the
// units that returned are sold once.
func TestReleaseReplyIsLost(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	proxy := newLossy(t, server.Addr())
	for name, terms := range limits {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, server.URL())
			l := open(t, proxy.url(), redisledger.Options{Node: "a", Prefix: prefix})
			other := open(t, server.URL(), redisledger.Options{Node: "b", Prefix: prefix})
			loadEpoch(t, l, "s", 2, terms(600))
			wantAll(t, claim(t, l, "s", makeClaims("s", 0, 500)...), sluice.Accepted)
			give := releasesOf("s", 2, makeClaims("s", 0, 200)...)
			strange := releasesOf("s", 2, makeClaim("s", 999)) // so that Redis has the script
			wantReleased(t, other, strange, port.Released{Unknown: []sluice.OrderID{strange[0].Order}})

			proxy.loseAt.Store(&redisledger.ReleaseSHA)
			failed := make(chan error)
			go func() {
				_, err := l.Release(t.Context(), "s", give)
				failed <- err
			}()
			for deadline := time.Now().Add(20 * time.Second); read(t, other, "s").Taken != 300; {
				if time.Now().After(deadline) {
					t.Fatalf("%+v: the releases did not run", read(t, other, "s"))
				}
				time.Sleep(time.Millisecond)
			}
			proxy.cut()
			if err := <-failed; err == nil {
				t.Fatal("no error, though the reply was lost")
			}
			await(t, l)
			wantAll(t, claim(t, other, "s", makeClaims("s", 500, 800)...), sluice.Accepted)
			if got := releaseWhenBack(t, l, "s", give); got.Applied != 0 || got.Before != 200 || got.Unknown != nil {
				t.Errorf("given again: %+v; want 200 applied before", got)
			}
			if r := read(t, l, "s"); r.Taken != 600 || r.Fence != "" {
				t.Errorf("%+v; want 600 taken", r)
			}
		})
	}
}

// rush is a small sale that is claimed and released on two servers at once.
// Every quantity is 1, so that the order of calls bounds what may be taken.
type rush struct {
	testing.TB
	nodes []*redisledger.Ledger
	url   string
	total int64
	clock atomic.Int64 // ms; every call of a ledger moves it on, so that cooldowns end

	next    atomic.Int64 // claims made
	begun   atomic.Int64 // orders whose release may have begun
	applied atomic.Int64 // releases that were told as applied
	refused atomic.Int64 // claims refused as sold out
	lost    atomic.Int64 // release calls without a reply

	mu     sync.Mutex
	told   map[sluice.OrderID]sluice.Decision // accepted
	given  map[sluice.OrderID]bool            // released, at least once, with a reply
	live   []sluice.Claim                     // accepted and not picked for a release
	closed []sluice.Claim                     // released at least once
}

// now is the clock of both ledgers.
func (r *rush) now() time.Time { return time.UnixMilli(r.clock.Add(20)).UTC() }

// Claims and releases rush through two servers while Redis is killed: never
// are more units taken than there are (I1), each order ends once (I6), and in
// the end everything adds up (I2, I3, I4, I5).
func TestRushOfClaimsAndReleases(t *testing.T) {
	server := servertest.StartRedis(t)
	r := &rush{
		TB: t, url: server.URL(), total: 60, told: map[sluice.OrderID]sluice.Decision{}, given: map[sluice.OrderID]bool{},
	}
	r.clock.Store(time.Now().UnixMilli())
	for _, node := range []string{"a", "b"} {
		l := open(t, server.URL(), redisledger.Options{Node: node, Now: r.now})
		r.nodes = append(r.nodes, l)
	}
	loadEpoch(t, r.nodes[0], "s", 3, sluice.Terms{
		Version: 1, Total: r.total, MaxPerBuyer: 2,
		MaxOrders: sluice.Unlimited,
	})

	stop := make(chan struct{})
	var crowd sync.WaitGroup
	for n := range 6 {
		work, random := r.claimSome, rand.New(rand.NewPCG(uint64(n), 7))
		if n%2 > 0 {
			work = r.releaseSome
		}
		crowd.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					work(random)
				}
			}
		})
	}
	for range 2 {
		r.awaitApplied(r.applied.Load() + 300)
		server.Kill()
		server.Start()
	}
	r.awaitApplied(r.applied.Load() + 300)
	close(stop)
	crowd.Wait()
	r.check()
	t.Logf("%d accepted, %d released, %d sold out, %d release calls without a reply",
		len(r.told), len(r.given), r.refused.Load(), r.lost.Load())
}

func (r *rush) awaitApplied(want int64) {
	r.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for r.applied.Load() < want && !r.Failed() {
		if time.Now().After(deadline) {
			r.Errorf("%d releases were applied, want %d", r.applied.Load(), want)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// claimSome claims up to 20 units for few buyers.
func (r *rush) claimSome(random *rand.Rand) {
	claims := make([]sluice.Claim, 1+random.IntN(20))
	for i := range claims {
		claims[i] = makeClaim("s", int(r.next.Add(1)))
		buyer := random.IntN(80)
		claims[i].Buyer = makeClaim("s", buyer).Buyer
		if buyer%4 == 0 { // twenty of them share four counters
			claims[i].Counters = claims[i].Counters.With(sluice.Counter{Name: homes[buyer/4%4], Max: mostAtHome})
		}
	}
	decisions := claimWhenBack(r, r.nodes[random.IntN(2)], "s", claims)
	begun := r.begun.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range decisions {
		switch d.Code {
		case sluice.Accepted:
			if d.Seq-begun > r.total {
				r.Errorf("I1: order %s is unit %d, and not more than %d may have returned", d.Order, d.Seq, begun)
			}
			r.told[d.Order] = d
			r.live = append(r.live, claims[i])
		case sluice.SoldOut:
			r.refused.Add(1)
		case sluice.BuyerLimit:
		default:
			r.Errorf("claim %s: %s", claims[i].Order, d.Code)
		}
	}
}

// keepLive is how many accepted claims stay live while the rush goes on.
const keepLive = 30

// Buyers of one home have so many live units together.
var homes = [4]string{"home:a", "home:b", "home:c", "home:d"}

const mostAtHome = 4

// releaseSome gives orders back: new ones, some of them twice, mixed with ones
// that were given before and with ones of an epoch before, in any order. What
// was not answered is given again, by the next caller.
func (r *rush) releaseSome(random *rand.Rand) {
	r.mu.Lock()
	n := max(0, min(len(r.live)-keepLive, 1+random.IntN(15)))
	fresh := slices.Clone(r.live[:n])
	r.live = r.live[n:]
	again := fresh[:n/2]
	for range min(len(r.closed), 5) {
		again = append(slices.Clip(again), r.closed[random.IntN(len(r.closed))])
	}
	older := slices.Clone(r.live[:min(len(r.live), 3)]) // still live, by their own epoch
	r.begun.Add(int64(n))
	r.mu.Unlock()
	if n == 0 {
		time.Sleep(time.Millisecond)
		return
	}
	give := slices.Concat(releasesOf("s", 3, fresh...), releasesOf("s", 3, again...), releasesOf("s", 2, older...))
	random.Shuffle(len(give), func(i, j int) { give[i], give[j] = give[j], give[i] })

	first := true
	for deadline := time.Now().Add(20 * time.Second); ; {
		got, err := r.nodes[random.IntN(2)].Release(r.Context(), "s", give)
		if err == nil {
			if sum := got.Applied + got.Before; sum != len(give) || first && got.Applied != n || got.Applied > n {
				r.Errorf("%d releases of which %d are new: %+v", len(give), n, got)
			}
			r.applied.Add(int64(n)) // now or in a call whose reply was lost
			break
		}
		first = false
		r.lost.Add(1)
		if errors.Is(err, port.ErrStaleEpoch) || time.Now().After(deadline) {
			r.Errorf("Release: %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range fresh {
		r.given[c.Order] = true
	}
	r.closed = append(r.closed, fresh...)
}

// check compares what the servers were told with what is on record.
func (r *rush) check() {
	r.Helper()
	l := r.nodes[0]
	live, records, at := map[sluice.BuyerID]int64{}, map[sluice.OrderID]port.Record{}, map[string]int64{}
	var all []port.Record
	must.Succeed(r, l.Records(r.Context(), "s", func(rec port.Record) bool {
		records[rec.Order] = rec
		all = append(all, rec)
		if rec.Live {
			live[rec.Buyer]++
			for _, home := range rec.Counters.List() {
				at[home.Name]++
			}
		}
		return true
	}))
	client := newClient(r, r.url)
	for _, home := range homes {
		field := command(r, client, "HGET", "sluice:{s}:buyers", "\n"+home)
		counted := must.Get(field.ToString())(r)
		if at[home] > mostAtHome || counted != fmt.Sprint(at[home]) {
			r.Errorf("I3: %s has %d units, of at most %d, and is counted as %s", home, at[home], mostAtHome, counted)
		}
	}
	for order, d := range r.told {
		if rec := records[order]; rec.Seq != d.Seq || rec.Live == r.given[order] {
			r.Errorf("I4, I6: order %s, accepted as %d, released %t, is on record as %+v", order, d.Seq, r.given[order], rec)
		}
	}
	slices.SortFunc(all, func(a, b port.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, rec := range all {
		if rec.Seq != int64(i+1) {
			r.Fatalf("I5: record %d has sequence %d", i+1, rec.Seq)
		}
	}
	reading := read(r, l, "s")
	if reading.Taken != int64(len(r.told)-len(r.given)) || reading.Seq != int64(len(records)) ||
		len(records) != len(r.told) || reading.Fence != "" {
		r.Errorf("I2: %+v, with %d records, %d accepted, %d released", reading, len(records), len(r.told), len(r.given))
	}
	entries := int64(0)
	must.Succeed(r, l.PeekJournal(r.Context(), "s", func(e port.Entry) bool {
		if e.FirstSeq != entries+1 {
			r.Errorf("I5: an entry begins at %d, want %d", e.FirstSeq, entries+1)
		}
		entries = e.FirstSeq + int64(len(e.Claims)) - 1
		return !r.Failed()
	}))
	if entries != reading.Seq {
		r.Errorf("I5: the journal ends at %d of %d", entries, reading.Seq)
	}
	// I3: what each buyer may still take shows what the ledger counts for them.
	r.clock.Add(sluice.RefusalLease.Milliseconds())
	for buyer, units := range live {
		c := makeClaim("s", int(r.next.Add(1)))
		c.Buyer, c.Quantity = buyer, 3-units
		d := claim(r, l, "s", c)[0]
		if units > 2 || d.Code != sluice.BuyerLimit || int64(len(d.Orders)) != units {
			r.Errorf("I3: buyer %s holds %d, and asking for %d more is %+v", buyer, units, c.Quantity, d)
		}
	}
}
