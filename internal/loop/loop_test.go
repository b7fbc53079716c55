package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A loop comes at its intervals and when it is woken, and ends with its context.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		bell, ticks, begun := NewBell(), 0, time.Now()
		go func() {
			time.Sleep(2500 * time.Millisecond)
			bell.Ring()
			synctest.Wait()
			stop()
		}()
		for range Ticks(ctx, time.Second, bell) {
			ticks++
		}
		if ticks != 3 || time.Since(begun) != 2500*time.Millisecond {
			t.Errorf("%d in %v", ticks, time.Since(begun))
		}
		n := 0
		for range Every(t.Context(), time.Second) {
			if n++; n == 3 {
				break
			}
		}
		if took := time.Since(begun); took != 4*time.Second { // at 2.5 s, 3 s and 4 s
			t.Errorf("3 times, the first at once, until %v", took)
		}
	})
}

// A moment is the first multiple from a time on, that time included.
func TestMoment(t *testing.T) {
	second := time.Unix(1_800_000_000, 0).Add(-time.Duration(phase.Load())) // shifted as the moments are
	for after, want := range map[time.Duration]time.Duration{0: 0, 1: time.Second, time.Second - 1: time.Second} {
		if got := Moment(second.Add(after), time.Second).Sub(second); got != want {
			t.Errorf("%v after a moment comes that after %v, want %v", after, got, want)
		}
	}
}

// In a rush, and for a second, a loop does not come when others do.
func TestStir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer stirred.Store(0) // the next bubble begins at the same time
		const every = 250 * time.Millisecond
		moments := func() int {
			different := map[time.Duration]bool{}
			for range 100 {
				pause := Until(every)
				if different[pause] = true; pause < every*3/4 || pause > every*5/4 {
					t.Errorf("a pause of %v, want %v, give or take a quarter", pause, every)
				}
			}
			return len(different)
		}
		idle := moments()
		Stir(time.Now())
		time.Sleep(time.Second - 1)
		busy := moments()
		time.Sleep(time.Nanosecond)
		if again := moments(); idle != 1 || busy < 50 || again != 1 {
			t.Errorf("of 100 loops %d, %d and %d come at moments of their own", idle, busy, again)
		}
	})
}

// What a loop does may take most of an interval, and more than one: it comes at the next moment.
func TestTicksSkipNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, at := time.Now(), []time.Duration{}
		for range Ticks(t.Context(), time.Second, nil) {
			at = append(at, time.Since(begun).Truncate(100*time.Millisecond))
			time.Sleep(700 * time.Millisecond)
			if len(at) == 3 {
				time.Sleep(1500 * time.Millisecond) // until 5.2 s
			}
			if len(at) == 5 {
				break
			}
		}
		want := []time.Duration{1000, 2000, 3000, 5200, 6000}
		for i := range want {
			if at[i] != want[i]*time.Millisecond {
				t.Errorf("turn %d came after %v, want %d ms", i+1, at[i], want[i])
			}
		}
	})
}

// A loop that finds nothing looks less often, down to a third; what it finds, or
// the bell, makes it as quick as before.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		rest, bell := Rest{Every: time.Second}, NewBell()
		for i, step := range []struct {
			found, rings bool
			want         time.Duration
		}{
			{want: 1},
			{want: 2},
			{want: 3},
			{want: 3},
			{rings: true, want: 0},
			{found: true, want: 1},
			{want: 2},
		} {
			if step.rings {
				bell.Ring()
			}
			begun := time.Now()
			if !rest.Wait(ctx, step.found, bell) || time.Since(begun) != step.want*time.Second {
				t.Errorf("pause %d: %v, want %d s", i, time.Since(begun), step.want)
			}
		}
		stop()
		if rest.Wait(ctx, true, nil) {
			t.Error("the context has ended")
		}
	})
}

// What fails again and again is logged once, and once more when it works again.
func TestTrouble(t *testing.T) {
	var out bytes.Buffer
	trouble := Trouble{Log: slog.New(slog.NewTextHandler(&out, nil)), Begins: "it fails", Ceases: "it works again"}
	for _, err := range []error{nil, errors.New("down"), errors.New("down"), nil, nil} {
		trouble.Note(err, "what", "thing")
	}
	if text := out.String(); strings.Count(text, "it fails") != 1 || strings.Count(text, "it works again") != 1 ||
		strings.Count(text, "what=thing") != 2 || strings.Count(text, "error=down") != 1 {
		t.Error(text)
	}
}
