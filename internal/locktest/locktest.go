// Package locktest is what every [lock.Backend] must pass, on real servers and with
// holders that are processes of their own.
package locktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lock"
)

// Locks are where those of one test are.
type Locks struct {
	// Spec says to Main's function, in this process and in others, what to open.
	Spec string
	// Jump puts the backend's clock, or that of one of its servers, this far ahead of
	// the machine's, or behind it; nil if the clock cannot be put.
	Jump func(ahead time.Duration)
	// Majority says that Jump puts one clock of several, and no lock may end by it.
	Majority bool
}

// ttl of the suite's locks: long beside a call on a busy machine.
const ttl = 3 * time.Second

// holding is the environment of a process that holds a lock.
const holding = "SLUICE_LOCKTEST_HOLDING"

// open is what Main was given.
var open func(spec string) (backend lock.Backend, done func(), err error)

// Main runs tests, from TestMain. In the processes that the tests start it holds a
// lock instead. The function opens the backend of a Spec, with connections of its
// own, and returns what closes them.
func Main(m *testing.M, opens func(spec string) (backend lock.Backend, done func(), err error)) {
	open = opens
	if name, spec, ok := strings.Cut(os.Getenv(holding), " "); ok {
		if err := hold(spec, name); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hold prints the fencing number again and again, as a holder would write to what
// the lock guards, until the lock's context ends.
func hold(spec, name string) error {
	backend, done, err := open(spec)
	if err != nil {
		return err
	}
	defer done()
	held, err := lock.Locker{Backend: backend, TTL: ttl}.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	for {
		fmt.Println(held.Fence())
		select {
		case <-held.Context().Done():
			fmt.Println(held.Fence()) // a write that was on its way
			return held.Unlock()
		case <-time.After(ttl / 50):
		}
	}
}

// Run runs the suite; locks makes new ones for each of its tests.
func Run(t *testing.T, locks func(t *testing.T) Locks) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"one holder at a time", (*suite).oneAtATime},
		{"owners", (*suite).owners},
		{"late release", (*suite).lateRelease},
		{"expiry", (*suite).expiry},
		{"watchdog", (*suite).watchdog},
		{"frozen holder", (*suite).frozen},
		{"killed holder", (*suite).killed},
		{"bad input", (*suite).badInput},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(&suite{T: t, Locks: locks(t)})
		})
	}
	t.Run("clock", func(t *testing.T) {
		if s := (&suite{T: t, Locks: locks(t)}); s.Jump != nil {
			s.clock()
		}
	})
}

type suite struct {
	*testing.T
	Locks
}

// backend opens the backend.
func (s *suite) backend() lock.Backend {
	s.Helper()
	backend, done, err := open(s.Spec)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(done)
	return backend
}

// lease asks for the lock "x", which must be answered.
func (s *suite) lease(k lock.Backend, owner string, fence int64, ttl time.Duration) int64 {
	s.Helper()
	got := must.Get(k.Lease(s.Context(), "x", owner, fence, ttl))(s)
	return got
}

// Of many who wait for a lock one holds it at a time, and each number is higher
// than all before it.
func (s *suite) oneAtATime() {
	var holders, last atomic.Int64
	var running sync.WaitGroup
	for range 4 {
		locker := lock.Locker{Backend: s.backend(), TTL: ttl}
		running.Go(func() {
			for range 5 {
				held, err := locker.Lock(s.Context(), "x")
				if err != nil {
					s.Error(err)
					return
				}
				if n := holders.Add(1); n != 1 {
					s.Errorf("%d hold the lock", n)
				}
				if before := last.Swap(held.Fence()); before >= held.Fence() {
					s.Errorf("fencing number %d after %d", held.Fence(), before)
				}
				time.Sleep(5 * time.Millisecond)
				holders.Add(-1)
				if err := held.Unlock(); err != nil {
					s.Error(err)
				}
			}
		})
	}
	running.Wait()
}

// The backend distinguishes owners.
func (s *suite) owners() {
	a, b := s.backend(), s.backend()
	first := s.lease(a, "a", 0, time.Hour)
	if first <= 0 {
		s.Fatalf("the number is %d", first)
	}
	for _, short := range []time.Duration{time.Hour, ttl, time.Millisecond} {
		got, err := b.Lease(s.Context(), "x", "b", 0, short)
		if got != 0 {
			s.Errorf("two owners hold the lock, the second for %v", short)
		}
		// Redlock waits for an answer no longer than the lock would last.
		if err != nil && (short == time.Hour || !errors.Is(err, context.DeadlineExceeded)) {
			s.Error(err)
		}
	}
	if got := s.lease(b, "b", first, time.Hour); got != 0 {
		s.Error("another owner has renewed the lock")
	}
	if got := s.lease(b, "a", 0, time.Hour); got != first {
		s.Errorf("its owner takes it again with the number %d, want %d as before", got, first)
	}
	if got := s.lease(a, "a", first, time.Hour); got != first {
		s.Errorf("renewed with the number %d, want %d as before", got, first)
	}
	must.Succeed(s, a.Unlease(s.Context(), "x", "a"))
	if got := s.lease(a, "a", first, time.Hour); got != 0 {
		s.Error("a lock that was given back is renewed")
	}
	if got := s.lease(b, "b", 0, time.Hour); got <= first {
		s.Errorf("the next holder has the number %d after %d", got, first)
	}
}

// A late release does not free the lock of the next holder.
func (s *suite) lateRelease() {
	a, b := s.backend(), s.backend()
	s.lease(a, "a", 0, ttl)
	s.wait("the next holder", func() bool { return s.lease(b, "b", 0, time.Hour) != 0 })
	must.Succeed(s, a.Unlease(s.Context(), "x", "a"))
	if s.lease(a, "c", 0, time.Hour) != 0 {
		s.Error("the release of one has freed the lock of another")
	}
}

// A lock that is not renewed ends after its ttl, not before; the one who had it
// cannot renew what another has.
func (s *suite) expiry() {
	a, b := s.backend(), s.backend()
	asked := time.Now()
	first := s.lease(a, "a", 0, ttl)
	var next int64
	s.wait("the lock's end", func() bool { next = s.lease(b, "b", 0, ttl); return next != 0 })
	if held := time.Since(asked); held < ttl-10*time.Millisecond {
		s.Errorf("the lock ended after %v, want %v", held, ttl)
	}
	if s.lease(a, "a", first, ttl) != 0 {
		s.Error("renewed though another holds it")
	}
	if next <= first {
		s.Errorf("the number %d after %d", next, first)
	}
}

// The watchdog keeps a lock for longer than its ttl, and ends the holder's context
// when another has it.
func (s *suite) watchdog() {
	k := s.backend()
	held := must.Get(lock.Locker{Backend: k, TTL: ttl, Owner: "a"}.Try(s.Context(), "x"))(s)
	for until := time.Now().Add(2 * ttl); time.Now().Before(until); time.Sleep(ttl / 50) {
		if held.Context().Err() != nil {
			s.Fatal(context.Cause(held.Context()))
		}
		if s.lease(k, "b", 0, ttl) != 0 {
			s.Fatal("the lock ended while it was held")
		}
	}
	if err := k.Unlease(s.Context(), "x", "a"); err != nil { // by an operator, say
		s.Fatal(err)
	}
	s.wait("the next holder", func() bool { return s.lease(k, "b", 0, time.Hour) != 0 })
	select {
	case <-held.Context().Done():
	case <-time.After(10 * time.Second):
		s.Error("the context does not end")
	}
	if err := held.Unlock(); !errors.Is(err, lock.ErrLost) {
		s.Errorf("unlock: %v, want ErrLost", err)
	}
	if s.lease(k, "b", 0, time.Hour) == 0 {
		s.Error("the one who lost the lock has freed it")
	}
}

// holder is a process that holds the lock "x".
type holder struct {
	*exec.Cmd
	lines chan string
}

func (s *suite) holder() *holder {
	s.Helper()
	h := &holder{exec.Command(os.Args[0]), make(chan string, 10_000)}
	h.Env = append(os.Environ(), holding+"=x "+s.Spec)
	h.Stderr = os.Stderr
	out, err := h.StdoutPipe()
	if err == nil {
		err = h.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(h.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.lines <- lines.Text()
		}
	}()
	s.Cleanup(func() { _, _ = h.Process.Kill(), h.Wait() })
	return h
}

// writes returns the number that the holder writes next.
func (h *holder) writes(s *suite) int64 {
	s.Helper()
	select {
	case line := <-h.lines:
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			s.Fatalf("the holder says %q", line)
		}
		return n
	case <-time.After(30 * time.Second):
		s.Fatal("the holder writes nothing")
		return 0
	}
}

// A holder that is frozen for longer than its ttl loses the lock. Its later
// writes, under its old number, are refused by what remembers the
// next one's; and then it notices.
func (s *suite) frozen() {
	h := s.holder()
	first := h.writes(s)
	must.Succeed(s, servertest.Freeze(h.Process.Pid))
	k := s.backend()
	var next int64
	s.wait("the end of a lock whose holder is frozen", func() bool {
		next = s.lease(k, "b", 0, time.Hour)
		return next != 0
	})
	drain(h.lines)
	must.Succeed(s, servertest.Thaw(h.Process.Pid))
	late := 0
	for line := range h.lines {
		if line == strconv.FormatInt(first, 10) {
			late++
			if first >= next {
				s.Errorf("what the lock guards would take %d after %d", first, next)
			}
		} else if !strings.Contains(line, lock.ErrLost.Error()) {
			s.Errorf("the holder says %q", line)
		}
	}
	if late == 0 || late > 3 {
		s.Errorf("the holder wrote %d times after it was frozen, want once or twice", late)
	}
	if s.lease(k, "b", next, time.Hour) == 0 {
		s.Error("the one who was frozen has freed the lock of the next holder")
	}
}

func drain(lines chan string) {
	for {
		select {
		case <-lines:
		default:
			return
		}
	}
}

// A holder that is killed holds the others up for its ttl at most.
func (s *suite) killed() {
	h := s.holder()
	first := h.writes(s)
	k := s.backend()
	if s.lease(k, "b", 0, ttl) != 0 {
		s.Fatal("two hold the lock")
	}
	must.Succeed(s, h.Process.Kill())
	killed := time.Now()
	s.wait("the end of a lock whose holder is dead", func() bool {
		next := s.lease(k, "b", 0, ttl)
		return next > first
	})
	if took := time.Since(killed); took > 3*ttl {
		s.Errorf("it took %v, want %v", took, ttl)
	}
}

// A backend's clock that steps back blocks no other for the step, and one that steps
// ahead gives the next holder a higher number; where a majority has the right time,
// the step ends no lock.
func (s *suite) clock() {
	k := s.backend()
	first := s.lease(k, "a", 0, ttl)
	s.Jump(-time.Hour)
	var next int64
	s.wait("the end of a lock that was taken before the clock stepped back", func() bool {
		next = s.lease(k, "b", 0, time.Minute)
		return next != 0
	})
	s.Jump(time.Hour)
	after := s.lease(k, "c", 0, time.Minute)
	if s.Majority && after != 0 {
		s.Error("the clock of one server has ended the lock of the majority")
	}
	if next <= first || !s.Majority && after <= next {
		s.Errorf("the numbers of three holders are %d, %d and %d", first, next, after)
	}
}

func (s *suite) badInput() {
	k := s.backend()
	for _, bad := range []struct {
		name, owner string
		fence       int64
		ttl         time.Duration
	}{
		{"", "a", 0, ttl},
		{strings.Repeat("x", 256), "a", 0, ttl},
		{"x", "", 0, ttl},
		{"x", strings.Repeat("a", 256), 0, ttl},
		{"x", "a", -1, ttl},
		{"x", "a", 0, 0},
		{"x", "a", 0, -ttl},
	} {
		if got, err := k.Lease(s.Context(), bad.name, bad.owner, bad.fence, bad.ttl); err == nil || got != 0 {
			s.Errorf("%q for %q, %d, %v: %d, %v, want an error", bad.name, bad.owner, bad.fence, bad.ttl, got, err)
		}
	}
	if err := k.Unlease(s.Context(), "never", "a"); err != nil {
		s.Error(err)
	}
	if s.lease(k, "a", 0, ttl) == 0 {
		s.Error("bad input has taken the lock")
	}
}

// wait polls until something is so.
func (s *suite) wait(what string, so func() bool) {
	s.Helper()
	for begun := time.Now(); !so(); time.Sleep(ttl / 50) {
		if time.Since(begun) > 30*time.Second {
			s.Fatalf("no sign of %s", what)
		}
	}
}
