package redisledger_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// WAIT: a batch counts only when the replicas have it.
func TestWaitForReplicas(t *testing.T) {
	primary := startPrimary(t)
	replica := startReplica(t, primary)
	l := open(t, primary.URL(), redisledger.Options{Node: "a", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond})
	loadOpen(t, l, "s", tight(1000))

	claims := makeClaims("s", 0, 100)
	wantAll(t, claimWhenBack(t, l, "s", claims), sluice.Accepted) // once the replica is in step
	client := newClient(t, replica.URL())
	seq := command(t, client, "HGET", "sluice:{s}:sale", "seq")
	if text, _ := seq.ToString(); text != "100" {
		t.Errorf("the replica has sequence %q, want 100", text)
	}

	replica.Kill()
	more := makeClaims("s", 100, 110)
	if d, err := l.Claim(t.Context(), "s", more); err == nil || !strings.Contains(err.Error(), "outcome unknown") {
		t.Errorf("without a replica: %v, %v; want outcome unknown", d, err)
	}
	replica.Start()
	command(t, newClient(t, primary.URL()), "SCRIPT", "FLUSH")
	decisions := claimWhenBack(t, l, "s", more)
	wantAll(t, decisions, sluice.Accepted)
	if d := decisions[0]; !d.Replayed || d.Seq != 101 {
		t.Errorf("%+v, want what was accepted the first time", d)
	}
}

// Two replicas are not one.
func TestWaitForTwoReplicas(t *testing.T) {
	primary := startPrimary(t)
	startReplica(t, primary)
	one := open(t, primary.URL(), redisledger.Options{Node: "one", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond})
	two := open(t, primary.URL(), redisledger.Options{Node: "two", WaitReplicas: 2, WaitTimeout: 100 * time.Millisecond})
	loadOpen(t, one, "s", tight(1000))
	wantAll(t, claimWhenBack(t, one, "s", makeClaims("s", 0, 3)), sluice.Accepted)
	if d, err := two.Claim(t.Context(), "s", makeClaims("s", 3, 6)); err == nil ||
		!strings.Contains(err.Error(), "1 of 2 replicas") {
		t.Errorf("%v, %v; want an unknown outcome, since one of two replicas has it", d, err)
	}
	startReplica(t, primary)
	wantAll(t, claimWhenBack(t, two, "s", makeClaims("s", 3, 6)), sluice.Accepted)
}

// From Redis 7.2 on WAIT returns at once on a connection that has itself
// written nothing. A repeat of an accepted claim must be as safe as the first
// answer, and a release that was applied before as one that is applied now: so
// both write, and are unknown as long as no replica has them (I4, I6).
func TestWaitCoversWhatChangesNothing(t *testing.T) {
	primary := startPrimary(t)
	replica := startReplica(t, primary)
	a := open(t, primary.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, a, "s", tight(1000))
	claims, give := makeClaims("s", 0, 3), releasesOf("s", 1, makeClaims("s", 1, 3)...)
	// Once the replica is in step.
	strict := redisledger.Options{Node: "b", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond}
	direct := open(t, primary.URL(), strict)
	wantAll(t, claimWhenBack(t, direct, "s", claims), sluice.Accepted)

	replica.Freeze()
	defer replica.Thaw()
	wantAll(t, claim(t, a, "s", makeClaims("s", 3, 5)...), sluice.Accepted)
	must.Get(a.Release(t.Context(), "s", give))(t)
	proxy := newWait72(t, primary)
	// Each on connections of its own, which have written nothing yet.
	fresh := func() *redisledger.Ledger { return open(t, "redis://"+proxy.addr, strict) }
	other := makeClaims("s", 3, 5)
	other[0].Quantity, other[1].Quantity = 2, 2 // the keys of accepted claims, with other content
	for what, repeat := range map[string][]sluice.Claim{
		"claims accepted elsewhere": makeClaims("s", 3, 5), "keys used elsewhere": other,
	} {
		for try := range 2 { // the second time the sequence is on record
			if d, err := fresh().Claim(t.Context(), "s", repeat); err == nil ||
				!strings.Contains(err.Error(), "0 of 1 replicas") {
				t.Errorf("%s, try %d: %v, %v; want an unknown outcome", what, try, d, err)
			}
		}
	}
	if got, err := fresh().Release(t.Context(), "s", give); err == nil ||
		!strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("releases applied before: %+v, %v; want an unknown outcome", got, err)
	}
	// The proxy does what it says: what writes nothing waits for nothing.
	wantAll(t, claim(t, fresh(), "s", sluice.Claim{
		Buyer: "buyer-0", Key: "another-key", Quantity: 9, Order: makeClaim("s", 77).Order,
	}), sluice.BuyerLimit)

	replica.Thaw()
	b := fresh()
	wantAll(t, claimWhenBack(t, b, "s", makeClaims("s", 3, 5)), sluice.Accepted)
	if got := releaseWhenBack(t, b, "s", give); got.Before != 2 {
		t.Errorf("%+v, want two that were applied before", got)
	}
}

// What no replica has, reaches no store: its buyer has no answer, and another primary
// may have decided otherwise (I4, I5). Neither the journal nor a rebuild, which fences
// first, hands it out, whatever the connection has written before.
func TestOnlyWhatReplicasHaveIsHandedOut(t *testing.T) {
	primary := startPrimary(t)
	replica := startReplica(t, primary)
	a := open(t, primary.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, a, "s", tight(1000))
	proxy := newWait72(t, primary)
	strict := redisledger.Options{Node: "b", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond}
	// Each on connections of its own, which have written nothing yet.
	fresh := func() *redisledger.Ledger { return open(t, "redis://"+proxy.addr, strict) }
	wantAll(t, claimWhenBack(t, fresh(), "s", makeClaims("s", 0, 3)), sluice.Accepted) // once the replica is in step

	replica.Freeze()
	defer replica.Thaw()
	wantAll(t, claim(t, a, "s", makeClaims("s", 3, 5)...), sluice.Accepted)
	wantAll(t, claim(t, a, "s", makeClaims("s", 5, 6)...), sluice.Accepted)
	journal := func(source port.Source, most int) ([]port.Entry, error) {
		return fresh().ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: source, Max: most})
	}
	wantNone := func(what string, got []port.Entry, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "0 of 1 replicas") || len(got) > 0 {
			t.Errorf("%s: %+v, %v; want nothing that no replica has", what, got, err)
		}
	}
	for _, source := range []port.Source{port.New, port.Own, port.Own} {
		got, err := journal(source, 2)
		wantNone("the journal", got, err)
	}
	c := open(t, primary.URL(), redisledger.Options{Node: "c"})
	got, err := c.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New})
	if err != nil || len(got) != 1 {
		t.Fatalf("without replicas: %+v, %v; want the last entry", got, err)
	}
	got, err = journal(port.Abandoned, 10)
	wantNone("what another server left", got, err)
	for range 2 { // the second time the sale is fenced already
		wantNone("fence", nil, fresh().Fence(t.Context(), "s", 1, "lost: by the test"))
	}

	replica.Thaw()
	var all []port.Entry
	for end := time.Now().Add(30 * time.Second); len(all) < 3; {
		if all, err = journal(port.Own, 10); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
	for i, want := range []int{3, 2, 1} {
		if e := &all[i]; len(e.Claims) != want || e.Deliveries > 10 {
			t.Errorf("entry %d: %d claims, want %d", i, len(e.Claims), want)
		}
	}
	must.Succeed(t, fresh().Fence(t.Context(), "s", 1, "lost: by the test"))
}

// A slot moves to a primary whose replica is gone. The replicas of the one that
// had it before say nothing about the claims that are decided there now.
func TestWaitWhereTheSlotIs(t *testing.T) {
	nodes := servertest.StartReplicatedCluster(t, 2, "--repl-diskless-sync-delay", "0")
	l := open(t, "redis+cluster://"+nodes[0].Addr(), redisledger.Options{
		Node: "a", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond,
	})
	loadOpen(t, l, "s", tight(1000))
	wantAll(t, claimWhenBack(t, l, "s", makeClaims("s", 0, 3)), sluice.Accepted)

	clients := []rueidis.Client{newClient(t, nodes[0].URL()), newClient(t, nodes[1].URL())}
	reply := command(t, clients[0], "CLUSTER", "KEYSLOT", "{s}")
	slot := must.Get(reply.AsInt64())(t)
	from := int(slot * 2 / 16384)
	to := 1 - from
	replica := nodes[2+to]
	replica.Kill()
	target, at := nodeID(t, clients[to]), strconv.FormatInt(slot, 10)
	command(t, clients[to], "CLUSTER", "SETSLOT", at, "IMPORTING", nodeID(t, clients[from]))
	command(t, clients[from], "CLUSTER", "SETSLOT", at, "MIGRATING", target)
	keys := command(t, clients[from], "CLUSTER", "GETKEYSINSLOT", at, "100")
	names := must.Get(keys.AsStrSlice())(t)
	_, port, _ := strings.Cut(nodes[to].Addr(), ":")
	command(t, clients[from], append([]string{"MIGRATE", "127.0.0.1", port, "", "0", "5000", "KEYS"}, names...)...)
	for _, c := range clients {
		command(t, c, "CLUSTER", "SETSLOT", at, "NODE", target)
	}
	for n, end := 3, time.Now().Add(2*time.Second); time.Now().Before(end); n++ {
		if d, err := l.Claim(t.Context(), "s", makeClaims("s", n, n+1)); err == nil {
			t.Fatalf("claim %d: %+v, and no replica has it", n, d)
		}
	}
	replica.Start()
	wantAll(t, claimWhenBack(t, l, "s", makeClaims("s", 3, 4)), sluice.Accepted)
}

func nodeID(t *testing.T, c rueidis.Client) string {
	t.Helper()
	reply := command(t, c, "CLUSTER", "MYID")
	id := must.Get(reply.ToString())(t)
	return id
}

// wait72 stands in front of a Redis and answers WAIT as Redis 7.2 does: it waits
// for what the connection itself has written, not for what others have.
type wait72 struct {
	t       *testing.T
	primary *servertest.RedisServer
	addr    string
	refuse  string // a word; a command that has it is answered with an error
}

func newWait72(t *testing.T, primary *servertest.RedisServer, refuse ...string) *wait72 {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &wait72{t: t, primary: primary, addr: listener.Addr().String(), refuse: strings.Join(refuse, "")}
	var group sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		group.Wait()
	})
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", primary.Addr())
			if err != nil {
				client.Close()
				return
			}
			side, err := net.Dial("tcp", primary.Addr())
			if err != nil {
				client.Close()
				server.Close()
				return
			}
			mu.Lock()
			open = append(open, client, server, side)
			mu.Unlock()
			group.Go(func() {
				p.serve(client, server, side)
				client.Close()
				server.Close()
				side.Close()
			})
		}
	})
	return p
}

// serve passes commands on one by one, and looks before and after each how far
// the primary's writes have come: nothing else writes meanwhile.
func (p *wait72) serve(client, server, side net.Conn) {
	fromClient, fromServer, fromSide := bufio.NewReader(client), bufio.NewReader(server), bufio.NewReader(side)
	written := int64(0) // offset of the connection's last write
	for {
		command, words, err := readRESP(fromClient)
		if err != nil {
			return
		}
		if p.refuse != "" && slices.Contains(words, p.refuse) {
			if _, err := io.WriteString(client, "-ERR refused by the test\r\n"); err != nil {
				return
			}
			continue
		}
		before, acked, err := replication(side, fromSide)
		if err != nil {
			return
		}
		if len(words) == 3 && strings.EqualFold(words[0], "WAIT") {
			want, _ := strconv.Atoi(words[1])
			if have := len(slices.DeleteFunc(acked, func(at int64) bool { return at < written })); have >= want {
				if _, err := fmt.Fprintf(client, ":%d\r\n", have); err != nil {
					return
				}
				continue
			}
		}
		if _, err := server.Write(command); err != nil {
			return
		}
		reply, _, err := readRESP(fromServer)
		if err != nil {
			return
		}
		after, _, err := replication(side, fromSide)
		if err != nil {
			return
		}
		if after > before {
			written = after
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// replication asks a primary for the offset of its writes, and what each replica
// has acknowledged.
func replication(conn net.Conn, from *bufio.Reader) (offset int64, acked []int64, err error) {
	if _, err := io.WriteString(conn, "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"); err != nil {
		return 0, nil, err
	}
	_, words, err := readRESP(from)
	if err != nil || len(words) != 1 {
		return 0, nil, fmt.Errorf("INFO: %d parts: %w", len(words), err)
	}
	for line := range strings.Lines(words[0]) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "master_repl_offset:"); ok {
			offset, err = strconv.ParseInt(text, 10, 64)
		} else if _, rest, ok := strings.Cut(line, ",offset="); ok && strings.HasPrefix(line, "slave") {
			text, _, _ := strings.Cut(rest, ",")
			at, _ := strconv.ParseInt(text, 10, 64)
			acked = append(acked, at)
		}
	}
	return offset, acked, err
}

// readRESP reads one value of Redis's protocol, as it came and as its strings.
func readRESP(from *bufio.Reader) (raw []byte, words []string, err error) {
	line, err := from.ReadBytes('\n')
	if err != nil || len(line) < 3 {
		return nil, nil, fmt.Errorf("%q: %w", line, err)
	}
	raw = line
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case '$', '=', '!':
		if n < 0 {
			return raw, nil, nil
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(from, body); err != nil {
			return nil, nil, err
		}
		return append(raw, body...), []string{string(body[:n])}, nil
	case '%', '|':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			part, more, err := readRESP(from)
			if err != nil {
				return nil, nil, err
			}
			raw, words = append(raw, part...), append(words, more...)
		}
	}
	return raw, words, nil
}

// Taking the connection that WAIT goes with counts towards the call's time as well: a
// Redis that hangs before the first batch, or one that takes no more connections.
func TestWaitOnARedisThatHangs(t *testing.T) {
	server := startPrimary(t)
	loadOpen(t, open(t, server.URL(), redisledger.Options{Node: "a"}), "s", tight(1000))
	strict := open(t, server.URL(), redisledger.Options{
		Node: "b", WaitReplicas: 1, WaitTimeout: 100 * time.Millisecond, // and 2 s to connect
	})
	server.Freeze()
	defer server.Thaw()
	soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	for _, ctx := range []context.Context{soon, t.Context()} {
		start := time.Now()
		d, err := strict.Claim(ctx, "s", makeClaims("s", 0, 1))
		took := time.Since(start)
		if !errors.Is(err, sluice.ErrNoAnswer) || took > 10*time.Second || ctx == soon && took > 1500*time.Millisecond {
			t.Errorf("%v, %v after %s, want the deadline", d, err, took)
		}
	}
}
