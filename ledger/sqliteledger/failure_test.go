package sqliteledger

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

var errDisk = errors.New("the disk says no")

// failing is a ledger whose commits a test makes fail.
type failing struct {
	*Ledger
	path string
	hook atomic.Pointer[func(f *file, committed bool) error]
}

func openFailing(t *testing.T) *failing {
	t.Helper()
	fl := &failing{path: filepath.Join(t.TempDir(), "ledger.db")}
	l := must.Get(Open(t.Context(), fl.path, Options{Node: "a", hook: func(f *file, committed bool) error {
		if hook := fl.hook.Load(); hook != nil {
			return (*hook)(f, committed)
		}
		return nil
	}}))(t)
	t.Cleanup(func() { l.Close() })
	fl.Ledger = l
	terms := sluice.Terms{
		Version: 1, Total: 10, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited, OpensAt: time.UnixMilli(0).UTC(),
	}
	must.Succeed(t, errors.Join(
		l.Load(t.Context(), port.LoadImage{Sale: "s", Epoch: 1, Terms: terms}), l.Unfence(t.Context(), "s", 1),
	))
	return fl
}

// set makes the next commits go through the hook; nil mends the disk.
func (fl *failing) set(hook func(f *file, committed bool) error) {
	if hook == nil {
		fl.hook.Store(nil)
	} else {
		fl.hook.Store(&hook)
	}
}

// hold makes the next commit hang until goOn; reached is closed when it does.
func (fl *failing) hold() (reached <-chan struct{}, goOn func()) {
	began, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fl.set(func(_ *file, committed bool) error {
		if !committed {
			once.Do(func() { close(began) })
			<-release
		}
		return nil
	})
	return began, func() { close(release) }
}

func someClaims(from, n int) []sluice.Claim {
	claims := make([]sluice.Claim, n)
	for i := range claims {
		claims[i] = sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprint("buyer-", from+i)), Key: "key-0001", Quantity: 1,
			Order: sluice.SaleID("s").Order(fmt.Sprintf("%032x", from+i)),
		}
	}
	return claims
}

func (fl *failing) reading(t *testing.T) port.Reading {
	t.Helper()
	r := must.Get(fl.Read(t.Context(), []sluice.SaleID{"s"}))(t)
	return r[0]
}

// TestFailedCommit: whether a failed commit has reached the disk or not, a
// repeat gets one consistent answer, and nothing is taken twice.
func TestFailedCommit(t *testing.T) {
	for _, reached := range []bool{false, true} {
		t.Run(fmt.Sprint("reached the disk ", reached), func(t *testing.T) {
			fl := openFailing(t)
			first := someClaims(1, 3)
			must.Get(fl.Claim(t.Context(), "s", first))(t)
			fl.set(func(_ *file, committed bool) error {
				if committed == reached {
					return errDisk
				}
				return nil
			})
			second := someClaims(4, 4)
			if _, err := fl.Claim(t.Context(), "s", second); !errors.Is(err, errDisk) ||
				strings.Contains(err.Error(), "outcome unknown") != reached || errors.Is(err, sluice.ErrRefusesWrites) == reached {
				t.Fatalf("error %v, want what the disk said, and that nothing was written or the outcome is unknown", err)
			}
			fl.set(nil)
			want := int64(3)
			if reached {
				want = 7
			}
			if r := fl.reading(t); r.Taken != want || r.Seq != want {
				t.Errorf("taken %d, seq %d before the repeat; want %d", r.Taken, r.Seq, want)
			}
			decisions := must.Get(fl.Claim(t.Context(), "s", append(first, second...)))(t)
			for i, d := range decisions {
				if d.Code != sluice.Accepted || d.Seq != int64(i+1) || d.Order != append(first, second...)[i].Order ||
					d.Replayed != (i < 3 || reached) {
					t.Errorf("claim %d: %+v", i, d)
				}
			}
			if r := fl.reading(t); r.Taken != 7 || r.Seq != 7 || r.Backlog != 2 {
				t.Errorf("taken %d, seq %d, backlog %d; want 7, 7, 2", r.Taken, r.Seq, r.Backlog)
			}
		})
	}
}

// TestFullDisk: SQLite itself refuses, half way through a group.
func TestFullDisk(t *testing.T) {
	fl := openFailing(t)
	fl.set(func(f *file, committed bool) error {
		if !committed {
			var pages int
			if err := f.db.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
				return err
			}
			_, err := f.db.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages))
			return err
		}
		return nil
	})
	claims := someClaims(1, 10)
	for i := range claims {
		noise := make([]byte, sluice.MaxMeta/4*3)
		_, _ = rand.Read(noise)                                      // never fails
		claims[i].Meta = base64.RawStdEncoding.EncodeToString(noise) // a row of several pages
		claims[i].Buyer += sluice.BuyerID(claims[i].Meta[:100])
	}
	if _, err := fl.Claim(t.Context(), "s", claims); !errors.Is(err, sluice.ErrRefusesWrites) ||
		!strings.Contains(err.Error(), "full") {
		t.Fatalf("error %v, want a full disk that takes nothing", err)
	}
	if r := fl.reading(t); r.Taken != 0 || r.Seq != 0 {
		t.Errorf("taken %d, seq %d; want nothing", r.Taken, r.Seq)
	}
	fl.set(func(f *file, _ bool) error { // the file is still open
		_, err := f.db.Exec(`PRAGMA max_page_count = 1000000`)
		return err
	})
	decisions := must.Get(fl.Claim(t.Context(), "s", claims))(t)
	for i, d := range decisions {
		if d.Code != sluice.Accepted || d.Replayed || d.Seq != int64(i+1) {
			t.Errorf("claim %d: %+v, want a new acceptance", i, d)
		}
	}
}

// TestNothingIsDecidedUntilRebuilt: while the file cannot be read again, every
// call that decides is an error, and readers see what was committed.
func TestNothingIsDecidedUntilRebuilt(t *testing.T) {
	fl := openFailing(t)
	must.Get(fl.Claim(t.Context(), "s", someClaims(1, 2)))(t)
	hidden := fl.path + ".hidden"
	fl.set(func(f *file, committed bool) error {
		if committed {
			return nil
		}
		f.close() // so that SQLite tidies up, and the file is one
		if err := errors.Join(os.Rename(fl.path, hidden), os.Mkdir(fl.path, 0o700)); err != nil {
			t.Error(err)
		}
		return errDisk
	})
	if _, err := fl.Claim(t.Context(), "s", someClaims(3, 1)); !errors.Is(err, errDisk) ||
		errors.Is(err, sluice.ErrRefusesWrites) {
		t.Fatalf("error %v, want what the disk said, and no word of what is written", err)
	}
	for n := range 3 { // repeats: their claims were accepted, or may have been
		d, err := fl.Claim(t.Context(), "s", someClaims(1+n, 1))
		if err == nil || errors.Is(err, sluice.ErrRefusesWrites) || !strings.Contains(err.Error(), "outcome unknown") {
			t.Fatalf("attempt %d: %+v, %v, want an unknown outcome", n, d, err)
		}
	}
	if err := fl.Fence(t.Context(), "s", 1, "x"); err == nil {
		t.Error("Fence: no error")
	}
	if r := fl.reading(t); r.Taken != 2 {
		t.Errorf("taken %d, want 2", r.Taken)
	}
	fl.set(nil)
	must.Succeed(t, errors.Join(os.Remove(fl.path), os.Rename(hidden, fl.path)))
	decisions := must.Get(fl.Claim(t.Context(), "s", someClaims(1, 3)))(t)
	if !decisions[0].Replayed || !decisions[1].Replayed || decisions[2].Replayed || decisions[2].Seq != 3 {
		t.Errorf("%+v, want two repeats and a third claim", decisions)
	}
}

// TestFailedFlush: the pages of a commit and its mark are written, the flush
// fails, and another process keeps the file open, so that nothing recovers them.
// What memory says after that, a recovery says too, also if nothing follows.
func TestFailedFlush(t *testing.T) {
	fl := openFailing(t)
	other := must.Get(openFile(t.Context(), fl.path))(t)
	defer other.close()
	var index []byte
	fl.set(func(_ *file, committed bool) (err error) {
		if !committed {
			index, err = os.ReadFile(fl.path + "-shm")
			return err
		}
		fl.set(nil)
		return errors.Join(errDisk, os.WriteFile(fl.path+"-shm", index, 0o600)) // as if SQLite had not come so far
	})
	if _, err := fl.Claim(t.Context(), "s", someClaims(1, 3)); !errors.Is(err, errDisk) ||
		errors.Is(err, sluice.ErrRefusesWrites) {
		t.Fatalf("error %v, want an unknown outcome", err)
	}
	recovered := filepath.Join(t.TempDir(), "ledger.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(fl.path + suffix)
		must.Succeed(t, errors.Join(err, os.WriteFile(recovered+suffix, content, 0o600)))
	}
	l := must.Get(Open(t.Context(), recovered, Options{Node: "a"}))(t)
	defer l.Close()
	r, err := l.Read(t.Context(), []sluice.SaleID{"s"})
	if err != nil || r[0].Taken != 0 || fl.reading(t).Taken != 0 {
		t.Errorf("recovered %+v, %v; memory %+v: want nothing taken", r, err, fl.reading(t))
	}
}

// TestReadersDoNotSeeWhatIsNotCommitted, and do not wait for it.
func TestReadersDoNotSeeWhatIsNotCommitted(t *testing.T) {
	fl := openFailing(t)
	must.Get(fl.Claim(t.Context(), "s", someClaims(1, 1)))(t)
	reached, goOn := fl.hold()
	answered := make(chan error)
	go func() {
		_, err := fl.Claim(context.Background(), "s", someClaims(1, 3))
		answered <- err
	}()
	<-reached // decided in memory, and the commit hangs
	if r := fl.reading(t); r.Taken != 1 || r.Seq != 1 || r.Backlog != 1 {
		t.Errorf("%+v, want one claim", r)
	}
	n := 0
	err := fl.Records(t.Context(), "s", func(port.Record) bool { n++; return true })
	if n != 1 || err != nil {
		t.Errorf("%d records, %v; want 1", n, err)
	}
	for _, buyer := range []sluice.BuyerID{"buyer-2", ""} {
		if _, err := fl.Find(t.Context(), someClaims(2, 1)[0].Order, buyer); !errors.Is(err, sluice.ErrOrderNotFound) {
			t.Errorf("Find: %v, want ErrOrderNotFound", err)
		}
	}
	if entries, err := fl.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New, Max: 9}); len(
		entries) != 1 || err != nil {
		t.Errorf("%d entries, %v; want 1", len(entries), err)
	}
	goOn()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if r := fl.reading(t); r.Taken != 3 {
		t.Errorf("taken %d, want 3", r.Taken)
	}
}
