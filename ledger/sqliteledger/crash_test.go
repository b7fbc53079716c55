package sqliteledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"go.uber.org/goleak"
)

const childVariable = "SLUICE_TEST_LEDGER_CHILD" // the path that the child works on, and its round

// TestMain lets the tests start this binary as another process.
func TestMain(m *testing.M) {
	if path, round, ok := strings.Cut(os.Getenv(childVariable), "|"); ok {
		if err := child(path, round); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child claims until it is killed, and prints what it was answered: a line per
// accepted claim. A line is printed after the answer, so whatever the parent
// reads was promised.
func child(path, round string) error {
	ctx := context.Background()
	l, err := sqliteledger.Open(ctx, path, sqliteledger.Options{Node: "child"})
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards stdout
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			for n := 0; ; n++ {
				claims := make([]sluice.Claim, 1+rand.IntN(40))
				for i := range claims {
					claims[i] = sluice.Claim{
						Buyer: sluice.BuyerID(fmt.Sprintf("%s-%d-%d-%d", round, g, n, i)), Key: "key-0001", Quantity: 1,
						Order: sluice.SaleID("s").Order(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())),
					}
				}
				decisions, err := l.Claim(ctx, "s", claims)
				var lines strings.Builder
				for i, d := range decisions {
					fmt.Fprintln(&lines, claims[i].Buyer, d.Order, d.Seq)
				}
				mu.Lock()
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
				fmt.Print(lines.String())
				mu.Unlock()
			}
		})
	}
	all.Go(func() { // the pipeline
		for {
			entries, err := l.ReadJournal(ctx, port.JournalRead{Sale: "s", Source: port.New, Max: 10})
			if err == nil && len(entries) > 0 {
				err = l.Ack(ctx, "s", []string{entries[0].ID})
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	})
	all.Wait()
	return nil
}

// startChild starts this binary as a child that works on the ledger.
func startChild(t *testing.T, path, round string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path+"|"+round)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewReader(out)
}

// TestKill: a process that is killed at any moment keeps what it has answered.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, path)
	load(t, l, "s", 1_000_000)
	must.Succeed(t, l.Close())
	promised := map[sluice.OrderID]string{} // the line, by order id
	for round := range 6 {
		cmd, lines := startChild(t, path, fmt.Sprint("round", round))
		after := time.Duration(5+rand.IntN(120)) * time.Millisecond
		n := 0
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break // killed; what stands after the last line feed was not finished
			}
			if n == 0 { // it works: from now on any moment will do
				time.AfterFunc(after, func() { cmd.Process.Kill() })
			}
			n++
			promised[sluice.OrderID(strings.Fields(line)[1])] = strings.TrimSpace(line)
		}
		cmd.Wait() // it was killed, which is an error
		t.Logf("killed after %v: %d claims promised, %d in all", after, n, len(promised))
		if n == 0 {
			t.Fatal("the child promised nothing")
		}
		checkPromises(t, path, promised)
	}
}

// checkPromises opens the ledger, and looks for everything that was promised.
func checkPromises(t *testing.T, path string, promised map[sluice.OrderID]string) {
	t.Helper()
	l := open(t, path)
	defer l.Close()
	reading, records, _ := everything(t, l, "s")
	if reading.Fence != "" {
		t.Fatalf("fenced: %s", reading.Fence)
	}
	found, buyers := map[sluice.OrderID]bool{}, map[sluice.BuyerID]bool{}
	for i, r := range records {
		if r.Seq != int64(i+1) {
			t.Fatalf("record %d has seq %d: the sequence is not dense", i, r.Seq)
		}
		if found[r.Order] || buyers[r.Buyer] {
			t.Errorf("order %s of %s twice", r.Order, r.Buyer)
		}
		found[r.Order], buyers[r.Buyer] = true, true
		if line, ok := promised[r.Order]; ok && line != fmt.Sprint(r.Buyer, " ", r.Order, " ", r.Seq) {
			t.Errorf("promised %q, found %+v", line, r)
		}
	}
	for order, line := range promised {
		if !found[order] {
			t.Errorf("promised and lost: %q", line)
		}
	}
	if reading.Seq != int64(len(records)) || reading.Taken != reading.Seq {
		t.Errorf("seq %d, taken %d, with %d records", reading.Seq, reading.Taken, len(records))
	}
	if len(records) > 0 {
		again := records[len(records)/2]
		if d := claim(t, l, "s", again.Claim)[0]; !d.Replayed || d.Order != again.Order || d.Seq != again.Seq {
			t.Errorf("a repeat of %+v got %+v", again, d)
		}
	}
}

// TestOneOwner: neither another process nor another ledger of this one gets
// the file while it is in use.
func TestOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, path)
	load(t, l, "s", 1_000_000)
	second, err := sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: "b"})
	if !errors.Is(err, sluice.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("ledger %v, error %v; want ErrInUse and the path", second, err)
	}
	must.Succeed(t, l.Close())

	cmd, lines := startChild(t, path, "owner")
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("the child does not work: %v", err)
	}
	if _, err := sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: "b"}); !errors.Is(err, sluice.ErrInUse) {
		t.Errorf("error %v, want ErrInUse", err)
	}
	if snapshot, err := sqliteledger.OpenReadOnly(t.Context(), path); err != nil {
		t.Errorf("read-only while another process owns it: %v", err)
	} else if r, _, _ := everything(t, snapshot, "s"); r.Seq == 0 {
		t.Error("nothing in the snapshot although the child has been answered")
	}
	cmd.Process.Kill()
	cmd.Wait()
	if snapshot, err := sqliteledger.OpenReadOnly(t.Context(), path); err != nil { // the log is still in the -wal file
		t.Errorf("read-only after a kill: %v", err)
	} else if r, _, _ := everything(t, snapshot, "s"); r.Seq == 0 {
		t.Error("nothing in the snapshot after the kill")
	}
	open(t, path) // the lock went with the process
}

func TestOptions(t *testing.T) {
	if _, err := sqliteledger.Open(t.Context(), filepath.Join(t.TempDir(), "x"), sqliteledger.Options{}); err == nil {
		t.Error("no error without a node")
	}
	if _, err := sqliteledger.Open(t.Context(), "/nonexistent/folder/x.db", sqliteledger.Options{Node: "a"}); err == nil {
		t.Error("no error in a folder that does not exist")
	}
	path := filepath.Join(t.TempDir(), "a b?c#d%20e;f.db") // SQLite takes the path as part of a URL
	l := open(t, path)
	load(t, l, "s", 1)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestDamage: a log that does not add up fences its sale, visibly, and leaves
// the others alone.
func TestDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		harm  string // done to the file
		fence string // part of what the sale says then
	}{
		"a row is missing":       {`DELETE FROM log WHERE seq = 2`, "begins at seq 3, want 2"},
		"a body is cut":          {`UPDATE log SET body = substr(body, 1, 20) WHERE seq = 2`, "row"},
		"a body is exchanged":    {`UPDATE log SET body = 'x' || char(10) WHERE seq = 2`, "row"},
		"a claim is missing":     {`UPDATE log SET body = '' WHERE seq = 2`, "0 claims, want 1"},
		"the epoch is another":   {`UPDATE log SET epoch = 7 WHERE seq = 2`, "is of epoch 7, want 2"},
		"the epoch is none":      {`UPDATE log SET epoch = 9007199254740993 WHERE sale = 's'`, "no server counts that far"},
		"loaded records are off": {`DELETE FROM log WHERE kind = 'loaded' AND sale = 's'`, "1 loaded records are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			l := open(t, path)
			loaded := port.Record{Claim: newClaim("s", 99), Sale: "s", Epoch: 1, Seq: 1, Terms: 1, At: time.UnixMilli(1).UTC()}
			terms := sluice.Terms{Version: 1, Total: 100, MaxPerBuyer: 9, MaxOrders: 9, OpensAt: time.UnixMilli(0).UTC()}
			must.Succeed(t, l.Load(t.Context(), port.LoadImage{
				Sale: "s", Epoch: 2, Terms: terms,
				Records: []port.Record{loaded},
			}))
			must.Succeed(t, l.Unfence(t.Context(), "s", 2))
			load(t, l, "healthy", 10)
			for n := 1; n < 4; n++ {
				claim(t, l, "s", newClaim("s", n))
			}
			claim(t, l, "healthy", newClaim("healthy", 1))
			must.Succeed(t, l.Close())
			must.Succeed(t, execSQL(path, tc.harm))

			l = open(t, path)
			r, _, entries := everything(t, l, "s")
			if !strings.HasPrefix(r.Fence, port.FenceLost+": ") || !strings.Contains(r.Fence, tc.fence) {
				t.Errorf("fence %q, want lost: ... %s", r.Fence, tc.fence)
			}
			if d := claim(t, l, "s", newClaim("s", 1), newClaim("s", 50)); d[0].Code != sluice.Unavailable ||
				d[1].Code != sluice.Unavailable {
				t.Errorf("%+v, want unavailable", d)
			}
			if strings.HasPrefix(name, "a body") && (len(entries) != 3 || entries[1].Damage == nil || entries[1].Raw == "") {
				t.Errorf("%+v, want the second entry damaged, with what stands there", entries)
			}
			if r, _, _ := everything(t, l, "healthy"); r.Fence != "" || r.Seq != 1 {
				t.Errorf("the other sale: %+v", r)
			}
			// The damaged entry can be set aside, and the next load heals the sale.
			for _, e := range entries {
				if err := l.Ack(t.Context(), "s", []string{e.ID}); err != nil {
					t.Error(err)
				}
			}
			must.Succeed(t, l.Load(t.Context(), port.LoadImage{Sale: "s", Epoch: 3, Terms: terms}))
			must.Succeed(t, errors.Join(l.Unfence(t.Context(), "s", 3), l.Close()))
			l = open(t, path)
			if r, _, _ := everything(t, l, "s"); r.Fence != "" || r.Epoch != 3 {
				t.Errorf("after the load: %+v", r)
			}
		})
	}
}

// TestUnknownRows: a log that this program does not understand is not opened,
// since ignoring a row would sell its units again.
func TestUnknownRows(t *testing.T) {
	for _, harm := range []string{
		`UPDATE log SET kind = 'magic' WHERE kind = 'fence'`,
		`DELETE FROM log WHERE kind = 'load'`,
		`UPDATE log SET body = '{' WHERE kind = 'load'`,
	} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		l := open(t, path)
		load(t, l, "s", 10)
		must.Succeed(t, errors.Join(l.Close(), execSQL(path, harm)))
		if l, err := sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: "a"}); err == nil ||
			!strings.Contains(err.Error(), "log row") {
			t.Errorf("%s: ledger %v, error %v; want one that names the row", harm, l, err)
		}
	}
}
